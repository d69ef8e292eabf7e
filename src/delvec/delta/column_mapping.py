"""Column mapping for writers: gives ids and physical names to columns that have none."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from delvec.delta.schema import FIELD_ID, PHYSICAL_NAME
from delvec.delta.writer_features import fields_of
from delvec.schema import Array, DataType, Field, Map, Schema, Struct

PhysicalName = Callable[[Field], str]


def new_name(_: Field) -> str:
    """A physical name that no column has in any version of the table."""
    return f"col-{uuid.uuid4()}"


def own_name(field: Field) -> str:
    """The column's own name, for tables whose files were written before column mapping was switched on."""
    return field.name


def highest_id(schema: Schema) -> int:
    return max((field.metadata.get(FIELD_ID, 0) for _, field in fields_of(schema)), default=0)


def assigned(schema: Schema, last_id: int, name: PhysicalName = new_name) -> tuple[Schema, int]:
    """The schema with an id and a physical name for every field, and the highest id in use.

    Fields keep the ids and names that they have. New ids are above ``last_id``; a parent gets its id before
    its children.
    """
    numbering = _Numbering(max(last_id, highest_id(schema)), name)
    fields = tuple(numbering.field(field) for field in schema)
    return Struct(fields), numbering.last


class _Numbering:
    """Assigns ids and names, field by field. ``last`` is the highest id assigned so far."""

    def __init__(self, last: int, name: PhysicalName) -> None:
        self.last = last
        self._name = name

    def field(self, field: Field) -> Field:
        metadata: dict[str, Any] = dict(field.metadata)
        if FIELD_ID not in metadata:
            self.last += 1
            metadata[FIELD_ID] = self.last
        if PHYSICAL_NAME not in metadata:
            metadata[PHYSICAL_NAME] = self._name(field)
        return replace(
            field,
            type=self._type(field.type),
            metadata=metadata,
            field_id=metadata[FIELD_ID],
            physical_name=metadata[PHYSICAL_NAME],
        )

    def _type(self, data_type: DataType) -> DataType:
        match data_type:
            case Struct(fields):
                return Struct(tuple(self.field(field) for field in fields))
            case Array(element):
                return replace(data_type, element=self._type(element))
            case Map(key, value):
                return replace(data_type, key=self._type(key), value=self._type(value))
        return data_type
