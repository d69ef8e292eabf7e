"""Runs RESTORE. The result has the columns that other engines return."""

from __future__ import annotations

from collections.abc import Mapping

from delvec.statements.run_query import Frames
from delvec.statements.statement import Restore


def restore(frames: Frames, statement: Restore) -> Mapping[str, int]:
    version = None if statement.version is None else frames.version(statement.version)
    timestamp = None if statement.timestamp is None else frames.instant(statement.timestamp)
    files = frames.tables.of(statement.table).restore(version, timestamp).files
    return {
        "table_size_after_restore": files.bytes_after,
        "num_of_files_after_restore": files.files_after,
        "num_removed_files": files.removed_files,
        "num_restored_files": files.restored_files,
        "removed_files_size": files.removed_bytes,
        "restored_files_size": files.restored_bytes,
    }
