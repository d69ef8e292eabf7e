"""Columns of Iceberg tables: ids, JSON, Arrow types with field ids, and rows seen through another schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from iceberg_tables.values import json_value

FIELD_ID = b"PARQUET:field_id"
ICEBERG_TYPE = b"iceberg-type"
"""In the metadata of an Arrow field: the Iceberg type, where Arrow's does not say it."""

_TYPES = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.time64("us"): "time",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", tz="UTC"): "timestamptz",
    pa.timestamp("ns"): "timestamp_ns",
    pa.timestamp("ns", tz="UTC"): "timestamptz_ns",
    pa.null(): "unknown",
}
_ARROW = {name: kind for kind, name in _TYPES.items() if kind not in (pa.int8(), pa.int16())}
_ARROW["uuid"] = pa.binary(16)


@dataclass(frozen=True)
class StructType:
    columns: tuple[Column, ...]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def find(self, name: str) -> Column:
        """The column with this name; the path of a nested one has dots."""
        name, _, rest = name.partition(".")
        (column,) = (column for column in self.columns if column.name == name)
        if not rest:
            return column
        return children(column.type).find(rest)

    def by_id(self) -> dict[int, Column]:
        found: dict[int, Column] = {}
        for column in self.columns:
            found[column.id] = column
            found |= children(column.type).by_id()
        return found


@dataclass(frozen=True)
class ListType:
    element: Column


@dataclass(frozen=True)
class MapType:
    key: Column
    value: Column


Type = str | StructType | ListType | MapType


@dataclass(frozen=True)
class Column:
    id: int
    name: str
    type: Type
    required: bool = False
    initial_default: Any = None


def children(kind: Type) -> StructType:
    """The nested columns of a type."""
    match kind:
        case StructType():
            return kind
        case ListType(element):
            return StructType((element,))
        case MapType(key, value):
            return StructType((key, value))
    return StructType(())


def columns_of(schema: pa.Schema | list[pa.Field], next_id: Callable[[], int]) -> StructType:
    """Columns with new ids: those of one level first, then those below them, as Java assigns them."""
    ids = [next_id() for _ in schema]
    pairs = zip(schema, ids, strict=True)
    return StructType(
        tuple(
            Column(number, field.name, _type(field, next_id), required=not field.nullable)
            for field, number in pairs
        )
    )


def _type(field: pa.Field, next_id: Callable[[], int]) -> Type:
    kind, given = field.type, (field.metadata or {}).get(ICEBERG_TYPE)
    if given is not None:
        return given.decode()
    if pa.types.is_struct(kind):
        return columns_of(list(kind), next_id)
    if pa.types.is_list(kind):
        return ListType(*columns_of([kind.value_field.with_name("element")], next_id))
    if pa.types.is_map(kind):
        return MapType(
            *columns_of([kind.key_field.with_name("key"), kind.item_field.with_name("value")], next_id)
        )
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_fixed_size_binary(kind):
        return f"fixed[{kind.byte_width}]"
    return _TYPES[kind]


def schema_json(struct: StructType, schema_id: int) -> dict[str, Any]:
    return {**_type_json(struct), "schema-id": schema_id}


def _type_json(kind: Type) -> Any:
    match kind:
        case StructType(columns):
            return {"type": "struct", "fields": [_column_json(column) for column in columns]}
        case ListType(element):
            return {
                "type": "list",
                "element-id": element.id,
                "element": _type_json(element.type),
                "element-required": element.required,
            }
        case MapType(key, value):
            return {
                "type": "map",
                "key-id": key.id,
                "key": _type_json(key.type),
                "value-id": value.id,
                "value": _type_json(value.type),
                "value-required": value.required,
            }
    return kind


def _column_json(column: Column) -> dict[str, Any]:
    found = {
        "id": column.id,
        "name": column.name,
        "required": column.required,
        "type": _type_json(column.type),
    }
    if column.initial_default is not None:
        default = json_value(str(column.type), column.initial_default)
        found |= {"initial-default": default, "write-default": default}
    return found


