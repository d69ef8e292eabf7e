"""Columns by Parquet field id: the names that they have in each data file.

Spark can read by field id, but only under a session setting that must be on when the query runs; if it is
off, Spark returns nulls. So this module looks the ids up in the footers, and Spark reads by the names in the
file.

A file without any field id may have been written by another program and then been added to the table. The
table's name mapping lists the names that each field has in such files.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from weakref import WeakKeyDictionary

import pyarrow as pa

from delvec.errors import FormatError
from delvec.footers.footer import read_footer
from delvec.schema import Array, DataType, Field, Map, Schema, Struct
from delvec.storage import Storage, in_parallel

Names = Mapping[int, tuple[str, ...]]
"""The names that a field may have in files without field ids, by its id."""

CACHED_FILES = 50_000
"""So many schemas of files are kept for each storage, as long as the storage is used."""

_FIELD_ID = b"PARQUET:field_id"
_ABSENT = "__delvec_absent_"

_caches: WeakKeyDictionary[Storage, OrderedDict[str, pa.Schema]] = WeakKeyDictionary()
_lock = Lock()


def schemas_by_id(
    storage: Storage, locations: Sequence[str], schema: Schema, names: Names | None = None
) -> list[Schema]:
    """For each file, the schema with the names that the file has for the fields.

    ``names`` are for files without field ids; None: such a file is refused.
    """
    stored = in_parallel(lambda location: stored_schema(storage, location), locations)
    distinct: dict[str, Schema] = {}  # the files of a table have few different schemas
    found = []
    for location, file_schema in zip(locations, stored, strict=True):
        text = file_schema.to_string(show_field_metadata=True, truncate_metadata=False)
        if text not in distinct:
            distinct[text] = schema_in_file(schema, file_schema, names, location)
        found.append(distinct[text])
    return found


def schema_in_file(schema: Schema, stored: pa.Schema, names: Names | None, location: str) -> Schema:
    """The schema with the names that a file with the columns ``stored`` has for the fields.

    A field that is not in the file gets a name that no column has (`is_absent`).
    """
    try:
        if has_field_ids(stored):
            return _struct(schema, stored)
        if names is None:
            raise FormatError("data file has no field ids, but the columns are mapped by id")
        return _struct(schema, stored, names)
    except FormatError as error:
        raise error.at(location) from None


def is_absent(field: Field) -> bool:
    """Whether a field of `schema_in_file` is not in the file."""
    return field.physical_name.startswith(_ABSENT)


def has_field_ids(stored: Iterable[pa.Field]) -> bool:
    """Whether a file with these columns records an id for any field, also a nested one."""
    return any(
        parquet_field_id(field) is not None or has_field_ids(_children(field.type)) for field in stored
    )


def parquet_field_id(field: pa.Field) -> int | None:
    """The id that the file records for the field, if any."""
    recorded = (field.metadata or {}).get(_FIELD_ID)
    return None if recorded is None else int(recorded)


def stored_schema(storage: Storage, location: str) -> pa.Schema:
    """The columns of the file, from its footer. Footers are cached."""
    with _lock:
        cache = _caches.setdefault(storage, OrderedDict())
        if location in cache:
            cache.move_to_end(location)
            return cache[location]
    schema = read_footer(storage, location).schema.remove_metadata()
    with _lock:
        cache[location] = schema
        if len(cache) > CACHED_FILES:
            cache.popitem(last=False)
    return schema


def _struct(struct: Struct, stored: Iterable[pa.Field], names: Names | None = None) -> Struct:
    stored = list(stored)
    return Struct(tuple(_field(field, _find(field, stored, names), names) for field in struct))


def _find(field: Field, stored: Sequence[pa.Field], names: Names | None) -> pa.Field | None:
    """The column of the file for the field; None if the file does not have it."""
    if field.field_id is None:  # row ids of some formats
        found = [column for column in stored if column.name == field.physical_name]
    elif names is None:
        found = [column for column in stored if parquet_field_id(column) == field.field_id]
    else:
        found = [column for column in stored if column.name in names.get(field.field_id, ())]
    if len(found) > 1:
        columns = " and ".join(repr(column.name) for column in found)
        raise FormatError(f"columns {columns} of the file are both column {field.name!r}, expected one")
    return found[0] if found else None


def _field(field: Field, stored: pa.Field | None, names: Names | None) -> Field:
    if stored is None:
        # The column was added after the file was written. No column of the file may have this name.
        return replace(field, physical_name=f"{_ABSENT}{field.field_id or field.name}")
    data_type = _type(field.type, stored.type, field.name, names)
    return replace(field, physical_name=stored.name, type=data_type)


def _type(data_type: DataType, stored: pa.DataType, name: str, names: Names | None) -> DataType:
    match data_type:
        case Struct() if pa.types.is_struct(stored):
            return _struct(data_type, stored, names)
        case Array(element) if _is_list(stored):
            _verify_id(stored.value_field, data_type.element_id, f"{name}.element")
            return replace(data_type, element=_type(element, stored.value_type, name, names))
        case Map(key, value) if pa.types.is_map(stored):
            _verify_id(stored.key_field, data_type.key_id, f"{name}.key")
            _verify_id(stored.item_field, data_type.value_id, f"{name}.value")
            return replace(
                data_type,
                key=_type(key, stored.key_type, name, names),
                value=_type(value, stored.item_type, name, names),
            )
        case Struct() | Array() | Map():
            raise FormatError(f"column {name} is {stored} in the file, expected {data_type}")
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


def _children(stored: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(stored):
        return list(stored)
    if pa.types.is_map(stored):
        return [stored.key_field, stored.item_field]
    return [stored.value_field] if _is_list(stored) else []
