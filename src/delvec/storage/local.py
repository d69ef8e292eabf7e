"""The backend for local files, with the functions of the operating system.

obstore's local store is not used, for two reasons. It refuses file names that end in ``#`` and digits, and
names with control characters; one such file, which other engines may write, makes a whole listing fail. And
it hangs in a process that was forked after its first use.

A file is written under a temporary name in the target's folder and gets the target's name in one step: by a
rename, which replaces an existing file, or by a hard link, which does not. Only one of several writers gets
the hard link.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from delvec.storage.backend import LINK, Enter, Entry, Request, walked
from delvec.storage.parallel import walk_in_parallel

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STAGED_NAME = r"\.[0-9a-f]{32}\.staged"
"""The name of a file that is still being written, or that a crashed writer left."""

_STAGED = re.compile(STAGED_NAME)
_WALKED_ROWS = 10_000  # of one table


class LocalBackend:
    """Keys are absolute paths without their leading slash."""

    gap = 16 * 1024

    def check_process(self) -> None:
        """Files can be used in any process."""

    def read(self, key: str) -> bytes:
        _verify_not_a_folder(key)
        with open("/" + key, "rb") as file:  # noqa: PTH123 - keys are text, and many
            return file.read()

    def read_spans(self, key: str, spans: Sequence[tuple[int, int]]) -> list[Any]:
        _verify_not_a_folder(key)
        with open("/" + key, "rb", buffering=0) as file:  # noqa: PTH123
            return [_read_span(file.fileno(), start, end) for start, end in spans]

    def open_input(self, key: str, request: Request) -> pa.NativeFile:
        with request():
            _verify_not_a_folder(key)
            return pa.OSFile("/" + key, "rb")

    def head(self, key: str) -> Entry:
        _verify_not_a_folder(key)
        return _entry(key, os.stat("/" + key))  # noqa: PTH116

    def list(self, prefix: str, after: str | None) -> Iterator[Entry]:
        yield from _walk(prefix, after or "")

    def list_folder(self, prefix: str) -> Iterator[Entry]:
        for item, key in _scan(prefix):
            entry = None if item.is_dir() else _stat_entry(key, item)
            if entry is not None:
                yield entry

    def walk(self, prefix: str, enter: Enter) -> Iterator[pa.Table]:
        def below(folder: _Folder) -> list[str]:
            return [path for path in folder.folders if enter(path)]

        for folder in walk_in_parallel([""], lambda path: _list_folder(prefix, path), below):
            yield from folder.tables

    def put(self, key: str, data: bytes) -> None:
        with _staged("/" + key, lambda path: _write(path, data)) as staged:
            os.replace(staged, "/" + key)  # noqa: PTH105

    def put_if_absent(self, key: str, data: bytes) -> bool:
        # The file is a commit: after a power cut its name must not exist without its bytes.
        with _staged("/" + key, lambda path: _write(path, data, durable=True)) as staged:
            return _link(staged, "/" + key)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                os.unlink("/" + key)  # noqa: PTH108
            # Hadoop's local file system stores a checksum beside each file and deletes it with the file.
            folder, _, name = key.rpartition("/")
            with suppress(OSError):
                os.unlink(f"/{folder}/.{name}.crc")  # noqa: PTH108

    def delete_folder(self, prefix: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree("/" + prefix)

    def delete_empty_folders(self, keys: Iterable[str]) -> int:
        deleted = 0
        for key in keys:
            with suppress(OSError):  # not empty any more, or deleted by another process
                os.rmdir("/" + key)  # noqa: PTH106
                deleted += 1
        return deleted

    def copy(self, source: str, target: str, *, overwrite: bool) -> bool:
        self.head(source)
        with _staged("/" + target, lambda path: _copy("/" + source, path)) as staged:
            if not overwrite:
                return _link(staged, "/" + target)
            os.replace(staged, "/" + target)  # noqa: PTH105
        return True

    def move(self, source: str, target: str, *, overwrite: bool) -> bool:
        self.head(source)
        os.makedirs(os.path.dirname("/" + target), exist_ok=True)  # noqa: PTH103, PTH120
        try:
            if overwrite:
                os.replace("/" + source, "/" + target)  # noqa: PTH105
                return True
            moved = _link("/" + source, "/" + target)
        except OSError as error:
            if error.errno != errno.EXDEV:  # links and renames do not work across disks
                raise
            moved = self.copy(source, target, overwrite=overwrite)
        if moved:
            self.delete([source])
        return moved


@dataclass(frozen=True, slots=True)
class _Folder:
    """The files of a folder and the folder itself, as ``WALKED_SCHEMA``, and the folders in it."""

    tables: Sequence[pa.Table]
    folders: Sequence[str]


def _list_folder(prefix: str, folder: str) -> _Folder:
    """List one folder; ``folder`` is its path below ``prefix``. A link to a folder is not listed: what it
    links to may belong to another table.
    """
    place = "/" + "/".join(part for part in (prefix, folder) if part)
    try:
        # The folder's time before its entries: an entry that is added meanwhile makes the folder newer.
        modified = os.stat(place).st_mtime_ns  # noqa: PTH116
        items = os.scandir(place)
    except (FileNotFoundError, NotADirectoryError):
        return _Folder([], [])
    base = folder + "/" if folder else ""
    tables, folders = [], []
    rows: list[tuple[str, int, int, int | None]] = []
    count = 0
    with items:
        for item in items:
            count += 1
            if item.is_dir():
                if not _is_text(item.name):
                    continue
                if item.is_symlink():
                    rows.append((base + item.name, 0, 0, LINK))
                else:
                    folders.append(base + item.name)
            elif _is_text(item.name):
                with suppress(FileNotFoundError):  # deleted in the meantime, or a broken link
                    status = item.stat()
                    rows.append((base + item.name, status.st_size, status.st_mtime_ns // 1_000_000, None))
            if len(rows) == _WALKED_ROWS:
                tables.append(walked(rows))
                rows = []
    if folder:
        rows.append((folder, 0, modified // 1_000_000, count))
    return _Folder([*tables, walked(rows)], folders)


@contextmanager
def _staged(target: str, write: Callable[[str], None]) -> Iterator[str]:
    """The path of a temporary file in the target's folder, which is created if needed. Removed at the end."""
    folder = os.path.dirname(target)  # noqa: PTH120
    path = f"{folder}/.{uuid.uuid4().hex}.staged"
    try:
        try:
            write(path)
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
            write(path)
        yield path
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)  # noqa: PTH108


