"""Runs ``table_changes``: evaluates its bounds, and returns the changes of the table between them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from delvec.errors import InvalidOperationError
from delvec.spark.conditions import reason_of
from delvec.statements.cursor import Cursor, Span
from delvec.statements.error_positions import pointed_at
from delvec.statements.lexer import Kind
from delvec.statements.parameters import Parameters
from delvec.statements.table_changes import TableChanges
from delvec.statements.time_values import instant
from delvec.table import Table

_TIMES = (TimestampType, TimestampNTZType, DateType)


def rows(spark: SparkSession, table: Table, changes: TableChanges, parameters: Parameters) -> DataFrame:
    """The changes of the table between the bounds."""
    bounds = [] if changes.arguments is None else _bounds(changes.arguments)
    if len(bounds) not in (1, 2):
        raise InvalidOperationError(
            f"{changes.name} has {len(bounds)} bounds, expected a start, and an end if there is one"
        )
    values = [_value(spark, bound, parameters) for bound in bounds]
    arguments: dict[str, Any] = {}
    for side, value in zip(("from", "to"), values, strict=False):
        arguments[f"{side}_version" if isinstance(value, int) else f"{side}_timestamp"] = value
    return table.changes(**arguments)


def _bounds(arguments: Span) -> list[Span]:
    cursor = Cursor.over(arguments)
    bounds = cursor.list_of(lambda: cursor.until(comma=True, expected="a version or a timestamp"))
    cursor.expect_end()
    return bounds


def _value(spark: SparkSession, bound: Span, parameters: Parameters) -> int | str | dt.datetime:
    """The value of a bound. Spark evaluates anything but a number or a marker."""
    token = bound.tokens[0]
    if len(bound.tokens) == 1 and token.kind is Kind.MARKER:
        value = parameters.value(token)
    elif len(bound.tokens) == 1 and token.text.isdecimal():
        value = int(token.text)
    else:
        try:
            with pointed_at(spark, bound):
                frame = spark.sql(f"SELECT {parameters.text(bound)}")
                is_time = isinstance(frame.schema[0].dataType, _TIMES)
                value = instant(spark, bound, parameters) if is_time else frame.collect()[0][0]
        except PySparkException as error:
            raise InvalidOperationError(f"{bound.text} is not a constant: {reason_of(error)}") from None
    if isinstance(value, bool) or not isinstance(value, int | str | dt.datetime):
        raise InvalidOperationError(
            f"{bound.text} is {value!r}, expected a version (a whole number) or a time (a string or a "
            "timestamp or date)"
        )
    return value
