"""Commits a delta, and rebases and commits it again if other writers were first."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from delvec.commit_retries import CommitRetries
from delvec.conflicts.conflict import Conflict
from delvec.conflicts.probe import ConflictProbe
from delvec.conflicts.rebase import rebased
from delvec.errors import CommitConflictError, StorageError
from delvec.formats import RetryingCommits, Snapshot, Table
from delvec.row_delta import Committed, RowDelta, Unknown, VersionTaken, Won

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settled:
    """``delta`` as it was committed, as version ``version``. If other commits had done all of it, nothing was
    committed, and ``version`` is the newest one.
    """

    version: int
    metrics: Mapping[str, int]
    delta: RowDelta


@dataclass(frozen=True, slots=True)
class Rerun:
    """Nothing was committed: the statement must run again on the newest version.

    ``message``: the conflict as a sentence. ``repeatable``: whether the statement may run again.
    """

    conflict: Conflict
    message: str
    repeatable: bool


def commit(
    table: Table,
    base: Snapshot,
    delta: RowDelta,
    probe: ConflictProbe,
    *,
    pause: Callable[[float], None] = time.sleep,
) -> Settled | Rerun:
    """Commit ``delta``, which was made from ``base``, on top of concurrent commits where that is correct.

    Raises StorageError if the store does not answer whether the delta was committed. It is not tried again
    then.
    """
    first, original = base, delta
    won: tuple[Won, ...] = ()
    operation, united = table.operation_name(delta.request), 0
    started = time.monotonic()
    for attempt in itertools.count(1):
        execution = replace(delta.execution, attempts=attempt, united_files=united)
        match table.commit(base, replace(delta, execution=execution)):
            case Committed(version, metrics):
                _log_rebased(operation, version, attempt, united)
                return Settled(version, metrics, replace(delta, execution=execution))
            case Unknown(version, reason):
                raise StorageError(
                    f"cannot tell whether version {version} was committed: {reason}", path=table.location
                )
            case VersionTaken():
                if base.is_draft:
                    raise CommitConflictError(
                        f"{operation} failed: another table was created there: {table.location}"
                    )
        retries = first.commit_retries() if isinstance(first, RetryingCommits) else CommitRetries()
        if not retries.allow(attempt, time.monotonic() - started):
            raise CommitConflictError(
                f"{operation} at version {base.version} gave up: other writers committed first "
                f"{attempt} times in a row: {table.location}"
            )
        pause(retries.pause(attempt))
        newest = table.snapshot()
        # Rebase from the version that the statement ran on: the probe knows rows and files of that version.
        won = (*won, *table.won(base, newest))
        result = rebased(original, first, newest, won, storage=table.storage, probe=probe)
        if isinstance(result, Conflict):
            rerun = Rerun(result, _message(operation, first, result, table.location), probe.repeatable)
            _LOGGER.info("must run again: %s", rerun.message)
            return rerun
        base, delta, united = newest, result.delta, result.united
        if not changes_anything(delta):
            metrics = table.metrics(delta.request, delta.counts, delta.execution)
            execution = replace(execution, united_files=united)
            return Settled(newest.version, metrics, replace(delta, execution=execution))
    raise AssertionError


def changes_anything(delta: RowDelta) -> bool:
    files = len(delta.added) or len(delta.removed) or len(delta.vectors)
    deletes = len(delta.added_deletes) or len(delta.removed_deletes)
    others = (delta.metadata, delta.txn, delta.carry)
    return bool(files or deletes or any(other is not None for other in others))


def _message(operation: str, base: Snapshot, conflict: Conflict, location: str) -> str:
    return (
        f"{operation} at version {base.version} conflicts with version {conflict.version} "
        f"({conflict.operation}): {conflict.reason}: {location}"
    )


def _log_rebased(operation: str, version: int, attempts: int, united: int) -> None:
    if attempts > 1:
        _LOGGER.info(
            "%s committed version %d at attempt %d; combined the vectors of %d files",
            *(operation, version, attempts, united),
        )
