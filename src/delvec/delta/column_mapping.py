"""Column mapping for writers: ids and physical names for columns that have none."""

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
    """A physical name that no column of any version has."""
    return f"col-{uuid.uuid4()}"


def own_name(field: Field) -> str:
    """The name that files of a table without column mapping already have."""
    return field.name


def highest_id(schema: Schema) -> int:
    return max((field.metadata.get(FIELD_ID, 0) for _, field in fields_of(schema)), default=0)


def assigned(schema: Schema, last_id: int, name: PhysicalName = new_name) -> tuple[Schema, int]:
    """The schema in which every field has an id and a physical name, and the highest id in use.

    What a field has it keeps. New ids are above ``last_id``, a parent's before its children's.
    """
    numbering = _Numbering(max(last_id, highest_id(schema)), name)
    fields = tuple(numbering.field(field) for field in schema)
    return Struct(fields), numbering.last


class _Numbering:
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
            case Array(element, contains_null):
                return Array(self._type(element), contains_null)
            case Map(key, value, value_contains_null):
                return Map(self._type(key), self._type(value), value_contains_null)
        return data_type
