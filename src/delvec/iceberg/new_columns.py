"""Columns that delvec gives to Iceberg tables: their names, and their types in Iceberg's terms.

byte, short              become int
char(n), varchar(n)      become string
void                     becomes unknown, since version 3
variant                  since version 3
"""

from __future__ import annotations

from collections.abc import Iterator

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.iceberg.read_schema import LINEAGE
from delvec.iceberg.schema import INITIAL_DEFAULT, WRITE_DEFAULT
from delvec.schema import COMMENT, Array, DataType, Field, Map, Primitive, Schema, Struct, is_string

LINEAGE_VERSION = 3

_SINCE_VERSION_3 = frozenset({"void", "variant", "timestamp_ns", "timestamp_ntz_ns", "geometry", "geography"})
_DEFAULTS = ("CURRENT_DEFAULT", "EXISTS_DEFAULT")  # of Spark's DDL
_KEPT = (COMMENT, INITIAL_DEFAULT, WRITE_DEFAULT)


def iceberg_schema(schema: Schema, format_version: int) -> Schema:
    """The schema with Iceberg's types, for a new table. It has no ids and no stored names.

    A type or a default that a table of this version cannot have is refused by name.
    """
    return Struct(tuple(iceberg_field(field, (), format_version) for field in schema))


def iceberg_field(field: Field, parents: tuple[str, ...], format_version: int) -> Field:
    """A new column, or a new field of a struct, as a table of this version can have it."""
    path = (*parents, field.name)
    for key in _DEFAULTS:
        if key in field.metadata:
            raise UnsupportedFeatureError(
                f"new column {'.'.join(path)} has a default, expected none", feature="column default"
            )
    metadata = {key: field.metadata[key] for key in _KEPT if key in field.metadata}
    return Field(
        field.name,
        _iceberg_type(field.type, path, format_version),
        field.nullable,
        initial_default=field.initial_default,
        metadata=metadata,
    )


def verify_names(schema: Schema, format_version: int) -> None:
    """Refuse names that are empty, that differ only in case, that mean two fields when they are joined by
    dots, or that belong to row lineage.
    """
    if not schema.fields:
        raise InvalidOperationError("the schema has no columns, expected at least one")
    seen: dict[str, str] = {}
    for path in _paths(schema, ()):
        name = ".".join(path)
        if not path[-1]:
            raise InvalidOperationError(f"column {name!r} has an empty name")
        if name.lower() in seen:
            raise InvalidOperationError(
                f"column {name!r} appears twice (as {seen[name.lower()]!r}), names must differ in more than "
                "case"
            )
        seen[name.lower()] = name
    verify_lineage_names_free(schema, format_version)


def verify_lineage_names_free(schema: Schema, format_version: int) -> None:
    """Refuse a column whose name is that of a stored row id: both would be in one file."""
    reserved = {field.name for field in LINEAGE} if format_version >= LINEAGE_VERSION else set()
    for field in schema:
        if field.name.lower() in reserved:
            raise UnsupportedFeatureError(
                f"column {field.name!r} has the name of a column of row lineage, expected another name",
                feature=f"column {field.name}",
            )


def _paths(data_type: DataType, parents: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    match data_type:
        case Struct(fields):
            for field in fields:
                yield (*parents, field.name)
                yield from _paths(field.type, (*parents, field.name))
        case Array(element):
            yield from _paths(element, (*parents, "element"))
        case Map(key, value):
            yield from _paths(key, (*parents, "key"))
            yield from _paths(value, (*parents, "value"))


def _iceberg_type(data_type: DataType, path: tuple[str, ...], version: int) -> DataType:
    match data_type:
        case Struct(fields):
            return Struct(tuple(iceberg_field(field, path, version) for field in fields))
        case Array(element, contains_null):
            return Array(_iceberg_type(element, (*path, "element"), version), contains_null)
        case Map(key, value, contains_null):
            key = _iceberg_type(key, (*path, "key"), version)
            return Map(key, _iceberg_type(value, (*path, "value"), version), contains_null)
        case Primitive("byte" | "short"):
            return Primitive("integer")
        case Primitive(name) if name in _SINCE_VERSION_3 and version < LINEAGE_VERSION:
            raise UnsupportedFeatureError(
                f"column {'.'.join(path)} is of type {data_type}, which needs format version 3, expected a "
                f"type of version {version}",
                feature=f"type {data_type}",
            )
    return Primitive("string") if is_string(data_type) else data_type
