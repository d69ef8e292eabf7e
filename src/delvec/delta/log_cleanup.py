"""Removes expired files of the log, after a checkpoint.

    version      …  7     8     9     10     11    12    13  …
    commits         x     x     x     x      x     x     x
    checkpoints                       c
                    └─ removed ─┘     └─ kept: the last checkpoint at or before version 12

    12 is the newest version at the cutoff, which is the retention before today's midnight (UTC). All versions
    from it on can still be read, and those from the checkpoint on.

The log is kept longer than ``delta.logRetentionDuration`` if no checkpoint is old enough.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from delvec.delta import properties
from delvec.delta.features import CHECKPOINT_PROTECTION
from delvec.delta.history import CommitTimes
from delvec.delta.log_files import LOG, SIDECARS, Listing, list_log, segment
from delvec.delta.log_reader import load, sidecars_of
from delvec.storage import Storage, in_parallel

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot

YOUNGEST_MS = 3_600_000
"""The age of the youngest commit that may be removed. A writer that finds the next version free relies on
it (`commit`): the version is not free because its commit was removed.
"""

_DAY_MS = 86_400_000
_VERSION = re.compile(r"[0-9]{1,19}")
_NO_VERSION = 1 << 63  # more than any version: protects all, if the property cannot be read
# Commits, checkpoints of all kinds, checksums, and compactions by their first version.
_OF_VERSION = re.compile(r"(\d{20})\.(?:json|crc|checkpoint\..*|\d{20}\.compacted\.json)")


def clean_up_log(storage: Storage, snapshot: Snapshot, *, now_ms: int) -> None:
    """Remove the log files that are older than the table's retention, if its properties allow that."""
    if snapshot.properties.get(properties.LOG_CLEANUP, "true").lower() != "true":
        return
    remove_expired(storage, snapshot, _cutoff_ms(snapshot, now_ms), now_ms=now_ms)


def remove_expired(storage: Storage, snapshot: Snapshot, cutoff_ms: int, *, now_ms: int) -> None:
    """Remove the log files that versions since ``cutoff_ms`` do not need. Commits of the last hour stay."""
    cutoff_ms = min(cutoff_ms, now_ms - YOUNGEST_MS)
    listing = list_log(storage)
    oldest = _oldest_kept(storage, snapshot, listing, cutoff_ms)
    if oldest is None or oldest < _protected_before(snapshot):
        return
    entries = storage.list_folder(LOG)
    expired = [entry.path for entry in entries if _is_expired(entry.path, oldest)]
    if not expired:
        return
    # The commits that make up this version are about to go: make sure that its checkpoint can be read.
    load(storage, segment(listing, oldest))
    # The oldest first: if this stops halfway, the log still has no gap that a reader could meet.
    storage.delete(expired)
    if any(".checkpoint." in path for path in expired):
        _remove_sidecars(storage, min(cutoff_ms, now_ms - _DAY_MS))


def _cutoff_ms(snapshot: Snapshot, now_ms: int) -> int:
    retention = properties.duration_ms(
        snapshot.properties, properties.LOG_RETENTION, properties.LOG_RETENTION_DEFAULT
    )
    return (now_ms - retention) // _DAY_MS * _DAY_MS


def _oldest_kept(storage: Storage, snapshot: Snapshot, listing: Listing, cutoff_ms: int) -> int | None:
    """The version of the checkpoint from which on all files are kept; None: all files are kept."""
    times = CommitTimes(storage, listing, snapshot.properties)
    position = bisect_right(times.versions, cutoff_ms, key=times.millis)
    if position == 0:
        return None
    newest_expired = times.versions[position - 1]
    return max((version for version in listing.checkpoints if version <= newest_expired), default=None)


def _protected_before(snapshot: Snapshot) -> int:
    """The version before which the log may only be removed as a whole: a client that does not know features
    which the table had once must find no commit there without a checkpoint.
    """
    if CHECKPOINT_PROTECTION not in snapshot.protocol.features_to_write:
        return 0
    version = snapshot.properties.get(properties.CHECKPOINT_PROTECTION, "0")
    return int(version) if _VERSION.fullmatch(version) else _NO_VERSION


def _is_expired(path: str, oldest: int) -> bool:
    name = path.rpartition("/")[2]
    version = _OF_VERSION.fullmatch(name)
    if version is None:
        return False
    # A compaction that starts at the checkpoint is never used: the commits after the checkpoint are.
    first = int(version[1])
    return first < oldest or (first == oldest and name.endswith(".compacted.json"))


def _remove_sidecars(storage: Storage, cutoff_ms: int) -> None:
    """Remove the sidecars that no checkpoint names. Young ones may belong to a checkpoint that is being
    written, so the caller keeps those of the last day, however short the retention is.
    """
    old = [
        entry.path for entry in storage.list_folder(SIDECARS) if entry.modified.timestamp() * 1000 < cutoff_ms
    ]
    if not old:
        return
    files = [c.paths for checkpoints in list_log(storage).checkpoints.values() for c in checkpoints]
    paths = [path for parts in files for path in parts]
    named = {name for names in in_parallel(lambda path: sidecars_of(storage, path), paths) for name in names}
    storage.delete([path for path in old if path.rpartition("/")[2] not in named])
