"""Whether a version of a table is sound: its vectors, data files and metadata, checked against each other.

    vector       each deletion vector can be read and passes every check of its blob, cardinality included
    position     no vector deletes a row that its data file does not have
    data-file    each data file is there and has the recorded size
    duplicate    no data file is live twice
    statistics   record counts, null counts and bounds are there and do not contradict themselves
    metadata     the table's own metadata can be read, none of its files that are read is damaged

Nothing is changed. What is found is returned, not raised; a store that fails at a request is raised.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec import location
from delvec.deletes.applied import verify_applied
from delvec.deletes.examine import Examined, examine_vectors
from delvec.errors import FormatError, ObjectNotFoundError
from delvec.file_facts import ColumnPath, ColumnStats
from delvec.formats import Table
from delvec.plan import ScanPlan
from delvec.schema import Schema, Struct
from delvec.storage import Storage

ERROR = "error"
WARNING = "warning"

_READERS = 16
# From here on listing the whole table takes fewer requests than asking for each file.
_LIST_FROM = 2000


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with the table (``error``), or something that could not be checked (``warning``)."""

    severity: str
    check: str
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was checked and what was found; ``version`` is None where not even that could be read."""

    location: str
    version: int | None
    files: int
    vectors: int
    deleted_rows: int
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        return sum(finding.severity == ERROR for finding in self.findings)

    @property
    def warnings(self) -> int:
        return len(self.findings) - self.errors


Progress = Callable[[str, int, int], None]
"""Called as (what, done, of how many) while a long check runs."""


def verify_table(
    table: Table,
    *,
    version: int | None = None,
    timestamp: dt.datetime | str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check a version of the table, the newest by default."""
    found: int | None = None
    try:
        snapshot = table.snapshot(version, timestamp)
        found = snapshot.version
        plan = snapshot.plan()
    except FormatError as error:
        finding = Finding(ERROR, "metadata", error.path or table.location, str(error))
        return Report(table.location, found, 0, 0, 0, (finding,))
    report = verify_plan(plan, table.storage, progress=progress)
    damaged = tuple(
        Finding(ERROR, "metadata", error.path or table.location, str(error)) for error in snapshot.passed_over
    )
    return replace(report, findings=damaged + report.findings)


def verify_plan(plan: ScanPlan, storage: Storage, *, progress: Progress | None = None) -> Report:
    """Check every file and vector of a plan. One with a delete that delvec does not apply is refused."""
    verify_applied(plan)
    tell = progress or _tell_nobody
    checks = (
        _check_not_twice(plan),
        _check_statistics(plan),
        _check_vectors(plan, storage, tell),
        _check_data_files(plan, storage, tell),
    )
    return Report(
        location=plan.location,
        version=plan.base.version,
        files=len(plan.files),
        vectors=len(plan.deletes),
        deleted_rows=pc.sum(plan.deletes.column("cardinality")).as_py() or 0,
        findings=tuple(chain.from_iterable(checks)),
    )


def _tell_nobody(what: str, done: int, count: int) -> None:
    del what, done, count


def _check_not_twice(plan: ScanPlan) -> Iterator[Finding]:
    counted = plan.files.group_by("location").aggregate([("location", "count")])
    for row in counted.filter(pc.greater(counted.column("location_count"), 1)).to_pylist():
        message = f"data file is listed {row['location_count']} times, expected once"
        yield Finding(ERROR, "duplicate", row["location"], message)


def _check_vectors(plan: ScanPlan, storage: Storage, tell: Progress) -> Iterator[Finding]:
    count = len(plan.deletes)
    owners = plan.files.filter(pc.is_valid(plan.files.column("vector")))
    vectors, paths, records = (owners.column(n).to_pylist() for n in ("vector", "location", "record_count"))
    owner = dict(zip(vectors, zip(paths, records, strict=True), strict=True))
    for done, examined in enumerate(examine_vectors(storage, plan.deletes), 1):
        tell("vectors", done, count)
        path, rows = owner[examined.row]
        if examined.error is not None:
            yield Finding(ERROR, "vector", path, str(examined.error))
        else:
            yield from _check_positions(examined, path, rows)


def _check_positions(examined: Examined, path: str, rows: int | None) -> Iterator[Finding]:
    assert examined.bitmap is not None
    highest = examined.bitmap.max()
    if rows is None:
        message = "the row count is not recorded, so the positions in the vector were not checked"
        yield Finding(WARNING, "position", path, message)
    elif highest is not None and highest >= rows:
        message = f"vector deletes row {highest}, but the file has {rows} rows"
        yield Finding(ERROR, "position", path, message)


def _check_data_files(plan: ScanPlan, storage: Storage, tell: Progress) -> Iterator[Finding]:
    paths, sizes = (plan.files.column(name).to_pylist() for name in ("location", "size"))
    found = _sizes(storage, paths)
    for done, (path, expected, size) in enumerate(zip(paths, sizes, found, strict=True), 1):
        tell("data files", done, len(paths))
        if size is None:
            yield Finding(ERROR, "data-file", path, "data file is missing")
        elif size != expected:
            message = f"data file has {size} bytes, expected {expected}"
            yield Finding(ERROR, "data-file", path, message)


def _sizes(storage: Storage, paths: list[str]) -> Iterator[int | None]:
    """The size of each file, None where there is none."""
    listed: dict[str, int] = {}
    if len(paths) >= _LIST_FROM:
        listed = {location.join(storage.root, entry.path): entry.size for entry in storage.list()}

    def size(path: str) -> int | None:
        if listed and location.relative(storage.root, path) is not None:
            return listed.get(path)
        try:
            return storage.head(path).size
        except ObjectNotFoundError:
            return None

    with ThreadPoolExecutor(_READERS) as pool:
        yield from pool.map(size, paths)


def _check_statistics(plan: ScanPlan) -> Iterator[Finding]:
    records = plan.facts.record_count
    yield from _found(plan, pc.is_null(records), "row count is not recorded", severity=WARNING)
    yield from _found(plan, pc.less(records, 0), "row count is negative")
    for path in _leaves(plan.schema):
        stats = plan.facts.column(path)
        if isinstance(stats, ColumnStats):
            yield from _check_column(plan, ".".join(path), stats)


def _check_column(plan: ScanPlan, name: str, stats: ColumnStats) -> Iterator[Finding]:
    nulls = stats.null_count
    outside = pc.or_kleene(pc.less(nulls, 0), pc.greater(nulls, stats.record_count))
    yield from _found(plan, outside, f"null count of {name} is not between 0 and the number of rows")
    if not pa.types.is_nested(stats.lower.type):
        crossed = pc.greater(stats.lower, stats.upper)
        yield from _found(plan, crossed, f"lower bound of {name} is above its upper bound")


def _found(
    plan: ScanPlan, bad: pa.Array | pa.ChunkedArray, message: str, *, severity: str = ERROR
) -> Iterator[Finding]:
    rows = np.flatnonzero(pc.fill_null(bad, False).to_numpy(zero_copy_only=False))  # noqa: FBT003
    for path in plan.files.column("location").take(rows).to_pylist():
        yield Finding(severity, "statistics", path, message)


def _leaves(schema: Schema, above: ColumnPath = ()) -> Iterable[ColumnPath]:
    for field in schema:
        path = (*above, field.name)
        if isinstance(field.type, Struct):
            yield from _leaves(field.type, path)
        else:
            yield path
