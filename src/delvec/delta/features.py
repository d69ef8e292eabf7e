"""Which tables may be read: the protocol action and the features it names."""

from __future__ import annotations

from dataclasses import dataclass

from delvec.errors import UnsupportedFeatureError

DELETION_VECTORS = "deletionVectors"
COLUMN_MAPPING = "columnMapping"

HIGHEST_READER_VERSION = 3
COLUMN_MAPPING_READER_VERSION = 2

READABLE = frozenset(
    {
        COLUMN_MAPPING,
        DELETION_VECTORS,
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
        "variantType-preview",
        "variantShredding",
        "variantShredding-preview",
    }
)

_BY_CATALOG_ONLY = frozenset({"catalogManaged", "catalogOwned-preview"})


@dataclass(frozen=True, slots=True)
class Protocol:
    min_reader_version: int
    min_writer_version: int
    reader_features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()

    @property
    def features_to_read(self) -> frozenset[str]:
        """What a reader must know, those that an old version number implies included."""
        if self.min_reader_version == COLUMN_MAPPING_READER_VERSION:
            return frozenset({COLUMN_MAPPING})
        return self.reader_features


def verify_readable(protocol: Protocol, location: str) -> None:
    """Refuse by name what cannot be read right."""
    _verify_reader_version(protocol, location)
    _verify_not_catalog_managed(protocol, location)
    _verify_features_known(protocol, location)


def _verify_reader_version(protocol: Protocol, location: str) -> None:
    if not 1 <= protocol.min_reader_version <= HIGHEST_READER_VERSION:
        raise UnsupportedFeatureError(
            f"table needs reader version {protocol.min_reader_version}, "
            f"expected 1 to {HIGHEST_READER_VERSION}: {location}",
            feature=f"minReaderVersion={protocol.min_reader_version}",
        )


def _verify_not_catalog_managed(protocol: Protocol, location: str) -> None:
    # Such a table's newest commits are known to its catalog alone: by path it would read stale.
    for feature in sorted((protocol.reader_features | protocol.writer_features) & _BY_CATALOG_ONLY):
        raise UnsupportedFeatureError(
            f"table is managed by a catalog (feature {feature}) and cannot be read by its path: {location}",
            feature=feature,
        )


def _verify_features_known(protocol: Protocol, location: str) -> None:
    unknown = sorted(protocol.features_to_read - READABLE)
    if unknown:
        raise UnsupportedFeatureError(
            f"table needs reader feature {', '.join(unknown)}, "
            f"expected only {', '.join(sorted(READABLE))}: {location}",
            feature=unknown[0],
        )
