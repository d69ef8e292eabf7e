"""ALTER TABLE … ADD COLUMNS: changes only metadata. Existing rows have null in the new columns."""

from __future__ import annotations

import json
from dataclasses import replace

from delvec.errors import InvalidOperationError
from delvec.row_delta import MetadataChange, Read, RowDelta, Verb
from delvec.schema import Array, DataType, Field, Map, Schema, Struct
from delvec.spark.commit_and_rerun import Looking, commit
from delvec.spark.target import OperationResult, Target
from delvec.spark.types import comment_of

OPERATION = "ADD COLUMNS"


def add_columns(target: Target, columns: Schema) -> OperationResult:
    """Add columns at the end. New fields of an existing struct are added to it, at any depth.

    Refuses a column that exists, and a column that is NOT NULL: existing rows have no value for it.
    """
    if not columns.fields:
        raise InvalidOperationError("no columns to add, expected at least one")
    wanted = _extended(target.schema, columns, ())
    after = target.after(MetadataChange(schema=wanted))
    change = MetadataChange(schema=after.rules.schema)
    parameters = {"columns": json.dumps([{"column": _described(field)} for field in columns])}
    delta = RowDelta(target.base, OPERATION, parameters, Read(blind=True), Verb.ALTER, metadata=change)
    return commit(target, delta, Looking(target))


def _extended(current: Struct, new: Struct, path: tuple[str, ...]) -> Struct:
    fields = list(current)
    for field in new:
        known = [index for index, old in enumerate(fields) if old.name.lower() == field.name.lower()]
        if not known:
            fields.append(field)
            continue
        old = fields[known[0]]
        fields[known[0]] = replace(old, type=_extended_type(old.type, field.type, (*path, field.name)))
    return Struct(tuple(fields))


def _extended_type(current: DataType, new: DataType, path: tuple[str, ...]) -> DataType:
    match current, new:
        case Struct(), Struct():
            return _extended(current, new, path)
        case Array(), Array():
            element = _extended_type(current.element, new.element, (*path, "element"))
            return replace(current, element=element)
        case Map(), Map():
            return replace(current, value=_extended_type(current.value, new.value, (*path, "value")))
    raise InvalidOperationError(f"column {'.'.join(path)} already exists in the table as {current}")


def _described(field: Field) -> dict[str, object]:
    return {
        "name": field.name,
        "type": str(field.type),
        "nullable": field.nullable,
        "metadata": comment_of(field) or {},
    }
