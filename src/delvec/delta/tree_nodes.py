"""The tree of a version: the checkpoint and the commits that it is read from, their live files, vectors.

A file is shown below the newest commit that added it with its current vector.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Rows
from delvec.delta.actions import Actions
from delvec.delta.file_keys import file_keys
from delvec.delta.history import CommitTimes
from delvec.delta.log_files import Checkpoint, Compaction, Listing, list_log, tail
from delvec.delta.log_reader import commit_version, read_commit, sidecars_of
from delvec.delta.recovery import load_version
from delvec.delta.snapshot import Snapshot
from delvec.file_nodes import file_nodes
from delvec.instants import as_datetime
from delvec.metadata_tree import BYTES, Node
from delvec.plan import ScanPlan
from delvec.storage import Entry, Storage, in_parallel


def version_tree(storage: Storage, version: int) -> Node:
    """The version as a reader finds it that opens the table now."""
    state, _ = load_version(storage, version)
    snapshot = Snapshot(storage, state)
    listing = list_log(storage)
    first = 0 if state.checkpoint is None else state.checkpoint.version + 1
    files = tail(listing, first, version)
    commits = in_parallel(lambda file: read_commit(storage, file), files)
    origin = _origins(snapshot.adds, commits)
    plan = snapshot.plan()
    times = _times(snapshot, listing, files, commits)
    nodes = []
    if state.checkpoint is not None:
        facts = _checkpoint_facts(storage, state.checkpoint)
        nodes.append(
            _log_node("checkpoint", state.checkpoint.paths[0], facts, plan, np.flatnonzero(origin < 0))
        )
    for number, (file, actions) in enumerate(zip(files, commits, strict=True)):
        kind = "compacted commits" if isinstance(file, Compaction) else "commit"
        facts = _commit_facts(storage, times, file, actions)
        nodes.append(_log_node(kind, file.path, facts, plan, np.flatnonzero(origin == number)))
    return Node("version", str(version), _version_facts(plan, times), len(nodes), lambda count: nodes[:count])


def _times(
    snapshot: Snapshot, listing: Listing, files: Sequence[Entry | Compaction], commits: Sequence[Actions]
) -> CommitTimes:
    times = CommitTimes(snapshot.storage, listing, snapshot.properties)
    read = [
        (commit_version(file), actions.commit_info or {})
        for file, actions in zip(files, commits, strict=True)
        if isinstance(file, Entry)
    ]
    times.remember(dict(read))
    return times


def _origins(adds: pa.Table, commits: Sequence[Actions]) -> Rows:
    """For each live file the number of the commit that added it; -1: the checkpoint has it."""
    keys = file_keys(adds)
    origin = np.full(len(adds), -1, np.int64)
    for number, actions in enumerate(commits):
        added = pc.is_in(keys, value_set=file_keys(actions.adds)).to_numpy()
        origin[added] = number
    return origin


def _log_node(kind: str, path: str, facts: Mapping[str, Any], plan: ScanPlan, rows: Rows) -> Node:
    """A file of the log, with the live files that it added: ``rows`` of the plan's."""
    facts = {**facts, "live files": len(rows)}
    name = path.rpartition("/")[2]
    return Node(kind, name, facts, len(rows), lambda count: file_nodes(plan, rows[:count]))


def _version_facts(plan: ScanPlan, times: CommitTimes) -> Mapping[str, Any]:
    return {
        "committed": _time(times, plan.base.version),
        "files": len(plan.files),
        "rows": _sum_or_none(plan.files.column("record_count")),
        "vectors": len(plan.deletes),
        "deleted rows": _sum_or_none(plan.deleted_rows),
    }


def _checkpoint_facts(storage: Storage, checkpoint: Checkpoint) -> Mapping[str, Any]:
    sidecars = sum(len(sidecars_of(storage, path)) for path in checkpoint.paths)
    return {
        "parts": len(checkpoint.paths) if len(checkpoint.paths) > 1 else None,
        "sidecars": sidecars or None,
        BYTES: sum(storage.head(path).size for path in checkpoint.paths),
    }


def _commit_facts(
    storage: Storage, times: CommitTimes, file: Entry | Compaction, actions: Actions
) -> Mapping[str, Any]:
    counts = {"added files": len(actions.adds), "removed files": len(actions.removes)}
    if isinstance(file, Compaction):
        return {BYTES: storage.head(file.path).size, **counts}
    version = commit_version(file)
    operation = times.info(version).get("operation")
    return {"operation": operation, "committed": _time(times, version), BYTES: file.size, **counts}


def _time(times: CommitTimes, version: int) -> dt.datetime | None:
    """When the version was committed; None if its commit is no longer in the log."""
    return as_datetime(times.millis(version)) if version in times.versions else None


def _sum_or_none(counts: pa.ChunkedArray) -> int | None:
    """The sum; None if a count is not recorded."""
    return None if counts.null_count else pc.sum(counts).as_py() or 0
