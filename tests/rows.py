"""The rows of a scan plan, read with pyarrow: slow, plain, and independent of any engine.

It reads what a plan says and nothing else, so a wrong plan gives wrong rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deleted_rows import DeletedByValue, deleted_rows
from delvec.bitmap import Bitmap
from delvec.plan import ReadSchema, ScanPlan
from delvec.schema import Array, DataType, Field, Map, Primitive, Struct, arrow_type

FIELD_ID = b"PARQUET:field_id"


def read_table(plan: ScanPlan, storage: Any) -> pa.Table:
    """The live rows of all files of the plan, under their logical names, types and order."""
    deleted, by_value = deleted_rows(storage, plan), DeletedByValue(storage, plan)
    shape = pa.schema([pa.field(f.name, arrow_type(f.type)) for f in plan.schema])
    parts = [
        _read_file(plan, file, rows, by_value, number)
        for number, (file, rows) in enumerate(zip(plan.files.to_pylist(), deleted, strict=True))
    ]
    return pa.concat_tables([shape.empty_table(), *(part.cast(shape) for part in parts)])


def read_rows(plan: ScanPlan, storage: Any) -> list[dict[str, Any]]:
    """As ``read_table``, as dictionaries by logical column name."""
    return read_table(plan, storage).to_pylist()


def multiset(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Rows without their order; NaN equals NaN, and the order of a map's entries does not count."""
    return Counter(repr({name: _comparable(value) for name, value in row.items()}) for row in rows)


def _comparable(value: Any) -> Any:
    match value:
        case dict():
            return {key: _comparable(child) for key, child in value.items()}
        case [(_, _), *_] if all(isinstance(entry, tuple) for entry in value):
            return sorted(((_comparable(k), _comparable(v)) for k, v in value), key=repr)
        case list():
            return [_comparable(child) for child in value]
    return value


def _read_file(
    plan: ScanPlan, file: Mapping[str, Any], deleted: Bitmap, by_value: DeletedByValue, number: int
) -> pa.Table:
    read_schema = plan.read_schemas[file["read_schema"]]
    held = pq.ParquetFile(_local(file["location"]), coerce_int96_timestamp_unit="us").read()
    if file["record_count"] is not None:
        assert held.num_rows == file["record_count"], file["location"]
    if read_schema.by_id and not _has_ids(held.schema):
        assert read_schema.names is not None, file["location"]
        stored = frozenset(_names(held.schema))
        schema = _by_names(read_schema.schema, read_schema.names, stored)
        read_schema = replace(read_schema, by_id=False, schema=schema)
    columns = [_column(held, field, read_schema, file) for field in read_schema.schema]
    table = pa.table(columns, names=[field.name for field in read_schema.schema])
    keep = np.ones(held.num_rows, dtype=bool)
    keep[deleted.to_numpy()] = False
    return table.filter(pa.array(keep & ~by_value.of(number, table)))


def _has_ids(fields: Iterable[pa.Field]) -> bool:
    """Whether any column has a field id; one in a list or map cannot be the only one."""
    return any(
        FIELD_ID in (field.metadata or {}) or (pa.types.is_struct(field.type) and _has_ids(field.type))
        for field in fields
    )


def _names(fields: Iterable[pa.Field]) -> Iterator[str]:
    """All names of columns and nested fields."""
    for field in fields:
        yield field.name
        if pa.types.is_nested(field.type):
            yield from _names(field.type.field(index) for index in range(field.type.num_fields))


def _by_names(data_type: Any, names: Mapping[int, tuple[str, ...]], stored: Container[str]) -> Any:
    """The type with the name that the file has as each field's physical name."""
    match data_type:
        case Struct(fields):
            return Struct(tuple(_by_name(field, names, stored) for field in fields))
        case Array(element):
            return replace(data_type, element=_by_names(element, names, stored))
        case Map(key, value):
            return replace(
                data_type, key=_by_names(key, names, stored), value=_by_names(value, names, stored)
            )
    return data_type


def _by_name(field: Field, names: Mapping[int, tuple[str, ...]], stored: Container[str]) -> Field:
    known = names[field.field_id or 0]
    name = next((name for name in known if name in stored), known[0])
    return replace(field, physical_name=name, type=_by_names(field.type, names, stored))


def _local(location: str) -> str:
    if "://" in location or location.startswith("file:"):
        parts = urlsplit(location)
        assert parts.scheme == "file", location
        return unquote(parts.path)
    return location


def _column(held: pa.Table, field: Field, read_schema: ReadSchema, file: Mapping[str, Any]) -> pa.Array:
    if field.name in read_schema.constants:
        value = file["partition"][field.name]
        return pa.array([value] * held.num_rows, arrow_type(field.type))
    index = _position(held.schema, field, by_id=read_schema.by_id)
    if index is None:
        return _default(field, held.num_rows)
    return _conform(held.column(index).combine_chunks(), field.type, by_id=read_schema.by_id)


def _default(field: Field, count: int) -> pa.Array:
    return pa.array([field.initial_default] * count, arrow_type(field.type))


def _position(fields: Iterable[pa.Field], field: Field, *, by_id: bool) -> int | None:
    """Where the data holds the field: by Parquet field id, or by physical name."""
    for index, candidate in enumerate(fields):
        if by_id:
            recorded = (candidate.metadata or {}).get(FIELD_ID)
            if recorded is not None and int(recorded) == field.field_id:
                return index
        elif candidate.name == field.physical_name:
            return index
    return None


def _conform(held: pa.Array, data_type: DataType, *, by_id: bool) -> pa.Array:
    """The array under logical names and the table's types, which may be wider than the file's."""
    nulls = held.is_null()
    match data_type:
        case Struct(fields):
            children = [_child(held, field, by_id=by_id) for field in fields]
            names = [pa.field(f.name, child.type) for f, child in zip(fields, children, strict=True)]
            return pa.StructArray.from_arrays(children, fields=names, mask=nulls)
        case Array(element):
            values = _conform(held.values, element, by_id=by_id)
            return pa.ListArray.from_arrays(held.offsets, values, mask=nulls)
        case Map(key, value):
            keys = _conform(held.keys, key, by_id=by_id)
            items = _conform(held.items, value, by_id=by_id)
            return pa.MapArray.from_arrays(held.offsets, keys, items, mask=nulls)
        case Primitive("variant"):
            parts = [held.field(name).cast(pa.binary()) for name in ("metadata", "value")]
            return pa.StructArray.from_arrays(parts, names=["metadata", "value"], mask=nulls)
    return _widen(held, arrow_type(data_type))


def _child(held: pa.StructArray, field: Field, *, by_id: bool) -> pa.Array:
    index = _position([held.type.field(i) for i in range(held.type.num_fields)], field, by_id=by_id)
    if index is None:
        return _default(field, len(held))
    return _conform(held.field(index), field.type, by_id=by_id)


def _widen(held: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(held.type) and held.type.tz is None:
        return held.cast(pa.timestamp("us")).cast(target)
    if pa.types.is_decimal(target) and pa.types.is_integer(held.type):
        return held.cast(pa.decimal128(20, 0)).cast(target)
    return held.cast(target)
