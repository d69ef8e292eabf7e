"""Drops the feature ``deletionVectors``: then readers that do not know vectors can read the table.

The engine switches vectors off and rewrites the files that have one. The rest are these commits:

    Deletion Vector Tombstones   removes that name the vector files themselves. A writer that does not know
                                 vectors would delete these files while older versions still need them
    Empty Commit                 three times, each with a checkpoint: such a reader never looks behind them
    DROP FEATURE                 the lower protocol, with the feature ``checkpointProtection`` and the
                                 property ``delta.requireCheckpointProtectionBeforeVersion``

If the history is truncated, one checkpoint is enough, and nothing needs protection: the feature is dropped
when no version in the log has vectors any more. The log must keep the last 24 hours for statements that run
(``delta.dropFeatureTruncateHistory.retentionDuration``), so this takes two calls.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from delvec import location
from delvec.delta import properties
from delvec.delta.action_reader import parse_actions
from delvec.delta.checkpoint_writer import unexpired, write_checkpoint
from delvec.delta.commit import now_ms
from delvec.delta.descriptor import vector_files
from delvec.delta.extra_actions import ExtraActions
from delvec.delta.features import CHECKPOINT_PROTECTION, DELETION_VECTORS
from delvec.delta.history import CommitTimes
from delvec.delta.log_cleanup import YOUNGEST_MS, remove_expired
from delvec.delta.log_files import list_log
from delvec.delta.metadata_change import TableState
from delvec.delta.properties import is_on
from delvec.delta.protocol_upgrade import lowered
from delvec.errors import FormatError, InvalidOperationError
from delvec.instants import as_datetime
from delvec.row_delta import Operation, Read, Request, RowDelta, Verb
from delvec.storage import Entry, Storage, in_parallel

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot
    from delvec.delta.table import DeltaTable

BARRIERS = 3
"""How many checkpoints are before the lower protocol: Delta-Spark tries up to two older ones."""

_MINUTE_MS = 60_000

Steps = Iterator[tuple["Snapshot", RowDelta]]


def has_feature(snapshot: Snapshot) -> bool:
    return DELETION_VECTORS in snapshot.protocol.features_to_write


def switched_off(snapshot: Snapshot) -> Mapping[str, str | None]:
    """The change of properties that ends new vectors; empty if there are none now."""
    return {properties.ENABLE_VECTORS: None} if is_on(snapshot.properties, properties.ENABLE_VECTORS) else {}


def removal_steps(table: DeltaTable, *, truncate_history: bool) -> Steps:
    """The commits that drop the feature from a table without vectors, each on top of a version.

    The engine commits each before it takes the next. The last one is left out if another writer allowed
    vectors again in the meantime.
    """
    snapshot = table.snapshot()
    paths = _untombstoned(snapshot)
    if paths:
        yield snapshot, _delta(snapshot, Operation.KEEP_VECTOR_FILES, ExtraActions(tombstones=paths))
    if truncate_history:
        yield from _truncating_steps(table)
    else:
        for _ in range(BARRIERS):
            yield from _barrier(table)
    snapshot = table.snapshot()
    if switched_off(snapshot) or _has_vectors(snapshot.adds):
        return
    yield snapshot, _dropping_delta(snapshot, truncate_history=truncate_history)
    if not truncate_history:
        table.checkpoint()


def _has_vectors(actions: pa.Table) -> bool:
    """Whether one of the file actions has a vector."""
    return bool(actions.column("dv_storage").null_count != len(actions))


def _delta(
    snapshot: Snapshot, operation: Operation, extra: ExtraActions | None, *, truncate_history: bool = False
) -> RowDelta:
    request = Request(operation, truncate_history=truncate_history)
    return RowDelta(snapshot.base, request, Read(blind=True), Verb.ALTER, carry=extra)


def _untombstoned(snapshot: Snapshot) -> tuple[str, ...]:
    """The vector files of tombstones, as the log records paths, without those that have a tombstone."""
    removes = unexpired(snapshot.tombstones(), snapshot.properties, now_ms=now_ms())
    files = vector_files(snapshot.location, removes)
    named = removes.filter(pc.is_null(removes.column("dv_storage"))).column("path")
    paths = (location.relative(snapshot.location, file) for file in files.to_pylist())
    encoded = pa.array([location.encode(path) for path in paths if path is not None], pa.string())
    return tuple(encoded.filter(pc.invert(pc.is_in(encoded, value_set=named))).to_pylist())


def _barrier(table: DeltaTable) -> Steps:
    """An empty commit, and a checkpoint of it, or of another commit that was first."""
    snapshot = table.snapshot()
    yield snapshot, _delta(snapshot, Operation.EMPTY, None)
    write_checkpoint(table.storage, table.snapshot(), now_ms=now_ms())


def _dropping_delta(snapshot: Snapshot, *, truncate_history: bool) -> RowDelta:
    added = () if truncate_history else (CHECKPOINT_PROTECTION,)
    state = TableState(lowered(snapshot.protocol, DELETION_VECTORS, added), snapshot.metadata)
    extra = ExtraActions(state=state, protects=not truncate_history)
    return _delta(snapshot, Operation.DROP_VECTORS, extra, truncate_history=truncate_history)


def _truncating_steps(table: DeltaTable) -> Steps:
    """Remove the history as far as its retention allows; refused while a version with vectors is kept."""
    newest = table.snapshot()
    last = _last_with_vectors(table.storage)
    if last is not None and not _checkpoint_after(table.storage, last):
        yield from _barrier(table)
        newest = table.snapshot()
    retention = properties.duration_ms(
        newest.properties, properties.TRUNCATED_RETENTION, properties.TRUNCATED_RETENTION_DEFAULT
    )
    retention = max(retention, YOUNGEST_MS)
    now = now_ms()
    remove_expired(table.storage, newest, (now - retention) // _MINUTE_MS * _MINUTE_MS, now_ms=now)
    last = _last_with_vectors(table.storage)
    if last is not None:
        raise _wait(table, newest, last, retention)


def _wait(table: DeltaTable, newest: Snapshot, last: int, retention: int) -> InvalidOperationError:
    listing = list_log(table.storage)
    checkpoint = min(version for version in listing.checkpoints if version > last)
    committed = CommitTimes(table.storage, listing, newest.properties).millis(checkpoint)
    at = as_datetime((committed + retention) // _MINUTE_MS * _MINUTE_MS + _MINUTE_MS)
    hours = dt.timedelta(milliseconds=retention)
    return InvalidOperationError(
        f"no file has a deletion vector now, but the history has them up to version {last} and is kept for "
        f"{hours} ({properties.TRUNCATED_RETENTION}): run this again after {at:%Y-%m-%d %H:%M} UTC, or "
        f"without truncating the history: {table.location}"
    )


def _checkpoint_after(storage: Storage, version: int) -> bool:
    return any(checkpoint > version for checkpoint in list_log(storage).checkpoints)


def _last_with_vectors(storage: Storage) -> int | None:
    """The newest version in the log that has vectors, or allows new ones; None: no version does."""
    listing = list_log(storage)
    uses = in_parallel(lambda entry: _uses_vectors(storage, entry), listing.commits.values())
    return max((version for version, used in zip(listing.commits, uses, strict=True) if used), default=None)


def _uses_vectors(storage: Storage, entry: Entry) -> bool:
    try:
        actions = parse_actions(storage.read(entry.path))
    except FormatError as error:
        raise error.at(location.join(storage.root, entry.path)) from None
    if actions.metadata is not None and is_on(actions.metadata.configuration, properties.ENABLE_VECTORS):
        return True
    return _has_vectors(actions.adds) or _has_vectors(actions.removes)
