"""RESTORE: from the newest version to the state of an older one, by (path, vector).

live now, not then                  remove(path, vector of now)
live then, not now                  add(path, vector of then), copied with statistics, tags and row ids
live in both, with other vectors    both of these
live in both, with other row ids    add with the row ids of then, no data change
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from delvec import location
from delvec.chunked import one_chunk, rows_of
from delvec.delta import row_ids
from delvec.delta.action_writer import Body, add_body
from delvec.delta.descriptor import vector_files
from delvec.delta.extra_actions import ExtraActions
from delvec.delta.file_keys import file_keys
from delvec.delta.metadata_change import TableState
from delvec.delta.restored_ids import restored_ids
from delvec.delta.restored_metadata import restored_domains, restored_state
from delvec.footers.footer import footer_rows
from delvec.operation_metrics import restore_metrics
from delvec.row_delta import Read, Request, RowDelta, Verb
from delvec.storage import Storage, in_parallel
from delvec.version_state import RestoreCounts, VersionState

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot


def state_at(newest: Snapshot, then: Snapshot, request: Request) -> VersionState:
    """The step from ``newest`` to the state of ``then``."""
    now_keys, then_keys = file_keys(newest.adds), file_keys(then.adds)
    removed = _positions(pc.is_in(now_keys, value_set=then_keys))
    current = one_chunk(pc.index_in(then_keys, value_set=one_chunk(now_keys)))
    restored = _positions(current.is_valid())
    state, domains = restored_state(newest, then), restored_domains(newest, then)
    ids = restored_ids(newest, then, state, current)
    changes = bool(
        len(removed)
        or len(restored)
        or ids.changed
        or domains
        or state.protocol != newest.protocol
        or state.metadata != newest.metadata
    )
    counts = _counts(newest, then, removed, restored)
    metrics = restore_metrics(counts)
    extra = ExtraActions(
        state=state,
        states_metadata=True,
        restored=ids.restored,
        with_other_ids=ids.changed,
        row_id_mark=ids.mark,
        domains=domains,
        metrics=metrics,
    )
    delta = RowDelta(
        newest.base,
        request,
        Read(),
        Verb.REPLACE,
        removed=removed,
        carry=extra if changes else None,
    )
    return VersionState(delta, _needed(then, restored), counts, metrics, changes)


def _positions(is_kept: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pa.array(np.flatnonzero(~is_kept.to_numpy(zero_copy_only=False)), pa.int64())


def _counts(newest: Snapshot, then: Snapshot, removed: pa.Array, restored: pa.Array) -> RestoreCounts:
    sizes_now, sizes_then = newest.adds.column("size"), then.adds.column("size")
    return RestoreCounts(
        files_after=len(sizes_then),
        bytes_after=_sum(sizes_then),
        removed_files=len(removed),
        removed_bytes=_sum(sizes_now.take(removed)),
        restored_files=len(restored),
        restored_bytes=_sum(sizes_then.take(restored)),
    )


def _sum(sizes: pa.ChunkedArray) -> int:
    return int(pc.sum(sizes).as_py() or 0)


def _needed(then: Snapshot, restored: pa.Array) -> pa.Array:
    """The locations of these files and of their vector files, each once."""
    adds = rows_of(then.adds, restored.to_numpy())
    files = location.resolve_many(then.location, adds.column("path"))
    vectors = vector_files(then.location, adds)
    return pa.concat_arrays([files.cast(pa.string()), vectors]).unique()


def restored_adds(
    storage: Storage, base: Snapshot, extra: ExtraActions, state: TableState
) -> tuple[list[Body], list[Body], list[int]]:
    """The ``add`` actions of restored files and of files with other ids: those that are complete, and those
    that need row ids, with their numbers of rows.
    """
    adds = [add_body(row) | {"dataChange": True} for row in extra.restored]
    adds += [add_body(row) | {"dataChange": False} for row in extra.with_other_ids]
    if row_ids.are_suspended(state):
        return [_without_ids(add) for add in adds], [], []
    if not row_ids.gives_ids(state):
        return adds, [], []
    complete = [add for add in adds if "baseRowId" in add]
    others = [add for add in adds if "baseRowId" not in add]
    return complete, others, in_parallel(lambda add: _record_count(storage, base, add), others)


def _without_ids(add: Body) -> Body:
    return {name: value for name, value in add.items() if name not in row_ids.FIELDS}


def _record_count(storage: Storage, base: Snapshot, add: Mapping[str, Any]) -> int:
    stats: Any = orjson.loads(add.get("stats") or "{}")
    count: int | None = stats.get("numRecords")
    return footer_rows(storage, location.resolve(base.location, add["path"])) if count is None else count
