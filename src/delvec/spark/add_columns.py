"""ALTER TABLE … ADD COLUMNS: changes only metadata. Existing rows have null in the new columns."""

from __future__ import annotations

from dataclasses import replace

from delvec.conflicts import Rerun
from delvec.errors import InvalidOperationError
from delvec.row_delta import MetadataChange, Operation, Read, Request, RowDelta, Verb
from delvec.schema import Array, DataType, Map, Schema, Struct
from delvec.spark.commit_and_rerun import StatementProbe, commit
from delvec.spark.target import OperationResult, Target


def add_columns(target: Target, columns: Schema) -> OperationResult | Rerun:
    """Add columns at the end. New fields of an existing struct are added to it, at any depth.

    Refuses a column that exists, and a column that is NOT NULL: existing rows have no value for it.
    """
    if not columns.fields:
        raise InvalidOperationError("no columns to add, expected at least one")
    new_schema = _extended(target.schema, columns, ())
    change = target.after(MetadataChange(schema=new_schema)).rules.change
    request = Request(Operation.ADD_COLUMNS, columns=columns)
    delta = RowDelta(target.base, request, Read(blind=True), Verb.ALTER, metadata=change)
    return commit(target, delta, StatementProbe(target))


def _extended(current: Struct, new: Struct, path: tuple[str, ...]) -> Struct:
    fields = list(current)
    for field in new:
        matches = [index for index, old in enumerate(fields) if old.name.lower() == field.name.lower()]
        if not matches:
            fields.append(field)
            continue
        old = fields[matches[0]]
        fields[matches[0]] = replace(old, type=_extended_type(old.type, field.type, (*path, field.name)))
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
