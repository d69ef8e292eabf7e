"""SET and VALUES clauses: the expressions for each column, checked against the table's columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from delvec.errors import InvalidOperationError
from delvec.schema import Field, Schema, Struct
from delvec.spark.conditions import expression, verify_expressions
from delvec.spark.store_assignment import assigned
from delvec.spark.types import spark_type

Assignments = Mapping[str, "str | Column"]
# A part of a dotted name, with or without backquotes.
_PART = re.compile(r"(`(?:[^`]|``)*`)(?:\.|$)|([^.]+)")


class Value(NamedTuple):
    """An expression for a column, or for the field at ``path`` inside it, and the type of the expression."""

    path: tuple[str, ...]
    column: Column
    type: DataType


Targets = dict[str, list[Value]]


def verified(assignments: object, what: str) -> dict[str, str | Column]:
    """The names and expressions, after a check of their types. ``what`` names the clause in errors."""
    if not isinstance(assignments, Mapping):
        raise InvalidOperationError(
            f"{what} is {type(assignments).__name__}, expected a dict of column and expression"
        )
    for name, value in assignments.items():
        if not isinstance(name, str):
            raise InvalidOperationError(f"a column in {what} is {name!r}, expected its name")
        if not isinstance(value, str | Column):
            raise InvalidOperationError(
                f"{what} of {name} is {value!r}, expected a Spark SQL string or a Column"
            )
    return dict(assignments)


def resolve(
    assignments: Assignments, schema: Schema, frame: DataFrame, what: str, *, case_sensitive: bool
) -> Targets:
    """The expressions for each top-level column.

    The expressions are computed from rows of ``frame``. ``what`` names the clause in errors.
    """
    verified(assignments, what)
    if not assignments:
        raise InvalidOperationError(f"{what} is empty, expected at least one column")
    paths = assigned_paths(assignments, schema, what, case_sensitive=case_sensitive)
    verify_expressions(frame, {f"{what} of {name}:": value for name, value in assignments.items()})
    columns = [expression(value) for value in assignments.values()]
    targets: Targets = {}
    for (name, *path), column, field in zip(paths, columns, frame.select(*columns).schema, strict=True):
        targets.setdefault(name, []).append(Value(tuple(path), column, field.dataType))
    return targets


def assigned_paths(
    assignments: Assignments, schema: Schema, what: str, *, case_sensitive: bool
) -> list[tuple[str, ...]]:
    """The path of each assigned column or field. A column that is assigned twice is refused."""
    paths: list[tuple[str, ...]] = []
    for name in assignments:
        path = _path(name, schema, what, case_sensitive=case_sensitive)
        if any(other[: len(path)] == path[: len(other)] for other in paths):
            raise InvalidOperationError(f"{what} sets column {name} twice")
        paths.append(path)
    return paths


def new_column(field: Field, targets: Targets, old: Column | None) -> Column:
    """The new value: the assigned one, converted to the field's type, or else ``old``, or else null."""
    column = F.lit(None).cast(spark_type(field.type)) if old is None else old
    for path, value, data_type in targets.get(field.name, []):
        inner = _inside(field, path)
        typed = assigned(value, data_type, spark_type(inner.type), ".".join((field.name, *path)))
        column = _with(column, field, path, typed)
    return column


def _with(column: Column, field: Field, path: tuple[str, ...], value: Column) -> Column:
    """The column with ``value`` at ``path`` inside it. If a struct on the path is null, its other fields get
    null.
    """
    if not path:
        return value
    assert isinstance(field.type, Struct)
    parts = [
        _with(column[inner.name], inner, path[1:], value) if inner.name == path[0] else column[inner.name]
        for inner in field.type
    ]
    names = [inner.name for inner in field.type]
    return F.struct(*(part.alias(name) for part, name in zip(parts, names, strict=True)))


def _path(name: str, schema: Schema, what: str, *, case_sensitive: bool) -> tuple[str, ...]:
    """The path of the column, or of the field inside it, in the schema's spelling."""
    columns = schema.find(name, case_sensitive=case_sensitive)
    if len(columns) == 1:
        return (columns[0].name,)
    struct, names = schema, []
    for part in name_parts(name) or [name]:
        fields = struct.find(part, case_sensitive=case_sensitive)
        if len(fields) != 1:
            field_names = ", ".join(field.name for field in struct)
            problem = "ambiguous" if fields else "unknown"
            raise InvalidOperationError(f"{problem} column {name!r} in {what}, expected one of {field_names}")
        names.append(fields[0].name)
        struct = fields[0].type if isinstance(fields[0].type, Struct) else Struct(())
    return tuple(names)


def name_parts(name: str) -> list[str]:
    """The parts of a dotted name. A part may be in backquotes, inside which a backquote is doubled."""
    parts = _PART.findall(name)
    return [quoted[1:-1].replace("``", "`") or plain for quoted, plain in parts]


def _inside(field: Field, path: tuple[str, ...]) -> Field:
    for name in path:
        assert isinstance(field.type, Struct)
        field = next(inner for inner in field.type if inner.name == name)
    return field
