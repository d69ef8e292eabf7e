"""Z-order: rows that are near each other in several columns get near positions on one curve.

Each column's values are cut into ranges that hold about as many rows each. The bits of a row's range numbers,
interleaved, are its position on the curve:

    range of a   101
    range of b   011
    position     10 01 11

A sample of the rows gives the bounds of the ranges. All else is native Spark expressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delvec.errors import InvalidOperationError
from delvec.row_delta import WriteRules
from delvec.schema import DataType, Decimal, Field, Primitive, Schema, Struct, is_string
from delvec.spark.transforms import micros
from delvec.spark.types import quoted

RANGE_BITS = 10
_POSITION_BITS = 62
_SAMPLE_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class CurveColumn:
    """A column of the curve: an expression whose order is that of the column, of a type that is easy to
    compare (BIGINT, DOUBLE or STRING).
    """

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class Curve:
    """``bounds``: for each column the lower bounds of its ranges but the first, ascending."""

    columns: tuple[CurveColumn, ...]
    bounds: tuple[tuple[int | float | str, ...], ...]

    @classmethod
    def of(cls, frame: DataFrame, columns: Sequence[CurveColumn], *, rows: int | None) -> Curve:
        """The curve for the rows of ``frame``, whose approximate number is ``rows``."""
        keys = frame.selectExpr(*(f"{column.key} AS k{at}" for at, column in enumerate(columns)))
        if rows is None or rows > _SAMPLE_ROWS:
            share = 0.01 if rows is None else _SAMPLE_ROWS / rows
            keys = keys.sample(fraction=share, seed=17)
        sample = keys.limit(4 * _SAMPLE_ROWS).toArrow()
        ranges = 1 << _bits(len(columns))
        return cls(tuple(columns), tuple(_bounds(column, ranges) for column in sample.columns))

    def positions(self, frame: DataFrame, name: str) -> DataFrame:
        """The frame with each row's position on the curve, in a new column ``name``."""
        count, bits = len(self.columns), _bits(len(self.columns))
        numbers = [f"{name}{at}" for at in range(count)]
        pairs = zip(self.columns, self.bounds, strict=True)
        ranged = frame.select(
            "*",
            *(_range_number(*pair, bits).alias(number) for pair, number in zip(pairs, numbers, strict=True)),
        )
        terms = [
            f"shiftleft(CAST(shiftright({number}, {bit}) & 1 AS BIGINT), {bit * count + count - 1 - at})"
            for at, number in enumerate(numbers)
            for bit in range(bits)
        ]
        return ranged.withColumn(name, F.expr(" | ".join(terms))).drop(*numbers)


def curve_columns(
    rules: WriteRules, names: Sequence[str], *, case_sensitive: bool
) -> tuple[CurveColumn, ...]:
    """The columns of a curve. Refuses a column that is unknown, named twice, a partition column or without
    statistics: a scan could not skip files by it.
    """
    columns: list[CurveColumn] = []
    for name in names:
        path = _resolved(rules.schema, name, case_sensitive=case_sensitive)
        if path[0].name in rules.spec.identity_columns:
            raise InvalidOperationError(
                f"zorder_by names partition column {name!r}, expected others: a file has one value of it"
            )
        if tuple(field.physical_name for field in path) not in {column.path for column in rules.measured}:
            raise InvalidOperationError(
                f"zorder_by names column {name!r}, expected one that has statistics: no file could be skipped"
            )
        names_in_table = [field.name for field in path]
        key = _key(".".join(map(quoted, names_in_table)), path[-1].type, name)
        column = CurveColumn(".".join(names_in_table), key)
        if column in columns:
            raise InvalidOperationError(f"zorder_by names column {name!r} twice, expected once")
        columns.append(column)
    if len(columns) > _POSITION_BITS:
        raise InvalidOperationError(
            f"zorder_by names {len(columns)} columns, expected at most {_POSITION_BITS}"
        )
    return tuple(columns)


def _bits(columns: int) -> int:
    return min(RANGE_BITS, _POSITION_BITS // columns)


def _resolved(schema: Schema, name: str, *, case_sensitive: bool) -> tuple[Field, ...]:
    """The column, after the structs that it is in; a name with dots may be a field of a struct."""
    fields = schema.find(name, case_sensitive=case_sensitive)
    if len(fields) == 1:
        return (fields[0],)
    first, dot, rest = name.partition(".")
    outer = schema.find(first, case_sensitive=case_sensitive)
    if dot and len(outer) == 1 and isinstance(outer[0].type, Struct):
        return (outer[0], *_resolved(outer[0].type, rest, case_sensitive=case_sensitive))
    names = ", ".join(field.name for field in schema)
    raise InvalidOperationError(f"unknown column {name!r} in zorder_by, expected some of {names}")


def _key(column: str, data_type: DataType, name: str) -> str:
    match data_type:
        case Primitive("byte" | "short" | "integer" | "long" | "boolean"):
            return f"CAST({column} AS BIGINT)"
        case Primitive("date"):
            return f"CAST(unix_date({column}) AS BIGINT)"
        case Primitive("timestamp" | "timestamp_ntz"):
            return micros(column, data_type)
        case Decimal() | Primitive("float" | "double"):
            return f"CAST({column} AS DOUBLE)"
        case Primitive("binary"):
            return f"hex({column})"
        case _ if is_string(data_type):
            return f"CAST({column} AS STRING)"
    raise InvalidOperationError(
        f"zorder_by names column {name!r} of type {data_type}, expected a type whose values have an order"
    )


def _bounds(sample: pa.ChunkedArray, ranges: int) -> tuple[int | float | str, ...]:
    """The lower bounds of ranges that hold about as many values of the sample each."""
    values = sample.drop_null()
    if not len(values):
        return ()
    # Nulls have a range of their own, so there is one range less.
    places = np.unique(np.arange(1, ranges - 1) * len(values) // (ranges - 1))
    ordered = values.take(pc.array_sort_indices(values))
    bounds: list[int | float | str] = ordered.take(pa.array(places)).unique().to_pylist()
    return tuple(bounds)


def _range_number(column: CurveColumn, bounds: Sequence[int | float | str], bits: int) -> Column:
    """The number of the range that a row's value is in; 0 for null.

    A binary search: for 512, 256, …, 1, go so many bounds further if the bound there is not larger.
    """
    key = F.expr(column.key)
    if not bounds:
        return F.when(key.isNull(), 0).otherwise(1)
    array = F.array(*map(F.lit, bounds))
    steps = F.array(*(F.lit(1 << bit) for bit in reversed(range(bits))))

    def further(found: Column, step: Column) -> Column:
        reached = found + step
        passes = (reached <= len(bounds)) & (F.get(array, reached - 1) <= key)
        return F.when(passes, reached).otherwise(found)

    return F.when(key.isNull(), 0).otherwise(F.aggregate(steps, F.lit(0), further) + 1)
