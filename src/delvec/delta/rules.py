"""Derives ``WriteRules`` from a Delta table's protocol, properties and column metadata."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from delvec.declared_types import CHAR_OR_VARCHAR
from delvec.delta import properties
from delvec.delta.clustering import clustering_columns
from delvec.delta.features import (
    APPEND_ONLY,
    CHANGE_DATA_FEED,
    CHECK_CONSTRAINTS,
    COLUMN_DEFAULTS,
    DELETION_VECTORS,
    GENERATED_COLUMNS,
    INVARIANTS,
    MATERIALIZED_PARTITIONS,
    ROW_TRACKING,
)
from delvec.delta.partition_values import partition_folders
from delvec.delta.properties import is_active
from delvec.delta.schema import CURRENT_DEFAULT, GENERATION, MAPPING_NONE
from delvec.delta.stats.columns import table_stats_rules
from delvec.delta.vector_writer import store_at
from delvec.delta.writer_features import fields_of, verify_writable
from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.footers.statistics import MeasuredColumn
from delvec.hive_folders import NULL_FOLDER
from delvec.row_delta import Constraint, DeleteForm, WriteRules
from delvec.schema import Field, Primitive, Schema, Struct, has_length

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot

INVARIANT = "delta.invariants"

DEFAULT_FILE_SIZE = 128 << 20
COMPACTED_FILE_SIZE = 1 << 30
"""The size at which OPTIMIZE of Delta-Spark leaves a file alone."""


def write_rules(snapshot: Snapshot) -> WriteRules:
    """The rules that the table's metadata sets for a writer."""
    protocol, configuration = snapshot.protocol, snapshot.properties
    _verify_lengths_known(snapshot)
    tracks_rows = row_tracking_enabled(snapshot)
    return WriteRules(
        schema=snapshot.schema,
        spec=snapshot.spec,
        folders=partial(partition_folders, snapshot.schema, snapshot.partition_columns),
        empty_partition_is_null=True,
        refused_partition_text=NULL_FOLDER,
        deletes=DeleteForm.VECTOR if allows_vectors(snapshot) else DeleteForm.REWRITE,
        measured=_measured_columns(snapshot),
        with_ids=snapshot.mapping != MAPPING_NONE,
        store_partitions=MATERIALIZED_PARTITIONS in protocol.features_to_write,
        append_only=is_append_only(snapshot),
        constraints=tuple(_constraints(snapshot)),
        generated=_expressions(snapshot, GENERATED_COLUMNS, GENERATION),
        defaults=_expressions(snapshot, COLUMN_DEFAULTS, CURRENT_DEFAULT),
        change_files=is_active(protocol, configuration, CHANGE_DATA_FEED, properties.ENABLE_CHANGE_FEED),
        row_id=_lineage_field(configuration.get(properties.ROW_ID_COLUMN)) if tracks_rows else None,
        row_version=_lineage_field(configuration.get(properties.ROW_VERSION_COLUMN)) if tracks_rows else None,
        target_file_size=properties.size(configuration, properties.TARGET_FILE_SIZE, DEFAULT_FILE_SIZE),
        compacted_file_size=properties.size(configuration, properties.TARGET_FILE_SIZE, COMPACTED_FILE_SIZE),
        clustered_by=_clustered_by(snapshot),
        store_vectors=partial(store_at, dict(configuration)),
        rewrite_share=_rewrite_share(snapshot),
    )


def _clustered_by(snapshot: Snapshot) -> tuple[str, ...]:
    """The clustering columns by the names that users see."""
    physical = clustering_columns(snapshot.domains)
    return tuple(sorted(_logical_name(snapshot.schema, path) for path in physical))


def _logical_name(schema: Schema, path: tuple[str, ...]) -> str:
    field = next((field for field in schema if field.physical_name == path[0]), None)
    if field is None:
        return ".".join(path)
    if len(path) > 1 and isinstance(field.type, Struct):
        return f"{field.name}.{_logical_name(field.type, path[1:])}"
    return field.name


