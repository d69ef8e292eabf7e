"""From a delta to a version of the table, and to a statement that runs again where others came first."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame

from delvec import conflicts, location
from delvec.bitmap import Bitmap
from delvec.conflicts import Again, Engine
from delvec.errors import CommitConflictError, StorageError
from delvec.formats import Snapshot
from delvec.plan import ScanPlan
from delvec.row_delta import RowDelta
from delvec.spark.file_paths import location_of
from delvec.spark.scan import place_columns
from delvec.spark.scan_part import united
from delvec.spark.target import OperationResult, Target

_LOGGER = logging.getLogger(__name__)

RUNS = 10
"""So often a statement runs where others come first and matter."""

RUNS_METRIC = "numRuns"

_LONGEST_PAUSE = 2.0
# What gives another answer each time it is asked, though Spark calls it deterministic.
_OF_THE_MOMENT = re.compile(
    r"\b(now|curdate|current_\w+|localtimestamp|unix_timestamp|(try_)?to_unix_timestamp)\b", re.IGNORECASE
)

Rows = DataFrame | Callable[[], DataFrame]
"""Rows that a verb takes: a frame, or what makes it, which is asked anew each time that the verb runs."""


def made(rows: Rows) -> DataFrame:
    return rows if isinstance(rows, DataFrame) else rows()


class RunAgainError(Exception):
    """Nothing was committed, and the statement must run on the newest version; ``safe``: it may."""

    def __init__(self, lost: CommitConflictError, *, safe: bool) -> None:
        super().__init__(str(lost))
        self.lost = lost
        self.safe = safe


@dataclass(slots=True)
class Looking:
    """What a verb tells of itself when others came first.

    where    the condition of the rows that it read; None: all rows
    source   the rows that it brings, and whether they are made anew when it runs again
    replan   the delta of a verb that replaces whole files, at another version
    """

    target: Target
    where: str | Column | None = None
    source: DataFrame | None = None
    remade: bool = False
    replan: Callable[[Target], RowDelta] | None = None
    _reads_itself: bool | None = field(default=None, init=False)

    def read_itself(self) -> bool:
        if self._reads_itself is None:  # Spark is asked once, not at every try
            self._reads_itself = self.source is not None and reads(self.source, self.target.table.location)
        return self._reads_itself

    def new_match(self, newest: Snapshot, files: pa.Array) -> str | None:
        plan = self.target.at(newest).plan(self.where, among=files)
        if not len(plan.files):
            return None
        if self.where is None or of_the_moment(self.where):
            return str(plan.files.column("raw_location")[0])
        matching = self.target.matching(plan, self.where)
        return first_file([matching], place_columns(self.target.schema)[0], plan)

    def rows_read(self) -> Mapping[str, Bitmap]:
        return {}

    def replanned(self, newest: Snapshot) -> RowDelta:
        assert self.replan is not None
        return self.replan(self.target.at(newest))

    @property
    def repeatable(self) -> bool:
        return self.remade or not self.read_itself()


class Statement(Engine, Protocol):
    """What `conflicts` asks of a statement, and whether it may run again: not where its rows are stale."""

    @property
    def repeatable(self) -> bool: ...


def commit(target: Target, delta: RowDelta, statement: Statement) -> OperationResult:
    """Commit the delta, on top of whatever came first where that is right.

    Otherwise RunAgainError; nothing of the delta is left then.
    """
    took = int((time.monotonic() - target.started) * 1000)
    runs = {RUNS_METRIC: target.run} if target.run > 1 else {}
    metrics = dict(delta.metrics) | {"executionTimeMs": took} | runs
    found = conflicts.commit(target.table, target.snapshot, replace(delta, metrics=metrics), statement)
    if isinstance(found, Again):
        _discard(target, delta)
        lost = CommitConflictError(
            f"{delta.operation} at version {target.snapshot.version} conflicts with version {found.version} "
            f"({found.operation}): {found.reason}: {target.table.location}"
        )
        raise RunAgainError(lost, safe=statement.repeatable)
    return OperationResult(found.version, found.metrics)


def run(
    target: Callable[[int], Target],
    verb: Callable[[Target], OperationResult],
    *,
    pause: Callable[[float], None] = time.sleep,
) -> OperationResult:
    """Run the verb on the newest version, which ``target`` gives for each run, until it is committed."""
    for number in range(1, RUNS + 1):
        try:
            return verb(target(number))
        except RunAgainError as error:
            if not error.safe:
                raise error.lost from None
            lost = error.lost
            _LOGGER.info("run %d: %s", number, lost)
        pause(random.uniform(0, min(_LONGEST_PAUSE, 0.05 * 2**number)))
    raise CommitConflictError(f"{lost}; gave up after {RUNS} runs") from None


def reads(frame: DataFrame, place: str) -> bool:
    """Whether the frame's rows come from files of the table at ``place``, as far as Spark tells."""
    try:
        files = frame.inputFiles()
    except PySparkException:
        return False
    inside = place.rstrip("/") + "/"
    return any(location.normalize(location_of(file)).startswith(inside) for file in files)


def of_the_moment(where: str | Column) -> bool:
    """Whether the condition may hold for other rows when it is asked again."""
    return _OF_THE_MOMENT.search(where if isinstance(where, str) else str(where)) is not None


def first_file(frames: Sequence[DataFrame], path: str, plan: ScanPlan) -> str | None:
    """The name of a file of the plan that a frame, whose column ``path`` names files, has a row of."""
    found = united([frame.select(path) for frame in frames]).limit(1).toArrow()
    if not len(found):
        return None
    at = plan.files.column("location").to_pylist().index(location_of(found.column(0)[0].as_py()))
    return str(plan.files.column("raw_location")[at])


def _discard(target: Target, delta: RowDelta) -> None:
    """Remove the files of a delta that was not committed; vacuum finds what stays."""
    tables = (delta.added, delta.change_files, delta.vectors)
    files = {place for table in tables for place in table.column("location").drop_null().to_pylist()}
    with suppress(StorageError):
        target.storage.delete(sorted(files))
