"""Moves vectors and equality deletes from the root to delete manifests.

A data manifest may have delete manifests that are affiliated with it: a plan that needs the data manifest
reads these, and no other plan does. Vectors of one data manifest go to an affiliated one if there are enough
of them. The others go to manifests without affinity, with those of data files that are in the root.

    older vectors     are merged with the affiliated manifests that the commit does not change, which are
                      rewritten as EXISTING; or they become a further one
    new vectors       become further manifests, ADDED
    no affinity       if there are too many manifests without affinity, those of older commits are merged, and
                      enough vectors of one data manifest move to an affiliated one
    equality deletes  go to manifests of their own, without affinity

Manifests from before the table had trees (Avro) stay as they are: they may list position files, which leaves
of the tree cannot have.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.iceberg.tree.entries import (
    DATA_MANIFEST,
    DELETE_MANIFEST,
    EQUALITY_DELETES,
    POSITION,
    POSITION_DELETES,
    is_of,
    united,
)
from delvec.iceberg.tree.limits import TreeLimits
from delvec.iceberg.tree.live import live_leaf
from delvec.iceberg.tree.new_leaves import LeafWriter
from delvec.iceberg.tree.new_root import NewRoot
from delvec.iceberg.tree.root import AVRO, Leaf, Root


class DeleteFlush:
    """Flushes deletes that ``root`` no longer has to leaves."""

    def __init__(self, root: NewRoot, writer: LeafWriter, limits: TreeLimits, stats: pa.StructType) -> None:
        self._root = root
        self._writer = writer
        self._limits = limits
        self._stats = stats
        self._tree = Root(pa.concat_tables([root.leaves, root.vectors]))
        self._merged: list[str] = []
        self._written: Counter[str] = Counter()
        self._affiliated: dict[str, list[Leaf]] = {}
        for leaf in self._tree.leaves:
            if leaf.referenced_file is not None:
                self._affiliated.setdefault(leaf.referenced_file, []).append(leaf)
        own = pc.equal(root.leaves.column("snapshot_id"), writer.commit.snapshot_id)
        self._unmergeable = root.changed | set(root.leaves.filter(own).column("location").to_pylist())
        self._unmergeable |= {leaf.location for leaf in self._tree.leaves if leaf.file_format == AVRO}

    def flushed(self, old: pa.Table, new: pa.Table) -> NewRoot:
        """The root after older deletes and this commit's deletes are written to leaves."""
        vectors, equality = _split(new, POSITION_DELETES)
        self._write_new(vectors)
        self._writer.added(equality, DELETE_MANIFEST)
        vectors, equality = _split(old, POSITION_DELETES)
        self._write_old(vectors, POSITION_DELETES)
        self._write_old(equality, EQUALITY_DELETES)
        root = self._root.without_leaves(self._merged)
        return root.with_leaves(self._writer.leaves, self._writer.next_row_id)

    def _write_new(self, vectors: pa.Table) -> None:
        groups, others = self._grouped(vectors)
        for owner, group in groups:
            if len(self._affiliated.get(owner, [])) < self._limits.affiliated_manifests:
                self._writer.added(group, DELETE_MANIFEST, owner)
                self._written[owner] += 1
            else:
                others = pa.concat_tables([others, group])
        self._writer.added(others, DELETE_MANIFEST)

    def _write_old(self, deletes: pa.Table, kind: int) -> None:
        older = self._too_many_unaffiliated(kind)
        others = united([*older, deletes], self._stats)
        if kind == POSITION_DELETES:
            groups, others = self._grouped(others)
            for owner, group in groups:
                if not self._merge_affiliated(owner, group):
                    others = pa.concat_tables([others, group])
        self._writer.existing(others, DELETE_MANIFEST)

    def _merge_affiliated(self, owner: str, group: pa.Table) -> bool:
        """Write older vectors of a data manifest to an affiliated manifest; False if this commit changes all
        of these, and there may be no further one.
        """
        present = self._affiliated.get(owner, [])
        mergeable = [leaf for leaf in present if leaf.location not in self._unmergeable]
        if len(present) - len(mergeable) + self._written[owner] >= self._limits.affiliated_manifests:
            return False
        older = [self._live(leaf) for leaf in mergeable]
        self._merged += [leaf.location for leaf in mergeable]
        self._writer.existing(united([*older, group], self._stats), DELETE_MANIFEST, owner)
        return True

    def _too_many_unaffiliated(self, kind: int) -> list[pa.Table]:
        """The live entries of the manifests without affinity, if there are too many of this kind. Those that
        are large already stay as they are.
        """
        small = [
            leaf
            for leaf in self._tree.leaves
            if leaf.content_type == DELETE_MANIFEST
            and leaf.referenced_file is None
            and leaf.location not in self._unmergeable
            and 2 * leaf.live_entries <= self._limits.leaf_entries
        ]
        if len(small) <= self._limits.unaffiliated_manifests:
            return []
        tables = {leaf.location: self._live(leaf) for leaf in small}
        of_kind = {place: table for place, table in tables.items() if is_of(table, [kind]).all()}
        if len(of_kind) <= self._limits.unaffiliated_manifests:
            return []
        self._merged += of_kind
        return list(of_kind.values())

    def _grouped(self, vectors: pa.Table) -> tuple[list[tuple[str, pa.Table]], pa.Table]:
        """The vectors by the data manifest of their files, where there are enough of them; and the others."""
        if len(vectors) < self._limits.affiliated_entries:
            return [], vectors
        owners = self._owners(one_chunk(vectors.column("referenced_file")))
        order = np.argsort(owners, kind="stable")
        numbers, starts, counts = np.unique(owners[order], return_index=True, return_counts=True)
        groups, is_other = [], np.ones(len(vectors), np.bool_)
        for number, start, count in zip(numbers.tolist(), starts.tolist(), counts.tolist(), strict=True):
            if number >= 0 and count >= self._limits.affiliated_entries:
                rows = order[start : start + count]
                groups.append((self._tree.leaves[number].location, vectors.take(pa.array(rows))))
                is_other[rows] = False
        return groups, vectors.filter(pa.array(is_other))

    def _owners(self, data_files: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The number of the leaf in which each data file is live; -1 for those in the root."""
        owners = np.full(len(data_files), -1, np.int64)
        in_root = pa.concat_tables([self._root.kept, self._root.added]).column("location")
        missing = ~np.asarray(pc.is_in(data_files, value_set=one_chunk(in_root)))
        for number, leaf in enumerate(self._tree.leaves):
            if leaf.content_type == DATA_MANIFEST and missing.any():
                places = one_chunk(self._live(leaf).column("location"))
                found = missing & np.asarray(pc.is_in(data_files, value_set=places))
                owners[found] = number
                missing &= ~found
        return owners

    def _live(self, leaf: Leaf) -> pa.Table:
        """The live entries of a leaf, with all that they inherit."""
        return live_leaf(self._tree, leaf, self._writer.files).drop_columns([POSITION])


def _split(entries: pa.Table, kind: int) -> tuple[pa.Table, pa.Table]:
    """The entries of this content type, and the others."""
    mask = is_of(entries, [kind])
    return entries.filter(pa.array(mask)), entries.filter(pa.array(~mask))