def name_mapping(struct: StructType) -> list[dict[str, Any]]:
    """``schema.name-mapping.default`` for files without ids."""
    return [
        {"field-id": column.id, "names": [column.name]}
        | ({"fields": nested} if (nested := name_mapping(children(column.type))) else {})
        for column in struct
    ]


def compatible_name(name: str) -> str:
    """The name as Iceberg-Java writes it to Parquet and Avro files."""
    found = re.sub(r"[^A-Za-z0-9_]", lambda match: f"_x{ord(match[0]):X}", name)
    return f"_{found}" if found[:1].isdigit() else found


def arrow_fields(
    struct: StructType, *, ids: bool = True, name: Callable[[str], str] = compatible_name
) -> list[pa.Field]:
    """The columns as data files have them. ``name``: how a file writes a name."""
    return [_arrow_field(column, ids, name) for column in struct if column.type != "unknown"]


def _arrow_field(column: Column, ids: bool, name: Callable[[str], str]) -> pa.Field:
    metadata = {FIELD_ID: str(column.id).encode()} if ids else None
    kind = _arrow_type(column.type, ids, name)
    return pa.field(name(column.name), kind, nullable=not column.required, metadata=metadata)


def _arrow_type(kind: Type, ids: bool, name: Callable[[str], str]) -> pa.DataType:
    match kind:
        case StructType():
            return pa.struct(arrow_fields(kind, ids=ids, name=name))
        case ListType(element):
            return pa.list_(_arrow_field(element, ids, name).with_name("element"))
        case MapType(key, value):
            key_field, value_field = (
                _arrow_field(c, ids, name) for c in (replace(key, required=True), value)
            )
            return pa.map_(key_field.with_name("key"), value_field.with_name("value"))
    return arrow_primitive(kind)


def arrow_primitive(kind: str) -> pa.DataType:
    if match := re.fullmatch(r"decimal\((\d+), ?(\d+)\)", kind):
        return pa.decimal128(int(match[1]), int(match[2]))
    if match := re.fullmatch(r"fixed\[(\d+)\]", kind):
        return pa.binary(int(match[1]))
    if kind.startswith(("geometry", "geography")):
        return pa.binary()
    return _ARROW[kind]


def stored_value(value: Any, kind: Type, name: Callable[[str], str]) -> Any:
    """A value of a row, its structs with the names that the file has."""
    if value is None:
        return None
    match kind:
        case StructType(columns):
            return {
                name(column.name): stored_value(value.get(column.name), column.type, name)
                for column in columns
                if column.type != "unknown"
            }
        case ListType(element):
            return [stored_value(item, element.type, name) for item in value]
        case MapType(key, item):
            return [(stored_value(k, key.type, name), stored_value(v, item.type, name)) for k, v in value]
    return value


def projected(value: Any, written: Type, read: Type) -> Any:
    """A value that was written with one schema, as another schema shows it: by ids, else by default."""
    if value is None:
        return None
    match written, read:
        case StructType(), StructType():
            held = {column.id: column for column in written}
            return {
                column.name: (
                    projected(value.get(held[column.id].name), held[column.id].type, column.type)
                    if column.id in held
                    else column.initial_default
                )
                for column in read
            }
        case ListType(old), ListType(new):
            return [projected(item, old.type, new.type) for item in value]
        case MapType(old_key, old), MapType(new_key, new):
            return [
                (projected(k, old_key.type, new_key.type), projected(v, old.type, new.type)) for k, v in value
            ]
    return value


def replaced(struct: StructType, new: Column) -> list[Column]:
    return [new if column.id == new.id else _below(column, replaced, new) for column in struct]


def without(struct: StructType, gone: int) -> list[Column]:
    return [_below(column, without, gone) for column in struct if column.id != gone]


def _below(column: Column, change: Callable[..., list[Column]], what: Any) -> Column:
    """The column with its nested ones changed."""
    nested = children(column.type)
    if not nested.columns:
        return column
    kind = type(column.type)
    new = change(nested, what)
    assert not isinstance(column.type, str)
    return replace(column, type=StructType(tuple(new)) if kind is StructType else kind(*new))
