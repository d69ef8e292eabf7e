"""Times in a statement, such as after TIMESTAMP AS OF: Spark evaluates the expression."""

from __future__ import annotations

import datetime as dt

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delvec.errors import InvalidOperationError
from delvec.spark.conditions import reason_of
from delvec.statements.cursor import Span
from delvec.statements.error_positions import pointed_at
from delvec.statements.lexer import syntax_error
from delvec.statements.parameters import Parameters

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def instant(spark: SparkSession, expression: Span, parameters: Parameters) -> dt.datetime:
    """The value of an expression that can be cast to a timestamp; without a time zone it is in the
    session's.
    """
    query = f"SELECT unix_micros(CAST(({parameters.text(expression)}) AS TIMESTAMP_LTZ))"
    try:
        with pointed_at(spark, expression):
            micros = spark.sql(query).collect()[0][0]
    except PySparkException as error:
        raise InvalidOperationError(f"timestamp {expression.text} is invalid: {reason_of(error)}") from None
    if micros is None:
        problem = f"timestamp {expression.text} is null, expected a time"
        raise syntax_error(expression.source, expression.start, problem)
    return _EPOCH + dt.timedelta(microseconds=micros)
