"""New tables: a draft is the snapshot before version 0. Version 0 is committed on top of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from delvec.delta import properties
from delvec.delta.actions import ADDS_SCHEMA, Metadata
from delvec.delta.log_files import LOG, list_log
from delvec.delta.log_reader import LogState
from delvec.delta.metadata_change import DRAFT_VERSION, TableState, state_after
from delvec.delta.partition_values import SPEC_ID
from delvec.delta.protocol_upgrade import INITIAL
from delvec.delta.replay import NO_FILES, NO_STATE
from delvec.delta.schema import FIELD_ID, PHYSICAL_NAME, TYPE_CHANGES, render_schema
from delvec.delta.schema_evolution import verify_names, verify_partitioning, verify_plain
from delvec.delta.snapshot import Snapshot
from delvec.delta.writer_features import fields_of
from delvec.errors import InvalidOperationError
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.row_delta import MetadataChange
from delvec.schema import Array, DataType, Field, Map, Schema, Struct
from delvec.storage import Storage

_OF_ANOTHER_TABLE = frozenset({FIELD_ID, PHYSICAL_NAME, TYPE_CHANGES})


def draft(
    storage: Storage,
    schema: Schema,
    *,
    partition_by: Sequence[PartitionField] = (),
    table_properties: Mapping[str, str] | None = None,
    now_ms: int,
    table_id: uuid.UUID | None = None,
) -> Snapshot:
    """The snapshot before the first commit of a new table. A location that has a table already is refused.

    Deletion vectors are switched on unless the properties switch them off, or symlink manifests on.
    """
    _verify_absent(storage)
    _verify_columns(schema)
    plain = _unmarked(schema)
    properties.verify_texts(table_properties or {})
    requested: dict[str, str | None] = {
        properties.verified(n, v) if not _is_feature(n) else n: v for n, v in (table_properties or {}).items()
    }
    if str(requested.get(properties.SYMLINK_MANIFEST)).lower() != "true":  # they exclude vectors
        requested = {properties.ENABLE_VECTORS: "true", **requested}
    mapped = str(requested.get(properties.MAPPING_MODE, "none")).lower() != "none"
    verify_names(plain, mapped=mapped)
    verify_partitioning(plain, partition_by)
    metadata = Metadata(
        id=str(table_id or uuid.uuid4()),
        name=None,
        description=None,
        provider="parquet",
        schema_string=render_schema(plain),
        partition_columns=PartitionSpec(SPEC_ID, tuple(partition_by)).identity_columns,
        configuration={},
        created_time=now_ms,
    )
    empty = _snapshot(storage, TableState(INITIAL, metadata))
    return _snapshot(storage, state_after(empty, MetadataChange(properties=requested)))


def _snapshot(storage: Storage, state: TableState) -> Snapshot:
    small = replace(NO_STATE, protocol=state.protocol, metadata=state.metadata)
    return Snapshot(storage, LogState(DRAFT_VERSION, small, ADDS_SCHEMA.empty_table(), None, NO_FILES))


def _is_feature(name: str) -> bool:
    return name.startswith(properties.FEATURE_PREFIX)


def _verify_absent(storage: Storage) -> None:
    if list_log(storage).latest >= 0:
        raise InvalidOperationError(f"a table already exists: {storage.root}/{LOG}")


def _verify_columns(schema: Schema) -> None:
    for path, field in fields_of(schema):
        verify_plain(field, path)


def _unmarked(schema: Schema) -> Schema:
    """The schema without the ids, physical names and type changes of another Delta table."""
    return Struct(tuple(_unmarked_field(field) for field in schema))


def _unmarked_field(field: Field) -> Field:
    metadata = {key: value for key, value in field.metadata.items() if key not in _OF_ANOTHER_TABLE}
    return Field(field.name, _unmarked_type(field.type), field.nullable, metadata=metadata)


def _unmarked_type(data_type: DataType) -> DataType:
    match data_type:
        case Struct():
            return _unmarked(data_type)
        case Array(element, contains_null):
            return Array(_unmarked_type(element), contains_null)
        case Map(key, value, value_contains_null):
            return Map(_unmarked_type(key), _unmarked_type(value), value_contains_null)
    return data_type
