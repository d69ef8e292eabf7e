"""Commits: a ``RowDelta`` becomes one file of the log, by one put-if-absent.

    _delta_log/00000000000000000007.json
        commitInfo, protocol, metaData, txn, domainMetadata, remove, add, cdc

Vector files are written first, so that a commit never refers to a file that is not there. If several writers
commit one version, one of them succeeds; `delvec.conflicts` decides what the others do.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from delvec.delta import action_writer, row_ids
from delvec.delta.action_reader import parse_commit_info
from delvec.delta.action_writer import Body
from delvec.delta.actions import SetTransaction
from delvec.delta.commit_info import commit_info
from delvec.delta.commit_times import next_timestamp, with_enablement
from delvec.delta.extra_actions import ExtraActions, extra_actions
from delvec.delta.features import DELETION_VECTORS
from delvec.delta.file_actions import FileChanges, file_changes, measured
from delvec.delta.log_files import LOG, list_log
from delvec.delta.metadata_change import TableState
from delvec.delta.restore import restored_adds
from delvec.delta.rules import allows_vectors, is_append_only
from delvec.delta.writer_features import verify_writable
from delvec.errors import (
    DelvecError,
    InvalidOperationError,
    ObjectNotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from delvec.operation_metrics import execution_metrics
from delvec.row_delta import Committed, Outcome, RowDelta, Unknown, VersionTaken
from delvec.storage import Storage

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot

Clock = Callable[[], int]

TRUSTED_SECONDS = 600
"""For how long after a version was the newest one a commit on top of it needs no look at the log."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class _PreparedDelta:
    """A delta that is about to be committed. ``state``: the table's protocol and metadata afterwards."""

    delta: RowDelta
    base: Snapshot
    state: TableState
    files: FileChanges
    extra: ExtraActions
    txn_id: str


def commit(
    storage: Storage,
    base: Snapshot,
    delta: RowDelta,
    *,
    clock: Clock = now_ms,
    new_id: Callable[[], uuid.UUID] = uuid.uuid4,
) -> Outcome:
    """Commit ``delta`` as the version after ``base``, unless that version exists.

    Raises StorageError if the store failed and the log shows that nothing was committed.
    """
    _verify_delta(base, delta)
    _verify_no_delete_files(base, delta)
    extra = extra_actions(delta)
    state = extra.state or base.state_after(delta.metadata)
    _verify_allowed(base, delta, extra)
    _verify_vectors_allowed(base, state)
    delta = measured(storage, base, delta, state)
    files = file_changes(storage, base, delta, state, now_ms=clock())
    prepared = _with_restored(storage, _PreparedDelta(delta, base, state, files, extra, str(new_id())))
    files = prepared.files
    version = base.version + 1
    if _is_outdated(storage, base):
        _discard(storage, files)
        return VersionTaken(version)
    try:
        outcome = _put(storage, version, _lines(storage, prepared, clock()), prepared.txn_id)
    except _PutFailedError as failed:
        # The store may still write the file, so the vector files that it refers to must stay.
        raise failed.error from failed.error.__cause__
    except DelvecError:
        _discard(storage, files)
        raise
    if isinstance(outcome, Unknown):
        return outcome
    if outcome:
        return Committed(version, files.metrics)
    _discard(storage, files)
    return VersionTaken(version)


def _is_outdated(storage: Storage, base: Snapshot) -> bool:
    """Whether the log has a later version, though the next version may be free: clean-up removes old commits.

    Clean-up keeps the commits of the last hour (`log_cleanup`). So if the base was the newest version some
    minutes ago, a free version is free because nobody committed it.
    """
    if base.is_draft or base.seen_newest_within(TRUSTED_SECONDS):
        return False
    return list_log(storage, since=base.version).latest > base.version


def _verify_delta(base: Snapshot, delta: RowDelta) -> None:
    if delta.base.version != base.version:
        raise InvalidOperationError(
            f"delta was made from version {delta.base.version}, expected {base.version}: {base.location}"
        )
    if delta.txn is not None and delta.txn.version <= base.txns.get(delta.txn.app_id, -1):
        raise InvalidOperationError(
            f"version {delta.txn.version} of application {delta.txn.app_id!r} is committed already, "
            f"expected one above {base.txns[delta.txn.app_id]}: {base.location}"
        )


def _verify_no_delete_files(base: Snapshot, delta: RowDelta) -> None:
    for name in ("added_deletes", "removed_deletes"):
        deletes = getattr(delta, name)
        if len(deletes):
            place = deletes.column("location")[0].as_py()
            raise UnsupportedFeatureError(
                f"{name} has {place}, expected none: a Delta table has no delete files: {base.location}",
                feature="delete files",
            )


