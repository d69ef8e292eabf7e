"""Vacuum: deletes the files of a table that no retained version needs. It needs no Spark.

    1. where versions expire: remove the expired ones from the metadata
    2. list the table's folder: files that were last modified before the cutoff are candidates, and so are the
       files that only expired versions needed
    3. read the newest version: what it protects is no candidate
    4. record the start in the history, then delete in batches, then record the end

The order of 2 and 3 matters. A writer writes a file before it commits the file. So a candidate that a commit
refers to was committed either before 3, and is protected, or after it by a writer that took longer than the
retention from writing to committing. Only a commit that brings back a file (a restore) can refer to an old
file later: so before each batch the newest version is asked again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

import pyarrow.compute as pc

from delvec.errors import (
    CommitConflictError,
    DelvecError,
    InvalidOperationError,
    StorageError,
    UnsupportedFeatureError,
)
from delvec.formats import Expiring, Table, Vacuumable
from delvec.retention import Expired, RetentionRules, VacuumRecord
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
from delvec.storage import in_parallel
from delvec.vacuum_garbage import FILES_LISTED, ORPHAN, Garbage, Report, list_garbage

__all__ = ["FILES_DELETED", "FILES_LISTED", "MAX_PATHS", "VacuumResult", "vacuum"]

VERB = "vacuum"
MAX_PATHS = 1000
"""How many paths the result of a dry run lists."""

FILES_DELETED, VERSIONS_EXPIRED = "files deleted", "versions expired"

_HOUR_MS = 3_600_000
_MAX_HOURS = 10**9  # more than 100,000 years
_MAX_RECORD_ATTEMPTS = 100
_DELETED_AT_ONCE = 1000  # files: as many as an object store deletes by one request
_BATCH = 8 * _DELETED_AT_ONCE


@dataclass(frozen=True, slots=True)
class VacuumResult:
    """What a vacuum deleted, or would delete.

    version   the newest version afterwards
    files     how many files
    bytes     their size
    folders   how many empty folders
    metrics   the counts by the names of the table's history; empty for a dry run
    paths     of a dry run: the locations of the first files and folders, at most ``MAX_PATHS``
    expired_versions, expired_refs   versions that were removed from the metadata, and the branches and tags
              that went with them; none for a format whose versions do not expire by a vacuum
    """

    location: str
    version: int
    files: int
    bytes: int
    folders: int
    metrics: Mapping[str, int] = field(default_factory=dict)
    dry_run: bool = False
    paths: tuple[str, ...] = ()
    expired_versions: int = 0
    expired_refs: tuple[str, ...] = ()


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
    expired = _expire(run, dry_run=dry_run)
    garbage = list_garbage(table, rules, run.cutoff_ms, expired, run.report)
    garbage.leave_protected(table.protected(run.cutoff_ms, expired=expired))
    garbage.drop_folders_in_use()
    if dry_run:
        return replace(_result(run, garbage, expired), paths=tuple(islice(garbage.locations(), MAX_PATHS)))
    return _recorded(run, garbage) if rules.records else _delete(run, garbage, expired)


def _recorded(run: _Run, garbage: Garbage) -> VacuumResult:
    """Delete the garbage, with an entry in the history before and after it."""
    files = garbage.count + len(garbage.folders)
    rules, folders = run.rules, garbage.listed_folders
    record = VacuumRecord(rules.default_ms, run.retain_ms, not run.force, files, garbage.bytes, folders)
    _record(run, Operation.VACUUM_START, record)
    try:
        deleted = _delete(run, garbage, None)
    except BaseException:
        _record_failure(run, record)
        raise
    ended = replace(record, files=deleted.files + deleted.folders, bytes=deleted.bytes, completed=True)
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


def _expire(run: _Run, *, dry_run: bool) -> Expired | None:
    """What a table whose versions expire removes from its metadata; None if versions do not."""
    if not isinstance(run.table, Expiring):
        return None
    expired = run.table.expire(None if run.retain_ms is None else run.cutoff_ms, dry_run=dry_run)
    run.report(VERSIONS_EXPIRED, expired.versions)
    return expired


def _result(run: _Run, garbage: Garbage, expired: Expired | None) -> VacuumResult:
    """The result of a dry run."""
    assert garbage.checked is not None
    found = VacuumResult(
        run.table.location,
        garbage.checked.version,
        garbage.count,
        garbage.bytes,
        len(garbage.folders),
        dry_run=True,
    )
    if expired is None:
        return found
    return replace(found, expired_versions=expired.versions, expired_refs=expired.refs)


def _delete(run: _Run, garbage: Garbage, expired: Expired | None) -> VacuumResult:
    """Delete the files, then the empty folders. Looks for new versions before each batch."""
    storage = run.table.storage
    counts: Counter[str] = Counter()
    files = size = 0
    while garbage.count:
        garbage.leave_protected(run.answers.protected(run.cutoff_ms, after=garbage.checked))
        batch = garbage.take(_BATCH)
        starts = range(0, len(batch), _DELETED_AT_ONCE)
        places = batch.column("location")
        in_parallel(lambda at: storage.delete(places.slice(at, _DELETED_AT_ONCE).to_pylist()), starts)  # noqa: B023
        counts.update(batch.column("metric").to_pylist())
        files += len(batch)
        size += int(pc.sum(batch.column("size")).as_py() or 0)
        run.report(FILES_DELETED, len(batch))
    # The longest paths first: a folder is empty after the folders in it are gone.
    paths = sorted(garbage.folders.column("path").to_pylist(), key=len, reverse=True)
    folders = storage.delete_empty_folders(garbage.absolute(path) for path in paths)
    result = replace(_result(run, garbage, expired), files=files, bytes=size, folders=folders, dry_run=False)
    if expired is None:
        return result
    counts[expired.orphan_metric] = counts.pop(ORPHAN, 0)
    return replace(result, metrics={**expired.metrics, **counts})


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