def _write(path: str, data: bytes, *, durable: bool = False) -> None:
    with open(path, "xb", buffering=0) as file:  # noqa: PTH123
        rest = memoryview(data)
        while rest:  # one call may write only a part
            rest = rest[file.write(rest) :]
        if durable:
            os.fsync(file.fileno())


def _copy(source: str, path: str) -> None:
    with open(source, "rb") as old, open(path, "xb") as new:  # noqa: PTH123
        shutil.copyfileobj(old, new, 1024 * 1024)


def _link(staged: str, target: str) -> bool:
    try:
        os.link(staged, target)
    except FileExistsError:
        return False
    return True


def _verify_not_a_folder(key: str) -> None:
    """Treat a folder as "not found", as object stores do."""
    if os.path.isdir("/" + key):  # noqa: PTH112
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/" + key)


def _read_span(descriptor: int, start: int, end: int) -> bytes:
    """The bytes of the span; fewer only at the end of the file."""
    end = min(end, os.fstat(descriptor).st_size)  # no memory is asked for that the file cannot fill
    pieces = []
    while start < end:
        piece = os.pread(descriptor, end - start, start)
        if not piece:
            break
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _walk(prefix: str, after: str) -> Iterator[Entry]:
    """All files below ``prefix`` with a key after ``after``. Follows links to folders, but no cycles."""
    for item, key in _scan(prefix):
        if not item.is_dir():
            entry = _stat_entry(key, item) if key > after else None
            if entry is not None:
                yield entry
        elif not item.is_symlink() or not _is_within("/" + prefix, item.path):
            yield from _walk(key, after)


def _is_within(path: str, folder: str) -> bool:
    """Whether the path is the folder or below it, after all links are resolved."""
    real_folder = os.path.realpath(folder).rstrip("/")
    return f"{os.path.realpath(path)}/".startswith(f"{real_folder}/")


def _scan(prefix: str) -> Iterator[tuple[os.DirEntry[str], str]]:
    """The entries of a folder, without names that are not UTF-8 and without temporary files."""
    try:
        items = os.scandir("/" + prefix)
    except (FileNotFoundError, NotADirectoryError):
        return
    base = prefix + "/" if prefix else ""
    with items:
        for item in items:
            if not _STAGED.fullmatch(item.name) and _is_text(item.name):
                yield item, base + item.name


def _is_text(name: str) -> bool:
    """Whether the name is UTF-8: Python represents other bytes as lone surrogates."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def _stat_entry(key: str, item: os.DirEntry[str]) -> Entry | None:
    try:
        return _entry(key, item.stat())
    except FileNotFoundError:  # deleted in the meantime, or a broken link
        return None


def _entry(key: str, status: os.stat_result) -> Entry:
    # Truncate the time: a float would round it, possibly into the next millisecond.
    modified = _EPOCH + timedelta(microseconds=status.st_mtime_ns // 1000)
    return Entry(key, status.st_size, modified)
