"""``content_stats`` of new data files and of their vectors.

    columns       counts and bounds of the footers, bounds cut as the table's properties say
    expressions   the partition value as both bounds. A null is null_value_count = value_count, a NaN is
                  nan_value_count = value_count

The identity of a column has the column's id, so the partition value replaces what the footer says, uncut.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.footers.statistics import column_statistics
from delvec.iceberg.bound_truncation import cut_lower, cut_upper
from delvec.iceberg.metrics_modes import measured_fields
from delvec.iceberg.tree.content_stats import (
    LOWER,
    NANS,
    NULLS,
    TIGHT,
    UPPER,
    VALUES,
    conformed_stats,
    null_stats,
    statistics_type,
    stats_type,
)
from delvec.iceberg.tree.measured_columns import MeasuredColumns


def new_file_stats(added: pa.Table, columns: MeasuredColumns, spec_id: int) -> pa.Array:
    """``content_stats`` of new data files, which are rows of ``RowDelta.added``, of type
    ``columns.stats_type``. What the footers do not say beyond doubt is null.
    """
    found: dict[int, pa.StructArray] = {}
    for column in measured_fields(columns.schema, columns.properties):
        statistics = column_statistics(added, column.stored_path)
        field_id = column.field.field_id
        if statistics is None or field_id is None:
            continue
        is_stored = pc.is_valid(statistics.value_count)
        parts = {
            VALUES: statistics.value_count,
            NULLS: pc.if_else(is_stored, statistics.null_count, pa.scalar(None, pa.int64())),
        }
        kind = columns.types[field_id]
        if column.mode.bounds and not pa.types.is_null(kind) and statistics.lower.type.equals(kind):
            parts |= _bounds(statistics.lower, statistics.upper, column.mode.length)
        found[field_id] = column_stats(parts, kind, len(added))
    values = one_chunk(added.column("partition"))
    counts = one_chunk(added.column("record_count"))
    for at, item in enumerate(columns.expressions[spec_id]):
        found[item.expr_id] = single_value_stats(values.field(at), counts, columns.types[item.expr_id])
    return united_stats(found, len(added), columns.stats_type)


def vector_stats(data_stats: pa.StructArray, columns: MeasuredColumns) -> pa.StructArray:
    """``content_stats`` of the deletes of data files: those of partition expressions and of sort columns, so
    that delete manifests without affinity can be pruned as data manifests are.
    """
    kept = columns.expression_ids | columns.sorted_ids
    some = stats_type({field_id: kind for field_id, kind in columns.types.items() if field_id in kept})
    return conformed_stats(conformed_stats(data_stats, some), columns.stats_type)


def _bounds(lower: pa.Array, upper: pa.Array, length: int | None) -> dict[str, pa.Array]:
    low, high = cut_lower(lower, length), cut_upper(upper, length)
    is_whole = pc.and_(
        pc.fill_null(pc.equal(low, lower), False),  # noqa: FBT003
        pc.fill_null(pc.equal(high, upper), False),  # noqa: FBT003
    )
    return {LOWER: low, UPPER: high, TIGHT: is_whole}


def single_value_stats(values: pa.Array, counts: pa.Array, kind: pa.DataType) -> pa.StructArray:
    """Statistics of files in which an expression has one value."""
    values = values.cast(kind)
    zero = pa.scalar(0, pa.int64())
    is_null = values.is_null()
    parts = {VALUES: counts, NULLS: pc.if_else(is_null, counts, zero), TIGHT: pc.invert(is_null)}
    if pa.types.is_floating(kind):
        is_nan = pc.fill_null(pc.is_nan(values), False)  # noqa: FBT003
        parts[NANS] = pc.if_else(is_nan, counts, zero)
        parts[TIGHT] = pc.and_not(parts[TIGHT], is_nan)
        values = pc.if_else(is_nan, pa.scalar(None, kind), values)
    return column_stats({**parts, LOWER: values, UPPER: values}, kind, len(values))


def column_stats(parts: Mapping[str, pa.Array], kind: pa.DataType, count: int) -> pa.StructArray:
    struct = statistics_type(kind)
    arrays = [parts.get(field.name, pa.nulls(count, field.type)) for field in struct]
    return pa.StructArray.from_arrays(arrays, fields=list(struct))


def united_stats(found: Mapping[int, pa.StructArray], count: int, kind: pa.StructType) -> pa.Array:
    if not kind.num_fields:
        return null_stats(count, kind)
    arrays = [found.get(int(field.name), pa.nulls(count, field.type)) for field in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))
