"""Columns by Parquet field id: the names that they have in each data file.

Spark can read by field id, but only under a session setting that must be on when the query runs; if it is
off, Spark returns nulls. So this module looks the ids up in the footers, and Spark reads by the names in the
file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from delvec.errors import FormatError
from delvec.footers.footer import read_footer
from delvec.schema import Array, DataType, Field, Map, Schema, Struct
from delvec.storage import Storage, in_parallel

_FIELD_ID = b"PARQUET:field_id"


def schemas_by_id(storage: Storage, locations: Sequence[str], schema: Schema) -> list[Schema]:
    """For each file, the schema with the names that its footer has for the fields' ids."""
    return in_parallel(lambda location: _with_file_names(storage, location, schema), locations)


def _with_file_names(storage: Storage, location: str, schema: Schema) -> Schema:
    stored = read_footer(storage, location).schema
    if not any(parquet_field_id(field) is not None for field in stored):
        raise FormatError("data file has no field ids, but the columns are mapped by id", path=location)
    try:
        return _struct(schema, stored)
    except FormatError as error:
        raise error.at(location) from None


def _struct(struct: Struct, stored: Iterable[pa.Field]) -> Struct:
    stored = list(stored)
    by_id = {parquet_field_id(field): field for field in stored}
    by_name = {field.name: field for field in stored}  # for columns without an id: row ids of some formats
    return Struct(
        tuple(
            _field(f, by_name.get(f.physical_name) if f.field_id is None else by_id.get(f.field_id))
            for f in struct
        )
    )


def _field(field: Field, stored: pa.Field | None) -> Field:
    if stored is None:
        # The column was added after the file was written. No column of the file may have this name.
        return replace(field, physical_name=f"__delvec_absent_{field.field_id or field.name}")
    return replace(field, physical_name=stored.name, type=_type(field.type, stored.type, field.name))


def _type(data_type: DataType, stored: pa.DataType, name: str) -> DataType:
    match data_type:
        case Struct() if pa.types.is_struct(stored):
            return _struct(data_type, stored)
        case Array(element) if _is_list(stored):
            _verify_id(stored.value_field, data_type.element_id, f"{name}.element")
            return replace(data_type, element=_type(element, stored.value_type, name))
        case Map(key, value) if pa.types.is_map(stored):
            _verify_id(stored.key_field, data_type.key_id, f"{name}.key")
            _verify_id(stored.item_field, data_type.value_id, f"{name}.value")
            return replace(
                data_type,
                key=_type(key, stored.key_type, name),
                value=_type(value, stored.item_type, name),
            )
    return data_type


def _verify_id(stored: pa.Field, expected: int | None, name: str) -> None:
    """Elements, keys and values are found by their place. Spark and others write no ids for them."""
    recorded = parquet_field_id(stored)
    if expected is not None and recorded is not None and recorded != expected:
        raise FormatError(f"field id of {name} is {recorded}, expected {expected}")


def _is_list(stored: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(stored) or pa.types.is_large_list(stored) or pa.types.is_fixed_size_list(stored)
    )


def parquet_field_id(field: pa.Field) -> int | None:
    """The id that the file records for the field, if any."""
    recorded = (field.metadata or {}).get(_FIELD_ID)
    return None if recorded is None else int(recorded)
