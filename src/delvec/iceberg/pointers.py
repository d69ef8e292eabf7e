"""Who knows the newest metadata file of a table: its folder, a catalog, or the user, who named the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from delvec.iceberg import metadata_files
from delvec.iceberg.metadata_files import MetadataFile
from delvec.storage import Storage


@dataclass(frozen=True, slots=True)
class CurrentFile:
    """The newest metadata file: its path, and what changes if another file gets the same path."""

    path: str
    identity: object = None


class Pointer(Protocol):
    """Finds the newest metadata file."""

    def current(self, storage: Storage) -> CurrentFile: ...


class FolderPointer:
    """The newest file in the table's folder ``metadata``. Keeps the last answer, and looks for later ones."""

    def __init__(self) -> None:
        self._last: MetadataFile | None = None

    def current(self, storage: Storage) -> CurrentFile:
        last = self._last
        if last is None or last.of_catalog or not storage.exists(last.path):
            self._last = metadata_files.find_newest(storage)
        else:
            self._last = metadata_files.later_file(storage, last) or last
        entry = storage.head(self._last.path)
        return CurrentFile(self._last.path, (entry.size, entry.modified))


@dataclass(frozen=True, slots=True)
class FilePointer:
    """One metadata file, which the user has named."""

    path: str

    def current(self, storage: Storage) -> CurrentFile:  # noqa: ARG002 - as the others
        return CurrentFile(self.path)
