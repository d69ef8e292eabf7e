"""The root of the snapshot that a commit makes: stores it with the leaves and manifest vectors it needs.

The base is a snapshot with a tree, a table without a snapshot, or a snapshot with a manifest list, which the
root then carries. A commit that is retried starts from the winner's root: its delta names files there, by the
winner's live entries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from delvec.chunked import Rows
from delvec.iceberg.live_entries import LiveEntries
from delvec.iceberg.manifest_changes import Removals
from delvec.iceberg.metadata import TableMetadata
from delvec.iceberg.tree.carried_tree import CarriedTree
from delvec.iceberg.tree.commit import TreeChange, TreeCommit, next_root
from delvec.iceberg.tree.entries import united
from delvec.iceberg.tree.limits import TreeLimits
from delvec.iceberg.tree.live_tree import LiveTree
from delvec.iceberg.tree.measured_columns import MeasuredColumns
from delvec.iceberg.tree.new_root import Commit
from delvec.iceberg.tree.new_tree_entries import tree_entries
from delvec.iceberg.tree.stored_tree import NewTreeFiles


def next_snapshot(
    live: LiveEntries,
    added: Sequence[pa.Table],
    removals: Removals,
    *,
    after: TableMetadata,
    columns: MeasuredColumns,
    files: NewTreeFiles,
    snapshot_id: int,
) -> TreeCommit:
    """The root after ``added`` entries, a table for each spec and content, and ``removals``. Stores its
    leaves, not the root itself. ``after``, ``columns``: the metadata as it will be.
    """
    assert isinstance(live, LiveTree), "the base of a commit to a table with trees has one"
    removed, masked = _removed(live, removals)
    change = TreeChange(
        united([tree_entries(table, columns) for table in added if len(table)], columns.stats_type),
        removed,
        masked,
    )
    next_row_id = max(after.next_row_id or 0, live.next_row_id if isinstance(live, CarriedTree) else 0)
    commit = Commit(snapshot_id, after.last_sequence_number + 1, next_row_id, columns.stats_type)
    return next_root(live.root, change, commit, files=files, limits=TreeLimits.of(after.properties))


def _removed(tree: LiveTree, removals: Removals) -> tuple[Rows, dict[str, Rows]]:
    """Rows of the root to remove, and positions of leaves to mask."""
    rows: list[Rows] = [np.array([], np.int64)]
    masked: dict[str, Rows] = {}
    for number, positions in removals.by_manifest():
        leaf = tree.leaves[number]
        if leaf is None:
            rows.append(positions)
        else:
            masked[leaf.location] = positions
    return np.concatenate(rows), masked
