"""The tree of a snapshot with a root manifest: its entries in their order, with their statuses.

    root metadata/snap-….parquet
    ├── data manifest …-m0.parquet · existing · 3 live records
    │   ├── manifest vector inline · added · 1 masked position
    │   └── data file …
    ├── delete manifest … · added · affiliated with …
    ├── data file … · added
    └── vector …@ 4 · deleted

DELETED entries are shown too: they say what the snapshot removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from delvec.file_nodes import delete_nodes, file_nodes
from delvec.iceberg.manifest_rows import rows_by_manifest, short_place
from delvec.iceberg.plan_tables import deletes_table
from delvec.iceberg.tree.entries import (
    CONTENT_STATS,
    DATA,
    DATA_MANIFEST,
    DELETED,
    MANIFEST_DV,
    MANIFESTS,
)
from delvec.iceberg.tree.live_tree import LiveTree
from delvec.iceberg.tree.root import Leaf
from delvec.metadata_tree import BYTES, Node
from delvec.plan import ScanPlan

if TYPE_CHECKING:
    from delvec.iceberg.snapshot import Snapshot

_STATUSES = ("existing", "added", "deleted")
_KINDS = (
    "data file",
    "vector",
    "equality deletes",
    "data manifest",
    "delete manifest",
    "manifest vector",
)


def root_node(snapshot: Snapshot, plan: ScanPlan, live: LiveTree) -> Node:
    """The root manifest of the snapshot; its children are made as they are asked for."""
    record = snapshot.record
    assert record is not None
    nodes = _RootNodes(snapshot, plan, live)
    entries = nodes.shown
    facts = {
        BYTES: snapshot.storage.head(snapshot.locations.resolve(record.root_manifest or "")).size,
        "records": len(live.root.entries),
        "leaves": len(live.root.leaves),
    }
    name = short_place(snapshot, record.root_manifest)
    return Node(
        "root", str(name), facts, len(entries), lambda count: [nodes.node(e) for e in entries[:count]]
    )


class _RootNodes:
    def __init__(self, snapshot: Snapshot, plan: ScanPlan, live: LiveTree) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._live = live
        self._rows: list[dict[str, Any]] = live.root.entries.drop_columns([CONTENT_STATS]).to_pylist()
        self._files = rows_by_manifest(plan.files)
        self._leaves = {leaf.row: leaf for leaf in live.root.leaves}
        self._numbers = {leaf.row: n for n, leaf in enumerate(live.leaves) if leaf is not None}

    @property
    def shown(self) -> list[int]:
        """The rows of the root's entries; manifest vectors are below their leaves."""
        leaves = {leaf.location for leaf in self._live.root.leaves}
        return [
            row
            for row, entry in enumerate(self._rows)
            if entry["content_type"] != MANIFEST_DV or entry["referenced_file"] not in leaves
        ]

    def node(self, row: int) -> Node:
        entry = self._rows[row]
        status = _STATUSES[entry["status"]]
        if entry["content_type"] in MANIFESTS and row in self._leaves:
            return self._leaf(self._leaves[row], entry, status)
        if entry["content_type"] == DATA and entry["status"] != DELETED:
            return self._with_status(self._data_file(row), status)
        return self._plain(entry, status)

    def _data_file(self, row: int) -> Node:
        """A live data file of the root, with the deletes that apply to it."""
        assert self._snapshot.record is not None
        rows = self._files[self._snapshot.record.root_manifest or ""]
        positions = self._plan.files.column("entry").combine_chunks().field("position").to_numpy()
        found = rows[positions[rows] == row]
        return file_nodes(self._plan, found)[0]

    def _leaf(self, leaf: Leaf, entry: Mapping[str, Any], status: str) -> Node:
        vectors = [
            other
            for other in self._rows
            if other["content_type"] == MANIFEST_DV and other["referenced_file"] == leaf.location
        ]
        facts = {
            "status": status,
            BYTES: leaf.size,
            "records": leaf.record_count,
            "live records": leaf.live_entries,
            "added files": entry["added_files_count"],
            "existing files": entry["existing_files_count"],
            "deleted files": entry["deleted_files_count"],
            "sequence": leaf.sequence_number,
            "partition spec": None if leaf.spec_id < 0 else leaf.spec_id,
            "first row id": leaf.first_row_id,
            "format": None if leaf.file_format == "parquet" else leaf.file_format,
            "affiliated with": short_place(self._snapshot, leaf.referenced_file),
        }
        name = str(short_place(self._snapshot, leaf.location))

        def children(count: int) -> list[Node]:
            masks = [self._plain(vector, _STATUSES[vector["status"]]) for vector in vectors][:count]
            return [*masks, *self._entries_of(leaf, count - len(masks))]

        return Node(_KINDS[leaf.content_type], name, facts, len(vectors) + leaf.live_entries, children)

    def _entries_of(self, leaf: Leaf, count: int) -> Iterator[Node]:
        if leaf.content_type == DATA_MANIFEST:
            rows = self._files.get(leaf.location, np.empty(0, np.int64))
            yield from file_nodes(self._plan, rows[:count])
            return
        entries = self._live.entries(np.array([self._numbers[leaf.row]], np.int64)).slice(0, count)
        deletes = deletes_table(
            self._live,
            self._snapshot.locations,
            entries,
            schema=self._snapshot.schema,
            specs=self._snapshot.specs,
        )
        yield from delete_nodes(self._plan.location, deletes)

    def _plain(self, entry: Mapping[str, Any], status: str) -> Node:
        """An entry by what the root says of it alone."""
        kind, place = entry["content_type"], entry["location"]
        name = "inline" if place is None else str(short_place(self._snapshot, place))
        offset = entry["dv_offset"]
        counted = {DATA: "rows", MANIFEST_DV: "masked positions"}.get(kind, "deleted rows")
        size = entry["file_size_in_bytes"] if entry["dv_size_in_bytes"] is None else entry["dv_size_in_bytes"]
        of_leaf = kind == MANIFEST_DV and entry["referenced_file"] in self._live.root.leaf_at
        facts = {
            "status": status,
            ("records" if kind in MANIFESTS else counted): entry["record_count"],
            BYTES: len(entry["dv_inline"]) if entry["dv_inline"] is not None else size,
            "sequence": entry["sequence_number"],
            "of": None if of_leaf else short_place(self._snapshot, entry["referenced_file"]),
        }
        return Node(_KINDS[kind], name if offset is None else f"{name} @ {offset}", facts)

    def _with_status(self, node: Node, status: str) -> Node:
        return replace(node, facts={"status": status, **node.facts})
