"""What the partition value of a file, or the range of those of a manifest, says about the source column.

    transform               source values with a partition value from ``low`` to ``high``
    identity                from ``low`` to ``high``
    year, month, day, hour  from the start of the unit ``low`` to the end of the unit ``high``
    truncate[W] of numbers  from ``low`` to ``high`` + W - 1
    truncate[W] of texts    from ``low`` to all texts that start with ``high``; ``high`` itself if it is
                            shorter than W
    bucket[N]               values with this hash, where ``low`` equals ``high``
    void, unknown           nothing

A partition value is null exactly if the source value is null, except for void and unknown transforms.

Iceberg 0.10 and earlier rounded times before 1970 towards 1970, so that a unit up to 0 may hold values of the
unit before. Their ranges begin one unit earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal as Number
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.file_facts import HashedColumn
from delvec.iceberg.bucket_hash import bucket
from delvec.partition_spec import PartitionField
from delvec.schema import DataType, Decimal, Primitive, arrow_type
from delvec.transforms import IDENTITY, VOID

_MICROS_A_DAY, _MICROS_AN_HOUR = 86_400_000_000, 3_600_000_000
_DAYS_IN_MICROS = 100_000_000  # beyond the years that microseconds in 64 bits reach
_INT_MAX = {pa.int8(): 2**7 - 1, pa.int16(): 2**15 - 1, pa.int32(): 2**31 - 1, pa.int64(): 2**63 - 1}

Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Bounds of the source column, of its Arrow type, null where nothing is known.

    exact             where ``low`` equals ``high``, this is the value of every row
    upper_is_prefix   values that start with the upper bound are inside too; None: nowhere
    """

    lower: pa.Array
    upper: pa.Array
    exact: pa.Array
    upper_is_prefix: pa.Array | None = None
    hashed: HashedColumn | None = None


def says_something(field: PartitionField) -> bool:
    """Whether partition values of the field say anything about its source column."""
    return bool(field.source) and field.transform.is_known and field.transform != VOID


def source_range(field: PartitionField, source: DataType, low: pa.Array, high: pa.Array) -> SourceRange:
    """The range of the source column, of type ``source``, by partition values of the field's type."""
    kind = arrow_type(source)
    count = len(low)
    nothing = SourceRange(pa.nulls(count, kind), pa.nulls(count, kind), _everywhere(count, value=False))
    match field.transform.name, field.transform.width:
        case IDENTITY.name, _:
            return SourceRange(low.cast(kind), high.cast(kind), _everywhere(count, value=True))
        case "bucket", int(width):
            numbers = pc.if_else(pc.equal(low, high), low, pa.scalar(None, low.type))
            hashed = HashedColumn(numbers, partial(bucket, data_type=source, count=width))
            return SourceRange(nothing.lower, nothing.upper, nothing.exact, hashed=hashed)
        case "truncate", int(width):
            return _truncated(source, low, high, width) or nothing
        case ("year" | "month" | "day" | "hour") as unit, _:
            return _times(unit, source, low, high) or nothing
    return nothing


def _truncated(source: DataType, low: pa.Array, high: pa.Array, width: int) -> SourceRange | None:
    kind = arrow_type(source)
    low, high = low.cast(kind), high.cast(kind)
    nowhere = _everywhere(len(low), value=False)
    if kind in _INT_MAX:
        # A value near the least number is rounded down to a wrapped one: the last unit says nothing.
        is_last = pc.greater(high, _INT_MAX[kind] - (width - 1))
        upper = pc.add(pc.if_else(is_last, pa.scalar(None, kind), high), pa.scalar(width - 1, kind))
        lower = pc.if_else(is_last, pa.scalar(None, kind), low)
        return SourceRange(lower, upper, _everywhere(len(low), value=width == 1))
    match source:
        case Decimal(precision, scale):
            step, largest = Number(width - 1).scaleb(-scale), Number((0, (9,) * precision, -scale))
            upper = _mapped(high, lambda value: value + step if -largest <= value + step <= largest else None)
            return SourceRange(low, upper, nowhere)
        case Primitive("string"):
            # Fewer bytes than W are fewer characters, however the writer counted.
            whole = pc.less(pc.binary_length(high), width)
            return SourceRange(low, high, pc.fill_null(whole, False), pc.invert(whole))  # noqa: FBT003
        case Primitive("binary"):
            whole = pc.less(pc.binary_length(high), width)
            upper = pc.if_else(whole, high, _mapped(high, _above))
            return SourceRange(low, upper, pc.fill_null(whole, False))  # noqa: FBT003
    return None


