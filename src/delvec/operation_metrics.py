"""Counts of a commit, under the names that results and Delta's history have for each operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from delvec.retention import VacuumRecord
from delvec.row_delta import Execution, Operation, Request, RowCounts
from delvec.version_state import RestoreCounts

_WRITE = {"inserted": "numOutputRows", "deleted": "numDeletedRows", "copied": "numCopiedRows"}
_MERGE = {
    "source": "numSourceRows",
    "updated": "numTargetRowsUpdated",
    "deleted": "numTargetRowsDeleted",
    "inserted": "numTargetRowsInserted",
    "new": "numOutputRows",
    "copied": "numTargetRowsCopied",
}
_BY_KEYS = {"source": "numKeys", "deleted": "numDeletedRows", "copied": "numCopiedRows"}
_ROW_METRICS: Mapping[Operation, Mapping[str, str]] = MappingProxyType(
    {
        Operation.DELETE: {"deleted": "numDeletedRows", "copied": "numCopiedRows"},
        Operation.UPDATE: {"updated": "numUpdatedRows", "copied": "numCopiedRows"},
        Operation.MERGE: _MERGE,
        Operation.DELETE_KEYS: _BY_KEYS,
        Operation.UPSERT: _BY_KEYS | {"inserted": "numOutputRows"},
    }
)
"""The metric of each count, by operation, in the order of the history; other operations use ``_WRITE``."""


@dataclass(frozen=True, slots=True)
class FileCounts:
    """What a commit did to files. ``vectors_added`` and ``vectors_removed`` include ``vectors_updated``.

    ``added_sizes``: the sizes of the new files, ascending.
    """

    added: int
    added_bytes: int
    added_rows: int
    removed: int
    removed_bytes: int
    vectors_added: int
    vectors_updated: int
    vectors_removed: int
    change_files: int
    added_sizes: Sequence[int] = ()


_NO_FILES = FileCounts(0, 0, 0, 0, 0, 0, 0, 0, 0)
_COMPACTIONS = (Operation.COMPACT, Operation.PURGE)
_MIN_SIZE, _MAX_SIZE, _QUARTILES = "minFileSize", "maxFileSize", ("p25FileSize", "p50FileSize", "p75FileSize")


def metrics_of(
    request: Request, files: FileCounts, counts: RowCounts, execution: Execution
) -> dict[str, int]:
    """All metrics of a commit. A count of rows replaces a count of files that has the same name."""
    if request.operation in _COMPACTIONS:
        return _compaction(files) | execution_metrics(replace(execution, duration_ms=None))
    if request.vacuum is not None:
        return _vacuum(request.vacuum)
    return _file_metrics(request, files) | row_metrics(request, counts) | execution_metrics(execution)


def metrics_without_files(request: Request, counts: RowCounts, execution: Execution) -> dict[str, int]:
    """The metrics of a statement that commits nothing."""
    if request.operation in _COMPACTIONS:
        return _compaction(_NO_FILES) | execution_metrics(replace(execution, duration_ms=None))
    return row_metrics(request, counts) | execution_metrics(execution)


def row_metrics(request: Request, counts: RowCounts) -> dict[str, int]:
    names = _ROW_METRICS.get(request.operation, _WRITE)
    values = {metric: getattr(counts, name) for name, metric in names.items()}
    return {metric: value for metric, value in values.items() if value is not None}


def stored_key_metrics(keys: int) -> dict[str, int | None]:
    """The metrics of a statement that stores keys: how many rows they delete is not known."""
    return {_BY_KEYS["source"]: keys, _BY_KEYS["deleted"]: None}


def restore_metrics(counts: RestoreCounts) -> dict[str, int]:
    return {
        "tableSizeAfterRestore": counts.bytes_after,
        "numOfFilesAfterRestore": counts.files_after,
        "numRemovedFiles": counts.removed_files,
        "numRestoredFiles": counts.restored_files,
        "removedFilesSize": counts.removed_bytes,
        "restoredFilesSize": counts.restored_bytes,
    }


def execution_metrics(execution: Execution) -> dict[str, int]:
    metrics = {} if execution.duration_ms is None else {"executionTimeMs": execution.duration_ms}
    if execution.runs > 1:
        metrics["numRuns"] = execution.runs
    if execution.attempts > 1:
        metrics |= {"numCommitTries": execution.attempts, "numFilesUnited": execution.united_files}
    return metrics


def _file_metrics(request: Request, files: FileCounts) -> dict[str, int]:
    if request.operation is Operation.CONVERT:
        return {"numConvertedFiles": files.added}
    if request.operation is Operation.MERGE:
        return _merge(files)
    if request.operation in (Operation.DELETE, Operation.UPDATE, Operation.DELETE_KEYS, Operation.UPSERT):
        return _row_level(files)
    written = {
        "numFiles": files.added,
        "numOutputBytes": files.added_bytes,
        "numOutputRows": files.added_rows,
    }
    if not files.removed and not files.vectors_added:
        return written if files.added else {}
    return written | _row_level(files)


def _vacuum(run: VacuumRecord) -> dict[str, int]:
    if run.completed is None:
        return {"numFilesToDelete": run.files, "sizeOfDataToDelete": run.bytes}
    return {"numDeletedFiles": run.files, "numVacuumedDirectories": run.folders} if run.completed else {}


def total_metrics(metrics: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The metrics of several commits together. Quartiles are left out: they are known of each commit only."""
    if len(metrics) == 1:
        return dict(metrics[0])
    totals: dict[str, int] = {}
    for name in dict.fromkeys(name for commit in metrics for name in commit if name not in _QUARTILES):
        values = [commit[name] for commit in metrics if name in commit]
        totals[name] = {_MIN_SIZE: min, _MAX_SIZE: max}.get(name, sum)(values)
    return totals


def _compaction(files: FileCounts) -> dict[str, int]:
    sizes, count = files.added_sizes, len(files.added_sizes)
    metrics = {
        "numAddedFiles": files.added,
        "numAddedBytes": files.added_bytes,
        "numRemovedFiles": files.removed,
        "numRemovedBytes": files.removed_bytes,
        "numDeletionVectorsRemoved": files.vectors_removed,
    }
    if count:
        quartiles = (sizes[count * quarter // 4] for quarter in (1, 2, 3))
        metrics |= {
            _MIN_SIZE: sizes[0],
            **dict(zip(_QUARTILES, quartiles, strict=True)),
            _MAX_SIZE: sizes[-1],
        }
    return metrics


def _row_level(files: FileCounts) -> dict[str, int]:
    return {
        "numAddedFiles": files.added,
        "numAddedBytes": files.added_bytes,
        "numRemovedFiles": files.removed,
        "numRemovedBytes": files.removed_bytes,
        "numAddedChangeFiles": files.change_files,
        "numDeletionVectorsAdded": files.vectors_added,
        "numDeletionVectorsUpdated": files.vectors_updated,
        "numDeletionVectorsRemoved": files.vectors_removed,
    }


def _merge(files: FileCounts) -> dict[str, int]:
    return {
        "numTargetFilesAdded": files.added,
        "numTargetBytesAdded": files.added_bytes,
        "numTargetFilesRemoved": files.removed,
        "numTargetBytesRemoved": files.removed_bytes,
        "numTargetChangeFilesAdded": files.change_files,
        "numTargetDeletionVectorsAdded": files.vectors_added,
        "numTargetDeletionVectorsUpdated": files.vectors_updated,
        "numTargetDeletionVectorsRemoved": files.vectors_removed,
    }
