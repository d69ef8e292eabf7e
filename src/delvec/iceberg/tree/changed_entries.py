"""What a snapshot added and removed, by its own root (variant A of change detection).

    added     ADDED files of the root, and the live ADDED entries of its ADDED leaves
    removed   DELETED files of the root, and the entries of leaves that a new manifest vector masks and the
              old one, which is beside it as DELETED, does not

EXISTING entries change nothing. No other snapshot is read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.bitmap import Bitmap
from delvec.chunked import Mask, one_chunk
from delvec.iceberg.tree.entries import (
    ADDED,
    DELETED,
    MANIFEST_DV,
    POSITION,
    is_of,
    numbers,
    united,
    with_value,
)
from delvec.iceberg.tree.live import inherited, live_leaf
from delvec.iceberg.tree.manifest_files import LeafReader
from delvec.iceberg.tree.root import FILES, Leaf, Root, manifest_vector


def changed_entries(
    root: Root,
    snapshot_id: int,
    reader: LeafReader,
    stats: pa.StructType,
    content_types: tuple[int, ...] = FILES,
) -> pa.Table:
    """The files of these types that the snapshot added or removed, with the status ADDED or DELETED, and with
    what they inherit.
    """
    changes = _Changes(root, snapshot_id, reader)
    tables = [changes.of_root()]
    tables += changes.of_leaves()
    found = united(tables, stats)
    return found.filter(pa.array(is_of(found, content_types)))


class _Changes:
    def __init__(self, root: Root, snapshot_id: int, reader: LeafReader) -> None:
        self._root = root
        self._snapshot_id = snapshot_id
        self._reader = reader
        entries = root.entries
        self._own: Mask = numbers(entries, "snapshot_id") == snapshot_id
        self._status = numbers(entries, "status")
        self._is_vector = is_of(entries, [MANIFEST_DV])

    def of_root(self) -> pa.Table:
        is_change = np.isin(self._status, (ADDED, DELETED))
        return self._root.entries.filter(pa.array(is_of(self._root.entries, FILES) & is_change & self._own))

    def of_leaves(self) -> Iterator[pa.Table]:
        old = self._vectors(DELETED)
        new = self._vectors(ADDED)
        for leaf in self._root.leaves:
            if self._is_added(leaf):
                yield self._added(leaf)
            elif leaf.vector is not None and leaf.vector in new.values():
                yield self._masked(leaf, old.get(leaf.location))

    def _is_added(self, leaf: Leaf) -> bool:
        return bool(self._status[leaf.row] == ADDED and self._own[leaf.row])

    def _added(self, leaf: Leaf) -> pa.Table:
        live = live_leaf(self._root, leaf, self._reader).drop_columns([POSITION])
        is_new = pc.and_(
            pc.equal(live.column("status"), ADDED), pc.equal(live.column("snapshot_id"), self._snapshot_id)
        )
        return live.filter(is_new)

    def _masked(self, leaf: Leaf, old: int | None) -> pa.Table:
        assert leaf.vector is not None
        before = Bitmap() if old is None else self._mask(leaf, old)
        newly = self._mask(leaf, leaf.vector) - before
        entries = self._entries(leaf)
        positions = one_chunk(entries.column(POSITION)).to_numpy()
        return self._removed(entries.filter(pa.array(newly.contains_many(positions))))

    def _removed(self, entries: pa.Table) -> pa.Table:
        removed = with_value(entries.drop_columns([POSITION]), "status", DELETED)
        return with_value(removed, "snapshot_id", self._snapshot_id)

    def _entries(self, leaf: Leaf) -> pa.Table:
        return inherited(self._reader.entries(leaf.location, leaf.size, leaf.content_type), leaf)

    def _mask(self, leaf: Leaf, row: int) -> Bitmap:
        return manifest_vector(self._root.entries, row, leaf, self._reader)

    def _vectors(self, status: int) -> dict[str, int]:
        """The rows of this snapshot's manifest vectors with this status, by the location of their leaf."""
        rows = np.flatnonzero(self._is_vector & (self._status == status) & self._own)
        places = self._root.entries.column("referenced_file").take(pa.array(rows)).to_pylist()
        return dict(zip(places, rows.tolist(), strict=True))