def _times(unit: str, source: DataType, low: pa.Array, high: pa.Array) -> SourceRange | None:
    """``low`` and ``high`` count units since 1970; those of ``day`` are dates."""
    nulls = pc.or_(pc.is_null(low), pc.is_null(high)).to_numpy(zero_copy_only=False)
    first, last = _ordinals(low), _ordinals(high)
    if source == Primitive("date"):
        if unit == "day":
            return SourceRange(low, high, _everywhere(len(low), value=True))
        lower, upper = _start_days(unit, _rounded(first)), _start_days(unit, last + 1) - 1
        outside = (np.abs(lower) >= 2**31 - 1) | (np.abs(upper) >= 2**31 - 1)
        arrays = (pa.array(bound, pa.int64(), mask=nulls | outside) for bound in (lower, upper))
        days = [array.cast(pa.int32()).view(pa.date32()) for array in arrays]
        return SourceRange(days[0], days[1], _everywhere(len(low), value=False))
    if not (isinstance(source, Primitive) and source.name in ("timestamp", "timestamp_ntz")):
        return None
    if unit == "hour":
        outside = (np.abs(first) >= _DAYS_IN_MICROS * 24) | (np.abs(last) >= _DAYS_IN_MICROS * 24)
        first, last = (np.where(outside, 0, numbers) for numbers in (_rounded(first), last))
        lower, upper = first * _MICROS_AN_HOUR, (last + 1) * _MICROS_AN_HOUR - 1
    else:
        first, last = _start_days(unit, _rounded(first)), _start_days(unit, last + 1)
        outside = (np.abs(first) >= _DAYS_IN_MICROS) | (np.abs(last) >= _DAYS_IN_MICROS)
        first, last = (np.where(outside, 0, days) for days in (first, last))
        lower, upper = first * _MICROS_A_DAY, last * _MICROS_A_DAY - 1
    arrays = (pa.array(bound, pa.int64(), mask=nulls | outside) for bound in (lower, upper))
    kind = arrow_type(source)
    times = [array.view(kind) for array in arrays]
    return SourceRange(times[0], times[1], _everywhere(len(low), value=False))


def _ordinals(values: pa.Array) -> Numbers:
    """The units since 1970; 0 for nulls."""
    numbers = values.view(pa.int32()) if pt.is_date32(values.type) else values
    ordinals: Numbers = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return ordinals


def _rounded(first: Numbers) -> Numbers:
    """The unit before, for units up to 0: see above."""
    return np.where(first <= 0, first - 1, first)


def _start_days(unit: str, ordinals: Numbers) -> Numbers:
    """The first day of each unit, in days since 1970."""
    if unit == "day":
        return ordinals
    code = {"year": "datetime64[Y]", "month": "datetime64[M]"}[unit]
    days: Numbers = ordinals.astype(code).astype("datetime64[D]").astype(np.int64)
    return days


def _above(data: bytes) -> bytes | None:
    """A value above all that start with ``data``; None if there is none."""
    kept = data.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _mapped(values: pa.Array, function: Callable[[Any], Any]) -> pa.Array:
    """``function`` of each distinct value; nulls stay null."""
    distinct = values.unique()
    results = [None if value is None else function(value) for value in distinct.to_pylist()]
    return pa.array(results, values.type).take(pc.index_in(values, value_set=distinct))


def _everywhere(count: int, *, value: bool) -> pa.Array:
    return pa.repeat(pa.scalar(value), count)
