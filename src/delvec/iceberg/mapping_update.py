"""Keeps a table's name mapping true: it covers every column, so that files without field ids can be read.

Spark's Parquet writer cannot write the ids of elements, keys and values, and files with ids on some fields
only cannot be read by other engines. So the files of a table with lists or maps have no ids at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from delvec.errors import UnsupportedFeatureError
from delvec.iceberg.json_object import parse_json
from delvec.iceberg.name_mapping import PROPERTY, table_name_mapping
from delvec.iceberg.read_schema import LINEAGE
from delvec.schema import Array, DataType, Field, Map, Schema, Struct

_Named = tuple[str, int | None, DataType]


def can_have_ids(schema: Schema) -> bool:
    """Whether Spark can write the ids of all fields."""
    return not any(_has_list(field.type) for field in schema)


def covering_mapping(properties: Mapping[str, str], schema: Schema, *, lineage: bool) -> str:
    """The name mapping in ``properties``, extended by the names of all fields that it lacks.

    ``lineage``: also by the columns for row ids. A name that the mapping has for another column is refused:
    files without ids may hold that column's values under it.
    """
    table_name_mapping(properties)  # refuses a damaged one
    text = properties.get(PROPERTY)
    items = [] if text is None else parse_json(text, f"property {PROPERTY}")
    fields = (*schema, *(LINEAGE if lineage else ()))
    return orjson.dumps(_covered(items, _named(fields), "")).decode()


def with_columns_mapped(properties: Mapping[str, str], schema: Schema, *, lineage: bool) -> dict[str, str]:
    """The properties of a table that gets new columns: a name mapping that it has also names those."""
    if PROPERTY not in properties:
        return dict(properties)
    return {**properties, PROPERTY: covering_mapping(properties, schema, lineage=lineage)}


def _has_list(data_type: DataType) -> bool:
    match data_type:
        case Array() | Map():
            return True
        case Struct(fields):
            return any(_has_list(field.type) for field in fields)
    return False


def _named(fields: Iterable[Field]) -> Iterator[_Named]:
    return ((field.physical_name, field.field_id, field.type) for field in fields)


def _inside(data_type: DataType) -> Iterator[_Named]:
    match data_type:
        case Struct(fields):
            yield from _named(fields)
        case Array(element):
            yield "element", data_type.element_id, element
        case Map(key, value):
            yield "key", data_type.key_id, key
            yield "value", data_type.value_id, value


def _covered(items: list[Any], fields: Iterable[_Named], parent: str) -> list[Any]:
    items = list(items)
    for name, field_id, data_type in fields:
        place = f"{parent}{name}"
        owner = next((item for item in items if name in item.get("names", ())), None)
        if owner is not None and owner.get("field-id") != field_id:
            raise UnsupportedFeatureError(
                f"property {PROPERTY} has the name {place!r} for the field id {owner.get('field-id')}, "
                f"expected {field_id}: older files may hold another column under this name",
                feature="reused column name",
            )
        at = next((at for at, item in enumerate(items) if item.get("field-id") == field_id), len(items))
        item = items[at] if at < len(items) else {"field-id": field_id, "names": []}
        names = item.get("names", [])
        item = {**item, "names": names if name in names else [*names, name]}
        inside = _covered(item.get("fields", []), _inside(data_type), f"{place}.")
        items[at : at + 1] = [{**item, "fields": inside} if inside else item]
    return items
