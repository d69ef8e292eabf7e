"""Metadata files of a table at a path: which one is the newest, and how it is read.

    metadata/version-hint.text                   the number of the newest file, or its name; may be stale
    metadata/v7.metadata.json                    a table that is committed to by path
    metadata/00007-<uuid>.metadata.json          a table of a catalog, which alone knows the newest file
    metadata/v7.gz.metadata.json, v7.metadata.json.gz      the same with gzip, in the new and the old spelling

By path: the file after the hint's is looked for, because writers write the hint after the metadata; without a
hint the largest number counts. A catalog's table is read where the hint says. Without a hint the file with
the largest number is read with a warning, because it may be one that the catalog never accepted.
"""

from __future__ import annotations

import re
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from delvec import location
from delvec.errors import (
    FormatError,
    InvalidOperationError,
    ObjectNotFoundError,
    TableNotFoundError,
)
from delvec.iceberg.metadata import TableMetadata, parse_metadata
from delvec.iceberg.version_features import verify_readable_version
from delvec.storage import Storage, in_parallel

FOLDER = "metadata"
VERSION_HINT = f"{FOLDER}/version-hint.text"
SUFFIX = ".metadata.json"

_UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_SUFFIXES = r"(?:\.gz)?\.metadata\.json(?:\.gz)?"
_BY_PATH = re.compile(rf"v(\d{{1,18}}){_SUFFIXES}")
_BY_CATALOG = re.compile(rf"(\d{{1,18}})-{_UUID}{_SUFFIXES}")
_ANY_FILE = re.compile(rf"[^/]+{_SUFFIXES}")
_GZIP_MAGIC = b"\x1f\x8b"
_MAX_BYTES = 1 << 30  # of a metadata file that is not compressed


@dataclass(frozen=True, slots=True)
class MetadataFile:
    """A metadata file: its path below the table's root, and its number.

    ``of_catalog``: a catalog decides which of these files is the newest one.
    """

    path: str
    number: int
    of_catalog: bool


def is_metadata_file(path: str) -> bool:
    """Whether the name of the file is that of a metadata file."""
    return _ANY_FILE.fullmatch(path.rpartition("/")[2]) is not None


def find_newest(storage: Storage) -> MetadataFile:
    """The newest metadata file of the table at the storage's root."""
    hint = _read_hint(storage)
    named = None if hint is None or _is_number(hint) else _named(hint)
    if named is not None and named.of_catalog:
        found = named if storage.exists(named.path) else None
    else:
        number = _hinted_number(hint)
        found = None if number is None else _by_path_from(storage, number)
    return found or _newest_listed(storage, hint)


def spellings(number: int) -> list[str]:
    """The paths that a file of this number can have, if it was written by path."""
    return [f"{FOLDER}/v{number}{ending}" for ending in (SUFFIX, f".gz{SUFFIX}", f"{SUFFIX}.gz")]


def read_metadata(storage: Storage, path: str) -> TableMetadata:
    """The metadata in a file, compressed or not. Errors name the file."""
    place = location.join(storage.root, path) if not location.is_absolute(path) else path
    try:
        data = storage.read(path)
    except ObjectNotFoundError as error:
        raise FormatError("metadata file is missing", path=place) from error
    metadata = parse_metadata(decompressed(data, place), place)
    verify_readable_version(metadata.format_version, place)
    return metadata


def _read_hint(storage: Storage) -> str | None:
    try:
        return storage.read(VERSION_HINT).decode("utf-8", "replace").strip()
    except ObjectNotFoundError:
        return None


def _named(hint: str) -> MetadataFile | None:
    """The file that a hint names, with or without its suffix; None if the hint is no file name."""
    for name in (hint, hint + SUFFIX):
        if _ANY_FILE.fullmatch(name):
            return numbered(f"{FOLDER}/{name}") or MetadataFile(f"{FOLDER}/{name}", -1, of_catalog=True)
    return None


