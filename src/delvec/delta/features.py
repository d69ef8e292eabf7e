"""The protocol action, the names of table features, and which tables delvec can read."""

from __future__ import annotations

from dataclasses import dataclass

from delvec.errors import UnsupportedFeatureError

DELETION_VECTORS = "deletionVectors"
COLUMN_MAPPING = "columnMapping"
APPEND_ONLY = "appendOnly"
INVARIANTS = "invariants"
CHECK_CONSTRAINTS = "checkConstraints"
CHANGE_DATA_FEED = "changeDataFeed"
GENERATED_COLUMNS = "generatedColumns"
IDENTITY_COLUMNS = "identityColumns"
COLUMN_DEFAULTS = "allowColumnDefaults"
ROW_TRACKING = "rowTracking"
DOMAIN_METADATA = "domainMetadata"
IN_COMMIT_TIMESTAMP = "inCommitTimestamp"
TIMESTAMP_NTZ = "timestampNtz"
TYPE_WIDENING = "typeWidening"
V2_CHECKPOINT = "v2Checkpoint"
VARIANT_TYPE = "variantType"
MATERIALIZED_PARTITIONS = "materializePartitionColumns"
CHECKPOINT_PROTECTION = "checkpointProtection"

HIGHEST_READER_VERSION = 3
COLUMN_MAPPING_READER_VERSION = 2
FEATURES_READER_VERSION = 3
FEATURES_WRITER_VERSION = 7

# The writer version that introduced each feature, before protocols listed features by name.
SINCE_WRITER_VERSION = {
    APPEND_ONLY: 2,
    INVARIANTS: 2,
    CHECK_CONSTRAINTS: 3,
    CHANGE_DATA_FEED: 4,
    GENERATED_COLUMNS: 4,
    COLUMN_MAPPING: 5,
    IDENTITY_COLUMNS: 6,
}

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
        """The features that a reader must support, also those that an old version number implies."""
        if self.min_reader_version == COLUMN_MAPPING_READER_VERSION:
            return frozenset({COLUMN_MAPPING})
        return self.reader_features

    @property
    def features_to_write(self) -> frozenset[str]:
        """The features that a writer must support, also those that an old version number implies."""
        if self.min_writer_version >= FEATURES_WRITER_VERSION:
            return self.writer_features
        implied = {name for name, since in SINCE_WRITER_VERSION.items() if since <= self.min_writer_version}
        if self.min_reader_version < COLUMN_MAPPING_READER_VERSION:
            implied.discard(COLUMN_MAPPING)  # readers of this version do not support it
        return frozenset(implied)


def verify_readable(protocol: Protocol, location: str) -> None:
    """Refuse a table that delvec cannot read correctly, by the name of the feature."""
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
    # Only the catalog knows the newest commits of such a table. Reading it by path would miss them.
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
