"""Vacuum: deletes the files of a table that no retained version needs. It needs no Spark.

    1. list the table's folder: files that were last modified before the cutoff are candidates
    2. read the newest version: what it protects is no candidate
    3. record the start in the history, then delete in batches, then record the end

The order of 1 and 2 matters. A writer writes a file before it commits the file. So a candidate that a commit
refers to was committed either before 2, and is protected, or after it by a writer that took longer than the
retention from writing to committing. Only a commit that brings back a file (a restore) can refer to an old
file later: so before each batch the newest version is asked again.

Memory holds columns of paths, sizes and times, never an object for each file.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from delvec import location
from delvec.errors import (
    CommitConflictError,
    DelvecError,
    InvalidOperationError,
    StorageError,
    UnsupportedFeatureError,
)
from delvec.formats import Table, Vacuumable
from delvec.retention import STAGING, Protected, RetentionRules, VacuumRecord
from delvec.row_delta import (
    Committed,
    Isolation,
    Operation,
    Read,
    Request,
    RowDelta,
    Unknown,
    Verb,
    VersionTaken,
)
from delvec.storage import LINK, STAGED_NAME, WALKED_SCHEMA, in_parallel

VERB = "vacuum"
MAX_PATHS = 1000
"""How many paths the result of a dry run lists."""

FILES_LISTED, FILES_DELETED = "files listed", "files deleted"

_HOUR_MS = 3_600_000
_MAX_HOURS = 10**9  # more than 100,000 years
_MAX_RECORD_ATTEMPTS = 100
_DELETED_AT_ONCE = 1000  # files: as many as an object store deletes by one request
_BATCH = 8 * _DELETED_AT_ONCE
_NO_PARENT = ""

Report = Callable[[str, int], None]
"""Called with the kind of progress and the increment."""


@dataclass(frozen=True, slots=True)
class VacuumResult:
    """What a vacuum deleted, or would delete.

    version   the newest version afterwards
    files     how many files
    bytes     their size
    folders   how many empty folders
    metrics   the counts by the names of the table's history; empty for a dry run
    paths     of a dry run: the locations of the first files and folders, at most ``MAX_PATHS``
    """

    location: str
    version: int
    files: int
    bytes: int
    folders: int
    metrics: Mapping[str, int] = field(default_factory=dict)
    dry_run: bool = False
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Run:
    """The arguments of a vacuum: files that were modified before ``cutoff_ms`` may go."""

    table: Table
    answers: Vacuumable
    rules: RetentionRules
    retain_ms: int | None
    force: bool
    cutoff_ms: int
    report: Report


@dataclass(slots=True)
class _Garbage:
    """Old files and empty old folders, as ``WALKED_SCHEMA``, of which the protected ones are left out.

    ``has_links``: a folder of the table has a second path. ``checked`` is the version that was asked last.
    """

    files: pa.Table
    folders: pa.Table
    listed_folders: int
    has_links: bool
    checked: int = field(default=-1)

    @property
    def bytes(self) -> int:
        return int(pc.sum(self.files.column("size")).as_py() or 0)

    @property
    def count(self) -> int:
        return len(self.files) + len(self.folders)


def vacuum(
    table: Table,
    retain_hours: float | None = None,
    *,
    dry_run: bool = False,
    force: bool = False,
    report: Report | None = None,
) -> VacuumResult:
    """Delete the files that no version within the last ``retain_hours`` needs; by default the table's
    retention. A shorter time than the table's is refused without ``force``.
    """
    if not isinstance(table, Vacuumable):
        raise UnsupportedFeatureError(
            f"{VERB} is not supported on {table.format} tables: {table.location}", feature=VERB
        )
    rules = table.retention_rules()
    retain_ms = _retention_ms(retain_hours, rules, force=force, where=table.location)
    kept_ms = rules.default_ms if retain_ms is None else retain_ms
    run = _Run(table, table, rules, retain_ms, force, max(0, _now_ms() - kept_ms), report or _unreported)
    garbage = _list(run)
    _leave_protected(run, garbage, table.protected(run.cutoff_ms))
    garbage.folders = _emptied(garbage)
    if dry_run:
        return _result(run, garbage, garbage.checked, paths=tuple(_first_paths(run, garbage)))
    record = VacuumRecord(
        rules.default_ms, retain_ms, not force, garbage.count, garbage.bytes, garbage.listed_folders
    )
    _record(run, Operation.VACUUM_START, record)
    try:
        deleted = _delete(run, garbage)
    except BaseException:
        _record_failure(run, record)
        raise
    files = deleted.files + deleted.folders
    ended = replace(record, files=files, bytes=deleted.bytes, completed=True)
    end = _record(run, Operation.VACUUM_END, ended)
    return replace(deleted, version=end.version, metrics=end.metrics)


def _unreported(kind: str, count: int) -> None:
    del kind, count


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _retention_ms(hours: float | None, rules: RetentionRules, *, force: bool, where: str) -> int | None:
    if hours is None:
        return None
    if isinstance(hours, bool) or not isinstance(hours, int | float) or not 0 <= hours <= _MAX_HOURS:
        raise InvalidOperationError(
            f"retain_hours is {hours!r}, expected a number of hours, 0 or more and at most {_MAX_HOURS}"
        )
    retain_ms = int(hours * _HOUR_MS)
    if retain_ms < rules.default_ms and not force:
        default = f"{rules.default_ms / _HOUR_MS:g} ({rules.property})"
        raise InvalidOperationError(
            f"retain_hours is {hours:g}, expected at least {default}: "
            f"a shorter time removes files that readers of older versions still need, and a running writer "
            f"may then commit files that are gone; force=True allows it: {where}"
        )
    return retain_ms


def _list(run: _Run) -> _Garbage:
    """The files and empty folders that are old enough."""
    other_tables: set[str] = set()

    def enter(folder: str) -> bool:
        parent, _, name = folder.rpartition("/")
        if name in run.rules.table_folders and parent != _NO_PARENT:
            other_tables.add(parent)
        return _in_staging(folder) or not run.rules.hidden.has(name)

    parts, folders, links = [WALKED_SCHEMA.empty_table()], 1, 0
    for rows in run.table.storage.walk(enter):
        part = rows.filter(pc.not_equal(pc.fill_null(rows.column("entries"), 0), LINK))
        links += len(rows) - len(part)
        is_file = pc.is_null(part.column("entries"))
        files = int(pc.sum(is_file).as_py() or 0)
        folders += len(part) - files
        run.report(FILES_LISTED, files)
        parts.append(_old(run, part))
    candidates = _outside(pa.concat_tables(parts), other_tables)
    is_file = pc.is_null(candidates.column("entries"))
    return _Garbage(candidates.filter(is_file), candidates.filter(pc.invert(is_file)), folders, links > 0)


def _in_staging(path: str) -> bool:
    return path == STAGING or path.startswith(f"{STAGING}/")


def _old(run: _Run, part: pa.Table) -> pa.Table:
    """The rows that may be deleted by their age and name."""
    part = part.filter(pc.less(part.column("modified_ms"), run.cutoff_ms))
    paths = part.column("path")
    names = pc.replace_substring_regex(paths, "^.*/", "")
    staging = pc.starts_with(paths, f"{STAGING}/")
    unfinished = pc.match_substring_regex(names, f"^{STAGED_NAME}$")
    visible = pc.or_(pc.invert(run.rules.hidden.mask(names)), pc.or_(staging, unfinished))
    entries = part.column("entries")
    # A folder in staging is deleted with the files in it. Elsewhere only a folder that was empty.
    gone = pc.or_(pc.is_null(entries), pc.or_(pc.equal(pc.fill_null(entries, 0), 0), staging))
    return part.filter(pc.and_(visible, gone))


def _outside(rows: pa.Table, folders: set[str]) -> pa.Table:
    """The rows that are not in one of these folders."""
    for folder in sorted(folders):
        path = rows.column("path")
        inside = pc.or_(pc.starts_with(path, f"{folder}/"), pc.equal(path, folder))
        rows = rows.filter(pc.invert(inside))
    return rows


def _leave_protected(run: _Run, garbage: _Garbage, protected: Protected) -> None:
    """Drop what is protected from the garbage."""
    root = run.table.location.rstrip("/") + "/"
    locations = protected.locations
    inside = pc.starts_with(locations, root)
    paths = pc.utf8_slice_codeunits(locations.filter(inside), start=len(root))
    garbage.files = garbage.files.filter(pc.invert(_is_in(garbage.files.column("path"), paths)))
    elsewhere = locations if garbage.has_links else locations.filter(pc.invert(inside))
    if len(elsewhere):
        # Two paths may lead to one folder, by a link or a mount. File names are unique, so a protected file
        # outside of the table, or perhaps behind a link inside, protects the file of its name.
        names = pc.replace_substring_regex(garbage.files.column("path"), "^.*/", "")
        known = pc.replace_substring_regex(elsewhere, "^.*/", "")
        garbage.files = garbage.files.filter(pc.invert(_is_in(names, known)))
    garbage.checked = protected.version


def _emptied(garbage: _Garbage) -> pa.Table:
    """The folders that are empty when the files are gone; young files may keep a folder in staging."""
    parents = pc.replace_substring_regex(garbage.files.column("path"), "/?[^/]*$", "")
    gone = Counter({pair["values"]: pair["counts"] for pair in pc.value_counts(parents).to_pylist()})
    rows = list(zip(*(garbage.folders.column(name).to_pylist() for name in ("path", "entries")), strict=True))
    goes = {}
    for path, entries in sorted(rows, key=lambda row: len(row[0]), reverse=True):
        goes[path] = gone[path] >= entries
        if goes[path]:
            gone[path.rpartition("/")[0]] += 1
    return garbage.folders.filter(pa.array([goes[path] for path, _ in rows], pa.bool_()))


def _is_in(values: pa.ChunkedArray, among: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.is_in(values.cast(pa.large_string()), value_set=among.cast(pa.large_string()))


def _delete(run: _Run, garbage: _Garbage) -> VacuumResult:
    """Delete the files, then the empty folders. Looks for new versions before each batch."""
    storage = run.table.storage
    files = size = 0
    while len(garbage.files):
        if run.table.snapshot().version != garbage.checked:
            _leave_protected(run, garbage, run.answers.protected(run.cutoff_ms, after=garbage.checked))
        batch = garbage.files.slice(0, _BATCH)
        garbage.files = garbage.files.slice(_BATCH)
        in_parallel(storage.delete, _groups(run, batch))
        files += len(batch)
        size += int(pc.sum(batch.column("size")).as_py() or 0)
        run.report(FILES_DELETED, len(batch))
    # The longest paths first: a folder is empty after the folders in it are gone.
    paths = sorted(garbage.folders.column("path").to_pylist(), key=len, reverse=True)
    folders = storage.delete_empty_folders(_absolute(run, path) for path in paths)
    return VacuumResult(run.table.location, garbage.checked, files, size, folders)


def _groups(run: _Run, batch: pa.Table) -> Iterator[list[str]]:
    for start in range(0, len(batch), _DELETED_AT_ONCE):
        paths = batch.column("path").slice(start, _DELETED_AT_ONCE).to_pylist()
        yield [_absolute(run, path) for path in paths]


def _absolute(run: _Run, path: str) -> str:
    """The location: a relative path may look like an absolute one, if a folder is named ``file:``."""
    return location.join(run.table.location, path)


def _first_paths(run: _Run, garbage: _Garbage) -> Iterator[str]:
    for rows in (garbage.files, garbage.folders):
        left = MAX_PATHS - (len(garbage.files) if rows is garbage.folders else 0)
        for path in rows.column("path").slice(0, max(0, left)).to_pylist():
            yield _absolute(run, path)


def _result(run: _Run, garbage: _Garbage, version: int, paths: tuple[str, ...]) -> VacuumResult:
    return VacuumResult(
        run.table.location,
        version,
        len(garbage.files),
        garbage.bytes,
        len(garbage.folders),
        dry_run=True,
        paths=paths,
    )


def _record(run: _Run, operation: Operation, record: VacuumRecord) -> Committed:
    """Commit an entry of the history. It changes no file, so it is in conflict with no other commit."""
    table, request = run.table, Request(operation, vacuum=record)
    for _ in range(_MAX_RECORD_ATTEMPTS):
        snapshot = table.snapshot()
        read = Read(blind=True, isolation=Isolation.SNAPSHOT)
        match table.commit(snapshot, RowDelta(snapshot.base, request, read, Verb.APPEND)):
            case Committed() as committed:
                return committed
            case Unknown(version, reason):
                raise StorageError(
                    f"cannot tell whether version {version} was committed: {reason}", path=table.location
                )
            case VersionTaken():
                time.sleep(0.01)
    raise CommitConflictError(
        f"{table.operation_name(request)} gave up: other writers committed first "
        f"{_MAX_RECORD_ATTEMPTS} times in a row: {table.location}"
    )


def _record_failure(run: _Run, record: VacuumRecord) -> None:
    try:
        _record(run, Operation.VACUUM_END, replace(record, completed=False))
    except DelvecError:  # the error that made the run fail is raised
        return
