"""The type of ``content_stats``: a struct with a field per column and expression, named by its field id.

Each field is a struct of ``STATISTICS``. Tables of entries whose statistics have different types are brought
to one type before they are united.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk

_DAYS_OF_NANOSECONDS = 106_751  # more do not fit into a timestamp of nanoseconds

LOWER, UPPER, TIGHT = "lower_bound", "upper_bound", "tight_bounds"
VALUES, NULLS, NANS, VALUE_SIZE = (
    "value_count",
    "null_value_count",
    "nan_value_count",
    "avg_value_size_in_bytes",
)
STATISTICS = (LOWER, UPPER, TIGHT, VALUES, NULLS, NANS, VALUE_SIZE)


def stats_type(columns: Mapping[int, pa.DataType]) -> pa.StructType:
    """The type of ``content_stats`` for columns and expressions of these Arrow types, by field id."""
    return pa.struct([pa.field(str(field_id), statistics_type(kind)) for field_id, kind in columns.items()])


def statistics_type(kind: pa.DataType) -> pa.StructType:
    """The type of the statistics of one column, whose bounds are of type ``kind``."""
    types = {
        LOWER: kind,
        UPPER: kind,
        TIGHT: pa.bool_(),
        VALUES: pa.int64(),
        NULLS: pa.int64(),
        NANS: pa.int64(),
        VALUE_SIZE: pa.int32(),
    }
    return pa.struct([pa.field(name, types[name]) for name in STATISTICS])


NO_STATS = stats_type({})


def bound_types(stats: pa.StructType) -> dict[int, pa.DataType]:
    """The types of the bounds by field id: the inverse of ``stats_type``."""
    return {int(field.name): field.type.field(LOWER).type for field in stats}


def null_stats(count: int, stats: pa.StructType) -> pa.Array:
    """``content_stats`` without a value. (Arrow makes no nulls of a struct without fields.)"""
    if stats.num_fields:
        return pa.nulls(count, stats)
    validity = pa.py_buffer(bytes((count + 7) // 8))
    return pa.StructArray.from_buffers(stats, count, [validity])


def statistic(statistics: pa.Array | pa.ChunkedArray, field_id: int, name: str) -> pa.Array | None:
    """One of ``STATISTICS`` of a column or expression, for each entry; None if no entry can have it."""
    if statistics.type.get_field_index(str(field_id)) < 0:
        return None
    return one_chunk(pc.struct_field(statistics, [str(field_id), name]))


def conformed_stats(statistics: pa.StructArray, stats: pa.StructType) -> pa.StructArray:
    """``content_stats`` as a struct of type ``stats``; see `entries.conformed`."""
    if statistics.type.equals(stats):
        return statistics
    count, missing = len(statistics), statistics.is_null()
    if not stats.num_fields or not statistics.type.num_fields:
        return null_stats(count, stats)
    children = [_conformed_column(statistics, field) for field in stats]
    return pa.StructArray.from_arrays(children, fields=list(stats), mask=missing)


def _conformed_column(statistics: pa.StructArray, field: pa.Field) -> pa.StructArray:
    index = statistics.type.get_field_index(field.name)
    if index < 0:
        return pa.nulls(len(statistics), field.type)
    column = statistics.field(index)
    if column.type.equals(field.type):
        return column
    parts = {name: column.field(name) for name in STATISTICS}
    kind = field.type.field(LOWER).type
    parts[LOWER], parts[UPPER] = (promoted(parts[name], kind) for name in (LOWER, UPPER))
    return pa.StructArray.from_arrays(list(parts.values()), fields=list(field.type), mask=column.is_null())


def promoted(bounds: pa.Array, kind: pa.DataType) -> pa.Array:
    """Bounds of a column whose type was promoted to ``kind`` since; null where a value does not fit."""
    if bounds.type.equals(kind):
        return bounds
    if not _is_promotion(bounds.type, kind):
        return pa.nulls(len(bounds), kind)
    if pa.types.is_date32(bounds.type):
        days = bounds.view(pa.int32())
        fits = pc.less_equal(pc.abs(days.cast(pa.int64())), _DAYS_OF_NANOSECONDS)
        bounds = pc.if_else(fits, days, pa.scalar(None, pa.int32())).view(pa.date32())
    return bounds.cast(kind)


def _is_promotion(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether Iceberg promotes ``old`` to ``new``."""
    if pa.types.is_null(old):
        return True
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(old.scale == new.scale and old.precision <= new.precision)
    pairs = ((pa.types.is_int32, pa.types.is_int64), (pa.types.is_float32, pa.types.is_float64))
    if any(before(old) and after(new) for before, after in pairs):
        return True
    return bool(pa.types.is_date32(old) and pa.types.is_timestamp(new) and new.tz is None)
