"""The table schema in the log: Spark's JSON, with Delta's column metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from delvec.declared_types import CHAR_OR_VARCHAR, declared, is_collated, with_lengths
from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.schema import (
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Primitive,
    Schema,
    Struct,
    has_length,
)

PHYSICAL_NAME = "delta.columnMapping.physicalName"
FIELD_ID = "delta.columnMapping.id"
TYPE_CHANGES = "delta.typeChanges"
GENERATION = "delta.generationExpression"
CURRENT_DEFAULT = "CURRENT_DEFAULT"
IDENTITY_PREFIX = "delta.identity."

MAPPING_NONE, MAPPING_NAME, MAPPING_ID = "none", "name", "id"

PRIMITIVES = (
    "boolean",
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "void",
    "variant",
)
"""The types without parameters that Delta's protocol has."""

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_COLLATED_STRING = re.compile(r"string collate \w+", re.IGNORECASE)
# Other names that Spark accepts in schema JSON.
_ALIASES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long", "null": "void"}

_INTEGERS = ("byte", "short", "integer", "long")


def parse_schema(text: str, *, mapping: str = MAPPING_NONE) -> Schema:
    """The schema in ``text``, the ``schemaString`` of a ``metaData`` action.

    ``mapping`` is the table's column mapping mode. Unless it is ``none``, every field must have a physical
    name.
    """
    try:
        tree = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise FormatError(f"schema is not JSON: {error}") from None
    schema = _parse_type(tree, "schema", mapping)
    if not isinstance(schema, Struct):
        raise FormatError(f"schema is of type {schema}, expected struct")
    return schema


def render_schema(schema: Schema) -> str:
    """The text for the ``schemaString`` of a ``metaData`` action, which `parse_schema` reads.

    Ids, physical names and type changes come from the metadata of the fields. The declared lengths of strings
    are written into the metadata of the column.
    """
    return orjson.dumps(render_type(Struct(tuple(map(_with_declared_type, schema))))).decode()


def _with_declared_type(field: Field) -> Field:
    if not has_length(field.type):
        return field
    return replace(field, metadata={**field.metadata, CHAR_OR_VARCHAR: declared(field.type)})


def render_type(data_type: DataType) -> Any:
    """The type in the schema's JSON: a name, or an object. A type that Delta does not have is refused."""
    match data_type:
        case Struct(fields):
            return {"type": "struct", "fields": [_render_field(field) for field in fields]}
        case Array(element, contains_null):
            return {"type": "array", "elementType": render_type(element), "containsNull": contains_null}
        case Map(key, value, value_contains_null):
            return {
                "type": "map",
                "keyType": render_type(key),
                "valueType": render_type(value),
                "valueContainsNull": value_contains_null,
            }
        case Primitive(name) if name in PRIMITIVES:
            return name
        case Decimal():
            return str(data_type)
    raise UnsupportedFeatureError(
        f"Delta has no type {data_type}, expected {', '.join(PRIMITIVES)} or decimal",
        feature=f"type {data_type}",
    )


def _render_field(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "type": render_type(field.type),
        "nullable": field.nullable,
        "metadata": dict(field.metadata),
    }


def _with_lengths(data_type: DataType, metadata: Mapping[str, Any]) -> DataType:
    """The type with the string lengths that the metadata declares. Other declared types are ignored."""
    text = metadata.get(CHAR_OR_VARCHAR)
    if not isinstance(text, str):
        return data_type
    try:
        return with_lengths(data_type, text)
    except ValueError:
        return data_type


def _parse_type(tree: Any, where: str, mapping: str) -> DataType:
    if isinstance(tree, str):
        return _parse_primitive(tree, where)
    if not isinstance(tree, dict):
        raise FormatError(f"type of {where} is {_short_text(tree)}, expected a name or an object")
    match tree.get("type"):
        case "struct":
            return _parse_struct(tree, where, mapping)
        case "array":
            element = _parse_type(tree.get("elementType"), f"{where}.element", mapping)
            return Array(element, _flag(tree, "containsNull"))
        case "map":
            key = _parse_type(tree.get("keyType"), f"{where}.key", mapping)
            value = _parse_type(tree.get("valueType"), f"{where}.value", mapping)
            return Map(key, value, _flag(tree, "valueContainsNull"))
        case other:
            raise FormatError(f"type of {where} is {_short_text(other)}, expected struct, array or map")


