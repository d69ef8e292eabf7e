"""Checks whether a version of a table is sound: its deletes, data files and metadata, against each other.

    vector       each delete can be read and passes every check, the recorded cardinality included
    position     no delete names a row that its data file does not have
    equality     each equality file can be read, has the columns that it compares and the recorded rows
    data-file    each data file exists and has the recorded size
    duplicate    no data file is listed twice
    statistics   record counts, null counts and bounds exist and do not contradict each other
    deletes      deletes do not pile up
    metadata     the table's own metadata can be read, and no metadata file that was read is damaged

A format may add checks of its own (`formats.SelfChecking`): records of the metadata against each other.

Changes nothing. Problems are returned, not raised; only a failing store raises an error.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec import location
from delvec.bitmap import Bitmap
from delvec.deletes.equality import EqualityDeletes, KeyColumn
from delvec.deletes.examine import examine
from delvec.deletes.sets import DeleteSets
from delvec.deletes.stored_keys import stored_keys
from delvec.errors import FormatError, ObjectNotFoundError
from delvec.file_facts import ColumnPath, ColumnStats
from delvec.findings import ERROR, WARNING, Finding
from delvec.formats import SelfChecking, Snapshot, Table
from delvec.piled_up import piled_up
from delvec.plan import POSITION_VECTOR, ScanPlan
from delvec.schema import Schema, Struct
from delvec.storage import Storage

_READERS = 16
# For this many files and more, listing the table takes fewer requests than one request per file.
_LIST_FROM = 2000


@dataclass(frozen=True, slots=True)
class Report:
    """What was checked, and the findings. ``version`` is None if the version could not be read.

    deleted_rows   rows that are deleted by position
    delete_files   delete files other than vectors
    """

    location: str
    version: int | None
    files: int
    vectors: int
    deleted_rows: int
    findings: tuple[Finding, ...]
    delete_files: int = 0

    @property
    def errors(self) -> int:
        return sum(finding.severity == ERROR for finding in self.findings)

    @property
    def warnings(self) -> int:
        return len(self.findings) - self.errors


Progress = Callable[[str, int, int], None]
"""Called as (what, done, total) while a long check runs."""


def verify_table(
    table: Table,
    *,
    version: int | None = None,
    timestamp: dt.datetime | str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check a version of the table, the newest by default."""
    checked: int | None = None
    try:
        snapshot = table.snapshot(version, timestamp)
        checked = snapshot.version
        plan = snapshot.plan()
    except FormatError as error:
        return Report(table.location, checked, 0, 0, 0, (_of_error(error, table),))
    report = verify_plan(plan, table.storage, progress=progress)
    damaged = tuple(_of_error(error, table) for error in snapshot.passed_over)
    own = tuple(_own_findings(table, snapshot))
    return replace(report, findings=damaged + report.findings + own + tuple(_piled_up(snapshot, plan)))


def _piled_up(snapshot: Snapshot, plan: ScanPlan) -> Iterator[Finding]:
    found = piled_up(snapshot, plan)
    if found is not None:
        yield Finding(WARNING, "deletes", snapshot.location, f"{found.reason}: call rewrite_deletes")


def _own_findings(table: Table, snapshot: Snapshot) -> Iterator[Finding]:
    """What only the format can check."""
    if isinstance(table, SelfChecking):
        try:
            yield from table.findings(snapshot)
        except FormatError as error:
            yield _of_error(error, table)


def _of_error(error: FormatError, table: Table) -> Finding:
    return Finding(ERROR, "metadata", error.path or table.location, str(error))


def verify_plan(plan: ScanPlan, storage: Storage, *, progress: Progress | None = None) -> Report:
    """Check every file and delete of a plan. A plan with a delete that delvec does not apply is refused."""
    sets = DeleteSets.of(plan)
    report = progress or _no_report
    uncounted: dict[int, Bitmap] = {}
    checks = (
        _check_duplicates(plan),
        _check_statistics(plan),
        _check_deletes(plan, sets, storage, report, uncounted),
        _check_equality_files(plan, storage, report),
        _check_data_files(plan, storage, report),
    )
    findings = tuple(chain.from_iterable(checks))
    vectors = int(pc.sum(pc.equal(plan.deletes.column("kind"), POSITION_VECTOR)).as_py() or 0)
    return Report(
        location=plan.location,
        version=plan.base.version,
        files=len(plan.files),
        vectors=vectors,
        deleted_rows=int(pc.sum(plan.deleted_rows).as_py() or 0) + sum(map(len, uncounted.values())),
        findings=findings,
        delete_files=len(plan.deletes) - vectors,
    )


def _no_report(what: str, done: int, count: int) -> None:
    del what, done, count


