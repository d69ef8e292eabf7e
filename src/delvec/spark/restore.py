"""RESTORE, as a verb of ``Table``; `delvec.restore` does it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

from delvec.formats import Table
from delvec.restore import restore as restore_table
from delvec.spark.target import OperationResult
from delvec.version_state import RestoreCounts


@dataclass(frozen=True, slots=True)
class RestoreResult(OperationResult):
    """What a restore did, or would do (``dry_run``: ``version`` is the version now).

    restored_version   the version whose state the table has now
    files              the data files that were removed and restored
    """

    restored_version: int = field(kw_only=True)
    files: RestoreCounts = field(kw_only=True)
    dry_run: bool = field(default=False, kw_only=True)


def restore(
    table: Table, version: int | None, timestamp: dt.datetime | None, *, dry_run: bool
) -> RestoreResult:
    restored = restore_table(table, version=version, timestamp=timestamp, dry_run=dry_run)
    return RestoreResult(
        restored.version,
        restored.metrics,
        restored_version=restored.restored_version,
        files=restored.counts,
        dry_run=restored.dry_run,
    )
