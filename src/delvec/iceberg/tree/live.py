"""The live entries of a leaf: neither DELETED nor masked, with what they inherit from the root's entry.

    snapshot_id         of the leaf, where the entry has none
    sequence numbers    of the leaf, where an ADDED entry has none; 0 in leaves of version 1
    first_row_id        where a data file has none: that of the leaf, plus the rows of the data files before
                        it that have none either. DELETED entries do not count, masked ones do

A position is the ordinal of the record in the leaf's file, before any filter.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.bitmap import Bitmap
from delvec.chunked import one_chunk
from delvec.errors import FormatError
from delvec.iceberg.tree.entries import (
    ADDED,
    DATA,
    DATA_MANIFEST,
    DELETED,
    POSITION,
    with_columns,
    with_positions,
)
from delvec.iceberg.tree.manifest_files import LeafReader
from delvec.iceberg.tree.root import AVRO, Leaf, Root


def live_leaf(root: Root, leaf: Leaf, reader: LeafReader) -> pa.Table:
    """The live entries of a leaf of ``root``, with the column ``position``."""
    entries = reader.entries(leaf.location, leaf.size, leaf.content_type)
    if len(entries) != leaf.record_count:
        raise FormatError(
            f"leaf has {len(entries)} entries, expected {leaf.record_count}, as the root says",
            path=leaf.location,
        )
    _verify_spec(entries, leaf)
    try:
        live = unmasked(inherited(entries, leaf), root.mask(leaf, reader))
    except FormatError as error:
        raise error.at(leaf.location) from None
    if len(live) != leaf.live_entries:
        raise FormatError(
            f"leaf has {len(live)} live entries, expected {leaf.live_entries}, as manifest_stats and the "
            "manifest vector in the root say",
            path=leaf.location,
        )
    return live


def _verify_spec(entries: pa.Table, leaf: Leaf) -> None:
    """A manifest of version 1 may leave out its partition spec, which the manifest list has."""
    if leaf.file_format == AVRO:
        specs = pc.unique(entries.column("partition_spec_id")).to_pylist()
        if specs not in ([], [leaf.spec_id]):
            raise FormatError(
                f"manifest has files of partition spec {specs[0]}, expected {leaf.spec_id}, as the root says",
                path=leaf.location,
            )


def inherited(entries: pa.Table, leaf: Leaf) -> pa.Table:
    """The entries of a leaf that are not DELETED, with what they inherit, and their positions."""
    placed = with_positions(entries)
    deleted = pc.equal(placed.column("status"), DELETED)
    live = placed.filter(pc.invert(deleted)) if pc.any(deleted).as_py() else placed
    columns = {"snapshot_id": _filled(live.column("snapshot_id"), leaf.snapshot_id)}
    for name in ("sequence_number", "file_sequence_number"):
        columns[name] = _sequence_numbers(live, name, leaf)
    if leaf.content_type == DATA_MANIFEST and leaf.first_row_id is not None:
        columns["first_row_id"] = _row_ids(live, leaf.first_row_id)
    return with_columns(live, columns)


def unmasked(entries: pa.Table, mask: Bitmap) -> pa.Table:
    """The entries without those at masked positions."""
    if not mask:
        return entries
    positions = one_chunk(entries.column(POSITION)).to_numpy()
    return entries.filter(pa.array(~mask.contains_many(positions)))


def root_files(root: Root, content_types: tuple[int, ...] = (DATA,)) -> pa.Table:
    """The live files of these content types in the root itself, with the column ``position``: the row."""
    types = one_chunk(root.entries.column("content_type")).to_numpy()
    rows = root.files[np.isin(types[root.files], content_types)]
    return with_positions(root.entries).take(pa.array(rows))


def _filled(column: pa.ChunkedArray, value: int) -> pa.ChunkedArray:
    return pc.fill_null(column, value) if column.null_count else column


def _sequence_numbers(entries: pa.Table, name: str, leaf: Leaf) -> pa.ChunkedArray:
    column = entries.column(name)
    if not column.null_count:
        return column
    wrong = pc.and_(pc.is_null(column), pc.not_equal(entries.column("status"), ADDED))
    if leaf.sequence_number and pc.any(wrong).as_py():
        raise FormatError(f"an EXISTING entry has no {name}, expected a number", path=leaf.location)
    return pc.fill_null(column, leaf.sequence_number)


def _row_ids(entries: pa.Table, first: int) -> pa.Array:
    own = one_chunk(entries.column("first_row_id"))
    missing = np.asarray(pc.is_null(own))
    rows = np.where(missing, one_chunk(entries.column("record_count")).to_numpy(), 0)
    return pc.coalesce(own, pa.array(first + np.cumsum(rows) - rows))
