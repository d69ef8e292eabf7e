"""The newest metadata of a table, and who takes commits of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from delvec.iceberg import metadata_files
from delvec.iceberg.metadata import TableMetadata
from delvec.iceberg.pointers import CurrentFile, FolderPointer, Pointer
from delvec.storage import Storage

if TYPE_CHECKING:
    from delvec.iceberg.snapshot import Snapshot

_OPTIONS_SECONDS = 300  # credentials last longer; a new storage has to connect again


class NewestMetadata:
    """The newest metadata of a table, read again only if the pointer has moved. Threads may share it.

    Credentials that a catalog gives expire: after some minutes the storage gets those of its last answer.
    """

    def __init__(self, storage: Storage, pointer: Pointer) -> None:
        self.storage = storage
        self.pointer = pointer
        self._options_at = time.monotonic()
        self._lock = threading.Lock()
        self._last: tuple[CurrentFile, TableMetadata] | None = None
        self._kept: dict[tuple[str | None, bool], Snapshot] = {}

    def kept(self, ref: str | None, *, relocate: bool, make: Callable[[], Snapshot]) -> Snapshot:
        """The newest snapshot at a ref, the same object while the metadata is the same: it keeps the live
        files that its plans have read.
        """
        new = make()
        old = self._kept.get((ref, relocate))
        if old is not None and old.metadata is new.metadata and old.storage is new.storage:
            return old
        self._kept[ref, relocate] = new
        return new

    @property
    def is_in_folder(self) -> bool:
        """Whether the table's folder says which file is the newest."""
        return isinstance(self.pointer, FolderPointer)

    def read(self) -> tuple[str, TableMetadata]:
        """Path and content of the newest metadata file."""
        with self._lock:
            current = self.pointer.current(self.storage)
            self._renew(current.options)
            if self._last is None or self._last[0] != current:
                self._last = current, metadata_files.read_metadata(self.storage, current.path)
            return current.path, self._last[1]

    def _renew(self, options: Mapping[str, str] | None) -> None:
        now = time.monotonic()
        if options is not None and now - self._options_at > _OPTIONS_SECONDS:
            self._options_at = now
            if dict(options) != self.storage.options:
                self.storage = Storage(self.storage.root, options)
