"""Manifests of versions 1 to 3 as entries of the tree: the Avro leaves of a table that got trees later.

The form is that of other leaves, with all entries in the order of the file: nothing is inherited yet, and the
values of partition fields are statistics of their expressions. Position files have no vector; the data file
that one is about may be named by the bounds of its paths only. Any upper bound of a text may be cut, so the
next text above it is taken.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.chunked import one_chunk
from delvec.errors import FormatError
from delvec.iceberg.bound_truncation import upper_of_prefix
from delvec.iceberg.delete_scopes import PUFFIN, referenced_files
from delvec.iceberg.live_files import typed_partition
from delvec.iceberg.manifest import DATA_FILE, EQUALITY_DELETES, POSITION_DELETES, Manifest
from delvec.iceberg.metrics_modes import measured_fields
from delvec.iceberg.single_values import decode
from delvec.iceberg.stats import values_of
from delvec.iceberg.tree.content_stats import LOWER, NANS, NULLS, UPPER, VALUES
from delvec.iceberg.tree.entries import CONTENT_STATS, ENTRIES_SCHEMA, FROM_LIVE, entries_table
from delvec.iceberg.tree.measured_columns import MeasuredColumns
from delvec.iceberg.tree.new_stats import column_stats, single_value_stats, united_stats

_SAME = FROM_LIVE | {name: name for name in ("split_offsets", "key_metadata", "encoding")}


def avro_entries(manifest: Manifest, columns: MeasuredColumns, spec_id: int) -> pa.Table:
    """All entries of a manifest with files of this partition spec."""
    entries, count = manifest.entries, len(manifest.entries)
    found = {name: one_chunk(entries.column(source)) for name, source in _SAME.items()}
    content, is_puffin = found["content_type"], pc.equal(found["file_format"], PUFFIN)
    is_data, is_position = (pc.equal(content, kind) for kind in (DATA_FILE, POSITION_DELETES))
    is_vector = pc.and_(is_position, is_puffin)
    for name, source, where in (
        ("sort_order_id", "sort_order_id", is_data),
        ("first_row_id", "first_row_id", is_data),
        ("dv_offset", "content_offset", is_vector),
        ("dv_size_in_bytes", "content_size", is_vector),
        ("equality_ids", "equality_ids", pc.equal(content, EQUALITY_DELETES)),
    ):
        column = one_chunk(entries.column(source)).cast(ENTRIES_SCHEMA.field(name).type)
        found[name] = pc.if_else(where, column, pa.scalar(None, column.type))
    found["partition_spec_id"] = pa.repeat(pa.scalar(spec_id, pa.int32()), count)
    found["referenced_file"] = referenced_files(entries)
    found[CONTENT_STATS] = _statistics(manifest, columns, spec_id)
    return entries_table(found, count, columns.stats_type)


def _statistics(manifest: Manifest, columns: MeasuredColumns, spec_id: int) -> pa.Array:
    entries = manifest.entries
    found: dict[int, pa.StructArray] = {}
    for column in measured_fields(columns.schema, columns.properties):
        field_id = column.field.field_id
        if field_id is None:
            continue
        parts = {
            VALUES: values_of(entries.column("value_counts"), field_id),
            NULLS: values_of(entries.column("null_value_counts"), field_id),
            NANS: values_of(entries.column("nan_value_counts"), field_id),
        }
        kind = columns.types[field_id]
        if not pt.is_null(kind):
            lower, upper = (
                decode(values_of(entries.column(name), field_id), column.field.type)
                for name in ("lower_bounds", "upper_bounds")
            )
            if lower.type.equals(kind):
                parts |= {LOWER: _without_nan(lower), UPPER: upper_of_prefix(_without_nan(upper))}
        found[field_id] = column_stats(parts, kind, len(entries))
    counts = one_chunk(entries.column("record_count"))
    for item in columns.expressions.get(spec_id, ()):
        if item.field.field_id not in manifest.partition_ids:
            raise FormatError(f"manifest has no partition field {item.field.field_id} ({item.field.name})")
        values = typed_partition(entries.column(str(item.field.field_id)), item.field)
        found[item.expr_id] = single_value_stats(values, counts, columns.types[item.expr_id])
    return united_stats(found, len(entries), columns.stats_type)


def _without_nan(bounds: pa.Array) -> pa.Array:
    """A bound that is NaN was not computed as it should be."""
    if not pt.is_floating(bounds.type):
        return bounds
    return pc.if_else(pc.fill_null(pc.is_nan(bounds), False), pa.scalar(None, bounds.type), bounds)  # noqa: FBT003
