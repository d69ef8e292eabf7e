"""RESTORE: gives a table the state of an older version. For every format, and without Spark.

A file that is live in both versions with different deletes gets the deletes of the older version. If a file
that must become live again no longer exists, nothing is committed.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from delvec import conflicts
from delvec.conflicts import Rerun
from delvec.errors import (
    CommitConflictError,
    InvalidOperationError,
    UnsupportedFeatureError,
)
from delvec.formats import Restorable, Snapshot, Table
from delvec.missing_files import missing_files, named
from delvec.row_delta import Operation, Request, RowDelta
from delvec.storage import Storage
from delvec.version_state import RestoreCounts, VersionState

_LOGGER = logging.getLogger(__name__)

MAX_RUNS = 10
"""How often a restore is tried if other writers change the table's metadata meanwhile."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did, or would do (``dry_run``).

    version            the table's version afterwards; the version before, if nothing was committed
    restored_version   the version whose state the table has now
    metrics            counts by the names of the table's history
    """

    version: int
    restored_version: int
    counts: RestoreCounts
    metrics: Mapping[str, int]
    dry_run: bool = False


def restore(
    table: Table,
    *,
    version: int | None = None,
    timestamp: dt.datetime | None = None,
    dry_run: bool = False,
) -> Restored:
    """Give the table the state of a version, chosen by its number or by a time.

    Commits nothing if the table has this state already. Refused if a file of that version is gone.
    """
    if (version is None) == (timestamp is None):
        raise InvalidOperationError(
            f"version is {version} and timestamp is {timestamp}, expected one of them: {table.location}"
        )
    if not isinstance(table, Restorable):
        raise UnsupportedFeatureError(
            f"RESTORE is not implemented for {table.format} tables: {table.location}", feature="RESTORE"
        )
    # The version is found once: a time must not choose another version while the restore runs.
    then = table.snapshot(version, timestamp)
    request = Request(Operation.RESTORE, version=version, timestamp=timestamp)
    message = ""
    for _ in range(MAX_RUNS):
        plan = _Plan(table, table, then, request)
        newest = table.snapshot()
        delta = plan.replanned(newest)
        if dry_run or not plan.state.changes:
            return plan.result(newest.version, dry_run=dry_run)
        settled = conflicts.commit(table, newest, delta, plan)
        if not isinstance(settled, Rerun):
            return plan.result(settled.version)
        message = settled.message
        _LOGGER.info("restore runs again: %s", message)
    raise CommitConflictError(f"{message}; gave up after {MAX_RUNS} runs")


@dataclass
class _Plan(conflicts.ReadsNoRows):
    """The step to the older version. Other writers' commits do not conflict with it: it is made again for the
    newest version, as if they were first (`conflicts.ConflictProbe`).
    """

    table: Table
    restorable: Restorable
    then: Snapshot
    request: Request
    _state: VersionState | None = field(default=None, init=False)

    @property
    def state(self) -> VersionState:
        assert self._state is not None
        return self._state

    def replanned(self, newest: Snapshot) -> RowDelta:
        self._state = self.restorable.state_at(newest, self.then, self.request)
        _verify_files_exist(self.table.storage, self.state.needed, self.then.version)
        return self.state.delta

    def result(self, version: int, *, dry_run: bool = False) -> Restored:
        state = self.state
        return Restored(version, self.then.version, state.counts, state.metrics, dry_run)


def _verify_files_exist(storage: Storage, needed: pa.Array, version: int) -> None:
    """Refuse a version with missing files: naming the first of them, and how many there are."""
    missing = missing_files(storage, needed)
    if not len(missing):
        return
    raise InvalidOperationError(
        f"version {version} cannot be restored: {len(missing):,} of the {len(needed):,} files that would be "
        f"live again no longer exist ({named(storage, missing)}), perhaps after a vacuum: {storage.root}"
    )
