"""The actions of the log: file actions as Arrow tables, all others as values.

A log line is a JSON object with one key, the action's name. A checkpoint is a Parquet file with the same
actions, one struct column per action name. `flatten` turns both from Arrow structs with the protocol's field
names into flat tables (``ADDS_SCHEMA``, ``REMOVES_SCHEMA``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delvec.delta.features import Protocol
from delvec.errors import FormatError

_STRING_MAP = pa.map_(pa.string(), pa.string())

DESCRIPTOR_TYPE = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)

ADD_TYPE = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _STRING_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", _STRING_MAP),
        ("deletionVector", DESCRIPTOR_TYPE),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)

REMOVE_TYPE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _STRING_MAP),
        ("size", pa.int64()),
        ("tags", _STRING_MAP),
        ("deletionVector", DESCRIPTOR_TYPE),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)

CHANGE_FILE_TYPE = pa.struct(
    [("path", pa.string()), ("partitionValues", _STRING_MAP), ("size", pa.int64()), ("tags", _STRING_MAP)]
)

_COLUMN_NAMES = {
    "path": "path",
    "partitionValues": "partition_values",
    "size": "size",
    "modificationTime": "modification_time",
    "dataChange": "data_change",
    "stats": "stats",
    "stats_parsed": "stats_parsed",
    "tags": "tags",
    "baseRowId": "base_row_id",
    "defaultRowCommitVersion": "default_row_commit_version",
    "clusteringProvider": "clustering_provider",
    "deletionTimestamp": "deletion_timestamp",
    "extendedFileMetadata": "extended_file_metadata",
}

_DESCRIPTOR_COLUMNS = {
    "storageType": "dv_storage",
    "pathOrInlineDv": "dv_path",
    "offset": "dv_offset",
    "sizeInBytes": "dv_size",
    "cardinality": "dv_cardinality",
}


def _flat_schema(action_type: pa.StructType) -> pa.Schema:
    fields: list[pa.Field] = []
    for field in action_type:
        if field.name == "deletionVector":
            fields += [pa.field(_DESCRIPTOR_COLUMNS[f.name], f.type) for f in DESCRIPTOR_TYPE]
        else:
            fields.append(pa.field(_COLUMN_NAMES[field.name], field.type))
    return pa.schema(fields)


ADDS_SCHEMA = _flat_schema(ADD_TYPE)
REMOVES_SCHEMA = _flat_schema(REMOVE_TYPE)
CHANGE_FILES_SCHEMA = _flat_schema(CHANGE_FILE_TYPE)
NO_CHANGE_FILES = CHANGE_FILES_SCHEMA.empty_table()


@dataclass(frozen=True, slots=True)
class Metadata:
    id: str | None
    name: str | None
    description: str | None
    provider: str
    schema_string: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    created_time: int | None


@dataclass(frozen=True, slots=True)
class DomainMetadata:
    domain: str
    configuration: str
    removed: bool


@dataclass(frozen=True, slots=True)
class SetTransaction:
    """An idempotent writer's newest version, and when it was written, in milliseconds."""

    app_id: str
    version: int
    last_updated: int | None


@dataclass(frozen=True, slots=True)
class Actions:
    """The actions of one log file: file actions as tables, all others as values."""

    adds: pa.Table
    removes: pa.Table
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: Mapping[str, SetTransaction] | None = None
    domains: Mapping[str, DomainMetadata] | None = None
    commit_info: Mapping[str, Any] | None = None
    sidecars: tuple[str, ...] = ()
    change_files: pa.Table = dataclass_field(default_factory=lambda: NO_CHANGE_FILES)


def flatten(rows: pa.StructArray, schema: pa.Schema) -> pa.Table:
    """A struct array of file actions as a flat table. Missing fields become nulls.

    Refuses rows without a path: they name no file.
    """
    if rows.null_count:
        rows = rows.drop_null()
    present = {field.name for field in rows.type}
    columns: dict[str, pa.Array] = {}
    for name, column in _COLUMN_NAMES.items():
        if name in present and (column in schema.names or column == "stats_parsed"):
            columns[column] = pc.struct_field(rows, name)
    if "deletionVector" in present and pa.types.is_struct(rows.type.field("deletionVector").type):
        vectors = pc.struct_field(rows, "deletionVector")
        vector_names = {field.name for field in vectors.type}
        for name, column in _DESCRIPTOR_COLUMNS.items():
            if name in vector_names:
                columns[column] = pc.struct_field(vectors, name)
    arrays = [_typed(columns.get(field.name), field, len(rows)) for field in schema]
    table = pa.table(arrays, schema=schema)
    _verify_no_nulls(table, "path")
    if "dv_storage" in schema.names:
        _verify_vectors_complete(table)
    if "stats_parsed" in columns:
        table = table.append_column("stats_parsed", columns["stats_parsed"])
    return table


