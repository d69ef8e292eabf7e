"""Commits of metadata: the table's pointer goes from one metadata file to the next, or not at all.

    base file ── updates ──▶ next file    Swapped      it is the newest one
                                          Taken        another writer was first; nothing was committed
                                          SwapUnknown  the store or the catalog did not answer, and does not
                                                       show the commit; it may still come

Each kind of pointer has a ``commit`` of its own. Only one of several writers with the same base gets
``Swapped``. If an answer is lost, the table is read again, and the commit is never sent a second time.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from delvec.errors import CommitConflictError, DelvecError, InvalidOperationError, StorageError
from delvec.iceberg.locations import Locations
from delvec.iceberg.metadata import TableMetadata
from delvec.iceberg.metadata_files import FOLDER, SUFFIX
from delvec.iceberg.metadata_updates import Update
from delvec.iceberg.property_values import flag
from delvec.storage import Storage

METADATA_PATH = "write.metadata.path"
METADATA_CODEC = "write.metadata.compression-codec"
DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"

Clock = Callable[[], int]


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A metadata file as the pointer names it, and its content."""

    path: str
    metadata: TableMetadata


@dataclass(frozen=True, slots=True)
class Swapped:
    """The updates are committed. ``file``: the table's metadata file with them."""

    file: BaseFile


@dataclass(frozen=True, slots=True)
class Taken:
    """The base is no longer the newest metadata. Nothing was committed."""


@dataclass(frozen=True, slots=True)
class SwapUnknown:
    """It is not known whether the updates are committed. Files that they refer to must stay."""

    reason: str


SwapOutcome = Swapped | Taken | SwapUnknown


class Swap(Protocol):
    """Commits updates of metadata."""

    def commit(self, storage: Storage, base: BaseFile | None, updates: Sequence[Update]) -> SwapOutcome:
        """Commit updates of the table's metadata ``base``; None: the updates create the table.

        An error means that nothing was committed. CommitConflictError: the table is another one now, with the
        same name.
        """
        ...


def metadata_folder(metadata: TableMetadata) -> str:
    """The folder for metadata files, manifests and manifest lists, as the table records locations."""
    place = metadata.properties.get(METADATA_PATH) or f"{metadata.location.rstrip('/')}/{FOLDER}"
    return place.rstrip("/")


def file_ending(metadata: TableMetadata) -> str:
    """The ending of names of metadata files, which says whether they are compressed."""
    return f".gz{SUFFIX}" if metadata_codec(metadata.properties) == "gzip" else SUFFIX


def metadata_codec(properties: Mapping[str, str]) -> str:
    """How the next metadata file is compressed."""
    codec = properties.get(METADATA_CODEC, "none").lower()
    if codec not in ("none", "gzip"):
        raise InvalidOperationError(f"property {METADATA_CODEC} is {codec!r}, expected none or gzip")
    return codec


def encoded(data: bytes, path: str) -> bytes:
    """The content of the metadata file at ``path``: compressed if its name says so."""
    return gzip.compress(data, mtime=0) if path.endswith(f".gz{SUFFIX}") else data


def shows_commit(metadata: TableMetadata, updates: Sequence[Update], file: str | None = None) -> bool:
    """Whether the metadata is that of the commit or of a later one: it has the commit's snapshots, the uuid
    that it gave, or ``file``, the metadata file that it wrote, among its last ones.
    """
    added = [update["snapshot"]["snapshot-id"] for update in updates if update["action"] == "add-snapshot"]
    if added:
        return all(number in metadata.snapshots for number in added)
    given = [update["uuid"] for update in updates if update["action"] == "assign-uuid"]
    if given:
        return bool(metadata.table_uuid == given[-1])
    return any(place == file for _, place in metadata.metadata_log)


def verify_same_table(base: TableMetadata, now: str | None, where: str) -> None:
    """Refuse to go on if the table was dropped and another one has its place. ``now``: its uuid."""
    if base.table_uuid is not None and now != base.table_uuid:
        raise CommitConflictError(
            f"the table was dropped and created again while it was changed: its uuid is {now}, expected "
            f"{base.table_uuid}: {where}"
        )


def delete_old_files(storage: Storage, old: TableMetadata, new: TableMetadata) -> None:
    """Delete metadata files that the log no longer names, if the table asks for it and has them in its own
    folder. What cannot be deleted stays.
    """
    if not flag(new.properties, DELETE_AFTER_COMMIT, default=False):
        return
    kept = {place for _, place in new.metadata_log}
    folder = metadata_folder(new) + "/"
    gone = [place for _, place in old.metadata_log if place not in kept and place.startswith(folder)]
    with suppress(DelvecError):  # the commit is made
        discard(storage, [Locations(new.location).resolve(place) for place in gone])


def discard(storage: Storage, paths: Sequence[str]) -> None:
    """Delete files that nothing refers to. Those that cannot be deleted stay."""
    with suppress(StorageError):
        storage.delete(paths)
