"""Field ids of new columns, in the order in which Iceberg's own library assigns them.

The fields of a struct get their ids before anything inside of them; a list's element, and a map's key and
value, before what is inside of those. Columns that are added to a table get theirs one after the other.
"""

from __future__ import annotations

from dataclasses import replace

from delvec.iceberg.schema import field_ids
from delvec.schema import Array, DataType, Field, Map, Schema, Struct


def fresh_ids(schema: Schema) -> tuple[Schema, int]:
    """The schema of a new table, with ids from 1, and the highest of them. Ids that it has do not count."""
    numbering = _Numbering(0)
    return numbering.struct(schema), numbering.last


def with_new_ids(schema: Schema, last_id: int) -> tuple[Schema, int]:
    """The schema with ids above ``last_id`` for all that has none, and the highest id in use."""
    numbering = _Numbering(max(last_id, *field_ids(schema), 0))
    return Struct(tuple(numbering.grown(field) for field in schema)), numbering.last


class _Numbering:
    """``last`` is the highest id assigned so far."""

    def __init__(self, last: int) -> None:
        self.last = last

    def _next(self) -> int:
        self.last += 1
        return self.last

    def struct(self, struct: Struct) -> Struct:
        """The struct with new ids for everything in it."""
        numbered = [replace(field, field_id=self._next()) for field in struct]
        return Struct(tuple(replace(field, type=self._new(field.type)) for field in numbered))

    def _new(self, data_type: DataType) -> DataType:
        match data_type:
            case Struct():
                return self.struct(data_type)
            case Array(element):
                element_id = self._next()
                return replace(data_type, element=self._new(element), element_id=element_id)
            case Map(key, value):
                key_id, value_id = self._next(), self._next()
                return replace(
                    data_type, key=self._new(key), value=self._new(value), key_id=key_id, value_id=value_id
                )
        return data_type

    def grown(self, field: Field) -> Field:
        """The field with ids for what is new in it."""
        if field.field_id is None:
            field_id = self._next()
            return replace(field, field_id=field_id, type=self._new(field.type))
        return replace(field, type=self._grown_type(field.type))

    def _grown_type(self, data_type: DataType) -> DataType:
        match data_type:
            case Struct(fields):
                return Struct(tuple(self.grown(field) for field in fields))
            case Array(element):
                return replace(data_type, element=self._grown_type(element))
            case Map(key, value):
                return replace(data_type, key=self._grown_type(key), value=self._grown_type(value))
        return data_type