def _by_path_from(storage: Storage, number: int) -> MetadataFile | None:
    """The file of this number, or the newest after it; None if the file of this number does not exist."""
    paths = [*spellings(number), *spellings(number + 1)]
    exist = in_parallel(storage.exists, paths)
    found = [file for path, there in zip(paths, exist, strict=True) if there and (file := numbered(path))]
    if not any(file.number == number for file in found):
        return None
    if any(file.number > number for file in found):
        # A writer that is far ahead has written many: a listing finds the last one.
        found = [file for file in _listed(storage) if not file.of_catalog] or found
    return _largest(storage, found)


def _listed(storage: Storage) -> list[MetadataFile]:
    return [file for entry in storage.list_folder(FOLDER) if (file := numbered(entry.path))]


def numbered(path: str) -> MetadataFile | None:
    """The metadata file with its number; None if the name has none."""
    name = path.rpartition("/")[2]
    if found := _BY_PATH.fullmatch(name):
        return MetadataFile(path, int(found[1]), of_catalog=False)
    if found := _BY_CATALOG.fullmatch(name):
        return MetadataFile(path, int(found[1]), of_catalog=True)
    return None


def _newest_listed(storage: Storage, hint: str | None) -> MetadataFile:
    """The newest file of a listing, where the hint is missing or names a file that no longer exists."""
    files = _listed(storage)
    if not files:
        raise _without_files(storage, hint)
    _verify_one_kind(storage, files)
    hinted = _hinted_number(hint)
    newest = max(files, key=lambda file: file.number)
    if newest.of_catalog and hinted is not None and any(file.number == hinted for file in files):
        return _largest(storage, [file for file in files if file.number == hinted])
    if hinted is not None and hinted > newest.number:
        raise FormatError(
            f"{VERSION_HINT} is {hint!r}, but the newest metadata file is {newest.path}, expected the file "
            "that the hint names",
            path=storage.root,
        )
    newest = _largest(storage, files)
    if newest.of_catalog:
        warnings.warn(
            f"the table belongs to a catalog and is opened by its path: {newest.path} has the largest number "
            f"and is read, but the catalog may have another file as the newest: {storage.root}",
            stacklevel=2,
        )
    return newest


def _is_number(hint: str) -> bool:
    return hint.isdecimal() and len(hint) <= 18


def _hinted_number(hint: str | None) -> int | None:
    if hint is None:
        return None
    if _is_number(hint):
        return int(hint)
    named = _named(hint)
    return None if named is None or named.number < 0 else named.number


def _largest(storage: Storage, files: Sequence[MetadataFile]) -> MetadataFile:
    """The file with the largest number; refused if several have it."""
    number = max(file.number for file in files)
    largest = [file for file in files if file.number == number]
    if len(largest) > 1:
        paths = ", ".join(file.path for file in largest)
        raise InvalidOperationError(
            f"the newest metadata file is not known: {paths} have the same number; open the table through "
            f"its catalog, or by the path of one of the files: {storage.root}"
        )
    return largest[0]


def _verify_one_kind(storage: Storage, files: Sequence[MetadataFile]) -> None:
    if len({file.of_catalog for file in files}) > 1:
        examples = ", ".join(
            max((f for f in files if f.of_catalog == kind), key=lambda f: f.number).path
            for kind in (False, True)
        )
        raise InvalidOperationError(
            f"the newest metadata file is not known: the table has files of a path and of a catalog "
            f"({examples}); open it through its catalog, or by the path of one of the files: {storage.root}"
        )


def _without_files(storage: Storage, hint: str | None) -> TableNotFoundError | FormatError:
    if hint is None:
        return TableNotFoundError(
            f"no metadata file in {storage.root}/{FOLDER}, expected vN{SUFFIX} or NNNNN-<uuid>{SUFFIX}"
        )
    return FormatError(f"{VERSION_HINT} is {hint!r}, but there is no metadata file", path=storage.root)


def decompressed(data: bytes, place: str) -> bytes:
    if not data.startswith(_GZIP_MAGIC):
        return data
    decoder = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        text = decoder.decompress(data, _MAX_BYTES)
    except zlib.error as error:
        raise FormatError(f"metadata file is not gzip: {error}", path=place) from None
    if not decoder.eof:
        problem = f"more than {_MAX_BYTES} bytes" if decoder.unconsumed_tail else "truncated"
        raise FormatError(f"metadata file is {problem}, expected a whole gzip file", path=place)
    return text
