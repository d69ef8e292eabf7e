"""Files of an Iceberg table: data, deletes, and what a manifest says of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_tables.avro import DATA, Record, pairs
from iceberg_tables.columns import (
    FIELD_ID,
    Column,
    StructType,
    arrow_fields,
    compatible_name,
    stored_value,
)
from iceberg_tables.values import result_type, to_bytes, transformed

Row = Mapping[str, Any]

_BOUND_LENGTH = 16  # of texts and bytes, as Java writes them
_PADDING = 2000  # of files that get a given size: its length always takes two bytes to write
_WITHOUT_BOUNDS = ("unknown", "variant", "geometry", "geography")


@dataclass(frozen=True)
class SpecField:
    source_id: int
    id: int
    name: str
    transform: str
    source_type: str

    @property
    def type(self) -> str:
        return result_type(self.transform, self.source_type)

    def json(self) -> dict[str, Any]:
        return {
            "source-id": self.source_id,
            "field-id": self.id,
            "name": self.name,
            "transform": self.transform,
        }


@dataclass(frozen=True)
class Spec:
    id: int
    fields: tuple[SpecField, ...] = ()

    def json(self) -> dict[str, Any]:
        return {"spec-id": self.id, "fields": [part.json() for part in self.fields]}

    def partition(self, row: Row, schema: StructType) -> tuple[Any, ...]:
        """The partition of a row, as Avro stores its values."""
        values = _values_by_id(row, schema)
        return tuple(
            transformed(part.transform, part.source_type, values.get(part.source_id)) for part in self.fields
        )


def _values_by_id(row: Row | None, schema: StructType) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for column in schema:
        value = None if row is None else row.get(column.name)
        found[column.id] = value
        if isinstance(column.type, StructType):
            found |= _values_by_id(value, column.type)
    return found


@dataclass(frozen=True, eq=False)
class File:
    """A data or delete file as a manifest records it, and what is inside.

    rows       the rows of a data file, the keys of an equality-delete file
    positions  the rows that a position-delete file or a vector deletes, by the path of their data file
    row_ids, row_versions   row lineage that a data file stores
    """

    content: int
    path: str
    format: str
    spec: Spec
    partition: tuple[Any, ...]
    records: int
    size: int
    schema: StructType
    rows: tuple[Row, ...] = ()
    positions: Mapping[str, frozenset[int]] = field(default_factory=dict)
    stats: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    equality_ids: tuple[int, ...] | None = None
    referenced: str | None = None
    offset: int | None = None
    length: int | None = None
    row_ids: Sequence[int | None] | None = None
    row_versions: Sequence[int | None] | None = None

    @property
    def is_vector(self) -> bool:
        return self.format == "PUFFIN"

    @property
    def key(self) -> tuple[str, int | None]:
        return self.path, self.offset

    def record(self, first_row_id: int | None) -> Record:
        values = zip(self.spec.fields, self.partition, strict=True)
        return {
            "content": self.content,
            "file_path": self.path,
            "file_format": self.format,
            "partition": {compatible_name(part.name): value for part, value in values},
            "record_count": self.records,
            "file_size_in_bytes": self.size,
            "block_size_in_bytes": 64 << 20,
            **{name: pairs(values) for name, values in self.stats.items()},
            "split_offsets": [4] if self.content == DATA else None,
            "equality_ids": None if self.equality_ids is None else list(self.equality_ids),
            "sort_order_id": None if self.is_vector else 0,
            "first_row_id": first_row_id if self.content == DATA else None,
            "referenced_data_file": self.referenced,
            "content_offset": self.offset,
            "content_size_in_bytes": self.length,
        }


def parquet_bytes(
    rows: Sequence[Row],
    schema: StructType,
    *,
    ids: bool = True,
    name: Callable[[str], str] = compatible_name,
    more: Mapping[pa.Field, Sequence[Any]] | None = None,
    row_group_size: int | None = None,
    size: int | None = None,
) -> bytes:
    """A data file. ``name``: how it writes a column's name. ``more``: further columns, such as row ids.
    ``size``: its length in bytes, by padding.
    """
    fields = arrow_fields(schema, ids=ids, name=name)
    stored = [stored_value(dict(row), schema, name) for row in rows]
    arrays = [pa.array([row[part.name] for row in stored], part.type) for part in fields]
    for part, values in (more or {}).items():
        fields.append(part)
        arrays.append(pa.array(values, part.type))
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    if size is None:
        return _written(table, row_group_size, 0)
    padding = _PADDING + size - len(_written(table, row_group_size, _PADDING))
    assert 128 <= padding < 16384, f"{size} bytes asked for, {padding} of them padding"
    return _written(table, row_group_size, padding)


def _written(table: pa.Table, row_group_size: int | None, padding: int) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, store_schema=False) as writer:
        writer.write_table(table, row_group_size=row_group_size)
        if padding:
            writer.add_key_value_metadata({"padding": "x" * padding})
    return sink.getvalue().to_pybytes()


def id_field(number: int, name: str, kind: pa.DataType) -> pa.Field:
    """A column with one of the specification's reserved ids."""
    return pa.field(name, kind, metadata={FIELD_ID: str(number).encode()})


