"""Constants of a statement that are needed before it runs: strings, properties, partition values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType

from delvec.errors import InvalidOperationError
from delvec.spark.conditions import reason_of
from delvec.statements.cursor import Name, Span
from delvec.statements.error_positions import pointed_at
from delvec.statements.lexer import Kind, Token
from delvec.statements.parameters import Parameters
from delvec.statements.statement import Property


def text_of(spark: SparkSession, token: Token) -> str:
    """The value of a string token. Spark evaluates strings with escapes, because their meaning depends on
    settings.
    """
    inner = token.text[1:-1]
    if token.text[0] in "'\"" and "\\" not in inner and token.text[0] not in inner and "$" not in inner:
        return inner
    frame = spark.sql(f"SELECT {token.text}")
    if not isinstance(frame.schema[0].dataType, StringType):
        raise InvalidOperationError(f"found {token.text}, expected a quoted string")
    return str(frame.collect()[0][0])


def properties(
    spark: SparkSession, entries: Sequence[Property], parameters: Parameters
) -> dict[str, str | None]:
    """The properties by name; None for one without a value."""
    values: dict[str, str | None] = {}
    for each in entries:
        key = ".".join(each.key.parts) if isinstance(each.key, Name) else text_of(spark, each.key)
        if key in values:
            raise InvalidOperationError(f"property {key} appears twice")
        values[key] = None if each.value is None else _property_value(spark, each.value, parameters)
    return values


def _property_value(spark: SparkSession, value: Span, parameters: Parameters) -> str:
    token = value.tokens[-1]
    if token.kind is Kind.STRING:
        return text_of(spark, token)
    if token.kind is Kind.MARKER:
        argument = parameters.value(token)
        return str(argument).lower() if isinstance(argument, bool) else str(argument)
    return value.text.lower()


def constant(spark: SparkSession, value: Span, parameters: Parameters, type_text: str, what: str) -> Any:
    """The value of a constant expression, in the column's type."""
    try:
        with pointed_at(spark, value):
            return spark.sql(f"SELECT CAST(({parameters.text(value)}) AS {type_text})").collect()[0][0]
    except PySparkException as error:
        raise InvalidOperationError(
            f"{what} is {value.text}, expected a constant: {reason_of(error)}"
        ) from None
