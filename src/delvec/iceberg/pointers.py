"""Who knows the newest metadata file of a table: its folder, a catalog, or the user, who named the file.

Who knows it also takes commits (`swaps`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from delvec.errors import InvalidOperationError, ObjectNotFoundError
from delvec.iceberg import metadata_files
from delvec.iceberg.folder_swap import commit_in_folder, verify_committable
from delvec.iceberg.metadata_files import MetadataFile
from delvec.iceberg.metadata_updates import Update
from delvec.iceberg.swaps import BaseFile, Clock, Swap, SwapOutcome, clock_ms
from delvec.storage import Entry, Storage, in_parallel


@dataclass(frozen=True, slots=True)
class CurrentFile:
    """The newest metadata file: its path, and what changes if another file gets the same path.

    ``options``: the options of the storage, where a catalog gives them; credentials expire.
    """

    path: str
    identity: object = None
    options: Mapping[str, str] | None = field(default=None, compare=False)


class Pointer(Swap, Protocol):
    """Finds the newest metadata file, and commits the next one."""

    def current(self, storage: Storage) -> CurrentFile: ...

    def verify_writable(self, storage: Storage, base: BaseFile) -> None:
        """Refuse a table that cannot be committed to, without asking anyone. ``base``: its metadata file,
        which may then not be the newest one.
        """
        ...


class FolderPointer:
    """The newest file in the table's folder ``metadata``. Keeps the last answer, and looks for later ones."""

    def __init__(self, clock: Clock = clock_ms) -> None:
        self._last: MetadataFile | None = None
        self._clock = clock

    def current(self, storage: Storage) -> CurrentFile:
        last = self._last
        if last is not None and not last.of_catalog:
            paths = [last.path, *metadata_files.spellings(last.number + 1)]
            entry, *later = in_parallel(lambda path: _head(storage, path), paths)
            if entry is not None and not any(later):
                return _current(entry)
        self._last = metadata_files.find_newest(storage)
        return _current(storage.head(self._last.path))

    def verify_writable(self, storage: Storage, base: BaseFile) -> None:
        verify_committable(storage, base)

    def commit(self, storage: Storage, base: BaseFile | None, updates: Sequence[Update]) -> SwapOutcome:
        return commit_in_folder(storage, base, updates, self._clock())


def _head(storage: Storage, path: str) -> Entry | None:
    try:
        return storage.head(path)
    except ObjectNotFoundError:
        return None


def _current(entry: Entry) -> CurrentFile:
    return CurrentFile(entry.path, (entry.size, entry.modified))


@dataclass(frozen=True, slots=True)
class FilePointer:
    """One metadata file, which the user has named."""

    path: str

    def current(self, storage: Storage) -> CurrentFile:  # noqa: ARG002 - as the others
        return CurrentFile(self.path)

    def commit(
        self,
        storage: Storage,
        base: BaseFile | None,  # noqa: ARG002 - as the others
        updates: Sequence[Update],  # noqa: ARG002
    ) -> SwapOutcome:
        self._refuse(storage)

    def verify_writable(self, storage: Storage, base: BaseFile) -> NoReturn:  # noqa: ARG002 - as the others
        self._refuse(storage)

    def _refuse(self, storage: Storage) -> NoReturn:
        raise InvalidOperationError(
            f"the table was opened by one of its metadata files, {self.path}, and cannot be changed, "
            f"expected the table's path or its catalog: {storage.root}"
        )
