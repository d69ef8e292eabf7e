"""Changes of a table's columns: which are allowed, and how the schema records them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from delvec.delta.schema import (
    CURRENT_DEFAULT,
    GENERATION,
    IDENTITY_PREFIX,
    TYPE_CHANGES,
    is_widening,
    render_type,
)
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.partition_spec import PartitionField
from delvec.schema import Array, DataType, Field, Map, Primitive, Schema, Struct

NOT_IN_NAMES = " ,;{}()\n\t="


def evolved(old: Schema, new: Schema, *, widening: bool) -> Schema:
    """The schema ``new``, with the metadata, ids and physical names that ``old`` has for its columns.

    Columns, also nested ones, may be added and, with ``widening``, get a wider type. Refused are a column
    that is missing, any other change of a column, and a new column that is NOT NULL: existing rows have no
    value for it.
    """
    return _Evolution(widening).struct(old, new, ())


def verify_names(schema: Schema, *, mapped: bool) -> None:
    """Refuse names that a Parquet file cannot have, and names that differ only in case."""
    if not schema.fields:
        raise InvalidOperationError("the schema has no columns, expected at least one")
    _verify_names_in(schema, (), mapped=mapped)


def verify_plain(field: Field, path: tuple[str, ...]) -> None:
    """Refuse a new column that is generated, an identity or has a default: writers compute its values."""
    for key in field.metadata:
        if key in (GENERATION, CURRENT_DEFAULT) or key.startswith(IDENTITY_PREFIX):
            raise UnsupportedFeatureError(
                f"column {'.'.join(path)} has {key}, which delvec cannot create", feature=key
            )


def verify_partitioning(schema: Schema, fields: Sequence[PartitionField]) -> None:
    """Refuse a partitioning by anything but values of top-level columns: Delta has no other."""
    for field in fields:
        if not field.is_identity:
            raise UnsupportedFeatureError(
                f"Delta tables cannot be partitioned by {field}, expected a top-level column",
                feature=f"partition transform {field.transform}",
            )
    if len(fields) == len(schema.fields):
        names = ", ".join(field.name for field in schema)
        raise InvalidOperationError(
            f"all columns ({names}) are partition columns, expected at least one other column"
        )


def _verify_names_in(data_type: DataType, path: tuple[str, ...], *, mapped: bool) -> None:
    match data_type:
        case Struct(fields):
            seen: dict[str, str] = {}
            for field in fields:
                where = ".".join((*path, field.name))
                if field.name.lower() in seen:
                    raise InvalidOperationError(
                        f"column {where!r} appears twice (as {seen[field.name.lower()]!r}), "
                        "names must differ in more than case"
                    )
                seen[field.name.lower()] = field.name
                _verify_name(field.name, where, mapped=mapped)
                _verify_names_in(field.type, (*path, field.name), mapped=mapped)
        case Array(element):
            _verify_names_in(element, (*path, "element"), mapped=mapped)
        case Map(key, value):
            _verify_names_in(key, (*path, "key"), mapped=mapped)
            _verify_names_in(value, (*path, "value"), mapped=mapped)
        case Primitive("void"):
            raise InvalidOperationError(f"column {'.'.join(path)!r} is of type void, expected a type")


def _verify_name(name: str, where: str, *, mapped: bool) -> None:
    if not name:
        raise InvalidOperationError(f"column {where!r} has an empty name")
    if not mapped and any(character in NOT_IN_NAMES for character in name):
        raise InvalidOperationError(
            f"column {where!r} contains one of the characters {NOT_IN_NAMES!r}, "
            "which need delta.columnMapping.mode = name"
        )


@dataclass(frozen=True, slots=True)
class _Evolution:
    """``widening``: columns may get wider types."""

    widening: bool

    def struct(self, old: Struct, new: Struct, path: tuple[str, ...]) -> Struct:
        old_fields = {field.name.lower(): field for field in old}
        _verify_none_missing(old, new, path)
        return Struct(
            tuple(
                self._field(old_fields[field.name.lower()], field, path)
                if field.name.lower() in old_fields
                else _added(field, (*path, field.name))
                for field in new
            )
        )

    def _field(self, old: Field, new: Field, parents: tuple[str, ...]) -> Field:
        path = (*parents, old.name)
        if old.nullable and not new.nullable:
            raise InvalidOperationError(f"column {'.'.join(path)} cannot become NOT NULL")
        changes: list[dict[str, Any]] = []
        data_type = self._type(old.type, new.type, path, (), changes)
        metadata = dict(old.metadata)
        if changes:
            metadata[TYPE_CHANGES] = [*metadata.get(TYPE_CHANGES, []), *changes]
        widened = old.widened_from if data_type == old.type else (*old.widened_from, old.type)
        if isinstance(data_type, Struct | Array | Map):
            widened = old.widened_from
        return replace(old, type=data_type, nullable=new.nullable, metadata=metadata, widened_from=widened)

    def _type(
        self,
        old: DataType,
        new: DataType,
        path: tuple[str, ...],
        nested_path: tuple[str, ...],
        changes: list[dict[str, Any]],
    ) -> DataType:
        """The type of a column after the change. ``nested_path`` is the path into its arrays and maps."""
        match old, new:
            case Struct(), Struct():
                return self.struct(old, new, (*path, *nested_path))
            case Array(), Array():
                element = self._type(old.element, new.element, path, (*nested_path, "element"), changes)
                return replace(old, element=element, contains_null=old.contains_null or new.contains_null)
            case Map(), Map():
                key = self._type(old.key, new.key, path, (*nested_path, "key"), changes)
                value = self._type(old.value, new.value, path, (*nested_path, "value"), changes)
                nulls = old.value_contains_null or new.value_contains_null
                return replace(old, key=key, value=value, value_contains_null=nulls)
        if old != new:
            self._verify_change(old, new, (*path, *nested_path))
            change = {"fromType": render_type(old), "toType": render_type(new)}
            changes.append(change | ({"fieldPath": ".".join(nested_path)} if nested_path else {}))
        return new

    def _verify_change(self, old: DataType, new: DataType, path: tuple[str, ...]) -> None:
        where = ".".join(path)
        if not is_widening(old, new):
            raise InvalidOperationError(f"column {where} is of type {new}, expected {old} as in the table")
        if not self.widening:
            raise UnsupportedFeatureError(
                f"column {where} is of type {new}, expected {old}: type widening is off "
                "(delta.enableTypeWidening)",
                feature="typeWidening",
            )


def _verify_none_missing(old: Struct, new: Struct, path: tuple[str, ...]) -> None:
    names = {field.name.lower() for field in new}
    for field in old:
        if field.name.lower() not in names:
            raise InvalidOperationError(
                f"column {'.'.join((*path, field.name))} is missing in the new schema, expected every column"
            )


def _added(field: Field, path: tuple[str, ...]) -> Field:
    verify_plain(field, path)
    if not field.nullable:
        raise InvalidOperationError(
            f"new column {'.'.join(path)} is NOT NULL, expected nullable: existing rows have no value for it"
        )
    return field
