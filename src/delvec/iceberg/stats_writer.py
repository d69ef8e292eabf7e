"""Statistics of new data files, as their entries in a manifest have them: maps by column id."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from delvec.footers.statistics import MeasuredColumn, column_statistics
from delvec.iceberg.bound_truncation import cut_lower, cut_upper
from delvec.iceberg.entry_maps import BOUNDS, COUNTS, maps_of
from delvec.iceberg.metrics_modes import measured_fields
from delvec.iceberg.single_values import encode
from delvec.schema import Schema


def measured_columns(schema: Schema, properties: Mapping[str, str]) -> tuple[MeasuredColumn, ...]:
    """The columns that new files need statistics of (``WriteRules.measured``)."""
    fields = measured_fields(schema, properties)
    return tuple(MeasuredColumn(field.stored_path, field.field.type) for field in fields)


def entry_statistics(
    added: pa.Table, *, schema: Schema, properties: Mapping[str, str]
) -> dict[str, pa.LargeListArray]:
    """The columns ``value_counts``, ``null_value_counts``, ``lower_bounds`` and ``upper_bounds`` of the
    entries of new files, which are rows of ``RowDelta.added``.

    What the footers do not say beyond doubt is left out, and so is a column that a file does not have: its
    values are the column's default.
    """
    values: dict[int, pa.Array] = {}
    nulls: dict[int, pa.Array] = {}
    lower: dict[int, pa.Array] = {}
    upper: dict[int, pa.Array] = {}
    for column in measured_fields(schema, properties):
        statistics = column_statistics(added, column.stored_path)
        field_id = column.field.field_id
        if statistics is None or field_id is None:
            continue
        is_stored = pc.is_valid(statistics.value_count)
        values[field_id] = statistics.value_count
        nulls[field_id] = pc.if_else(is_stored, statistics.null_count, pa.scalar(None, pa.int64()))
        if column.mode.bounds and not pa.types.is_null(statistics.lower.type):
            length, data_type = column.mode.length, column.field.type
            lower[field_id] = encode(cut_lower(statistics.lower, length), data_type)
            upper[field_id] = encode(cut_upper(statistics.upper, length), data_type)
    return {
        "value_counts": maps_of(values, len(added), COUNTS),
        "null_value_counts": maps_of(nulls, len(added), COUNTS),
        "lower_bounds": maps_of(lower, len(added), BOUNDS),
        "upper_bounds": maps_of(upper, len(added), BOUNDS),
    }
