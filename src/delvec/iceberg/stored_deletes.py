"""Manifest entries of deletes that are stored already: ``RowDelta.added_deletes``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.deletes.encoding import DeleteEncoding
from delvec.deletes.model import DeleteContent, DeleteFile, delete_files
from delvec.deletes.validate import validate
from delvec.deletes.write_options import VECTORS_SINCE
from delvec.errors import InvalidOperationError
from delvec.iceberg.delete_partitions import delete_rows, is_global, partition_columns
from delvec.iceberg.delete_properties import VECTORS_OF_KEYS, has_vectors_of_keys
from delvec.iceberg.key_statistics import key_statistics
from delvec.iceberg.live_entries import FILE_ID, SPEC_ID
from delvec.iceberg.manifest import EQUALITY_DELETES, POSITION_DELETES
from delvec.iceberg.manifest_changes import Removals
from delvec.iceberg.metadata import TableMetadata
from delvec.iceberg.new_entries import PUFFIN, added_entries, recorded
from delvec.row_delta import RowDelta
from delvec.storage import Storage

if TYPE_CHECKING:
    from delvec.iceberg.snapshot import Snapshot


def stored_delete_entries(
    storage: Storage, base: Snapshot, after: TableMetadata, delta: RowDelta, *, snapshot_id: int
) -> list[pa.Table]:
    """The entries of the delta's stored deletes, a table for each partition spec. ``after``: the metadata
    with the delta's own changes.
    """
    files = delete_files(delta.added_deletes)
    if not files:
        return []
    for file in files:
        validate(file)
        _verify_allowed(file, after)
    schema = base.files.live.schema
    columns = _columns(files, base) | partition_columns(files, base, after, delta.added_deletes)
    columns |= key_statistics(storage, files, after.schema)
    entries = added_entries(schema, columns, len(files), snapshot_id)
    specs = entries.column(SPEC_ID)
    return [entries.filter(pc.equal(specs, spec_id)) for spec_id in specs.unique().to_pylist()]


def removed_delete_entries(base: Snapshot, removed: pa.Table) -> Removals:
    """The live entries of the deletes that a delta removes, by location and offset."""
    live = base.files.live
    if not len(removed):
        return Removals(np.array([], np.int64), np.array([], np.int64))
    pairs = zip(*(removed.column(name).to_pylist() for name in ("location", "offset")), strict=True)
    rows = delete_rows(base, list(pairs))
    return Removals.of_files(one_chunk(live.deletes().column(FILE_ID)).to_numpy()[rows])


def _verify_allowed(file: DeleteFile, after: TableMetadata) -> None:
    is_vector = file.encoding is DeleteEncoding.DELETION_VECTOR
    if is_vector and file.content == DeleteContent.POSITION_DELETES:
        raise InvalidOperationError(
            f"a position vector is among the added deletes, expected it in RowDelta.vectors: {file.location}"
        )
    if is_vector and after.format_version < VECTORS_SINCE:
        raise InvalidOperationError(
            f"a vector of keys is added to a table of format version {after.format_version}, expected "
            f"{VECTORS_SINCE} or more: {file.location}"
        )
    if is_vector and not has_vectors_of_keys(after.properties, after.format_version):
        raise InvalidOperationError(
            f"a vector of keys is added to a table whose property {VECTORS_OF_KEYS} is not true, expected "
            f"full rows: {file.location}"
        )
    if file.content == DeleteContent.POSITION_DELETES and is_global(file):
        raise InvalidOperationError(f"position deletes have no partition, expected one: {file.location}")
    if file.content == DeleteContent.POSITION_DELETES and after.format_version >= VECTORS_SINCE:
        raise InvalidOperationError(
            f"a position-delete file is added to a table of format version {after.format_version}, expected "
            f"vectors: {file.location}"
        )


def _columns(files: Sequence[DeleteFile], base: Snapshot) -> dict[str, pa.Array]:
    """The columns of the entries other than partition and statistics."""
    is_equality = [file.content == DeleteContent.EQUALITY_DELETES for file in files]
    contents = [EQUALITY_DELETES if equality else POSITION_DELETES for equality in is_equality]
    is_vector = [file.file_format == PUFFIN for file in files]
    ids = [list(file.field_ids) or None for file in files]
    return {
        "content": pa.array(contents, pa.int32()),
        "sequence_number": pa.array([file.sequence for file in files], pa.int64()),
        "file_path": recorded(base.locations, pa.array([file.location for file in files])),
        "file_format": pa.array([file.file_format for file in files], pa.string()),
        "record_count": pa.array([file.record_count for file in files], pa.int64()),
        "file_size": pa.array([file.size for file in files], pa.int64()),
        "equality_ids": pa.array(ids, pa.large_list(pa.int32())),
        "sort_order_id": pa.array([0 if equality else None for equality in is_equality], pa.int32()),
        "encoding": pa.array([file.encoding.id for file in files], pa.int32()),
        "content_offset": pa.array([f.offset if v else None for f, v in zip(files, is_vector, strict=True)]),
        "content_size": pa.array([f.length if v else None for f, v in zip(files, is_vector, strict=True)]),
    }
