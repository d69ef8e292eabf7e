"""Writes manifest lists, as `manifest_list` reads them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.iceberg.avro_types import list_of, optional, record, required
from delvec.iceberg.avro_writer import write_table
from delvec.iceberg.manifest_list import DATA, MANIFESTS_SCHEMA

_SUMMARY = record(
    "r508",
    [
        required(509, "contains_null", "boolean"),
        optional(518, "contains_nan", "boolean"),
        optional(510, "lower_bound", "bytes"),
        optional(511, "upper_bound", "bytes"),
    ],
)
_FIELDS = (
    required(500, "manifest_path", "string"),
    required(501, "manifest_length", "long"),
    required(502, "partition_spec_id", "int"),
    required(517, "content", "int"),
    required(515, "sequence_number", "long"),
    required(516, "min_sequence_number", "long"),
    required(503, "added_snapshot_id", "long"),
    required(504, "added_files_count", "int"),
    required(505, "existing_files_count", "int"),
    required(506, "deleted_files_count", "int"),
    required(512, "added_rows_count", "long"),
    required(513, "existing_rows_count", "long"),
    required(514, "deleted_rows_count", "long"),
    optional(507, "partitions", list_of(508, _SUMMARY)),
    optional(519, "key_metadata", "bytes"),
    optional(520, "first_row_id", "long"),
)
"""The fields of version 3, in the order of ``MANIFESTS_SCHEMA``. Version 2 has all but the last one."""


def write_manifest_list(
    manifests: pa.Table,
    *,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    first_row_id: int | None,
    format_version: int,
) -> bytes:
    """A manifest list file of version 2 or 3. ``manifests`` have the columns of ``MANIFESTS_SCHEMA``.

    ``first_row_id`` is the snapshot's. Those of the manifests are written as they are: see `with_row_ids`.
    """
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        "sequence-number": str(sequence_number),
        "format-version": str(format_version),
    }
    if format_version > 2:
        metadata["first-row-id"] = "null" if first_row_id is None else str(first_row_id)
    count = len(_FIELDS) - (format_version < 3)
    columns = [manifests.column(name) for name in MANIFESTS_SCHEMA.names[:count]]
    return write_table(record("manifest_file", _FIELDS[:count]), columns, metadata)


def with_row_ids(manifests: pa.Table, next_row_id: int) -> tuple[pa.Table, int]:
    """The manifests of a snapshot of version 3 with a ``first_row_id`` for each manifest of data files, and
    the next row id of the table after them.

    A manifest keeps the id that it has. Others get ids for the rows of their added and existing files.
    """
    first_row_ids = one_chunk(manifests.column("first_row_id"))
    is_data = pc.equal(manifests.column("content"), DATA)
    is_new = one_chunk(pc.and_(pc.is_null(first_row_ids), is_data)).to_numpy(zero_copy_only=False)
    rows = pc.add(manifests.column("added_rows"), manifests.column("existing_rows"))
    spans = np.where(is_new, pc.fill_null(rows, 0).to_numpy(), 0)
    new_ids = pa.array(next_row_id + np.cumsum(spans) - spans, mask=~is_new)
    position = manifests.schema.get_field_index("first_row_id")
    table = manifests.set_column(position, "first_row_id", pc.coalesce(first_row_ids, new_ids))
    return table, next_row_id + int(spans.sum())
