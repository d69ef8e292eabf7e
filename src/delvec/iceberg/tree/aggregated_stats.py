"""``content_stats`` of a leaf, from those of its entries: facts about all rows of all its files.

    counts         the sum
    bounds         the least lower and the greatest upper bound of the files that have a value
    tight_bounds   whether the bounds of all these files are tight

A statistic that any entry lacks is unknown for the leaf. A file whose values are all null or NaN has no
bounds to add, if its counts say so. Once a manifest vector masks entries of the leaf, its bounds still hold,
but they are no longer tight (`without_tight_bounds`).
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.chunked import one_chunk
from delvec.iceberg.tree.content_stats import (
    LOWER,
    NANS,
    NULLS,
    TIGHT,
    UPPER,
    VALUES,
    null_stats,
    statistic,
)
from delvec.iceberg.tree.entries import CONTENT_STATS, DELETED


def aggregated_stats(entries: pa.Table, kind: pa.StructType) -> pa.Array:
    """``content_stats`` of the leaf with these entries, as one value of type ``kind``. DELETED ones do not
    count.
    """
    live = entries.filter(pc.not_equal(entries.column("status"), DELETED))
    if not kind.num_fields or not len(live):
        return null_stats(1, kind)
    statistics = one_chunk(live.column(CONTENT_STATS))
    columns = [_aggregated(statistics, field) for field in kind]
    is_unknown = [all(array[0].as_py() is None for array in parts) for parts in columns]
    structs = [
        pa.nulls(1, field.type) if unknown else pa.StructArray.from_arrays(parts, fields=list(field.type))
        for field, parts, unknown in zip(kind, columns, is_unknown, strict=True)
    ]
    return pa.StructArray.from_arrays(structs, fields=list(kind), mask=pa.array([all(is_unknown)]))


def without_tight_bounds(statistics: pa.StructArray) -> pa.StructArray:
    """The statistics of leaves of which some entries are masked."""
    if not statistics.type.num_fields:
        return statistics
    columns = []
    for at, field in enumerate(statistics.type):
        column = statistics.field(at)
        parts = [column.field(position) for position in range(field.type.num_fields)]
        tight = field.type.get_field_index(TIGHT)
        parts[tight] = pc.and_(parts[tight], pa.scalar(value=False))
        columns.append(pa.StructArray.from_arrays(parts, fields=list(field.type), mask=column.is_null()))
    return pa.StructArray.from_arrays(columns, fields=list(statistics.type), mask=statistics.is_null())


def _aggregated(statistics: pa.StructArray, field: pa.Field) -> list[pa.Array]:
    """The statistics of one column, in the order of its struct."""
    field_id, count = int(field.name), len(statistics)
    found = {
        name: array
        for name in (LOWER, UPPER, TIGHT, VALUES, NULLS, NANS)
        if (array := statistic(statistics, field_id, name)) is not None
    }
    if not found:
        return [pa.nulls(1, part.type) for part in field.type]
    has_values = pc.invert(_has_only_nulls(found, count))
    values: dict[str, Any] = {name: _total(found[name]) for name in (VALUES, NULLS, NANS)}
    values[LOWER] = _bound(found[LOWER], has_values, pc.min)
    values[UPPER] = _bound(found[UPPER], has_values, pc.max)
    if values[LOWER] is not None or values[UPPER] is not None:
        values[TIGHT] = pc.all(pc.fill_null(found[TIGHT].filter(has_values), False)).as_py()  # noqa: FBT003
    return [_one(values.get(part.name), part.type) for part in field.type]


def _has_only_nulls(found: dict[str, pa.Array], count: int) -> pa.Array:
    """Which files surely have no value that is neither null nor NaN."""
    nans = pc.fill_null(found.get(NANS, pa.nulls(count, pa.int64())), 0)
    empty = pc.add(pc.fill_null(found[NULLS], 0), nans)
    return pc.fill_null(pc.greater_equal(empty, found[VALUES]), False)  # noqa: FBT003


def _total(counts: pa.Array) -> int | None:
    return None if counts.null_count else pc.sum(counts).as_py()


def _bound(bounds: pa.Array, has_values: pa.Array, function: Any) -> pa.Scalar | None:
    """The extreme bound; None if it is unknown for a file that may have values."""
    if pt.is_null(bounds.type):
        return None
    known = bounds.filter(has_values)
    if (
        known.null_count
        or not len(known)
        or (pt.is_floating(known.type) and pc.any(pc.is_nan(known)).as_py())
    ):
        return None
    return function(known)


def _one(value: Any, kind: pa.DataType) -> pa.Array:
    """An array of one value."""
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, 1).cast(kind)
    return pa.array([value], kind)
