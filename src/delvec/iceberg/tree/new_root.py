"""The root of the next snapshot while a commit makes it, by what happens to its entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.iceberg.tree.entries import DATA, is_of, united, with_columns


@dataclass(frozen=True, slots=True)
class Commit:
    """The snapshot that a commit makes.

    next_row_id   the first row id that is free
    stats         the type of ``content_stats`` in the new root; None: all columns of the old root and of the
                  change
    """

    snapshot_id: int
    sequence_number: int
    next_row_id: int = 0
    stats: pa.StructType | None = None


@dataclass(frozen=True, slots=True)
class NewRoot:
    """The parts of a new root, each a table of entries.

    leaves     live leaves: EXISTING ones of the old root, then new ones
    vectors    manifest vectors: unchanged, replaced, new
    kept       live files of the old root, EXISTING
    removed    files of the old root that the commit removes, DELETED
    added      new files, ADDED
    changed    the locations of the leaves that the commit masks entries of: they are not compacted
    next_row_id    the first row id that is free
    new_leaves, dropped_leaves   how many leaves were written, and how many of the old root are left out
    """

    leaves: pa.Table
    vectors: pa.Table
    kept: pa.Table
    removed: pa.Table
    added: pa.Table
    changed: frozenset[str]
    next_row_id: int = 0
    new_leaves: int = 0
    dropped_leaves: int = 0

    def with_row_ids(self) -> NewRoot:
        """With row ids for the new data files that have none."""
        if not len(self.added):
            return self
        own = one_chunk(self.added.column("first_row_id"))
        is_new = is_of(self.added, [DATA]) & np.asarray(pc.is_null(own))
        rows = np.where(is_new, one_chunk(self.added.column("record_count")).to_numpy(), 0)
        ids = pa.array(self.next_row_id + np.cumsum(rows) - rows, mask=~is_new)
        added = with_columns(self.added, {"first_row_id": pc.coalesce(own, ids)})
        return replace(self, added=added, next_row_id=self.next_row_id + int(rows.sum()))

    def with_leaves(self, leaves: Sequence[pa.Table], next_row_id: int) -> NewRoot:
        """With the entries of new leaves. ``next_row_id``: the first row id that is free after them."""
        return replace(
            self,
            leaves=pa.concat_tables([self.leaves, *leaves]),
            next_row_id=next_row_id,
            new_leaves=self.new_leaves + len(leaves),
        )

    def without_leaves(self, locations: Sequence[str]) -> NewRoot:
        """Without these leaves and their manifest vectors: other leaves have their live entries."""
        gone = pa.array(locations, pa.string())
        leaves = self.leaves.filter(pc.invert(pc.is_in(self.leaves.column("location"), value_set=gone)))
        of_gone = pc.is_in(self.vectors.column("referenced_file"), value_set=gone)
        dropped = len(self.leaves) - len(leaves)
        return replace(
            self,
            leaves=leaves,
            vectors=self.vectors.filter(pc.invert(of_gone)),
            dropped_leaves=self.dropped_leaves + dropped,
        )

    def table(self, stats: pa.StructType) -> pa.Table:
        """All entries of the root."""
        parts = (self.leaves, self.vectors, self.kept, self.removed, self.added)
        return united(parts, stats).combine_chunks()
