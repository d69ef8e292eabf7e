"""Partition transforms as Spark SQL: native expressions whose result no session setting changes.

Buckets of strings, bytes and decimals need columns ahead of them (`delvec.spark.byte_buckets`).

Timestamps with a zone are counted in UTC, timestamps without a zone as they are. Numbers before 1970 are
rounded down, as Iceberg's specification requires.
"""

from __future__ import annotations

from delvec.errors import UnsupportedFeatureError
from delvec.partition_spec import PartitionField
from delvec.schema import DataType, Decimal, Primitive, is_string
from delvec.spark.byte_buckets import HASHES_TO_ZERO, unscaled_value
from delvec.spark.types import quoted, type_text
from delvec.transforms import IDENTITY

_HOUR = 3_600_000_000
_DAY = 24 * _HOUR


def source_column(field: PartitionField) -> str:
    """The expression for the source column of a partition field."""
    return ".".join(quoted(part) for part in field.source)


def partition_value(field: PartitionField, source: DataType) -> str:
    """The expression for the partition value of a row, whose column ``field.source`` is of type ``source``.

    A transform that Spark has no native expression for is refused by name (UnsupportedFeatureError).
    """
    column = source_column(field)
    if field.transform == IDENTITY:
        return column
    expression = _expression(field, column, source)
    if expression is None:
        raise UnsupportedFeatureError(
            f"rows cannot be partitioned by {field.transform} of column {'.'.join(field.source)}, "
            f"which is of type {source}",
            feature=f"partition transform {field.transform}",
        )
    return expression


def micros(column: str, source: DataType) -> str:
    """The microseconds since 1970-01-01 00:00, as BIGINT: in UTC if the timestamp has a zone."""
    if source == Primitive("timestamp"):
        return f"unix_micros({column})"
    days = f"CAST(unix_date(CAST({column} AS DATE)) AS BIGINT)"
    minutes = f"(hour({column}) * 60 + minute({column}))"
    seconds = f"CAST(extract(SECOND FROM {column}) * 1000000 AS BIGINT)"
    return f"({days} * {_DAY} + {minutes} * 60000000L + {seconds})"


def _expression(field: PartitionField, column: str, source: DataType) -> str | None:
    match field.transform.name, source:
        case "void", _:
            return f"CAST(NULL AS {type_text(field.type)})"
        case "bucket", _:
            return _bucket(column, source, field.transform.width or 0)
        case "truncate", _:
            return _truncate(column, source, field.transform.width or 0)
        case "hour", Primitive("timestamp" | "timestamp_ntz"):
            return f"CAST({_floor_divided(micros(column, source), _HOUR)} AS INT)"
        case "day" | "month" | "year", Primitive("date" | "timestamp" | "timestamp_ntz"):
            return _calendar_unit(field.transform.name, _utc_date(column, source))
    return None


def _bucket(column: str, source: DataType, width: int) -> str | None:
    match source:
        case Primitive("byte" | "short" | "integer" | "long"):
            number = f"CAST({column} AS BIGINT)"
        case Primitive("date"):
            number = f"CAST(unix_date({column}) AS BIGINT)"
        case Primitive("timestamp" | "timestamp_ntz"):
            number = micros(column, source)
        case _:
            return None
    bucket = f"pmod(hash({HASHES_TO_ZERO}, {number}) & 2147483647, {width})"
    return f"CASE WHEN {column} IS NOT NULL THEN {bucket} END"


def _truncate(column: str, source: DataType, width: int) -> str | None:
    match source:
        case Primitive("byte" | "short" | "integer" | "long"):
            # Decimals do not overflow here. A result that does not fit the type is an error, never null.
            number = f"CAST({column} AS DECIMAL(20,0))"
            return _fitting(f"{number} - pmod({number}, CAST({width} AS DECIMAL(20,0)))", column, source)
        case Decimal(precision, scale) if precision < 38 or scale < 7:
            step = f"CAST('{width}E-{scale}' AS DECIMAL(38,{scale}))"
            return _fitting(f"{column} - pmod({column}, {step})", column, source)
        case Decimal(_, scale):  # Spark would round the difference
            unscaled = unscaled_value(column, source)
            digits = f"CAST({unscaled} - pmod({unscaled}, CAST({width} AS DECIMAL(38,0))) AS STRING)"
            return _fitting(f"concat({digits}, 'E-{scale}')", column, source)
        case _ if is_string(source) or source == Primitive("binary"):
            return f"substring({column}, 1, {width})"
    return None


def _fitting(number: str, column: str, source: DataType) -> str:
    """The number in the column's type. One that does not fit is an error, also in a session without ANSI
    mode.
    """
    result = f"TRY_CAST({number} AS {type_text(source)})"
    failure = (
        f"CAST(raise_error('a truncated partition value is too small for {source}') AS {type_text(source)})"
    )
    return f"CASE WHEN {column} IS NOT NULL THEN coalesce({result}, {failure}) END"


def _utc_date(column: str, source: DataType) -> str:
    if source == Primitive("timestamp"):
        return f"date_from_unix_date(CAST({_floor_divided(micros(column, source), _DAY)} AS INT))"
    return f"CAST({column} AS DATE)"


def _calendar_unit(unit: str, date: str) -> str:
    if unit == "day":
        return date
    if unit == "month":
        return f"((year({date}) - 1970) * 12 + month({date}) - 1)"
    return f"(year({date}) - 1970)"


def _floor_divided(number: str, divisor: int) -> str:
    """The quotient, rounded down. Spark's DIV rounds towards zero."""
    return f"({number} DIV {divisor}L - CASE WHEN {number} % {divisor}L < 0 THEN 1 ELSE 0 END)"
