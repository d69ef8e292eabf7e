"""Manifests of a manifest list as entries of a root: the leaves of a table that gets trees.

Nothing is written anew. An entry has what the list says: paths and lengths, sequence numbers, counts, row
ids, and the bounds of partition values as statistics of the partition's expressions. What a list of version 1
does not say is counted in the manifest itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.chunked import one_chunk
from delvec.errors import FormatError
from delvec.iceberg import manifest_list
from delvec.iceberg.bound_truncation import upper_of_prefix
from delvec.iceberg.locations import Locations
from delvec.iceberg.manifest import read_manifest
from delvec.iceberg.manifest_facts import summaries_at
from delvec.iceberg.single_values import decode
from delvec.iceberg.tree.content_stats import (
    LOWER,
    NANS,
    NULLS,
    STATISTICS,
    TIGHT,
    UPPER,
    VALUES,
    null_stats,
    statistics_type,
)
from delvec.iceberg.tree.entries import (
    ADDED,
    CONTENT_STATS,
    DATA_MANIFEST,
    DELETE_MANIFEST,
    DELETED,
    EXISTING,
    MANIFEST_STATS,
    entries_table,
)
from delvec.iceberg.tree.measured_columns import MeasuredColumns, PartitionExpression
from delvec.iceberg.tree.root import AVRO
from delvec.storage import Storage, in_parallel

_FILES = ("added_files", "existing_files", "deleted_files")
_ROWS = ("added_rows", "existing_rows", "deleted_rows")
_COUNTS = (*_FILES, *_ROWS)
_STATUS = {"existing": EXISTING, "added": ADDED, "deleted": DELETED}


def leaves_of_list(manifests: pa.Table, columns: MeasuredColumns) -> pa.Table:
    """The manifests, which have all counts and row ids, as EXISTING leaves."""
    count = len(manifests)
    given = {name: one_chunk(manifests.column(name)) for name in manifests.column_names}
    is_data = pc.equal(given["content"], manifest_list.DATA)
    for name in ("added_snapshot_id", "length", *_COUNTS):
        missing = np.flatnonzero(given[name].is_null().to_numpy(zero_copy_only=False))
        if len(missing):
            path = given["path"][int(missing[0])].as_py()
            raise FormatError(f"{name} of a manifest is not recorded, expected a number", path=path)
    records = pc.add(pc.add(given["added_files"], given["existing_files"]), given["deleted_files"])
    values: dict[str, Any] = {
        "status": pa.repeat(EXISTING, count),
        "snapshot_id": given["added_snapshot_id"],
        "sequence_number": given["sequence_number"],
        "file_sequence_number": given["sequence_number"],
        "first_row_id": pc.if_else(is_data, given["first_row_id"], pa.scalar(None, pa.int64())),
        "content_type": pc.if_else(is_data, DATA_MANIFEST, DELETE_MANIFEST),
        "location": given["path"],
        "file_format": pa.repeat(AVRO, count),
        "record_count": records,
        "file_size_in_bytes": given["length"],
        "partition_spec_id": given["spec_id"],
        **{f"{name}_count": given[name] for name in _COUNTS},
        MANIFEST_STATS[-1]: pc.min_element_wise(given["min_sequence_number"], given["sequence_number"]),
        CONTENT_STATS: _statistics(manifests, columns),
    }
    return entries_table(values, count, columns.stats_type)


def with_counts(manifests: pa.Table, storage: Storage, locations: Locations) -> pa.Table:
    """The manifests with the lengths and counts that the list does not record."""
    needed = [manifests.column(name).is_null() for name in ("length", *_COUNTS)]
    rows = [row for row in range(len(manifests)) if any(column[row].as_py() for column in needed)]
    if not rows:
        return manifests
    listed = manifests.to_pylist()

    def counted(row: int) -> Mapping[str, int]:
        return _counts(listed[row], storage, locations)

    for row, counts in zip(rows, in_parallel(counted, rows), strict=True):
        listed[row] |= counts
    return pa.Table.from_pylist(listed, schema=manifests.schema)


def _counts(manifest: Mapping[str, Any], storage: Storage, locations: Locations) -> Mapping[str, int]:
    place = locations.resolve(manifest["path"])
    data = storage.read(place)
    try:
        entries = read_manifest(data, content=manifest["content"]).entries
    except FormatError as error:
        raise error.at(place) from None
    counts: dict[str, int] = {"length": len(data)}
    for word, status in _STATUS.items():
        records = entries.column("record_count").filter(pc.equal(entries.column("status"), status))
        counts |= {f"{word}_files": len(records), f"{word}_rows": pc.sum(records, min_count=0).as_py()}
    return counts


def _statistics(manifests: pa.Table, columns: MeasuredColumns) -> pa.Array:
    """The bounds of partition values; all other statistics are unknown."""
    count, kind = len(manifests), columns.stats_type
    if not kind.num_fields:
        return null_stats(count, kind)
    found: dict[int, pa.StructArray] = {}
    specs = one_chunk(manifests.column("spec_id")).to_numpy()
    for spec_id, items in columns.expressions.items():
        for position, item in enumerate(items):
            bound = columns.types[item.expr_id]
            stats = _of_field(manifests, position, specs == spec_id, item, bound)
            known = found.get(item.expr_id)
            found[item.expr_id] = stats if known is None else pc.if_else(stats.is_valid(), stats, known)
    arrays = [found.get(int(field.name), pa.nulls(count, field.type)) for field in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _of_field(
    manifests: pa.Table,
    position: int,
    of_spec: np.ndarray[Any, np.dtype[np.bool_]],
    item: PartitionExpression,
    kind: pa.DataType,
) -> pa.StructArray:
    """The summary of a partition field where the manifest is of its spec; null elsewhere."""
    count = len(manifests)
    has_summary, items = summaries_at(one_chunk(manifests.column("partitions")), position)
    values = pc.add(manifests.column("added_rows"), manifests.column("existing_rows"))
    lower, upper = (decode(items.field(name), item.field.type) for name in ("lower", "upper"))
    parts = dict.fromkeys(STATISTICS)
    if lower.type.equals(kind):
        parts |= {LOWER: lower, UPPER: upper_of_prefix(upper)}  # as `manifest_facts` takes them
    some_null, some_nan = items.field("contains_null"), items.field("contains_nan")
    unknown = pa.scalar(None, pa.int64())
    parts[VALUES] = one_chunk(values)
    no_bounds = pc.and_(lower.is_null(), upper.is_null())
    no_nan = pc.equal(some_nan, False) if pt.is_floating(kind) else pa.repeat(pa.scalar(True), count)  # noqa: FBT003
    all_null = pc.fill_null(pc.and_kleene(pc.and_kleene(some_null, no_bounds), no_nan), False)  # noqa: FBT003
    is_none = pc.fill_null(pc.invert(some_null), False)  # noqa: FBT003
    parts[NULLS] = pc.if_else(is_none, pa.scalar(0, pa.int64()), pc.if_else(all_null, parts[VALUES], unknown))
    if pt.is_floating(kind):
        has_none = pc.fill_null(pc.invert(some_nan), False)  # noqa: FBT003
        parts[NANS] = pc.if_else(has_none, pa.scalar(0, pa.int64()), unknown)
    parts[TIGHT] = pa.nulls(count, pa.bool_())
    struct = statistics_type(kind)
    arrays = [
        pa.nulls(count, field.type) if parts[field.name] is None else parts[field.name] for field in struct
    ]
    known = of_spec & has_summary
    return pa.StructArray.from_arrays(arrays, fields=list(struct), mask=pa.array(~known))
