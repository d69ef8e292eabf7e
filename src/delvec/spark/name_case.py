"""Columns whose names differ only in the case of letters. Spark ignores the case unless a setting says so."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import SparkSession

from delvec.errors import InvalidOperationError
from delvec.predicate.settings import CASE_SENSITIVE
from delvec.schema import Array, DataType, Map, Schema, Struct
from delvec.spark.session import sql_settings


def verify_case(spark: SparkSession, schema: Schema, location: str) -> None:
    """Refuse columns that Spark cannot tell apart under the session's settings."""
    pair = next(_alike(schema), None)
    if pair is not None and not sql_settings(spark).case_sensitive:
        first, second = pair
        raise InvalidOperationError(
            f"columns {first!r} and {second!r} differ only in case, which {CASE_SENSITIVE} = false ignores, "
            f"expected {CASE_SENSITIVE} = true: {location}"
        )


def _alike(data_type: DataType, path: str = "") -> Iterator[tuple[str, str]]:
    """Pairs of fields of one struct whose names are alike, by their paths."""
    match data_type:
        case Struct(fields):
            known: dict[str, str] = {}
            for field in fields:
                other = known.setdefault(field.name.lower(), field.name)
                if other != field.name:
                    yield path + other, path + field.name
                yield from _alike(field.type, f"{path}{field.name}.")
        case Array(element):
            yield from _alike(element, f"{path}element.")
        case Map(key, value):
            yield from _alike(key, f"{path}key.")
            yield from _alike(value, f"{path}value.")
