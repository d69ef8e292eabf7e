"""How rows reach a Delta table: from its protocol, properties and column metadata to ``WriteRules``."""

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
from delvec.schema import Field, Primitive, has_length

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot

INVARIANT = "delta.invariants"

DEFAULT_FILE_SIZE = 128 << 20


def write_rules(snapshot: Snapshot) -> WriteRules:
    """What the table's metadata asks of a writer."""
    protocol, found = snapshot.protocol, snapshot.properties
    _verify_lengths_known(snapshot)
    tracked = row_tracking_enabled(snapshot)
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
        change_files=is_active(protocol, found, CHANGE_DATA_FEED, properties.ENABLE_CHANGE_FEED),
        row_id=_lineage_field(found.get(properties.ROW_ID_COLUMN)) if tracked else None,
        row_version=_lineage_field(found.get(properties.ROW_VERSION_COLUMN)) if tracked else None,
        target_file_size=properties.size(found, properties.TARGET_FILE_SIZE, DEFAULT_FILE_SIZE),
        store_vectors=partial(store_at, dict(found)),
        rewrite_share=_rewrite_share(snapshot),
    )


def _lineage_field(name: str | None) -> Field | None:
    return None if name is None else Field(name, Primitive("long"))


def allows_vectors(snapshot: Snapshot) -> bool:
    """Whether writers may add deletion vectors to the table."""
    protocol = snapshot.protocol
    return DELETION_VECTORS in protocol.features_to_read and is_active(
        protocol, snapshot.properties, DELETION_VECTORS, properties.ENABLE_VECTORS
    )


def is_append_only(snapshot: Snapshot) -> bool:
    """Whether no row of the table may be removed."""
    return is_active(snapshot.protocol, snapshot.properties, APPEND_ONLY, properties.APPEND_ONLY_PROPERTY)


def _measured_columns(snapshot: Snapshot) -> tuple[MeasuredColumn, ...]:
    """The columns that the log has statistics of.

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
    """Whether rows keep their ids when they move; new files get ids where it is merely supported."""
    return is_active(snapshot.protocol, snapshot.properties, ROW_TRACKING, properties.ENABLE_ROW_TRACKING)


def _rewrite_share(snapshot: Snapshot) -> float | None:
    """The share that the table asks for; None where new files would be refused, and vectors are not."""
    share = properties.share(snapshot.properties, properties.REWRITE_SHARE)
    if share is None:
        return None
    try:
        verify_writable(snapshot)
    except UnsupportedFeatureError:
        return None
    return share


def _constraints(snapshot: Snapshot) -> Iterator[Constraint]:
    """Delta takes a condition that is NULL for violated, in CHECK and in invariants alike."""
    features = snapshot.protocol.features_to_write
    if CHECK_CONSTRAINTS in features:
        for name, condition in sorted(snapshot.properties.items()):
            if name.lower().startswith(properties.CONSTRAINT_PREFIX):
                yield Constraint(name[len(properties.CONSTRAINT_PREFIX) :], condition)
    for path, field in fields_of(snapshot.schema):
        where = ".".join(path)
        if INVARIANTS in features and INVARIANT in field.metadata:
            yield Constraint(f"invariant of {where}", _invariant(field.metadata[INVARIANT], where))
        if GENERATED_COLUMNS in features and GENERATION in field.metadata and len(path) > 1:
            condition = f"({_quoted(path)} <=> ({field.metadata[GENERATION]})) IS TRUE"
            yield Constraint(f"generated column {where}", condition)


def _verify_lengths_known(snapshot: Snapshot) -> None:
    for path, field in fields_of(snapshot.schema):
        if CHAR_OR_VARCHAR in field.metadata and not has_length(field.type):
            found = str(field.metadata[CHAR_OR_VARCHAR])
            raise UnsupportedFeatureError(
                f"column {'.'.join(path)} is declared {found}, expected char or varchar in {field.type}",
                feature=found,
            )


def _expressions(snapshot: Snapshot, feature: str, key: str) -> dict[str, str]:
    """The SQL texts that the metadata of top-level columns has under ``key``, if the feature counts."""
    if feature not in snapshot.protocol.features_to_write:
        return {}
    return {field.name: str(field.metadata[key]) for field in snapshot.schema if key in field.metadata}


def _invariant(recorded: Any, where: str) -> str:
    """The condition in ``{"expression": {"expression": "x > 3"}}``."""
    try:
        condition = orjson.loads(recorded)["expression"]["expression"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        condition = None
    if not isinstance(condition, str):
        raise FormatError(f"{INVARIANT} of column {where} is {recorded!r}, expected an expression in JSON")
    return condition


def _quoted(path: tuple[str, ...]) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in path)