def _verify_allowed(base: Snapshot, delta: RowDelta, extra: ExtraActions) -> None:
    readded = extra.restored or extra.with_other_ids
    changes_rows = bool(len(delta.added) or len(delta.removed) or len(delta.vectors) or readded)
    verify_writable(base, rows=changes_rows, new_rows=bool(len(delta.added)) and delta.data_change)
    if not changes_rows:
        return
    if is_append_only(base) and delta.data_change and (len(delta.removed) or len(delta.vectors)):
        raise InvalidOperationError(
            f"table is append-only (delta.appendOnly), its rows cannot be removed: {base.location}"
        )
    if len(delta.vectors) and not allows_vectors(base):
        raise UnsupportedFeatureError(
            f"table does not allow new vectors, expected delta.enableDeletionVectors = true: {base.location}",
            feature="deletionVectors",
        )


def _verify_vectors_allowed(base: Snapshot, state: TableState) -> None:
    """Refuse a protocol without vectors while a file has one: its deleted rows would be live again."""
    vectors = base.adds.column("dv_storage")
    if DELETION_VECTORS not in state.protocol.features_to_read and vectors.null_count != len(vectors):
        path = base.adds.filter(vectors.is_valid()).column("path")[0].as_py()
        raise InvalidOperationError(f"file {path} has a vector, expected none: {base.location}")


def _with_restored(storage: Storage, prepared: _PreparedDelta) -> _PreparedDelta:
    """With the files that are restored. Those without row ids count as new if the table gives ids."""
    files, extra = prepared.files, prepared.extra
    readded, added, record_counts = restored_adds(storage, prepared.base, extra, prepared.state)
    metrics = files.metrics
    if extra.metrics is not None:
        metrics = {**extra.metrics, **execution_metrics(prepared.delta.execution)}
    changes = replace(
        files,
        added=files.added + added,
        record_counts=files.record_counts + record_counts,
        readded=files.readded + readded,
        metrics=metrics,
    )
    return replace(prepared, files=changes)


class _PutFailedError(Exception):
    """The store failed, and the log does not show the commit."""

    def __init__(self, error: StorageError) -> None:
        super().__init__(str(error))
        self.error = error


def _put(storage: Storage, version: int, data: bytes, txn_id: str) -> bool | Unknown:
    """Whether this commit is version ``version``. A store may fail or refuse after it wrote the file."""
    path = f"{LOG}/{version:020d}.json"
    try:
        if storage.put_if_absent(path, data):
            return True
        failure = None
    except StorageError as error:
        failure = error
    try:
        commit_info = parse_commit_info(storage.read(path))
    except ObjectNotFoundError:
        if failure is None:
            return Unknown(version, "the store has the version's file and does not show it")
        raise _PutFailedError(failure) from failure
    except StorageError as error:
        return Unknown(version, str(failure or error))
    return commit_info.get("txnId") == txn_id


def _lines(storage: Storage, prepared: _PreparedDelta, now: int) -> bytes:
    """The commit file of the version after the base, with ids of new rows and the commit's time."""
    delta, files, current = prepared.delta, prepared.files, prepared.base
    version = current.version + 1
    timestamp = next_timestamp(storage, current, prepared.state, now)
    state = with_enablement(current, prepared.state, version, timestamp)
    state = prepared.extra.state_of(state, version)
    added, domains = _with_ids(prepared, state, version)
    info = commit_info(
        delta, current, files.metrics, state=state, now_ms=now, in_commit_ms=timestamp, txn_id=prepared.txn_id
    )
    actions: list[tuple[str, Body]] = [("commitInfo", info)]
    if current.is_draft or state.protocol != current.protocol:
        actions.append(("protocol", action_writer.protocol_body(state.protocol)))
    if current.is_draft or state.metadata != current.metadata or prepared.extra.states_metadata:
        actions.append(("metaData", action_writer.metadata_body(state.metadata)))
    if delta.txn is not None:
        txn = SetTransaction(delta.txn.app_id, delta.txn.version, now)
        actions.append(("txn", action_writer.txn_body(txn)))
    actions += [("domainMetadata", body) for body in domains]
    actions += [("domainMetadata", action_writer.domain_body(domain)) for domain in prepared.extra.domains]
    actions += [("remove", body) for body in files.removed]
    actions += [("remove", action_writer.tombstone_body(path, now)) for path in prepared.extra.tombstones]
    actions += [("add", body) for body in files.readded]
    actions += [("add", body) for body in added]
    actions += [("cdc", body) for body in files.change_files]
    return action_writer.lines(actions)


def _with_ids(prepared: _PreparedDelta, state: TableState, version: int) -> tuple[list[Body], list[Body]]:
    """New files with row ids if the table has them, and the domain metadata with the last id."""
    files, lowest = prepared.files, prepared.extra.row_id_mark
    if not row_ids.gives_ids(state) or not (files.added or lowest > row_ids.NO_IDS_YET):
        return files.added, []
    old = row_ids.high_water_mark(prepared.base.domains)
    added, mark = row_ids.with_ids(files.added, files.record_counts, max(old, lowest), version)
    return added, [action_writer.domain_body(row_ids.domain_of(mark))] if mark != old else []


def _discard(storage: Storage, files: FileChanges) -> None:
    """Delete the vector files of a delta that was not committed. VACUUM deletes those that remain."""
    with suppress(StorageError):
        storage.delete(files.stored)
