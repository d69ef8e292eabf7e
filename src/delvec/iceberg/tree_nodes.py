"""The tree of a snapshot: its manifests, their live files, and the deletes that apply to each data file.

Manifests of deletes list their delete files, also those that no live data file needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from delvec.file_nodes import delete_nodes, file_nodes
from delvec.iceberg.manifest_list import DATA
from delvec.iceberg.manifest_rows import rows_by_manifest, short_place
from delvec.iceberg.plan_tables import deletes_table
from delvec.iceberg.root_nodes import root_node
from delvec.iceberg.tree.live_tree import LiveTree
from delvec.instants import as_datetime
from delvec.metadata_tree import BYTES, Node
from delvec.plan import ScanPlan

if TYPE_CHECKING:
    from delvec.iceberg.snapshot import Snapshot

_COUNTS = ("added_files", "existing_files", "deleted_files")


def snapshot_tree(snapshot: Snapshot) -> Node:
    """The snapshot, with its manifests in the order of the manifest list."""
    if snapshot.record is None:
        return Node("table without a snapshot", snapshot.opened.metadata_path)
    plan = snapshot.plan()
    if isinstance(snapshot.files.live, LiveTree):
        root = root_node(snapshot, plan, snapshot.files.live)
        return Node("snapshot", str(snapshot.version), _snapshot_facts(snapshot, plan), 1, lambda _: [root])
    files = rows_by_manifest(plan.files)
    manifests = snapshot.files.live.manifests

    def children(count: int) -> list[Node]:
        rows = manifests.slice(0, count).to_pylist()
        return [_manifest_node(snapshot, plan, files, number, row) for number, row in enumerate(rows)]

    return Node("snapshot", str(snapshot.version), _snapshot_facts(snapshot, plan), len(manifests), children)


def _snapshot_facts(snapshot: Snapshot, plan: ScanPlan) -> Mapping[str, Any]:
    record = snapshot.record
    assert record is not None
    refs = [ref.name for ref in snapshot.metadata.refs.values() if ref.snapshot_id == record.snapshot_id]
    return {
        "operation": record.summary.get("operation"),
        "committed": as_datetime(record.timestamp_ms),
        "refs": sorted(refs),
        "sequence": record.sequence_number,
        "manifest list": short_place(snapshot, record.manifest_list),
        "files": len(plan.files),
        "rows": pc.sum(plan.files.column("record_count")).as_py() or 0,
        "deletes": len(snapshot.files.live.deletes()),
    }


def _manifest_node(
    snapshot: Snapshot,
    plan: ScanPlan,
    files: Mapping[str, np.ndarray[tuple[int], np.dtype[np.int64]]],
    number: int,
    row: Mapping[str, Any],
) -> Node:
    is_data = row["content"] == DATA
    facts = {
        **{name.replace("_", " "): row[name] for name in _COUNTS},
        BYTES: row["length"],
        "sequence": row["sequence_number"],
        "partition spec": row["spec_id"],
        "first row id": row["first_row_id"],
    }
    kind, name = "manifest" if is_data else "delete manifest", short_place(snapshot, row["path"])
    if is_data:
        rows = files.get(row["path"], np.empty(0, np.int64))
        return Node(kind, str(name), facts, len(rows), lambda count: file_nodes(plan, rows[:count]))
    live = snapshot.files.live
    deletes = deletes_table(
        live,
        snapshot.locations,
        live.entries(np.array([number])),
        schema=snapshot.schema,
        specs=snapshot.specs,
    )
    return Node(
        kind,
        str(name),
        facts,
        len(deletes),
        lambda count: delete_nodes(plan.location, deletes.slice(0, count)),
    )
