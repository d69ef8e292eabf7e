"""Committing until it is settled: tries, back-off, and what is said of them."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from delvec.conflicts.rebase import Again, Engine, rebased
from delvec.errors import CommitConflictError, StorageError
from delvec.formats import Snapshot, Table
from delvec.row_delta import Committed, Lost, RowDelta, Unknown

_LOGGER = logging.getLogger(__name__)

TRIES = 100
"""So often others may come first, while nothing of theirs stands in the way."""

TRIES_METRIC, UNITED_METRIC = "numCommitTries", "numFilesUnited"

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.005, 1.0


@dataclass(frozen=True, slots=True)
class Settled:
    """The delta is version ``version``; or others had done all of it, and that is the version they left.

    ``united``: the files whose vectors were united with those of writers that came first.
    """

    version: int
    metrics: Mapping[str, int]
    tries: int
    united: int
    delta: RowDelta


def commit(
    table: Table,
    base: Snapshot,
    delta: RowDelta,
    engine: Engine,
    *,
    pause: Callable[[float], None] = time.sleep,
) -> Settled | Again:
    """Commit ``delta``, made from ``base``, on top of whatever came first, where that is right.

    An outcome that cannot be found out is a StorageError: it is never tried again. ``Again`` says that
    nothing was committed.
    """
    united = 0
    for tries in range(1, TRIES + 1):
        told = replace(delta, metrics=_told(delta, tries, united))
        outcome = table.commit(base, told)
        match outcome:
            case Committed(version, counted):
                _log(delta, version, tries, united)
                return Settled(version, dict(counted) | dict(told.metrics), tries, united, delta)
            case Unknown(version, reason):
                raise StorageError(
                    f"cannot tell whether version {version} was committed: {reason}", path=table.location
                )
            case Lost():
                if base.version < 0:
                    raise CommitConflictError(
                        f"{delta.operation} failed: another table was created there: {table.location}"
                    )
        pause(random.uniform(0, min(_LONGEST_PAUSE, _SHORTEST_PAUSE * 2**tries)))
        newest = table.snapshot()
        found = rebased(delta, base, newest, table.won(base, newest), storage=table.storage, engine=engine)
        if isinstance(found, Again):
            _LOGGER.info(
                "%s at version %d of %s must run again: version %d (%s): %s",
                *(
                    delta.operation,
                    base.version,
                    table.location,
                    found.version,
                    found.operation,
                    found.reason,
                ),
            )
            return found
        base, delta, united = newest, found.delta, united + found.united
        if not changes_anything(delta):
            return Settled(newest.version, dict(delta.metrics), tries, united, delta)
    raise CommitConflictError(
        f"{delta.operation} at version {base.version} gave up: other writers committed first "
        f"{TRIES} times in a row: {table.location}"
    )


def changes_anything(delta: RowDelta) -> bool:
    files = len(delta.added) or len(delta.removed) or len(delta.vectors)
    return bool(files or delta.metadata is not None or delta.txn is not None)


def _told(delta: RowDelta, tries: int, united: int) -> dict[str, int]:
    """The metrics, with those of a race where there was one."""
    race = {TRIES_METRIC: tries, UNITED_METRIC: united} if tries > 1 else {}
    return dict(delta.metrics) | race


def _log(delta: RowDelta, version: int, tries: int, united: int) -> None:
    if tries > 1:
        _LOGGER.info(
            "%s committed version %d at attempt %d; combined the vectors of %d files",
            *(delta.operation, version, tries, united),
        )
