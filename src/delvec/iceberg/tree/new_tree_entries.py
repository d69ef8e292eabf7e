"""Entries of the tree, from live entries that a commit adds (`live_entries`).

Deletes have the statistics of partition expressions, so that delete manifests can be pruned. Vectors of data
files also have those of sort columns, and equality deletes those of their key columns.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.chunked import one_chunk
from delvec.iceberg.live_entries import SPEC_ID
from delvec.iceberg.metrics_modes import measured_fields
from delvec.iceberg.single_values import decode
from delvec.iceberg.stats import PARTITION, values_of
from delvec.iceberg.tree.content_stats import LOWER, NULLS, UPPER, VALUES, conformed_stats
from delvec.iceberg.tree.entries import (
    CONTENT_STATS,
    DATA,
    ENTRIES_SCHEMA,
    EQUALITY_DELETES,
    FROM_LIVE,
    POSITION_DELETES,
    entries_table,
    united,
)
from delvec.iceberg.tree.measured_columns import MeasuredColumns
from delvec.iceberg.tree.new_stats import column_stats, single_value_stats, united_stats, vector_stats

_SAME = FROM_LIVE | {"first_row_id": "first_row_id", "partition_spec_id": SPEC_ID}
_OF_TYPE = {
    "sort_order_id": ("sort_order_id", DATA),
    "split_offsets": ("split_offsets", DATA),
    "referenced_file": ("referenced_data_file", POSITION_DELETES),
    "dv_offset": ("content_offset", POSITION_DELETES),
    "dv_size_in_bytes": ("content_size", POSITION_DELETES),
    "equality_ids": ("equality_ids", EQUALITY_DELETES),
    "encoding": ("encoding", EQUALITY_DELETES),
}
"""Columns that only one content type has."""


def tree_entries(live: pa.Table, columns: MeasuredColumns) -> pa.Table:
    """The entries; all have the same partition spec."""
    content = live.column("content")
    parts = [
        _of_type(live.filter(pc.equal(content, content_type)), columns, content_type)
        for content_type in content.unique().to_pylist()
    ]
    return united(parts, columns.stats_type)


def _of_type(live: pa.Table, columns: MeasuredColumns, content_type: int) -> pa.Table:
    found = {name: one_chunk(live.column(source)) for name, source in _SAME.items()}
    for name, (source, of_type) in _OF_TYPE.items():
        if of_type == content_type:
            found[name] = one_chunk(live.column(source)).cast(ENTRIES_SCHEMA.field(name).type)
    statistics = conformed_stats(one_chunk(live.column(CONTENT_STATS)), columns.stats_type)
    if content_type != DATA:
        statistics = _of_deletes(live, statistics, columns, content_type)
    return entries_table({**found, CONTENT_STATS: statistics}, len(live), columns.stats_type)


def _of_deletes(live: pa.Table, copied: pa.Array, columns: MeasuredColumns, kind: int) -> pa.Array:
    """Statistics of deletes; ``copied``: those of their data files, if they have one."""
    counts = one_chunk(live.column("record_count"))
    found: dict[int, pa.StructArray] = {}
    if kind == EQUALITY_DELETES:
        found |= _of_keys(live, columns)
    else:
        kept = vector_stats(copied, columns)
        found |= {
            field_id: kept.field(str(field_id)) for field_id in columns.sorted_ids & columns.types.keys()
        }
    for spec_id in live.column(SPEC_ID).unique().to_pylist():
        for item in columns.expressions[spec_id]:
            values = one_chunk(live.column(PARTITION + item.field.name))
            found[item.expr_id] = single_value_stats(values, counts, columns.types[item.expr_id])
    return united_stats(found, len(live), columns.stats_type)


def _of_keys(live: pa.Table, columns: MeasuredColumns) -> dict[int, pa.StructArray]:
    keys = set(pc.list_flatten(one_chunk(live.column("equality_ids"))).unique().to_pylist())
    found: dict[int, pa.StructArray] = {}
    for column in measured_fields(columns.schema, columns.properties):
        field_id = column.field.field_id
        if field_id is None or field_id not in keys:
            continue
        kind = columns.types[field_id]
        parts = {
            VALUES: values_of(live.column("value_counts"), field_id),
            NULLS: values_of(live.column("null_value_counts"), field_id),
        }
        if not pt.is_null(kind):
            for name, source in ((LOWER, "lower_bounds"), (UPPER, "upper_bounds")):
                bounds = decode(values_of(live.column(source), field_id), column.field.type)
                parts[name] = bounds.cast(kind)
        found[field_id] = column_stats(parts, kind, len(live))
    return found
