"""SET and VALUES: which columns get which expressions, checked against the table's columns."""

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
# A part of a dotted name: in backquotes or without.
_PART = re.compile(r"(`(?:[^`]|``)*`)(?:\.|$)|([^.]+)")


class Value(NamedTuple):
    """An expression for a column or, with a path, for a field inside it; and the type that it has."""

    path: tuple[str, ...]
    column: Column
    type: DataType


Targets = dict[str, list[Value]]


def verified(given: object, what: str) -> dict[str, str | Column]:
    """The names and expressions; ``what`` names them in errors."""
    if not isinstance(given, Mapping):
        raise InvalidOperationError(
            f"{what} is {type(given).__name__}, expected a dict of column and expression"
        )
    for name, value in given.items():
        if not isinstance(name, str):
            raise InvalidOperationError(f"a column in {what} is {name!r}, expected its name")
        if not isinstance(value, str | Column):
            raise InvalidOperationError(
                f"{what} of {name} is {value!r}, expected a Spark SQL string or a Column"
            )
    return dict(given)


def resolve(
    given: Assignments, schema: Schema, frame: DataFrame, what: str, *, case_sensitive: bool
) -> Targets:
    """The expressions for each top-level column.

    ``frame`` is what the expressions are computed from; ``what`` names the clause in errors.
    """
    verified(given, what)
    if not given:
        raise InvalidOperationError(f"{what} is empty, expected at least one column")
    paths = assigned_paths(given, schema, what, case_sensitive=case_sensitive)
    verify_expressions(frame, {f"{what} of {name}:": value for name, value in given.items()})
    columns = [expression(value) for value in given.values()]
    found: Targets = {}
    for (name, *path), column, held in zip(paths, columns, frame.select(*columns).schema, strict=True):
        found.setdefault(name, []).append(Value(tuple(path), column, held.dataType))
    return found


def assigned_paths(
    given: Assignments, schema: Schema, what: str, *, case_sensitive: bool
) -> list[tuple[str, ...]]:
    """The names of the columns and of the fields in them; none may be given twice."""
    found: list[tuple[str, ...]] = []
    for name in given:
        path = _path(name, schema, what, case_sensitive=case_sensitive)
        if any(other[: len(path)] == path[: len(other)] for other in found):
            raise InvalidOperationError(f"{what} sets column {name} twice")
        found.append(path)
    return found


def new_column(field: Field, targets: Targets, old: Column | None) -> Column:
    """The field's new value: what is assigned, brought to its type, or ``old`` (null where there is none)."""
    wanted = spark_type(field.type)
    column = F.lit(None).cast(wanted) if old is None else old
    for path, value, held in targets.get(field.name, []):
        inner = _inside(field, path)
        typed = assigned(value, held, spark_type(inner.type), ".".join((field.name, *path)))
        column = _with(column, field, path, typed)
    return column


def _with(column: Column, field: Field, path: tuple[str, ...], value: Column) -> Column:
    """The column with another value at ``path`` inside it; where a struct is null, its other fields are."""
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
    """The names of the field, in the schema's spelling: a column's, or with dots that of a field inside."""
    whole = schema.find(name, case_sensitive=case_sensitive)
    if len(whole) == 1:
        return (whole[0].name,)
    inside, names = schema, []
    for part in name_parts(name) or [name]:
        fields = inside.find(part, case_sensitive=case_sensitive)
        if len(fields) != 1:
            known = ", ".join(field.name for field in inside)
            problem = "ambiguous" if fields else "unknown"
            raise InvalidOperationError(f"{problem} column {name!r} in {what}, expected one of {known}")
        names.append(fields[0].name)
        inside = fields[0].type if isinstance(fields[0].type, Struct) else Struct(())
    return tuple(names)


def name_parts(name: str) -> list[str]:
    """A dotted name, in which backquotes may enclose a part; two of them stand for one inside."""
    found = _PART.findall(name)
    return [quoted[1:-1].replace("``", "`") or plain for quoted, plain in found]


def _inside(field: Field, path: tuple[str, ...]) -> Field:
    for name in path:
        assert isinstance(field.type, Struct)
        field = next(inner for inner in field.type if inner.name == name)
    return field
