"""Commits that change a table's metadata and no rows: branches and tags, expired snapshots, upgrades.

They conflict with no other commit. If another writer was first, the updates are made again from the newest
metadata.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

from delvec.errors import CommitConflictError, StorageError
from delvec.iceberg.commit_retry import commit_retries
from delvec.iceberg.metadata import TableMetadata
from delvec.iceberg.metadata_updates import Update
from delvec.iceberg.newest_metadata import NewestMetadata
from delvec.iceberg.swaps import BaseFile, Swapped, SwapUnknown, Taken

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
    started = time.monotonic()
    for attempt in itertools.count(1):
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
                retries = commit_retries(metadata.properties)
                if not retries.allow(attempt, time.monotonic() - started):
                    raise CommitConflictError(
                        f"{operation} gave up: other writers committed first {attempt} times in a row: "
                        f"{newest.storage.root}"
                    )
                pause(retries.pause(attempt))
    raise AssertionError