def _lineage_field(name: str | None) -> Field | None:
    return None if name is None else Field(name, Primitive("long"))


def allows_vectors(snapshot: Snapshot) -> bool:
    """Whether writers may add deletion vectors to the table."""
    protocol = snapshot.protocol
    return DELETION_VECTORS in protocol.features_to_read and is_active(
        protocol, snapshot.properties, DELETION_VECTORS, properties.ENABLE_VECTORS
    )


def is_append_only(snapshot: Snapshot) -> bool:
    """Whether the table forbids removing rows."""
    return is_active(snapshot.protocol, snapshot.properties, APPEND_ONLY, properties.APPEND_ONLY_PROPERTY)


def _measured_columns(snapshot: Snapshot) -> tuple[MeasuredColumn, ...]:
    """The columns that have statistics in the log.

    Empty if a property that names them is invalid. A commit with new files then raises the error. Deleting
    rows by vectors, and correcting the property, must still work.
    """
    try:
        rules = table_stats_rules(
            snapshot.schema,
            snapshot.partition_columns,
            snapshot.properties,
            clustering_columns(snapshot.domains),
        )
    except FormatError:
        return ()
    return rules.columns


def row_tracking_enabled(snapshot: Snapshot) -> bool:
    """Whether rows keep their ids when they move to another file. New files get ids even if the feature is
    only supported, not enabled.
    """
    return is_active(snapshot.protocol, snapshot.properties, ROW_TRACKING, properties.ENABLE_ROW_TRACKING)


def _rewrite_share(snapshot: Snapshot) -> float | None:
    """The table's rewrite share. None if it is not set, or if delvec can write vectors to the table but no
    new files.
    """
    share = properties.share(snapshot.properties, properties.REWRITE_SHARE)
    if share is None:
        return None
    try:
        verify_writable(snapshot)
    except UnsupportedFeatureError:
        return None
    return share


def _constraints(snapshot: Snapshot) -> Iterator[Constraint]:
    """CHECK constraints, invariants and generated struct fields. In Delta, a NULL condition is violated."""
    features = snapshot.protocol.features_to_write
    if CHECK_CONSTRAINTS in features:
        for name, condition in sorted(snapshot.properties.items()):
            if name.lower().startswith(properties.CONSTRAINT_PREFIX):
                yield Constraint(name[len(properties.CONSTRAINT_PREFIX) :], condition)
    for path, field in fields_of(snapshot.schema):
        column = ".".join(path)
        if INVARIANTS in features and INVARIANT in field.metadata:
            yield Constraint(f"invariant of {column}", _invariant(field.metadata[INVARIANT], column))
        if GENERATED_COLUMNS in features and GENERATION in field.metadata and len(path) > 1:
            condition = f"({_quoted(path)} <=> ({field.metadata[GENERATION]})) IS TRUE"
            yield Constraint(f"generated column {column}", condition)


def _verify_lengths_known(snapshot: Snapshot) -> None:
    for path, field in fields_of(snapshot.schema):
        if CHAR_OR_VARCHAR in field.metadata and not has_length(field.type):
            declared = str(field.metadata[CHAR_OR_VARCHAR])
            raise UnsupportedFeatureError(
                f"column {'.'.join(path)} is declared {declared}, expected char or varchar in {field.type}",
                feature=declared,
            )


def _expressions(snapshot: Snapshot, feature: str, key: str) -> dict[str, str]:
    """The SQL expressions that top-level columns have under ``key`` in their metadata. Empty if the protocol
    does not list the feature.
    """
    if feature not in snapshot.protocol.features_to_write:
        return {}
    return {field.name: str(field.metadata[key]) for field in snapshot.schema if key in field.metadata}


def _invariant(text: Any, column: str) -> str:
    """The condition in ``{"expression": {"expression": "x > 3"}}``."""
    try:
        condition = orjson.loads(text)["expression"]["expression"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        condition = None
    if not isinstance(condition, str):
        raise FormatError(f"{INVARIANT} of column {column} is {text!r}, expected an expression in JSON")
    return condition


def _quoted(path: tuple[str, ...]) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in path)
