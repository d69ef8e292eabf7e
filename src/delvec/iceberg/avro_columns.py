"""The records of an Avro file as Arrow columns.

polars reads them without a Python object per record. What it cannot read (enums, maps, unions of several
types) goes through fastavro, record by record. Both get the records uncompressed in one block, under the flat
schema of `avro_schema`; so only `avro_blocks` decompresses, and names of columns are field ids.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from delvec.errors import FormatError
from delvec.iceberg.avro_blocks import Records, read_blocks
from delvec.iceberg.avro_header import (
    CODEC,
    NO_CODEC,
    SCHEMA,
    SYNC_LENGTH,
    AvroHeader,
    read_header,
    varint,
    write_header,
)
from delvec.iceberg.avro_schema import Json, RecordSchema, flatten

_SYNC = bytes(SYNC_LENGTH)


@dataclass(frozen=True, slots=True)
class AvroTable:
    """An Avro file: its header, the number of its records, and their columns by path of field ids."""

    header: AvroHeader
    count: int
    columns: Mapping[str, pa.Array | pa.ChunkedArray]


def read_table(data: bytes, wanted: Callable[[str], bool]) -> AvroTable:
    """The columns of the Avro file ``data`` whose names are ``wanted``. FormatError if it is damaged."""
    header = read_header(data)
    schema = flatten(header.schema)
    records = read_blocks(data, header)
    if records.count * max(schema.least_bytes, 1) > len(records.data):
        raise FormatError(
            f"Avro blocks have {records.count} records in {len(records.data)} bytes, "
            f"expected at least {max(schema.least_bytes, 1)} bytes a record"
        )
    names = [name for name in schema.columns if wanted(name)]
    if not records.count:
        return AvroTable(header, 0, {name: pa.nulls(0) for name in names})
    columns = _read_with_polars(schema, records, names)
    if columns is None:
        columns = _read_with_fastavro(schema, records, names)
    return AvroTable(header, records.count, columns)


def _read_with_polars(schema: RecordSchema, records: Records, names: list[str]) -> dict[str, Any] | None:
    """None if polars cannot read the records."""
    if not all(_is_plain(kind) for kind in schema.columns.values()):
        return None
    import polars  # noqa: PLC0415 - only Iceberg tables need it

    try:
        frame = polars.read_avro(io.BytesIO(_as_file(schema.json, records)), columns=names)
        table = frame.to_arrow(compat_level=polars.CompatLevel.oldest())
    except (
        polars.exceptions.PolarsError,
        polars.exceptions.PanicException,
        pa.ArrowException,
        OSError,
        ValueError,
    ):
        return None  # fastavro says what is wrong
    return None if len(table) != records.count else {name: table.column(name) for name in names}


def _read_with_fastavro(schema: RecordSchema, records: Records, names: list[str]) -> dict[str, Any]:
    import fastavro  # noqa: PLC0415 - only Iceberg tables need it

    parsed = fastavro.parse_schema(schema.json)
    stream = io.BytesIO(records.data)
    try:
        rows: list[Any] = [fastavro.schemaless_reader(stream, parsed) for _ in range(records.count)]
        return {
            name: pa.array([row[name] for row in rows], _arrow_type(schema.columns[name])) for name in names
        }
    except (ValueError, TypeError, EOFError, IndexError, OverflowError, KeyError, pa.ArrowException) as error:
        raise FormatError(f"Avro records cannot be read: {error or type(error).__name__}") from None


def _as_file(schema: Json, records: Records) -> bytes:
    """An Avro file with the records uncompressed in one block."""
    pairs = {SCHEMA: orjson.dumps(schema), CODEC: NO_CODEC.encode()}
    block = varint(records.count) + varint(len(records.data))
    return b"".join([write_header(pairs, _SYNC), block, records.data, _SYNC])


def _is_plain(kind: Json) -> bool:
    """Whether polars has the type."""
    if isinstance(kind, str):
        return kind != "null"
    if isinstance(kind, list):
        return len(kind) == 2 and kind.count("null") == 1 and all(k == "null" or _is_plain(k) for k in kind)
    match kind["type"]:
        case "array":
            return _is_plain(kind["items"])
        case "record":
            return all(_is_plain(item["type"]) for item in kind["fields"])
        case "fixed":
            return True
    return False


_ARROW_TYPES: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.large_string(),
    "bytes": pa.large_binary(),
}


def _arrow_type(kind: Json) -> pa.DataType:
    if isinstance(kind, str):
        return _ARROW_TYPES[kind]
    if isinstance(kind, list):
        others = [branch for branch in kind if branch != "null"]
        if len(others) > 1:
            raise FormatError(f"Avro field is a union of {len(others)} types, expected one and null")
        return _arrow_type(others[0] if others else "null")
    match kind["type"]:
        case "array":
            return pa.large_list(_arrow_type(kind["items"]))
        case "record":
            return pa.struct([(item["name"], _arrow_type(item["type"])) for item in kind["fields"]])
        case "map":
            return pa.map_(pa.large_string(), _arrow_type(kind["values"]))
        case "enum":
            return pa.large_string()
    return pa.large_binary()
