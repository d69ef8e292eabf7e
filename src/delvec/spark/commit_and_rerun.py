"""Commits the delta of a statement, and runs the statement again after a conflict."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame

from delvec import conflicts, location
from delvec.bitmap import Bitmap
from delvec.chunked import one_chunk
from delvec.conflicts import ConflictProbe, Rerun, Settled
from delvec.errors import CommitConflictError, StorageError
from delvec.formats import Snapshot
from delvec.plan import ScanPlan
from delvec.row_delta import Execution, RowDelta
from delvec.spark.deleted_by_key import rows_deleted_by_key
from delvec.spark.file_paths import location_of
from delvec.spark.scan import place_columns
from delvec.spark.scan_part import united
from delvec.spark.target import OperationResult, Target

_LOGGER = logging.getLogger(__name__)

MAX_RUNS = 10
"""How often a statement runs if each run ends in a conflict."""

_LONGEST_PAUSE = 2.0
# Functions that Spark calls deterministic, though their value differs from statement to statement.
_NONDETERMINISTIC = re.compile(
    r"\b(now|curdate|current_\w+|localtimestamp|unix_timestamp|(try_)?to_unix_timestamp)\b", re.IGNORECASE
)

Rows = DataFrame | Callable[[], DataFrame]
"""The source rows of a statement: a DataFrame, or a function that returns one and is called for each run."""


def source_frame(rows: Rows) -> DataFrame:
    return rows if isinstance(rows, DataFrame) else rows()


@dataclass(slots=True)
class StatementProbe:
    """The answers of a statement to conflict checks (`conflicts.ConflictProbe`); MERGE has its own.

    where    the condition of the rows that the statement read; None: all rows
    source   the rows that it adds
    remade   whether ``source`` is computed again if the statement runs again
    replan   makes the delta of a statement that replaces whole files, for another version
    """

    target: Target
    where: str | Column | None = None
    source: DataFrame | None = None
    remade: bool = False
    replan: Callable[[Target], RowDelta] | None = None
    _reads_target: bool | None = field(default=None, init=False)

    def reads_target(self) -> bool:
        if self._reads_target is None:  # ask Spark once, not at every attempt
            self._reads_target = self.source is not None and reads(self.source, self.target.table.location)
        return self._reads_target

    def new_match(self, newest: Snapshot, file_ids: pa.Array) -> int | None:
        plan = self.target.at(newest).plan(self.where, among=file_ids)
        if not len(plan.files):
            return None
        if self.where is None or is_nondeterministic(self.where):
            return first_file_id(plan)
        matching = self.target.matching(plan, self.where)
        return file_with_rows([matching], place_columns(self.target.schema)[0], plan)

    def rows_read(self) -> Mapping[int, Bitmap]:
        return {}

    def deleted_by_key(self, newest: Snapshot, file_ids: pa.Array, after: int) -> Mapping[int, Bitmap]:
        return rows_deleted_by_key(self.target, newest, file_ids, after)

    def replanned(self, newest: Snapshot) -> RowDelta:
        assert self.replan is not None
        return self.replan(self.target.at(newest))

    @property
    def repeatable(self) -> bool:
        return self.remade or not self.reads_target()


def commit(target: Target, delta: RowDelta, probe: ConflictProbe) -> OperationResult | Rerun:
    """Commit the delta, on top of concurrent commits if that is correct.

    If the statement must run again, the files of the delta are deleted.
    """
    settled = settle(target, delta, probe)
    if isinstance(settled, Rerun):
        return settled
    return OperationResult(settled.version, settled.metrics, counts=settled.delta.counts)


def settle(target: Target, delta: RowDelta, probe: ConflictProbe) -> Settled | Rerun:
    """Commit the delta, as `commit` does, and return it as it was committed.

    New files that were not committed are deleted: all of them if the statement must run again, otherwise
    those of dropped groups.
    """
    duration = int((time.monotonic() - target.started) * 1000)
    measured = replace(delta, execution=Execution(duration, target.run))
    settled = conflicts.commit(target.table, target.snapshot, measured, probe)
    if isinstance(settled, Rerun):
        _discard(target, delta)
    elif len(settled.delta.added) < len(delta.added):
        kept = settled.delta.added.column("location")
        dropped = pc.invert(pc.is_in(delta.added.column("location"), value_set=one_chunk(kept)))
        _discard(target, RowDelta(delta.base, delta.request, delta.read, added=delta.added.filter(dropped)))
    return settled


def run(
    target: Callable[[int], Target],
    verb: Callable[[Target], OperationResult | Rerun],
    *,
    pause: Callable[[float], None] = time.sleep,
) -> OperationResult:
    """Run the statement until it is committed. ``target`` returns the newest version for each run."""
    message = ""
    for number in range(1, MAX_RUNS + 1):
        result = verb(target(number))
        if isinstance(result, OperationResult):
            return result
        message = result.message
        if not result.repeatable:
            raise CommitConflictError(message)
        _LOGGER.info("run %d: %s", number, message)
        pause(random.uniform(0, min(_LONGEST_PAUSE, 0.05 * 2**number)))
    raise CommitConflictError(f"{message}; gave up after {MAX_RUNS} runs")


def reads(frame: DataFrame, place: str) -> bool:
    """Whether Spark says that the frame reads files of the table at ``place``."""
    try:
        files = frame.inputFiles()
    except PySparkException:
        return False
    prefix = place.rstrip("/") + "/"
    return any(location.normalize(location_of(file)).startswith(prefix) for file in files)


def is_nondeterministic(where: str | Column) -> bool:
    """Whether the condition may match other rows when it is evaluated again."""
    return _NONDETERMINISTIC.search(where if isinstance(where, str) else str(where)) is not None


def first_file_id(plan: ScanPlan) -> int:
    return int(plan.files.column("file_id")[0].as_py())


def file_with_rows(frames: Sequence[DataFrame], path: str, plan: ScanPlan) -> int | None:
    """The id of a file of the plan that the frames have a row of. Their column ``path`` has Spark's path."""
    paths = united([frame.select(path) for frame in frames]).limit(1).toArrow()
    if not len(paths):
        return None
    index = plan.files.column("location").to_pylist().index(location_of(paths.column(0)[0].as_py()))
    return int(plan.files.column("file_id")[index].as_py())


def _discard(target: Target, delta: RowDelta) -> None:
    """Delete the files of a delta that was not committed. VACUUM deletes those that remain."""
    tables = (delta.added, delta.change_files, delta.vectors, delta.added_deletes)
    files = {place for table in tables for place in table.column("location").drop_null().to_pylist()}
    with suppress(StorageError):
        target.storage.delete(sorted(files))
