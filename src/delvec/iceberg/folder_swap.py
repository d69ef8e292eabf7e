"""Commits to a table at a path: the next metadata file is written unless it exists.

    metadata/v8.metadata.json       by put-if-absent: one of several writers succeeds
    metadata/version-hint.text      the number, for readers; written afterwards, and it may stay behind

All writers with the same base write the same name: whether it ends in ``.gz`` depends on the base's
properties, and the first file is never compressed. A name is free again after old metadata files were
deleted. The base file is deleted before the one after it, so while the base is there, a free name was never
taken.

Tables of ``NNNNN-<uuid>.metadata.json`` files belong to a catalog: no two writers would write the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import orjson

from delvec import location
from delvec.errors import (
    DelvecError,
    InvalidOperationError,
    ObjectNotFoundError,
    StorageError,
    TableNotFoundError,
)
from delvec.iceberg import metadata_files
from delvec.iceberg.locations import Locations
from delvec.iceberg.metadata import TableMetadata
from delvec.iceberg.metadata_files import FOLDER, SUFFIX, VERSION_HINT
from delvec.iceberg.metadata_updates import Update
from delvec.iceberg.property_values import flag
from delvec.iceberg.swaps import (
    DELETE_AFTER_COMMIT,
    METADATA_PATH,
    BaseFile,
    SwapOutcome,
    Swapped,
    SwapUnknown,
    Taken,
    delete_old_files,
    discard,
    encoded,
    file_ending,
    shows_commit,
    verify_same_table,
)
from delvec.iceberg.updated_metadata import apply_updates, metadata_bytes, new_metadata, parsed
from delvec.storage import Storage

_FIRST = f"{FOLDER}/v1{SUFFIX}"


def commit_in_folder(
    storage: Storage, base: BaseFile | None, updates: Sequence[Update], now_ms: int
) -> SwapOutcome:
    """Commit the updates as the metadata file after the base, unless it exists."""
    if base is None:
        return _create(storage, updates, now_ms)
    number = _verified_number(storage, base.path)
    recorded = f"{base.metadata.location.rstrip('/')}/{base.path}"
    members = apply_updates(base.metadata, updates, now_ms=now_ms, file=recorded)
    path = f"{FOLDER}/v{number + 1}{file_ending(base.metadata)}"
    new = BaseFile(path, parsed(members, path))
    _verify_place(new.metadata, storage)
    if not _is_there(storage, base):
        return Taken()
    outcome = _put(storage, new, encoded(metadata_bytes(members), path))
    if not isinstance(outcome, Swapped):
        return outcome
    if _deletes_files(base, new):
        outcome = _verified(storage, new, updates, lambda: storage.exists(base.path))
        if not isinstance(outcome, Swapped):
            return outcome
    _write_hint(storage, number + 1)
    delete_old_files(storage, base.metadata, new.metadata)
    return outcome


def _create(storage: Storage, updates: Sequence[Update], now_ms: int) -> SwapOutcome:
    members = new_metadata(updates, now_ms=now_ms)
    new = BaseFile(_FIRST, parsed(members, _FIRST))
    _verify_place(new.metadata, storage)
    if _listed(storage):
        return Taken()
    outcome = _put(storage, new, metadata_bytes(members))
    if not isinstance(outcome, Swapped):
        return outcome
    outcome = _verified(storage, new, updates, lambda: len(_listed(storage)) == 1)
    if isinstance(outcome, Swapped):
        _write_hint(storage, 1)
    return outcome


def verify_committable(storage: Storage, base: BaseFile) -> None:
    """Refuse a table whose commits cannot be safe by path."""
    _verified_number(storage, base.path)
    _verify_place(base.metadata, storage)


def _verified_number(storage: Storage, path: str) -> int:
    """The number of a metadata file. Refuses a table of a catalog."""
    file = metadata_files.numbered(path)
    if file is None or file.of_catalog or location.is_absolute(path):
        raise InvalidOperationError(
            f"the metadata file is {path}, expected {FOLDER}/vN{SUFFIX}: a table of a catalog is "
            f"changed through its catalog, not by its path: {storage.root}"
        )
    return file.number


def _verify_place(metadata: TableMetadata, storage: Storage) -> None:
    if Locations(metadata.location).home != storage.root:
        raise InvalidOperationError(
            f"the table's recorded location is {metadata.location}, expected the path where it is: a copied "
            f"table can only be read: {storage.root}"
        )
    if METADATA_PATH in metadata.properties:
        raise InvalidOperationError(
            f"{METADATA_PATH} is {metadata.properties[METADATA_PATH]!r}, expected none: the metadata of a "
            f"table at a path is in its folder {FOLDER}: {storage.root}"
        )


def _is_there(storage: Storage, base: BaseFile) -> bool:
    """Whether the base file still exists. Refuses another table's file in its place."""
    place = location.join(storage.root, base.path)
    try:
        members = orjson.loads(metadata_files.decompressed(storage.read(base.path), place))
    except ObjectNotFoundError:
        try:
            newest = metadata_files.read_metadata(storage, metadata_files.find_newest(storage).path)
        except TableNotFoundError:
            raise TableNotFoundError(f"the table was dropped while it was changed: {storage.root}") from None
        verify_same_table(base.metadata, newest.table_uuid, storage.root)
        return False
    verify_same_table(base.metadata, members.get("table-uuid"), storage.root)
    return True


def _put(storage: Storage, new: BaseFile, data: bytes) -> SwapOutcome:
    """Write the file unless it exists. A store may fail or refuse after it wrote the file."""
    try:
        if storage.put_if_absent(new.path, data):
            return Swapped(new)
        failure = "the store has the metadata file and does not show it"
    except StorageError as error:
        failure = str(error)
    try:
        found = storage.read(new.path)
    except StorageError:
        return SwapUnknown(failure)
    return Swapped(new) if found == data else Taken()


def _deletes_files(base: BaseFile, new: BaseFile) -> bool:
    return any(flag(file.metadata.properties, DELETE_AFTER_COMMIT, default=False) for file in (base, new))


def _verified(
    storage: Storage, new: BaseFile, updates: Sequence[Update], is_next: Callable[[], bool]
) -> SwapOutcome:
    """The outcome once the file is written. ``is_next``: whether it certainly follows the base.

    If not, other writers may have written and deleted a file of the same name before. If the newest metadata
    does not show this commit, the file stands in a gap and is deleted again.
    """
    try:
        if is_next():
            return Swapped(new)
        newest = max(_listed(storage), key=lambda file: file.number)
        metadata = metadata_files.read_metadata(storage, newest.path)
    except DelvecError as error:  # the file is there: this is no error of the commit
        return SwapUnknown(str(error))
    recorded = f"{new.metadata.location.rstrip('/')}/{new.path}"
    if newest.path == new.path or shows_commit(metadata, updates, recorded):
        return Swapped(new)
    discard(storage, [new.path])
    return Taken()


def _listed(storage: Storage) -> list[metadata_files.MetadataFile]:
    entries = storage.list_folder(FOLDER)
    return [file for entry in entries if (file := metadata_files.numbered(entry.path))]


def _write_hint(storage: Storage, number: int) -> None:
    with suppress(StorageError):  # readers find the newest file without it
        storage.put(VERSION_HINT, str(number).encode())
