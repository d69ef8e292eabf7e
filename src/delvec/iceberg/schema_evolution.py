"""Changes of a table's columns: which are allowed, and the schema that results.

int → long, float → double, decimal(P, S) → decimal(more than P, S)
date → timestamp_ntz, since version 3
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from delvec.errors import InvalidOperationError
from delvec.iceberg.new_columns import iceberg_field
from delvec.schema import Array, DataType, Decimal, Field, Map, Primitive, Schema, Struct

_WIDER = {"integer": "long", "float": "double"}


def evolved(old: Schema, new: Schema, *, format_version: int) -> Schema:
    """The schema ``new``, with ids, defaults and comments that ``old`` has for its columns. New columns have
    no ids, unless ``new`` has them.

    Columns, also nested ones, may be added and may get a wider type. Refused are a column that is missing,
    any other change of a column, and a new column that is NOT NULL: existing rows have no value for it.
    """
    return _Evolution(format_version).struct(old, new, ())


@dataclass(frozen=True, slots=True)
class _Evolution:
    format_version: int

    def struct(self, old: Struct, new: Struct, path: tuple[str, ...]) -> Struct:
        old_fields = {field.name.lower(): field for field in old}
        new_names = {field.name.lower() for field in new}
        for field in old:
            if field.name.lower() not in new_names:
                raise InvalidOperationError(
                    f"column {_text(path, field.name)} is missing in the new schema, expected every column"
                )
        return Struct(
            tuple(
                self._field(old_fields[field.name.lower()], field, path)
                if field.name.lower() in old_fields
                else self._added(field, path)
                for field in new
            )
        )

    def _added(self, field: Field, parents: tuple[str, ...]) -> Field:
        if field.field_id is not None:  # it was resolved before
            return field
        if not field.nullable:
            raise InvalidOperationError(
                f"new column {_text(parents, field.name)} is NOT NULL, expected nullable: existing rows have "
                "no value for it"
            )
        return iceberg_field(field, parents, self.format_version)

    def _field(self, old: Field, new: Field, parents: tuple[str, ...]) -> Field:
        path = (*parents, old.name)
        if old.nullable and not new.nullable:
            raise InvalidOperationError(f"column {'.'.join(path)} cannot become NOT NULL")
        return replace(old, type=self._type(old.type, new.type, path), nullable=new.nullable)

    def _type(self, old: DataType, new: DataType, path: tuple[str, ...]) -> DataType:
        match old, new:
            case Struct(), Struct():
                return self.struct(old, new, path)
            case Array(), Array():
                element = self._type(old.element, new.element, (*path, "element"))
                return replace(old, element=element, contains_null=old.contains_null or new.contains_null)
            case Map(), Map():
                nulls = old.value_contains_null or new.value_contains_null
                value = self._type(old.value, new.value, (*path, "value"))
                key = self._type(old.key, new.key, (*path, "key"))
                return replace(old, key=key, value=value, value_contains_null=nulls)
        if old != new and not self._is_wider(old, new):
            raise InvalidOperationError(
                f"column {'.'.join(path)} is of type {new}, expected {old} as in the table"
            )
        return new

    def _is_wider(self, old: DataType, new: DataType) -> bool:
        match old, new:
            case Decimal(precision, scale), Decimal(more, same):
                return more > precision and same == scale
            case Primitive("date"), Primitive("timestamp_ntz"):
                return self.format_version > 2
            case Primitive(name), Primitive(wider):
                return _WIDER.get(name) == wider
        return False


def _text(parents: tuple[str, ...], name: str) -> str:
    return ".".join((*parents, name))