def _typed(column: pa.Array | None, field: pa.Field, rows: int) -> pa.Array:
    if column is None:
        return pa.nulls(rows, field.type)
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise FormatError(f"{field.name} is of type {column.type}, expected {field.type}: {error}") from None


def _verify_no_nulls(table: pa.Table, column: str) -> None:
    if table.column(column).null_count:
        raise FormatError(f"a file action has no {column}, expected one")


def _verify_vectors_complete(table: pa.Table) -> None:
    without = pc.is_null(table.column("dv_storage"))
    for column in _DESCRIPTOR_COLUMNS.values():
        if pc.any(pc.and_(without, pc.is_valid(table.column(column)))).as_py():
            raise FormatError(f"a vector has {column} but no storage type, expected both")


def parse_protocol(tree: Mapping[str, Any]) -> Protocol:
    reader, writer = tree.get("minReaderVersion"), tree.get("minWriterVersion")
    if not isinstance(reader, int) or not isinstance(writer, int):
        raise FormatError(f"protocol versions are {reader!r} and {writer!r}, expected two numbers")
    return Protocol(
        reader,
        writer,
        frozenset(_strings(tree.get("readerFeatures"), "protocol.readerFeatures")),
        frozenset(_strings(tree.get("writerFeatures"), "protocol.writerFeatures")),
    )


def parse_metadata(tree: Mapping[str, Any]) -> Metadata:
    schema = tree.get("schemaString")
    if not isinstance(schema, str):
        raise FormatError(f"metaData.schemaString is {type(schema).__name__}, expected text")
    file_format = tree.get("format") or {}
    if not isinstance(file_format, dict):
        raise FormatError(f"metaData.format is {file_format!r}, expected an object")
    created = tree.get("createdTime")
    return Metadata(
        id=_optional_text(tree, "id"),
        name=_optional_text(tree, "name"),
        description=_optional_text(tree, "description"),
        provider=str(file_format.get("provider") or "parquet"),
        schema_string=schema,
        partition_columns=tuple(_strings(tree.get("partitionColumns"), "metaData.partitionColumns")),
        configuration=_string_map(tree.get("configuration"), "metaData.configuration"),
        created_time=created if isinstance(created, int) else None,
    )


def parse_domain(tree: Mapping[str, Any]) -> DomainMetadata:
    domain, configuration = tree.get("domain"), tree.get("configuration")
    if not isinstance(domain, str):
        raise FormatError(f"domainMetadata.domain is {domain!r}, expected a name")
    if not isinstance(configuration, str | None):
        raise FormatError(f"domainMetadata.configuration is {configuration!r}, expected text")
    return DomainMetadata(domain, configuration or "", tree.get("removed") is True)


def parse_txn(tree: Mapping[str, Any]) -> SetTransaction:
    app_id, version = tree.get("appId"), tree.get("version")
    if not isinstance(app_id, str) or not isinstance(version, int):
        raise FormatError(f"txn is {app_id!r} at {version!r}, expected an id and a version")
    updated = tree.get("lastUpdated")
    return SetTransaction(app_id, version, updated if isinstance(updated, int) else None)


def parse_sidecar(tree: Mapping[str, Any]) -> str:
    path = tree.get("path")
    if not isinstance(path, str) or not path:
        raise FormatError(f"sidecar.path is {path!r}, expected a file name")
    return path


def _optional_text(tree: Mapping[str, Any], key: str) -> str | None:
    value = tree.get(key)
    return value if isinstance(value, str) else None


def _strings(value: Any, where: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise FormatError(f"{where} is {value!r}, expected a list of names")
    return value


def _string_map(value: Any, where: str) -> dict[str, str]:
    """A map of properties: an object in JSON, a list of pairs in Arrow."""
    if value is None:
        return {}
    try:
        return {str(key): str(item) for key, item in dict(value).items() if item is not None}
    except (TypeError, ValueError):
        raise FormatError(f"{where} is {value!r}, expected a map of texts") from None
