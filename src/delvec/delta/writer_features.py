"""Which tables delvec can write: each writer feature is implemented here or refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from delvec.delta.features import (
    APPEND_ONLY,
    CHANGE_DATA_FEED,
    CHECK_CONSTRAINTS,
    CHECKPOINT_PROTECTION,
    COLUMN_DEFAULTS,
    COLUMN_MAPPING,
    DELETION_VECTORS,
    DOMAIN_METADATA,
    FEATURES_WRITER_VERSION,
    GENERATED_COLUMNS,
    IDENTITY_COLUMNS,
    IN_COMMIT_TIMESTAMP,
    INVARIANTS,
    MATERIALIZED_PARTITIONS,
    ROW_TRACKING,
    TIMESTAMP_NTZ,
    TYPE_WIDENING,
    V2_CHECKPOINT,
    VARIANT_TYPE,
    Protocol,
)
from delvec.delta.properties import ENABLE_VECTORS, SYMLINK_MANIFEST, is_on
from delvec.delta.schema import CURRENT_DEFAULT, IDENTITY_PREFIX
from delvec.errors import UnsupportedFeatureError
from delvec.schema import Array, DataType, Field, Map, Schema, Struct

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot

WRITABLE = frozenset(
    {
        APPEND_ONLY,
        CHANGE_DATA_FEED,
        CHECK_CONSTRAINTS,
        COLUMN_DEFAULTS,
        COLUMN_MAPPING,
        DELETION_VECTORS,
        DOMAIN_METADATA,
        GENERATED_COLUMNS,
        IDENTITY_COLUMNS,
        IN_COMMIT_TIMESTAMP,
        INVARIANTS,
        MATERIALIZED_PARTITIONS,
        ROW_TRACKING,
        TIMESTAMP_NTZ,
        TYPE_WIDENING,
        "typeWidening-preview",
        V2_CHECKPOINT,
        VARIANT_TYPE,
        "variantType-preview",
        "variantShredding",  # allows shredding, does not require it
        "variantShredding-preview",
        CHECKPOINT_PROTECTION,  # concerns only cleaning up the log
        "clustering",  # needs statistics of new files
        "vacuumProtocolCheck",  # concerns only vacuum
    }
)


def verify_writable(snapshot: Snapshot, *, rows: bool = True, new_rows: bool = True) -> None:
    """Refuse a table with a writer feature that delvec does not implement, by the name of the feature.

    ``rows`` false: only metadata changes. ``new_rows`` false: rows are only removed, so features that concern
    the values of new rows are not checked.
    """
    _verify_writer_version(snapshot.protocol, snapshot.location)
    _verify_features_known(snapshot.protocol, snapshot.location)
    if rows:
        _verify_manifest_or_vectors(snapshot)
    if rows and new_rows:
        _verify_no_identity_column(snapshot)
        _verify_no_nested_default(snapshot)


def fields_of(schema: Schema) -> Iterator[tuple[tuple[str, ...], Field]]:
    """All fields with their paths, also those inside of structs, arrays and maps."""
    yield from _fields(schema, ())


def _fields(data_type: DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Field]]:
    match data_type:
        case Struct(fields):
            for field in fields:
                yield (*path, field.name), field
                yield from _fields(field.type, (*path, field.name))
        case Array(element):
            yield from _fields(element, (*path, "element"))
        case Map(key, value):
            yield from _fields(key, (*path, "key"))
            yield from _fields(value, (*path, "value"))


def _verify_writer_version(protocol: Protocol, location: str) -> None:
    if not 1 <= protocol.min_writer_version <= FEATURES_WRITER_VERSION:
        raise UnsupportedFeatureError(
            f"table needs writer version {protocol.min_writer_version}, "
            f"expected 1 to {FEATURES_WRITER_VERSION}: {location}",
            feature=f"minWriterVersion={protocol.min_writer_version}",
        )


def _verify_features_known(protocol: Protocol, location: str) -> None:
    unknown = sorted(protocol.features_to_write - WRITABLE)
    if unknown:
        raise UnsupportedFeatureError(
            f"table needs writer feature {', '.join(unknown)}, "
            f"expected only {', '.join(sorted(WRITABLE))}: {location}",
            feature=unknown[0],
        )


def _verify_manifest_or_vectors(snapshot: Snapshot) -> None:
    # Manifests, which are written after every commit, cannot express vectors.
    if is_on(snapshot.properties, SYMLINK_MANIFEST) and is_on(snapshot.properties, ENABLE_VECTORS):
        raise UnsupportedFeatureError(
            f"{SYMLINK_MANIFEST} and {ENABLE_VECTORS} are both true, expected one of them: "
            f"{snapshot.location}",
            feature=SYMLINK_MANIFEST,
        )


def _verify_no_identity_column(snapshot: Snapshot) -> None:
    if IDENTITY_COLUMNS not in snapshot.protocol.features_to_write:
        return
    for path, field in fields_of(snapshot.schema):
        if any(key.startswith(IDENTITY_PREFIX) for key in field.metadata):
            raise UnsupportedFeatureError(
                f"column {'.'.join(path)} is an identity column, which delvec cannot write: "
                f"{snapshot.location}",
                feature=IDENTITY_COLUMNS,
            )


def _verify_no_nested_default(snapshot: Snapshot) -> None:
    if COLUMN_DEFAULTS not in snapshot.protocol.features_to_write:
        return
    for path, field in fields_of(snapshot.schema):
        if CURRENT_DEFAULT in field.metadata and len(path) > 1:
            raise UnsupportedFeatureError(
                f"field {'.'.join(path)} has a default, expected defaults of whole columns only: "
                f"{snapshot.location}",
                feature=COLUMN_DEFAULTS,
            )
