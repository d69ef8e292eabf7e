"""What readers of live entries need of equality deletes, and the tree stores in another way.

bounds of keys    maps by field id, from the typed statistics of the key columns
vectors of keys   where the vector is in its Puffin file: it is alone there, and the footer says it
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.chunked import Mask, one_chunk
from delvec.errors import FormatError
from delvec.iceberg.delete_scopes import PUFFIN
from delvec.iceberg.entry_maps import BOUNDS, COUNTS, maps_of
from delvec.iceberg.metrics_modes import DEFAULT_PROPERTY, measured_fields
from delvec.iceberg.single_values import encode
from delvec.iceberg.tree.content_stats import LOWER, NULLS, UPPER, VALUES, promoted, statistic
from delvec.iceberg.tree.entries import CONTENT_STATS, EQUALITY_DELETES, is_of
from delvec.iceberg.tree.measured_columns import MeasuredColumns, bound_type
from delvec.iceberg.tree.stored_tree import StoredTree
from delvec.storage import in_parallel

_ALL = {DEFAULT_PROPERTY: "full"}


def key_maps(entries: pa.Table, columns: MeasuredColumns) -> dict[str, pa.Array]:
    """The columns ``value_counts``, ``null_value_counts``, ``lower_bounds`` and ``upper_bounds`` of live
    entries: of equality deletes those of their key columns, null for other files.
    """
    is_equality = is_of(entries, [EQUALITY_DELETES])
    if not is_equality.any():
        return {}
    ids = pc.list_flatten(one_chunk(entries.column("equality_ids"))).unique().to_pylist()
    fields = {each.field.field_id: each.field for each in measured_fields(columns.schema, _ALL)}
    found: dict[str, dict[int, pa.Array]] = {name: {} for name in (VALUES, NULLS, LOWER, UPPER)}
    for field_id in (number for number in ids if number in fields):
        kind = bound_type(fields[field_id].type)
        for name, by_id in found.items():
            values = statistic(entries.column(CONTENT_STATS), field_id, name)
            if values is None or pt.is_null(kind):
                continue
            if name in (LOWER, UPPER):
                values = encode(promoted(values, kind), fields[field_id].type)
            by_id[field_id] = pc.if_else(pa.array(is_equality), values, pa.scalar(None, values.type))
    count = len(entries)
    return {
        "value_counts": maps_of(found[VALUES], count, COUNTS),
        "null_value_counts": maps_of(found[NULLS], count, COUNTS),
        "lower_bounds": maps_of(found[LOWER], count, BOUNDS),
        "upper_bounds": maps_of(found[UPPER], count, BOUNDS),
    }


def ranges_of_vectors(
    stored: StoredTree, entries: pa.Table, columns: Mapping[str, pa.Array]
) -> dict[str, pa.Array]:
    """The columns ``content_offset`` and ``content_size`` with the ranges of vectors of keys. Reads the
    footers of their files.
    """
    is_vector: Mask = is_of(entries, [EQUALITY_DELETES]) & pc.equal(
        one_chunk(entries.column("file_format")), PUFFIN
    ).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(is_vector)
    if not len(rows):
        return {}
    chosen = entries.select(["location", "file_size_in_bytes"]).take(pa.array(rows)).to_pylist()
    ranges = in_parallel(lambda item: _range(stored, item["location"], item["file_size_in_bytes"]), chosen)
    mask = pa.array(is_vector)
    return {
        "content_offset": pc.replace_with_mask(
            columns["content_offset"], mask, pa.array([offset for offset, _ in ranges], pa.int64())
        ),
        "content_size": pc.replace_with_mask(
            columns["content_size"], mask, pa.array([length for _, length in ranges], pa.int64())
        ),
    }


def _range(stored: StoredTree, location: str, size: int) -> tuple[int, int]:
    blobs = stored.puffin_blobs(location, size)
    if len(blobs) != 1:
        raise FormatError(
            f"Puffin file of a vector of keys has {len(blobs)} blobs, expected one", path=location
        )
    return blobs[0].offset, blobs[0].length
