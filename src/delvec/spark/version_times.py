"""The version or the timestamp that a user gives to choose a version."""

from __future__ import annotations

import datetime as dt
from numbers import Integral

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from delvec.errors import InvalidOperationError

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def version_number(version: object) -> int | None:
    """The version as a Python number; numpy's integers are accepted too."""
    if version is None:
        return None
    if isinstance(version, bool) or not isinstance(version, Integral):
        raise InvalidOperationError(f"version is {version!r}, expected a whole number")
    return int(version)


def instant_of(spark: SparkSession, timestamp: dt.datetime | str) -> dt.datetime:
    """The timestamp, with its time zone.

    A datetime without a zone is in Python's local time, like those that ``collect`` returns; a text without
    a zone is in the session's time zone, as in ``TIMESTAMP AS OF``.
    """
    if isinstance(timestamp, str):
        return _from_text(spark, timestamp)
    if not isinstance(timestamp, dt.datetime):
        raise InvalidOperationError(f"timestamp is {timestamp!r}, expected a datetime or text")
    # The ``astimezone`` of a pandas Timestamp does not know the local time zone.
    plain: dt.datetime = (
        timestamp.to_pydatetime(warn=False) if hasattr(timestamp, "to_pydatetime") else timestamp
    )
    return plain if plain.tzinfo is not None else plain.astimezone()


def bound(
    spark: SparkSession, side: str, version: object, timestamp: dt.datetime | str | None
) -> int | dt.datetime | None:
    """The version or the time at which a range starts or ends; None if neither is given."""
    if version is not None and timestamp is not None:
        raise InvalidOperationError(
            f"both {side}_version {version} and {side}_timestamp {timestamp} are given, expected one of them"
        )
    return version_number(version) if timestamp is None else instant_of(spark, timestamp)


def _from_text(spark: SparkSession, text: str) -> dt.datetime:
    try:
        parsed = dt.datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        if parsed.tzinfo is not None:
            return parsed
    # Not a query with a parameter: the SQL parser of Iceberg-Spark's session extension does not bind it.
    instant = F.lit(text).try_cast(TimestampType())
    micros = spark.range(1).select(F.unix_micros(instant)).collect()[0][0]
    if micros is None:
        raise InvalidOperationError(
            f"timestamp is {text!r}, expected ISO 8601 such as 2025-01-31 12:00:00 or 2025-01-31T12:00:00Z"
        )
    return _EPOCH + dt.timedelta(microseconds=micros)