def _parse_primitive(name: str, where: str) -> DataType:
    name = _ALIASES.get(name, name)
    if name in PRIMITIVES:
        return Primitive(name)
    if name == "decimal":
        return Decimal(10, 0)
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2])
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise FormatError(f"type of {where} is {name}, expected 1 to 38 digits and a scale within them")
        return Decimal(precision, scale)
    if _is_collated_string(name):
        return Primitive("string")
    raise UnsupportedFeatureError(
        f"type of {where} is {name}, expected {', '.join(PRIMITIVES)} or decimal", feature=f"type {name}"
    )


def _is_collated_string(tree: Any) -> bool:
    return isinstance(tree, str) and _COLLATED_STRING.fullmatch(tree) is not None


def _parse_struct(tree: Mapping[str, Any], where: str, mapping: str) -> Struct:
    fields = tree.get("fields")
    if not isinstance(fields, list):
        raise FormatError(f"fields of {where} are {_short_text(fields)}, expected a list")
    return Struct(tuple(_parse_field(field, where, mapping) for field in fields))


def _parse_field(tree: Any, parent: str, mapping: str) -> Field:
    if not isinstance(tree, dict) or not isinstance(tree.get("name"), str):
        raise FormatError(f"a field of {parent} is {_short_text(tree)}, expected an object with a name")
    name = tree["name"]
    where = name if parent == "schema" else f"{parent}.{name}"
    metadata = tree.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise FormatError(f"metadata of column {where} is {_short_text(metadata)}, expected an object")
    data_type = _with_lengths(_parse_type(tree.get("type"), where, mapping), metadata)
    return Field(
        name=name,
        type=data_type,
        nullable=_flag(tree, "nullable"),
        field_id=_field_id(metadata, where, mapping),
        physical_name=_physical_name(metadata, name, where, mapping),
        widened_from=_widened_from(metadata, where),
        collated=is_collated(metadata) or _is_collated_string(tree.get("type")),
        metadata=metadata,
    )


def _physical_name(metadata: Mapping[str, Any], name: str, where: str, mapping: str) -> str:
    if mapping == MAPPING_NONE:
        return name
    physical = metadata.get(PHYSICAL_NAME)
    if not isinstance(physical, str) or not physical:
        raise FormatError(
            f"{PHYSICAL_NAME} of column {where} is {_short_text(physical)}, "
            f"expected a name (mapping by {mapping})"
        )
    return physical


def _field_id(metadata: Mapping[str, Any], where: str, mapping: str) -> int | None:
    number = metadata.get(FIELD_ID)
    if number is None and mapping != MAPPING_ID:
        return None
    if not isinstance(number, int) or isinstance(number, bool):
        raise FormatError(f"{FIELD_ID} of column {where} is {_short_text(number)}, expected a number")
    return number


def _widened_from(metadata: Mapping[str, Any], where: str) -> tuple[DataType, ...]:
    """The types that the column had before. Changes inside arrays and maps are verified, but not listed."""
    changes = metadata.get(TYPE_CHANGES, [])
    if not isinstance(changes, list):
        raise FormatError(f"{TYPE_CHANGES} of column {where} is {_short_text(changes)}, expected a list")
    old_types = []
    for change in changes:
        if not isinstance(change, dict):
            raise FormatError(
                f"{TYPE_CHANGES} of column {where} holds {_short_text(change)}, expected objects"
            )
        old = _parse_type(change.get("fromType"), where, MAPPING_NONE)
        new = _parse_type(change.get("toType"), where, MAPPING_NONE)
        _verify_widening(old, new, where)
        if not change.get("fieldPath"):
            old_types.append(old)
    return tuple(old_types)


def _verify_widening(old: DataType, new: DataType, where: str) -> None:
    if not is_widening(old, new):
        raise UnsupportedFeatureError(
            f"column {where} changed its type from {old} to {new}, expected a widening delvec can read",
            feature=f"typeWidening {old} to {new}",
        )


def is_widening(old: DataType, new: DataType) -> bool:
    """Whether a column may change from type ``old`` to ``new`` without a rewrite of its files."""
    match old, new:
        case Primitive(a), Primitive(b) if a in _INTEGERS and b in _INTEGERS:
            return _INTEGERS.index(a) < _INTEGERS.index(b)
        case Primitive("byte" | "short" | "integer"), Primitive("double"):
            return True
        case (Primitive("float"), Primitive("double")) | (Primitive("date"), Primitive("timestamp_ntz")):
            return True
        case Primitive("byte" | "short" | "integer"), Decimal(precision, scale):
            return precision - scale >= 10
        case Primitive("long"), Decimal(precision, scale):
            return precision - scale >= 20
        case Decimal(p1, s1), Decimal(p2, s2):
            return s2 >= s1 and p2 - s2 >= p1 - s1
    return False


def _flag(tree: Mapping[str, Any], key: str) -> bool:
    return tree.get(key) is not False


def _short_text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
