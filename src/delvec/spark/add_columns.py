"""ALTER TABLE … ADD COLUMNS: a change of metadata alone. No file is touched: older rows have null there."""

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
    """Add columns after the table's own; those of a struct that is there to it, wherever it is nested.

    A column that is there is refused, as is one that is NOT NULL: older rows have no value for it.
    """
    if not columns.fields:
        raise InvalidOperationError("no columns to add, expected at least one")
    wanted = _extended(target.schema, columns, ())
    after = target.after(MetadataChange(schema=wanted))
    change = MetadataChange(schema=after.rules.schema)
    parameters = {"columns": json.dumps([{"column": _told(field)} for field in columns])}
    delta = RowDelta(target.base, OPERATION, parameters, Read(blind=True), Verb.ALTER, metadata=change)
    return commit(target, delta, Looking(target))


def _extended(held: Struct, new: Struct, path: tuple[str, ...]) -> Struct:
    fields = list(held)
    for field in new:
        place = (*path, field.name)
        known = [index for index, old in enumerate(fields) if old.name.lower() == field.name.lower()]
        if not known:
            fields.append(field)
            continue
        old = fields[known[0]]
        fields[known[0]] = replace(old, type=_inside(old.type, field.type, place))
    return Struct(tuple(fields))


def _inside(held: DataType, new: DataType, path: tuple[str, ...]) -> DataType:
    match held, new:
        case Struct(), Struct():
            return _extended(held, new, path)
        case Array(), Array():
            return replace(held, element=_inside(held.element, new.element, (*path, "element")))
        case Map(), Map():
            return replace(held, value=_inside(held.value, new.value, (*path, "value")))
    raise InvalidOperationError(f"column {'.'.join(path)} already exists in the table as {held}")


def _told(field: Field) -> dict[str, object]:
    return {
        "name": field.name,
        "type": str(field.type),
        "nullable": field.nullable,
        "metadata": comment_of(field) or {},
    }