def position_delete_bytes(places: Iterable[tuple[str, int]]) -> bytes:
    paths, positions = zip(*sorted(places), strict=True)
    fields = [
        id_field(2147483546, "file_path", pa.string()).with_nullable(False),
        id_field(2147483545, "pos", pa.int64()).with_nullable(False),
    ]
    table = pa.table([pa.array(paths), pa.array(positions, pa.int64())], schema=pa.schema(fields))
    return _written(table, None, 0)


def position_stats(paths: Iterable[str]) -> dict[str, dict[int, Any]]:
    """Bounds of the column ``file_path``: the whole path where it is one, which says what is deleted from."""
    distinct = set(paths)
    if len(distinct) > 1:
        return {}
    (path,) = distinct
    return {"lower_bounds": {2147483546: path.encode()}, "upper_bounds": {2147483546: path.encode()}}


def column_stats(rows: Sequence[Row], schema: StructType) -> dict[str, dict[int, Any]]:
    """Counts and bounds of the columns that are in no list and no map, by their ids."""
    stats: dict[str, dict[int, Any]] = {
        name: {}
        for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    }
    by_row = [_values_by_id(row, schema) for row in rows]
    for column in _leaves(schema):
        values = [row[column.id] for row in by_row]
        held = [value for value in values if value is not None]
        plain = [value for value in held if not (isinstance(value, float) and math.isnan(value))]
        stats["value_counts"][column.id] = len(values)
        stats["null_value_counts"][column.id] = len(values) - len(held)
        if column.type in ("float", "double"):
            stats["nan_value_counts"][column.id] = len(held) - len(plain)
        if plain:
            _put_bounds(stats, column, min(plain), max(plain))
    return stats


def _leaves(schema: StructType) -> Iterable[Column]:
    for column in schema:
        if isinstance(column.type, StructType):
            yield from _leaves(column.type)
        elif isinstance(column.type, str) and not column.type.startswith(_WITHOUT_BOUNDS):
            yield column


def _put_bounds(stats: dict[str, dict[int, Any]], column: Column, lower: Any, upper: Any) -> None:
    kind = str(column.type)
    if kind in ("string", "binary"):
        lower, upper = lower[:_BOUND_LENGTH], _above(upper)
    stats["lower_bounds"][column.id] = to_bytes(kind, lower)
    if upper is not None:
        stats["upper_bounds"][column.id] = to_bytes(kind, upper)


def _above(value: Any) -> Any:
    """A short value that is not below this one; None if there is none."""
    if len(value) <= _BOUND_LENGTH:
        return value
    last = 0xFF if isinstance(value, bytes) else 0x7E  # only ASCII is counted up here
    for end in range(_BOUND_LENGTH, 0, -1):
        number = value[end - 1] if isinstance(value, bytes) else ord(value[end - 1])
        if number < last:
            step = bytes([number + 1]) if isinstance(value, bytes) else chr(number + 1)
            return value[: end - 1] + step
    return None
