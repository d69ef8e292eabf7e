"""What a commit did to files, counted under the names that Delta's history has for each operation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """``vectors_added`` and ``vectors_removed`` each include those updated."""

    added: int
    added_bytes: int
    added_rows: int
    removed: int
    removed_bytes: int
    vectors_added: int
    vectors_updated: int
    vectors_removed: int
    change_files: int


def metrics_of(operation: str, change: Change) -> dict[str, int]:
    if operation == "MERGE":
        return _merge(change)
    if operation in ("DELETE", "UPDATE"):
        return _row_level(change)
    written = {
        "numFiles": change.added,
        "numOutputBytes": change.added_bytes,
        "numOutputRows": change.added_rows,
    }
    if not change.removed and not change.vectors_added:
        return written if change.added else {}
    return written | _row_level(change)


def _row_level(change: Change) -> dict[str, int]:
    return {
        "numAddedFiles": change.added,
        "numAddedBytes": change.added_bytes,
        "numRemovedFiles": change.removed,
        "numRemovedBytes": change.removed_bytes,
        "numAddedChangeFiles": change.change_files,
        "numDeletionVectorsAdded": change.vectors_added,
        "numDeletionVectorsUpdated": change.vectors_updated,
        "numDeletionVectorsRemoved": change.vectors_removed,
    }


def _merge(change: Change) -> dict[str, int]:
    return {
        "numTargetFilesAdded": change.added,
        "numTargetBytesAdded": change.added_bytes,
        "numTargetFilesRemoved": change.removed,
        "numTargetBytesRemoved": change.removed_bytes,
        "numTargetChangeFilesAdded": change.change_files,
        "numTargetDeletionVectorsAdded": change.vectors_added,
        "numTargetDeletionVectorsUpdated": change.vectors_updated,
        "numTargetDeletionVectorsRemoved": change.vectors_removed,
    }
