"""Commits that change a table's metadata and no rows: branches and tags, expired snapshots, upgrades.

They conflict with no other commit. If another writer was first, the updates are made again from the newest
metadata.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from delvec.errors import CommitConflictError, StorageError
from delvec.iceberg.metadata import TableMetadata
from delvec.iceberg.metadata_updates import Update
from delvec.iceberg.newest_metadata import NewestMetadata
from delvec.iceberg.swaps import BaseFile, Swapped, SwapUnknown, Taken

MAX_COMMIT_ATTEMPTS = 100
_LONGEST_PAUSE = 1.0

MakeUpdates = Callable[[TableMetadata], Sequence[Update]]
"""The updates to commit on top of this metadata; none if it is as it must be. Called for each attempt."""


def commit_updates(
    newest: NewestMetadata,
    make_updates: MakeUpdates,
    *,
    operation: str,
    pause: Callable[[float], None] = time.sleep,
) -> TableMetadata:
    """Commit the updates. Returns the metadata with them, or the newest as it is if there are none.

    StorageError if the outcome is not known. ``operation`` names the commit in errors.
    """
    for attempt in range(MAX_COMMIT_ATTEMPTS):
        path, metadata = newest.read()
        updates = list(make_updates(metadata))
        if not updates:
            return metadata
        match newest.pointer.commit(newest.storage, BaseFile(path, metadata), updates):
            case Swapped(file):
                return file.metadata
            case SwapUnknown(reason):
                raise StorageError(
                    f"cannot tell whether {operation} was committed: {reason}", path=newest.storage.root
                )
            case Taken():
                pause(random.uniform(0, min(_LONGEST_PAUSE, 0.005 * 2**attempt)))
    raise CommitConflictError(
        f"{operation} gave up: other writers committed first {MAX_COMMIT_ATTEMPTS} times in a row: "
        f"{newest.storage.root}"
    )
