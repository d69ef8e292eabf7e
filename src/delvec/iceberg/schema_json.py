"""A schema as Iceberg's JSON: the opposite of `delvec.iceberg.schema`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from delvec.errors import UnsupportedFeatureError
from delvec.iceberg.schema import INITIAL_DEFAULT, PRIMITIVES, WRITE_DEFAULT
from delvec.schema import Array, DataType, Decimal, Field, Fixed, Geospatial, Map, Primitive, Schema, Struct

_NAMES: Mapping[str, str] = MappingProxyType({name: text for text, name in PRIMITIVES.items()})

Known = Mapping[int, Mapping[str, Any]]
"""Fields as a schema's JSON has them, by id."""


def render_schema(
    schema: Schema, *, schema_id: int, identifier_ids: Collection[int] = (), known: Known | None = None
) -> dict[str, Any]:
    """The schema's object. All fields, elements, keys and values have ids.

    ``known`` are the fields of an older schema: members of theirs that delvec does not know are kept.
    """
    tree = {"type": "struct", "schema-id": schema_id, "fields": _fields(schema, known or {})}
    return {**tree, "identifier-field-ids": sorted(identifier_ids)} if identifier_ids else tree


def known_fields(tree: Any) -> dict[int, Mapping[str, Any]]:
    """All fields of structs in a schema's JSON, by id."""
    found: dict[int, Mapping[str, Any]] = {}
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        if not isinstance(node, Mapping):
            continue
        if "id" in node:
            found[node["id"]] = node
        nodes += [*node.get("fields", ()), *(node.get(key) for key in ("type", "element", "key", "value"))]
    return found


def render_type(data_type: DataType, known: Known = MappingProxyType({})) -> Any:
    """The type: a name, or an object. A type that Iceberg does not have is refused by name."""
    match data_type:
        case Struct():
            return {"type": "struct", "fields": _fields(data_type, known)}
        case Array(element, contains_null):
            return {
                "type": "list",
                "element-id": data_type.element_id,
                "element": render_type(element, known),
                "element-required": not contains_null,
            }
        case Map(key, value, value_contains_null):
            return {
                "type": "map",
                "key-id": data_type.key_id,
                "key": render_type(key, known),
                "value-id": data_type.value_id,
                "value": render_type(value, known),
                "value-required": not value_contains_null,
            }
        case Decimal(precision, scale):
            return f"decimal({precision}, {scale})"
        case Fixed(length):
            return f"fixed[{length}]"
        case Geospatial():
            return str(data_type)
        case Primitive(name) if name in _NAMES:
            return _NAMES[name]
    raise UnsupportedFeatureError(
        f"Iceberg has no type {data_type}, expected {', '.join(_NAMES)}, decimal, struct, array or map",
        feature=f"type {data_type}",
    )


def _fields(struct: Struct, known: Known) -> list[dict[str, Any]]:
    return [_field(field, known) for field in struct]


def _field(field: Field, known: Known) -> dict[str, Any]:
    rendered: dict[str, Any] = {
        **(known.get(field.field_id, {}) if field.field_id is not None else {}),
        "id": field.field_id,
        "name": field.name,
        "required": not field.nullable,
        "type": render_type(field.type, known),
    }
    optional = {
        "doc": field.comment,
        INITIAL_DEFAULT: field.metadata.get(INITIAL_DEFAULT),
        WRITE_DEFAULT: field.metadata.get(WRITE_DEFAULT),
    }
    return rendered | {key: value for key, value in optional.items() if value is not None}
