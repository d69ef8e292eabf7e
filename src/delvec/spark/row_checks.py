"""Checks of written rows: NOT NULL, constraints, lengths. A row that violates one makes the job fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NullType

from delvec.row_delta import Constraint, WriteRules
from delvec.schema import Schema, Struct, has_length
from delvec.spark.text_lengths import are_strings, fits
from delvec.spark.types import quoted

# Marks the beginning and the end of delvec's message inside the error text of a failed Spark job.
VIOLATION = "\u2063delvec\u2063"


def checked(frame: DataFrame, rules: WriteRules) -> DataFrame:
    """The frame with checks: a job that computes it fails if a row violates a rule of the table."""
    conditions = list(_conditions(rules))
    if has_length(rules.schema) and not are_strings(frame.sparkSession):
        conditions += _lengths(rules.schema)
    return _guarded(frame, conditions)


def kept_to(frame: DataFrame, condition: str | Column, message: str) -> DataFrame:
    """The frame with a check: a job that computes it fails if the condition is not true for a row."""
    is_satisfied = F.expr(condition) if isinstance(condition, str) else condition
    return _guarded(frame, [(F.coalesce(is_satisfied, F.lit(False)), message)])  # noqa: FBT003


def violation(message: str) -> str:
    """The message, marked so that it can be found in the error of a Spark job."""
    return f"{VIOLATION}{message}{VIOLATION}"


def _conditions(rules: WriteRules) -> Iterator[tuple[Column, str]]:
    for present, name in _not_null(rules.schema, ()):
        yield present, f"null in NOT NULL column {name}"
    for name, text in rules.generated.items():
        is_equal = F.col(quoted(name)).eqNullSafe(F.expr(text))
        yield is_equal, f"value of generated column {name} differs from its expression {text}"
    for constraint in rules.constraints:
        yield _holds(constraint), f"constraint {constraint.name} ({constraint.condition}) is violated"


def _lengths(schema: Schema) -> Iterator[tuple[Column, str]]:
    for field in schema:
        if has_length(field.type):
            message = f"value is too long for column {field.name} of type {field.type}"
            yield fits(F.col(quoted(field.name)), field.type), message


def _holds(constraint: Constraint) -> Column:
    return F.coalesce(F.expr(constraint.condition), F.lit(constraint.null_holds))


def _not_null(schema: Schema, path: tuple[str, ...]) -> Iterator[tuple[Column, str]]:
    """A condition for each NOT NULL column and field. A field of a null struct does not violate it."""
    for field in schema:
        field_path = (*path, field.name)
        if not field.nullable:
            present = _column(field_path).isNotNull()
            yield (_column(path).isNull() | present if path else present), ".".join(field_path)
        if isinstance(field.type, Struct):
            yield from _not_null(field.type, field_path)


def _column(path: tuple[str, ...]) -> Column:
    return F.col(".".join(quoted(name) for name in path))


def _guarded(frame: DataFrame, conditions: Sequence[tuple[Column, str]]) -> DataFrame:
    """The frame with one of its columns replaced by an expression that raises an error if a condition is
    violated.

    A filter would be wrong here: Spark moves filters below joins, where they see rows that the frame does not
    have.
    """
    if not conditions:
        return frame
    error = F.coalesce(*(F.when(~condition, F.lit(violation(message))) for condition, message in conditions))
    fields = frame.schema.fields
    guard = next((field for field in fields if not isinstance(field.dataType, NullType)), fields[0])
    value = F.when(error.isNull(), F.col(quoted(guard.name)))
    return frame.withColumn(guard.name, value.otherwise(F.raise_error(error).cast(guard.dataType)))