def _check_duplicates(plan: ScanPlan) -> Iterator[Finding]:
    counts = plan.files.group_by("location").aggregate([("location", "count")])
    for row in counts.filter(pc.greater(counts.column("location_count"), 1)).to_pylist():
        message = f"data file is listed {row['location_count']} times, expected once"
        yield Finding(ERROR, "duplicate", row["location"], message)


def _check_deletes(
    plan: ScanPlan, sets: DeleteSets, storage: Storage, report: Progress, uncounted: dict[int, Bitmap]
) -> Iterator[Finding]:
    """Check the deletes of each file; ``uncounted`` gets the deleted rows of files without a count."""
    data_files = plan.files.take(pa.array(sets.file))
    paths, records = (data_files.column(name).to_pylist() for name in ("location", "record_count"))
    is_uncounted = pc.is_null(plan.deleted_rows).to_numpy()
    for done, examined in enumerate(examine(storage, sets), 1):
        report("vectors", done, len(sets.file))
        pair, file = examined.pair, int(sets.file[examined.pair])
        if examined.bitmap is None:
            yield Finding(ERROR, "vector", paths[pair], str(examined.error))
            continue
        yield from _check_positions(examined.bitmap, paths[pair], records[pair])
        if is_uncounted[file]:
            uncounted[file] = uncounted.get(file, Bitmap()) | examined.bitmap


def _check_equality_files(plan: ScanPlan, storage: Storage, report: Progress) -> Iterator[Finding]:
    """Read each equality file that applies to a data file."""
    try:
        layers = EqualityDeletes.of(plan).layers
    except FormatError as error:
        yield Finding(ERROR, "equality", error.path or plan.location, str(error))
        return
    count = sum(len(layer.deletes) for layer in layers)
    done = 0
    for layer in layers:

        def check(delete: Mapping[str, Any], columns: Sequence[KeyColumn] = layer.columns) -> Finding | None:
            try:
                stored_keys(storage, delete, columns)
            except FormatError as error:
                return Finding(ERROR, "equality", delete["location"], str(error))
            return None

        with ThreadPoolExecutor(_READERS) as pool:
            for finding in pool.map(check, layer.deletes.to_pylist()):
                done += 1
                report("equality files", done, count)
                if finding is not None:
                    yield finding


def _check_positions(deleted: Bitmap, path: str, rows: int | None) -> Iterator[Finding]:
    highest = deleted.max()
    if rows is None:
        message = "the row count is not recorded, so the positions in the vector were not checked"
        yield Finding(WARNING, "position", path, message)
    elif highest is not None and highest >= rows:
        message = f"vector deletes row {highest}, but the file has {rows} rows"
        yield Finding(ERROR, "position", path, message)


def _check_data_files(plan: ScanPlan, storage: Storage, report: Progress) -> Iterator[Finding]:
    paths, sizes = (plan.files.column(name).to_pylist() for name in ("location", "size"))
    actual = _sizes(storage, paths)
    for done, (path, expected, size) in enumerate(zip(paths, sizes, actual, strict=True), 1):
        report("data files", done, len(paths))
        if size is None:
            yield Finding(ERROR, "data-file", path, "data file is missing")
        elif size != expected:
            message = f"data file has {size} bytes, expected {expected}"
            yield Finding(ERROR, "data-file", path, message)


def _sizes(storage: Storage, paths: list[str]) -> Iterator[int | None]:
    """The size of each file; None if the file does not exist."""
    sizes: dict[str, int] = {}
    if len(paths) >= _LIST_FROM:
        sizes = {location.join(storage.root, entry.path): entry.size for entry in storage.list()}

    def size(path: str) -> int | None:
        if sizes and location.relative(storage.root, path) is not None:
            return sizes.get(path)
        try:
            return storage.head(path).size
        except ObjectNotFoundError:
            return None

    with ThreadPoolExecutor(_READERS) as pool:
        yield from pool.map(size, paths)


def _check_statistics(plan: ScanPlan) -> Iterator[Finding]:
    records = plan.facts.record_count
    yield from _findings(plan, pc.is_null(records), "row count is not recorded", severity=WARNING)
    yield from _findings(plan, pc.less(records, 0), "row count is negative")
    for path in _leaves(plan.schema):
        stats = plan.facts.column(path)
        if isinstance(stats, ColumnStats):
            yield from _check_column(plan, ".".join(path), stats)


def _check_column(plan: ScanPlan, name: str, stats: ColumnStats) -> Iterator[Finding]:
    nulls = stats.null_count
    out_of_range = pc.or_kleene(pc.less(nulls, 0), pc.greater(nulls, stats.record_count))
    yield from _findings(plan, out_of_range, f"null count of {name} is not between 0 and the number of rows")
    if not pa.types.is_nested(stats.lower.type):
        is_reversed = pc.greater(stats.lower, stats.upper)
        yield from _findings(plan, is_reversed, f"lower bound of {name} is above its upper bound")


def _findings(
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
