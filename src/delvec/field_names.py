"""Columns by Parquet field id: which names they have in each data file.

Spark reads by field id only under a session setting that must hold when the query runs, and returns nulls
where it does not. So the ids are looked up here, in the footers, and Spark reads by the names found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from delvec.errors import FormatError
from delvec.schema import Array, DataType, Field, Map, Schema, Struct
from delvec.storage import Storage, in_parallel

_FIELD_ID = b"PARQUET:field_id"


def schemas_by_id(storage: Storage, locations: Sequence[str], schema: Schema) -> list[Schema]:
    """For each file, the schema with the names that its footer has for the fields' ids."""
    return in_parallel(lambda place: _named(storage, place, schema), locations)


def _named(storage: Storage, place: str, schema: Schema) -> Schema:
    with storage.open_input(place) as source:
        try:
            held = pq.read_schema(source)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise FormatError(f"data file is not readable as Parquet: {error}", path=place) from None
    if not any(parquet_field_id(field) is not None for field in held):
        raise FormatError("data file has no field ids, but the columns are mapped by id", path=place)
    return _struct(schema, held)


def _struct(struct: Struct, held: Iterable[pa.Field]) -> Struct:
    held = list(held)
    by_id = {parquet_field_id(field): field for field in held}
    by_name = {field.name: field for field in held}  # for what is stored beside the table's columns
    return Struct(
        tuple(
            _field(f, by_name.get(f.physical_name) if f.field_id is None else by_id.get(f.field_id))
            for f in struct
        )
    )


def _field(field: Field, held: pa.Field | None) -> Field:
    if held is None:  # a column that came later: no name of the file may stand for it
        return replace(field, physical_name=f"__delvec_absent_{field.field_id or field.name}")
    return replace(field, physical_name=held.name, type=_type(field.type, held.type))


def _type(data_type: DataType, held: pa.DataType) -> DataType:
    match data_type:
        case Struct() if pa.types.is_struct(held):
            return _struct(data_type, held)
        case Array(element, contains_null) if _is_list(held):
            return Array(_type(element, held.value_type), contains_null)
        case Map(key, value, contains_null) if pa.types.is_map(held):
            return Map(_type(key, held.key_type), _type(value, held.item_type), contains_null)
    return data_type


def _is_list(held: pa.DataType) -> bool:
    return bool(pa.types.is_list(held) or pa.types.is_large_list(held) or pa.types.is_fixed_size_list(held))


def parquet_field_id(field: pa.Field) -> int | None:
    """The id that the file has for the field, if any."""
    found = (field.metadata or {}).get(_FIELD_ID)
    return None if found is None else int(found)
