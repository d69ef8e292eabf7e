"""Manifests and manifest lists as Avro files, with the field ids of the specification."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from iceberg_tables.columns import compatible_name

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
EXISTING, ADDED, DELETED = 0, 1, 2

Record = dict[str, Any]


def avro_bytes(
    schema: Record, records: Iterable[Record], metadata: Mapping[str, str], codec: str = "deflate"
) -> bytes:
    import fastavro

    sink = io.BytesIO()
    fastavro.writer(sink, schema, list(records), codec=codec, metadata=dict(metadata))
    return sink.getvalue()


def _field(number: int, name: str, kind: Any, *, optional: bool = False) -> Record:
    if not optional:
        return {"name": name, "type": kind, "field-id": number}
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def _map(key: int, value: int, kind: str) -> Record:
    """A map by column ids: Avro's maps have texts as keys only."""
    pair = [_field(key, "key", "int"), _field(value, "value", kind)]
    return {
        "type": "array",
        "logicalType": "map",
        "items": {"type": "record", "name": f"k{key}_v{value}", "fields": pair},
    }


def _list(element: int, kind: str) -> Record:
    return {"type": "array", "items": kind, "element-id": element}


_PRIMITIVES: dict[str, Any] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    "timestamp_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    "timestamptz_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
    "uuid": {"type": "fixed", "size": 16, "logicalType": "uuid", "name": "uuid_fixed"},
}


def _avro_type(kind: str) -> Any:
    if match := re.fullmatch(r"decimal\((\d+), ?(\d+)\)", kind):
        precision, scale = int(match[1]), int(match[2])
        size = ((10**precision).bit_length() + 8) // 8
        return {
            "type": "fixed",
            "size": size,
            "logicalType": "decimal",
            "precision": precision,
            "scale": scale,
            "name": f"decimal_{precision}_{scale}",
        }
    if match := re.fullmatch(r"fixed\[(\d+)\]", kind):
        return {"type": "fixed", "size": int(match[1]), "name": f"fixed_{match[1]}"}
    return _PRIMITIVES[kind]


def partition_type(fields: Sequence[tuple[int, str, str]]) -> Record:
    """The record of partition values, from the ids, names and result types of a spec."""
    found, defined = [], set()
    for number, name, kind in fields:
        written = _avro_type(kind)
        type_name = written.get("name") if isinstance(written, dict) else None
        if type_name in defined:  # Avro defines a type with a name once
            written = type_name
        defined.add(type_name or "")
        found.append(_field(number, compatible_name(name), written, optional=True))
    return {"type": "record", "name": "r102", "fields": found}


def manifest_schema(version: int, partition: Record) -> Record:
    sequences = [
        _field(3, "sequence_number", "long", optional=True),
        _field(4, "file_sequence_number", "long", optional=True),
    ]
    data_file = {"type": "record", "name": "r2", "fields": _data_file(version, partition)}
    fields = [
        _field(0, "status", "int"),
        _field(1, "snapshot_id", "long", optional=version > 1),
        *(sequences if version > 1 else []),
        _field(2, "data_file", data_file),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def _data_file(version: int, partition: Record) -> list[Record]:
    v1 = [_field(105, "block_size_in_bytes", "long")] if version == 1 else []
    v2 = [_field(135, "equality_ids", _list(136, "int"), optional=True)]
    referenced = _field(143, "referenced_data_file", "string", optional=True)
    v3 = [
        _field(144, "content_offset", "long", optional=True),
        _field(145, "content_size_in_bytes", "long", optional=True),
    ]
    return [
        *([_field(134, "content", "int")] if version > 1 else []),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", partition),
        _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"),
        *v1,
        _field(108, "column_sizes", _map(117, 118, "long"), optional=True),
        _field(109, "value_counts", _map(119, 120, "long"), optional=True),
        _field(110, "null_value_counts", _map(121, 122, "long"), optional=True),
        _field(137, "nan_value_counts", _map(138, 139, "long"), optional=True),
        _field(125, "lower_bounds", _map(126, 127, "bytes"), optional=True),
        _field(128, "upper_bounds", _map(129, 130, "bytes"), optional=True),
        _field(131, "key_metadata", "bytes", optional=True),
        _field(132, "split_offsets", _list(133, "long"), optional=True),
        *(v2 if version > 1 else []),
        _field(140, "sort_order_id", "int", optional=True),
        *([_field(142, "first_row_id", "long", optional=True)] if version > 2 else []),
        *([referenced] if version > 1 else []),
        *(v3 if version > 2 else []),
    ]


def manifest_list_schema(version: int) -> Record:
    summary = [
        _field(509, "contains_null", "boolean"),
        _field(518, "contains_nan", "boolean", optional=True),
        _field(510, "lower_bound", "bytes", optional=True),
        _field(511, "upper_bound", "bytes", optional=True),
    ]
    partitions = {
        "type": "array",
        "items": {"type": "record", "name": "r508", "fields": summary},
        "element-id": 508,
    }
    v2 = [
        _field(517, "content", "int"),
        _field(515, "sequence_number", "long"),
        _field(516, "min_sequence_number", "long"),
    ]
    v1 = version == 1
    fields = [
        _field(500, "manifest_path", "string"),
        _field(501, "manifest_length", "long"),
        _field(502, "partition_spec_id", "int"),
        *([] if v1 else v2),
        _field(503, "added_snapshot_id", "long"),
        _field(504, "added_files_count", "int", optional=v1),
        _field(505, "existing_files_count", "int", optional=v1),
        _field(506, "deleted_files_count", "int", optional=v1),
        _field(512, "added_rows_count", "long", optional=v1),
        _field(513, "existing_rows_count", "long", optional=v1),
        _field(514, "deleted_rows_count", "long", optional=v1),
        _field(507, "partitions", partitions, optional=True),
        _field(519, "key_metadata", "bytes", optional=True),
        *([_field(520, "first_row_id", "long", optional=True)] if version > 2 else []),
    ]
    return {"type": "record", "name": "manifest_file", "fields": fields}


def pairs(values: Mapping[int, Any] | None) -> list[Record] | None:
    """A map by column ids, as records."""
    return None if values is None else [{"key": key, "value": value} for key, value in values.items()]


def rewritten(data: bytes, change: Any) -> bytes:
    """An Avro file with other records: ``change`` gets and returns their list."""
    import fastavro

    reader = fastavro.reader(io.BytesIO(data))
    records = list(reader)
    own = {"avro.schema", "avro.codec"}
    metadata = {key: value for key, value in reader.metadata.items() if key not in own}
    return avro_bytes(json.loads(reader.metadata["avro.schema"]), change(records), metadata)
