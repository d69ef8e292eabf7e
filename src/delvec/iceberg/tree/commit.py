"""From the root of a snapshot and a change of its entries to the root of the next snapshot.

    ADDED      entries that change the table's state: new files, new leaves, new manifest vectors
    EXISTING   all other live entries
    DELETED    entries of the old root that this commit removes; the next root no longer has them

An entry of a leaf is removed by a manifest vector, united with the leaf's old one, which stays beside the new
one as DELETED. A leaf is never rewritten with a net change. A leaf without live entries is left out by the
commit after the one that masked its last entry. `flush` moves entries from the root to leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Rows, one_chunk
from delvec.errors import FormatError, InvalidOperationError
from delvec.iceberg.tree.entries import (
    ADDED,
    CONTENT_STATS,
    DELETED,
    EXISTING,
    conformed,
    is_of,
    united,
    with_columns,
    with_value,
)
from delvec.iceberg.tree.flush import flushed
from delvec.iceberg.tree.limits import TreeLimits
from delvec.iceberg.tree.manifest_files import ManifestFiles
from delvec.iceberg.tree.manifest_vectors import new_vectors
from delvec.iceberg.tree.new_root import Commit, NewRoot
from delvec.iceberg.tree.root import FILES, Leaf, Root

_NO_ROWS: Rows = np.array([], np.int64)


@dataclass(frozen=True, slots=True)
class TreeChange:
    """What a commit changes.

    added          new data files, vectors and equality deletes, as entries. Sequence numbers and row ids that
                   are null are the commit's. Status and snapshot id are set here
    removed        rows of the root: files to remove
    masked         positions of leaves to remove, by the leaf's location
    """

    added: pa.Table
    removed: Rows = field(default_factory=lambda: _NO_ROWS)
    masked: Mapping[str, Rows] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TreeCommit:
    """The entries of the new root, the next row id of the table, and how many leaves were written and left
    out.
    """

    root: pa.Table
    next_row_id: int
    new_leaves: int
    dropped_leaves: int


def next_root(
    old: Root, change: TreeChange, commit: Commit, *, files: ManifestFiles, limits: TreeLimits | None = None
) -> TreeCommit:
    """The root after ``change``. Stores the leaves and the manifest vectors that it needs."""
    limits = limits or TreeLimits()
    stats = _statistics_type(old, change, commit)
    draft = _Draft(old, change, commit, files, limits, stats).root()
    root = flushed(draft, commit, files=files, limits=limits, stats=stats).with_row_ids()
    return TreeCommit(root.table(stats), root.next_row_id, root.new_leaves, root.dropped_leaves)


def _statistics_type(old: Root, change: TreeChange, commit: Commit) -> pa.StructType:
    if commit.stats is not None:
        return commit.stats
    types: dict[str, pa.DataType] = {}
    for table in (old.entries, change.added):
        types |= {field.name: field.type for field in table.schema.field(CONTENT_STATS).type}
    return pa.struct([pa.field(name, kind) for name, kind in types.items()])


@dataclass(frozen=True, slots=True)
class _Draft:
    """The new root before entries are flushed."""

    old: Root
    change: TreeChange
    commit: Commit
    files: ManifestFiles
    limits: TreeLimits
    stats: pa.StructType

    def root(self) -> NewRoot:
        entries = conformed(self.old.entries, self.stats)
        self._verify_removed()
        kept = np.setdiff1d(self.old.files, self.change.removed)
        empty = {leaf.location for leaf in self.old.leaves if not leaf.live_entries}
        changed = {place for place, positions in self.change.masked.items() if len(positions)}
        leaves = [leaf for leaf in self.old.leaves if leaf.location not in empty or leaf.location in changed]
        vectors = {leaf.location: leaf.vector for leaf in leaves if leaf.vector is not None}
        replaced = [vectors[place] for place in sorted(changed) if place in vectors]
        unchanged = sorted(set(vectors.values()) - set(replaced))
        return NewRoot(
            leaves=self._leaves(entries, leaves),
            vectors=united(
                [
                    with_value(entries.take(pa.array(unchanged, pa.int64())), "status", EXISTING),
                    self._deleted(entries, np.array(replaced, np.int64)),
                    self._new_vectors(changed),
                ],
                self.stats,
            ),
            kept=with_value(entries.take(pa.array(kept)), "status", EXISTING),
            removed=self._deleted(entries, self.change.removed),
            added=self._added(),
            changed=frozenset(changed),
            next_row_id=self.commit.next_row_id,
            dropped_leaves=len(self.old.leaves) - len(leaves),
        )

    def _verify_removed(self) -> None:
        lost = np.setdiff1d(self.change.removed, self.old.files)
        if len(lost):
            raise InvalidOperationError(f"root has no live file in row {lost[0]}, expected the row of one")
        for place in self.change.masked:
            if place not in self.old.leaf_at:
                raise FormatError("manifest of a removed entry is not in the snapshot", path=place)

    def _leaves(self, entries: pa.Table, leaves: list[Leaf]) -> pa.Table:
        """The entries of the leaves. Affinity with a data manifest that is left out is dropped."""
        chosen = entries.take(pa.array([leaf.row for leaf in leaves], pa.int64()))
        places = pa.array([leaf.location for leaf in leaves], pa.string())
        referenced = one_chunk(chosen.column("referenced_file"))
        is_kept = pc.is_in(referenced, value_set=places)
        affinity = pc.if_else(is_kept, referenced, pa.scalar(None, pa.string()))
        return with_columns(with_value(chosen, "status", EXISTING), {"referenced_file": affinity})

    def _deleted(self, entries: pa.Table, rows: Rows) -> pa.Table:
        deleted = with_value(entries.take(pa.array(rows)), "status", DELETED)
        return with_value(deleted, "snapshot_id", self.commit.snapshot_id)

    def _added(self) -> pa.Table:
        """The new files, with the commit's sequence number where they have none of their own."""
        added = conformed(self.change.added, self.stats)
        if not is_of(added, FILES).all():
            raise InvalidOperationError("an added entry is a manifest, expected data files and deletes")
        sequence = pc.fill_null(added.column("sequence_number"), self.commit.sequence_number)
        added = with_columns(added, {"sequence_number": sequence})
        added = with_value(added, "file_sequence_number", self.commit.sequence_number)
        added = with_value(added, "snapshot_id", self.commit.snapshot_id)
        return with_value(added, "status", ADDED)

    def _new_vectors(self, changed: set[str]) -> pa.Table:
        return new_vectors(
            self.old,
            {place: self.change.masked[place] for place in changed},
            self.commit,
            files=self.files,
            inline_bytes=self.limits.inline_bytes,
            stats=self.stats,
        )
