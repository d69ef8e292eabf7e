"""The live files of a snapshot that has a tree, in the form of `live_entries`.

``manifests`` has the root twice, for its own data files and for its own deletes, and then the leaves. A leaf
is read when it is needed:

    data manifests        those whose statistics allow a row in which the condition is true
    delete manifests      those that are affiliated with a data manifest of the files, and those without
                          affinity whose partition values may be those of a file
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Rows, one_chunk
from delvec.errors import FormatError
from delvec.iceberg import manifest_list
from delvec.iceberg.live_entries import FILE_ID, MANIFEST_SHIFT, SPEC_ID, LiveEntries, manifests_of
from delvec.iceberg.manifest import ENTRIES_SCHEMA
from delvec.iceberg.manifest_list import MANIFESTS_SCHEMA
from delvec.iceberg.metadata import SnapshotRecord
from delvec.iceberg.tree.changed_entries import changed_entries
from delvec.iceberg.tree.entries import (
    ADDED,
    CONTENT_STATS,
    DATA,
    DATA_MANIFEST,
    DELETED,
    EQUALITY_DELETES,
    FROM_LIVE,
    MANIFEST_STATS,
    MIXED_SPECS,
    POSITION,
    POSITION_DELETES,
    conformed,
    with_positions,
)
from delvec.iceberg.tree.entry_rules import CheckedEntries
from delvec.iceberg.tree.equality_entries import key_maps, ranges_of_vectors
from delvec.iceberg.tree.leaf_rules import no_affiliated_equality_deletes
from delvec.iceberg.tree.live import live_leaf, root_files
from delvec.iceberg.tree.measured_columns import MeasuredColumns
from delvec.iceberg.tree.partition_overlap import may_share_partition
from delvec.iceberg.tree.partition_tuples import partition_columns
from delvec.iceberg.tree.root import Leaf, Root, empty_root
from delvec.iceberg.tree.stored_tree import StoredTree
from delvec.iceberg.tree.tree_facts import TreeFacts
from delvec.predicate import Condition
from delvec.schema import Schema

_DELETES = (POSITION_DELETES, EQUALITY_DELETES)
_MAX_POSITION = 2**MANIFEST_SHIFT - 1
_COLUMNS = {live: name for name, live in FROM_LIVE.items()} | {
    "split_offsets": "split_offsets",
    "equality_ids": "equality_ids",
    "sort_order_id": "sort_order_id",
    "first_row_id": "first_row_id",
    "referenced_data_file": "referenced_file",
    "content_offset": "dv_offset",
    "content_size": "dv_size_in_bytes",
    "encoding": "encoding",
    "position": POSITION,
}
"""Columns of live entries, and the columns of tree entries that they are."""


class LiveTree(LiveEntries):
    """The live files of a snapshot with a root manifest; without a ``record``, of a table without rows.

    ``leaves``: for each row of ``manifests`` the leaf; None for the root. ``root``: that of the record by
    default.
    """

    def __init__(
        self,
        stored: StoredTree,
        record: SnapshotRecord | None,
        columns: MeasuredColumns,
        *,
        root: Root | None = None,
    ) -> None:
        self.stored = stored
        self.record = record
        if root is None:
            root = empty_root(columns.stats_type) if record is None else stored.root(record)
        self.root = root
        self.columns = columns
        rows = [
            row
            for content, types in ((manifest_list.DATA, (DATA,)), (manifest_list.DELETES, _DELETES))
            if record is not None and (row := self._root_row(record, content, types)) is not None
        ]
        self.leaves: list[Leaf | None] = [None] * len(rows) + list(self.root.leaves)
        chosen = pa.array([leaf.row for leaf in self.root.leaves], pa.int64())
        entries = self.root.entries.select(MANIFEST_STATS).take(chosen).to_pylist()
        rows += [_leaf_row(*pair) for pair in zip(self.root.leaves, entries, strict=True)]
        super().__init__(pa.Table.from_pylist(rows, schema=MANIFESTS_SCHEMA), columns.specs)
        self._is_root = np.array([leaf is None for leaf in self.leaves], np.bool_)

    @property
    def schema(self) -> pa.Schema:
        return super().schema.append(pa.field(CONTENT_STATS, self.columns.stats_type))

    def facts(self, entries: pa.Table, schema: Schema) -> TreeFacts:  # noqa: ARG002 - that of the columns
        return TreeFacts(_facts_of(entries), self.columns)

    def needed_data(self, condition: Condition, schema: Schema) -> tuple[Rows, int]:  # noqa: ARG002
        numbers = self.data_manifests
        needed = self._is_root[numbers].copy()
        leaves = [leaf for number in numbers.tolist() if (leaf := self.leaves[number]) is not None]
        entries = self.root.entries.take(pa.array([leaf.row for leaf in leaves], pa.int64()))
        facts = TreeFacts(conformed(entries, self.columns.stats_type), self.columns)
        may = condition.match(facts).may
        needed[~needed] = may
        skipped = sum(leaf.live_entries for leaf, is_needed in zip(leaves, may, strict=True) if not is_needed)
        return numbers[needed], skipped

    def needed_deletes(self, data: pa.Table) -> Rows:
        ids = one_chunk(data.column(FILE_ID)).to_numpy()
        leaves = (self.leaves[number] for number in manifests_of(ids).tolist())
        owners = {leaf.location for leaf in leaves if leaf is not None}
        needed = []
        for number in self.delete_manifests.tolist():
            leaf = self.leaves[number]
            if leaf is None:
                needed.append(number)
            elif leaf.referenced_file is not None:
                needed += [number] * (leaf.referenced_file in owners)
            elif may_share_partition(self._entry(leaf), leaf.spec_id, data, self.columns):
                needed.append(number)
        return np.array(needed, np.int64)

    @property
    def stored_vectors(self) -> list[str]:
        """The Puffin files of live manifest vectors."""
        rows = [leaf.vector for leaf in self.root.leaves if leaf.vector is not None]
        places = self.root.entries.column("location").take(pa.array(rows, pa.int64()))
        return sorted(set(places.drop_null().to_pylist()))

    def changed(self, content: int) -> tuple[pa.Table, pa.Table]:
        """The data files or deletes that the snapshot added, and those that it removed, as its root says."""
        types = (DATA,) if content == manifest_list.DATA else _DELETES
        if self.record is None:
            return self.schema.empty_table(), self.schema.empty_table()
        entries = changed_entries(
            self.root, self.record.snapshot_id, self.stored, self.columns.stats_type, types
        )
        status = entries.column("status")
        added, removed = (entries.filter(pc.equal(status, value)) for value in (ADDED, DELETED))
        return self._live(with_positions(added), 0), self._live(with_positions(removed), 0)

    def _read(self, number: int) -> pa.Table:
        leaf = self.leaves[number]
        if leaf is None:
            is_data = self.manifests.column("content")[number].as_py() == manifest_list.DATA
            entries = root_files(self.root, (DATA,) if is_data else _DELETES)
        else:
            entries = live_leaf(self.root, leaf, self.stored)
            if leaf.referenced_file is not None:
                problem = no_affiliated_equality_deletes(CheckedEntries(entries))
                if problem is not None:
                    raise FormatError(problem, path=leaf.location)
        return self._live(conformed(entries, self.columns.stats_type), number)

    def _live(self, entries: pa.Table, number: int) -> pa.Table:
        count = len(entries)
        if count and entries.column(POSITION)[-1].as_py() > _MAX_POSITION:
            raise FormatError(f"manifest has more than {_MAX_POSITION} entries")
        columns: dict[str, pa.Array] = {
            name: one_chunk(entries.column(source)).cast(ENTRIES_SCHEMA.field(name).type)
            for name, source in _COLUMNS.items()
        }
        positions = one_chunk(entries.column(POSITION)).to_numpy()
        columns[FILE_ID] = pa.array((number << MANIFEST_SHIFT) + positions)
        columns[SPEC_ID] = one_chunk(entries.column("partition_spec_id"))
        columns |= partition_columns(entries, self.columns)
        columns[CONTENT_STATS] = one_chunk(entries.column(CONTENT_STATS))
        columns |= key_maps(entries, self.columns)
        columns |= ranges_of_vectors(self.stored, entries, columns)
        schema = self.schema
        arrays = [
            columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in schema
        ]
        return pa.table(arrays, schema=schema)

    def _root_row(
        self, record: SnapshotRecord, content: int, types: tuple[int, ...]
    ) -> dict[str, Any] | None:
        """The root as a manifest of its own files of these types; None if it has none."""
        files = root_files(self.root, types)
        if not len(files):
            return None
        specs = files.column("partition_spec_id").unique().to_pylist()
        return {
            "path": record.root_manifest,
            "spec_id": specs[0] if len(specs) == 1 else MIXED_SPECS,
            "content": content,
            "sequence_number": record.sequence_number,
            "min_sequence_number": pc.min(files.column("sequence_number")).as_py(),
            "added_snapshot_id": record.snapshot_id,
            "existing_files": len(files),
            "first_row_id": pc.min(files.column("first_row_id")).as_py(),
        }

    def _entry(self, leaf: Leaf) -> pa.Table:
        return conformed(self.root.entries.slice(leaf.row, 1), self.columns.stats_type)


def _leaf_row(leaf: Leaf, stats: Mapping[str, Any]) -> dict[str, Any]:
    """A leaf as a row of ``MANIFESTS_SCHEMA``. ``stats``: its manifest_stats."""
    return {
        "path": leaf.location,
        "length": leaf.size,
        "spec_id": leaf.spec_id,
        "content": manifest_list.DATA if leaf.content_type == DATA_MANIFEST else manifest_list.DELETES,
        "sequence_number": leaf.sequence_number,
        "min_sequence_number": stats["min_sequence_number"],
        "added_snapshot_id": leaf.snapshot_id,
        "first_row_id": leaf.first_row_id,
        **{name.removesuffix("_count"): stats[name] for name in MANIFEST_STATS[:-1]},
    }


def _facts_of(entries: pa.Table) -> pa.Table:
    """The columns of live entries that facts are about."""
    names = ["content", "record_count", CONTENT_STATS]
    return entries.select(names).rename_columns(["content_type", *names[1:]])
