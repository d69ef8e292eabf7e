"""Iceberg's schema JSON as `delvec.schema`, and the single values in it: the defaults of columns.

    boolean int long float double date string binary uuid      the same, under Spark's names
    timestamp, timestamptz         ``timestamp_ntz`` and ``timestamp``
    timestamp_ns, timestamptz_ns   ``timestamp_ntz_ns`` and ``timestamp_ns``
    unknown                        ``void``
    decimal(P, S), fixed[L], geometry(…), geography(…), struct, list, map, variant

A field's metadata has its comment and, as the JSON has them, ``initial-default`` and ``write-default``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg.default_values import parse_value
from delvec.iceberg.json_object import JsonObject, short_text
from delvec.schema import (
    COMMENT,
    Array,
    DataType,
    Decimal,
    Field,
    Fixed,
    Geospatial,
    Map,
    Primitive,
    Schema,
    Struct,
)

INITIAL_DEFAULT = "initial-default"
WRITE_DEFAULT = "write-default"

PRIMITIVES: Mapping[str, str] = MappingProxyType(
    {
        "boolean": "boolean",
        "int": "integer",
        "long": "long",
        "float": "float",
        "double": "double",
        "date": "date",
        "time": "time",
        "timestamp": "timestamp_ntz",
        "timestamptz": "timestamp",
        "timestamp_ns": "timestamp_ntz_ns",
        "timestamptz_ns": "timestamp_ns",
        "string": "string",
        "uuid": "uuid",
        "binary": "binary",
        "variant": "variant",
        "unknown": "void",
    }
)
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,4})\s*,\s*(\d{1,4})\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d{1,9})\s*\]")
_GEOSPATIAL = re.compile(r"(geometry|geography)(?:\s*\(\s*(.*?)\s*\))?", re.DOTALL)
_MAX_DEPTH = 100


def parse_schema(tree: Any, where: str = "schema") -> Schema:
    """The schema in the JSON value ``tree``: an object of type struct."""
    schema = _parse_struct(JsonObject(tree, where), where, depth=0)
    _verify_unique(list(field_ids(schema)), f"field ids of {where}")
    return schema


def field_ids(data_type: DataType) -> Iterator[int]:
    """The ids of all fields in the type: of columns, fields of structs, elements, keys and values."""
    match data_type:
        case Struct(fields):
            for field in fields:
                if field.field_id is not None:
                    yield field.field_id
                yield from field_ids(field.type)
        case Array(element):
            yield from (() if data_type.element_id is None else (data_type.element_id,))
            yield from field_ids(element)
        case Map(key, value):
            yield from (number for number in (data_type.key_id, data_type.value_id) if number is not None)
            yield from field_ids(key)
            yield from field_ids(value)


def identifier_ids(tree: Any) -> frozenset[int]:
    """The ids of the columns that identify a row, which a schema may declare."""
    return frozenset(JsonObject(tree, "schema").numbers("identifier-field-ids"))


def parse_type(tree: Any, where: str, *, depth: int = 0) -> DataType:
    """The type in the JSON value ``tree``: a name, or an object. ``where`` is the column, for errors."""
    if isinstance(tree, str):
        return _parse_primitive(tree, where)
    if depth > _MAX_DEPTH:
        raise FormatError(f"type of {where[:60]}… is nested more than {_MAX_DEPTH} times")
    node = JsonObject(tree, f"type of {where}")
    match node.members.get("type"):
        case "struct":
            return _parse_struct(node, where, depth=depth)
        case "list":
            element = parse_type(node.members.get("element"), f"{where}.element", depth=depth + 1)
            return Array(element, not node.flag("element-required"), node.number("element-id"))
        case "map":
            return _parse_map(node, where, depth=depth)
        case other:
            raise FormatError(f"type of {where} is {short_text(other)}, expected struct, list or map")


def _parse_struct(node: JsonObject, where: str, *, depth: int) -> Struct:
    if node.members.get("type") != "struct" or not isinstance(node.members.get("fields"), list):
        raise FormatError(f"{where} is {short_text(node.members)}, expected a struct with a list of fields")
    parent = "" if depth == 0 else f"{where}."
    fields = tuple(_parse_field(field, parent, depth=depth) for field in node.children("fields"))
    _verify_unique([field.name for field in fields], f"names of the fields of {where}")
    return Struct(fields)


def _verify_unique(values: list[Any], what: str) -> None:
    if len(set(values)) != len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise FormatError(f"{what} have {twice!r} twice, expected each once")


def _parse_map(node: JsonObject, where: str, *, depth: int) -> Map:
    return Map(
        key=parse_type(node.members.get("key"), f"{where}.key", depth=depth + 1),
        value=parse_type(node.members.get("value"), f"{where}.value", depth=depth + 1),
        value_contains_null=not node.flag("value-required"),
        key_id=node.number("key-id"),
        value_id=node.number("value-id"),
    )


def _parse_field(node: JsonObject, parent: str, *, depth: int) -> Field:
    name = node.text("name")
    where = parent + name
    node = JsonObject(node.members, f"column {where}")
    data_type = parse_type(node.members.get("type"), where, depth=depth + 1)
    metadata = {key: node.members[key] for key in (INITIAL_DEFAULT, WRITE_DEFAULT) if node.has(key)}
    comment = node.text_or_none("doc")
    return Field(
        name=name,
        type=data_type,
        nullable=not node.flag("required"),
        field_id=node.number("id"),
        initial_default=parse_value(node.members.get(INITIAL_DEFAULT), data_type, where),
        metadata=metadata if comment is None else {**metadata, COMMENT: comment},
    )


def _parse_primitive(text: str, where: str) -> DataType:
    if text in PRIMITIVES:
        return Primitive(PRIMITIVES[text])
    if match := _DECIMAL.fullmatch(text):
        precision, scale = int(match[1]), int(match[2])
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise FormatError(f"type of {where} is {text}, expected 1 to 38 digits and a scale within them")
        return Decimal(precision, scale)
    if match := _FIXED.fullmatch(text):
        return Fixed(int(match[1]))
    if match := _GEOSPATIAL.fullmatch(text):
        return Geospatial(match[1], match[2] or "")
    raise UnsupportedFeatureError(
        f"type of {where} is {text}, expected {', '.join(PRIMITIVES)}, decimal, fixed, geometry or geography",
        feature=f"type {text}",
    )
