"""The backend for object stores (S3, GCS, Azure, memory), with obstore."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.compute as pc
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError
from obstore.store import ObjectStore

from delvec.storage.backend import Enter, Entry, Request, walked
from delvec.storage.parallel import walk_in_parallel

TAIL = 256 * 1024  # bytes read when a file is opened: contains most Parquet footers, or a whole small file
WHOLE = 8 * 1024 * 1024  # a file up to this size is read completely by the second request
PIECE = 8 * 1024 * 1024  # larger reads are split into pieces of this size and fetched in parallel

_WALKED_ROWS = 1000  # of one table: as many as a request lists
_LISTED_ALONE = 10_000  # files, before the choice

_FIRST_USE: dict[str, int] = {}  # the process in which obstore was first used


class ObjectBackend:
    """Keys are names in one bucket or container."""

    gap = 1024 * 1024

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def check_process(self) -> None:
        """Refuse a process that was forked after obstore started its threads: requests would never return."""
        if _FIRST_USE.setdefault("process", os.getpid()) != os.getpid():
            raise OSError("this process was forked after object storage was used: use the spawn start method")

    def read(self, key: str) -> bytes:
        return bytes(obstore.get(self._store, key).bytes())

    def read_spans(self, key: str, spans: Sequence[tuple[int, int]]) -> list[Any]:
        starts, ends = zip(*spans, strict=True)
        pieces = obstore.get_ranges(self._store, key, starts=starts, ends=ends, coalesce=0)
        return [memoryview(piece) for piece in pieces]

    def open_input(self, key: str, request: Request) -> pa.NativeFile:
        return pa.PythonFile(_ObjectFile(self._store, key, request), mode="r")

    def head(self, key: str) -> Entry:
        return _entry(obstore.head(self._store, key))

    def list(self, prefix: str, after: str | None) -> Iterator[Entry]:
        for batch in obstore.list(self._store, prefix or None, offset=after, chunk_size=1000):
            yield from map(_entry, batch)

    def list_folder(self, prefix: str) -> Iterator[Entry]:
        yield from map(_entry, obstore.list_with_delimiter(self._store, prefix or None)["objects"])

    def walk(self, prefix: str, enter: Enter) -> Iterator[pa.Table]:
        """A store lists a folder with everything below it, so files of folders that are not entered are
        dropped.

        Chunks of one listing are passed on as they come, because a listing by folders brings all files at the
        top at once. If the first chunks show that most files are in folders, these are listed at the same
        time instead, from their start: not every store lists keys in order.
        """
        base = f"{prefix}/" if prefix else ""
        entered: dict[str, bool] = {"": True}

        def enters(folder: str) -> bool:
            if folder not in entered:
                entered[folder] = enters(folder.rpartition("/")[0]) and enter(folder)
            return entered[folder]

        def rows(batch: Sequence[Any]) -> pa.Table:
            paths = [(meta["path"][len(base) :], meta) for meta in batch]
            return walked(
                [
                    (path, meta["size"], int(meta["last_modified"].timestamp() * 1000), None)
                    for path, meta in paths
                    if enters(path.rpartition("/")[0])
                ]
            )

        stream = (rows(batch) for batch in obstore.list(self._store, prefix or None, chunk_size=_WALKED_ROWS))
        first: list[pa.Table] = []
        for table in stream:
            first.append(table)
            if sum(map(len, first)) >= _LISTED_ALONE:
                break
        else:
            yield from first
            return
        if _are_most_in_folders(first):
            yield from self._walk_folders(prefix, enters, rows)
        else:
            yield from first
            yield from stream

    def _walk_folders(
        self, prefix: str, enters: Enter, rows: Callable[[Sequence[Any]], pa.Table]
    ) -> Iterator[pa.Table]:
        """All files: the folders at the top are listed at the same time, each in chunks."""
        top = obstore.list_with_delimiter(self._store, prefix or None)
        yield rows(top["objects"])
        start = len(prefix) + 1 if prefix else 0

        def chunks(folder: str) -> Iterator[pa.Table]:
            for batch in obstore.list(self._store, folder, chunk_size=_WALKED_ROWS):
                yield rows(batch)

        def next_chunk(stream: Iterator[pa.Table]) -> _Chunk:
            return _Chunk(stream, next(stream, None))

        streams = [chunks(folder) for folder in top["common_prefixes"] if enters(folder[start:].strip("/"))]
        for chunk in walk_in_parallel(streams, next_chunk, _Chunk.rest):
            if chunk.table is not None:
                yield chunk.table

    def put(self, key: str, data: bytes) -> None:
        obstore.put(self._store, key, data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        try:
            obstore.put(self._store, key, data, mode="create", use_multipart=False)
        except AlreadyExistsError as error:
            self._verify_exists(key, error)
            return False
        except GenericError as error:
            self._verify_other_content(key, data, error)
            return False
        return True

    def delete(self, keys: Iterable[str]) -> None:
        remaining = list(keys)
        try:
            obstore.delete(self._store, remaining)
        except FileNotFoundError:  # some stores stop at the first key that does not exist
            for key in remaining:
                self._delete_one(key)

    def delete_folder(self, prefix: str) -> None:
        keys = [entry.path for entry in self.list(prefix, None)]
        if keys:
            self.delete(keys)

    def delete_empty_folders(self, keys: Iterable[str]) -> int:
        """A store has no folders without files."""
        del keys
        return 0

    def copy(self, source: str, target: str, *, overwrite: bool) -> bool:
        try:
            obstore.copy(self._store, source, target, overwrite=overwrite)
        except AlreadyExistsError:
            return False
        return True

    def move(self, source: str, target: str, *, overwrite: bool) -> bool:
        try:
            obstore.rename(self._store, source, target, overwrite=overwrite)
        except AlreadyExistsError:
            return False
        return True

    def _verify_exists(self, key: str, error: AlreadyExistsError) -> None:
        """Raise the error if there is no file: some servers report a conflict if the key is below a file."""
        try:
            obstore.head(self._store, key)
        except FileNotFoundError:
            raise error from None

    def _verify_other_content(self, key: str, data: bytes, error: GenericError) -> None:
        """Raise the error unless a file with other content exists.

        A server may refuse a large file before it has read it, which looks like a broken connection. If the
        existing file has other content, this call did not write it. With the same content that is not
        certain.
        """
        try:
            if obstore.head(self._store, key)["size"] != len(data) or self.read(key) != data:
                return
        except FileNotFoundError:
            pass
        raise error

    def _delete_one(self, key: str) -> None:
        try:
            obstore.delete(self._store, key)
        except FileNotFoundError:
            return


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The next chunk of a listing; None if it has ended."""

    stream: Iterator[pa.Table]
    table: pa.Table | None

    def rest(self) -> tuple[Iterator[pa.Table], ...]:
        return () if self.table is None else (self.stream,)


def _are_most_in_folders(tables: Iterable[pa.Table]) -> bool:
    paths = pa.concat_tables(tables).column("path")
    return bool(pc.mean(pc.match_substring(paths, "/")).as_py() > 0.5)


class _ObjectFile(io.RawIOBase):
    """Random access for Parquet readers. Opening a file reads its end: these readers start there."""

    def __init__(self, store: ObjectStore, key: str, request: Request) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._request = request
        self._at = 0
        with request():
            self._size, self._buffer = self._open()
        self._buffer_start = self._size - len(self._buffer)

    def read(self, size: int | None = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._size, self._at + size)
        start, self._at = self._at, max(self._at, end)
        if end <= start:
            return b""
        if start < self._buffer_start and self._size <= WHOLE:
            with self._request():
                self._buffer = self._fetch(0, self._buffer_start) + self._buffer
            self._buffer_start = 0
        if start >= self._buffer_start:
            return self._buffer[start - self._buffer_start : end - self._buffer_start]
        with self._request():
            return self._fetch(start, end)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def _open(self) -> tuple[int, bytes]:
        try:
            tail = obstore.get(self._store, self._key, options={"range": {"suffix": TAIL}})
        except BaseError:  # Azure does not support suffix ranges, S3 no ranges of an empty file
            size = obstore.head(self._store, self._key)["size"]
            return size, self._fetch(max(0, size - TAIL), size) if size else b""
        return tail.meta["size"], bytes(tail.bytes())

    def _fetch(self, start: int, end: int) -> bytes:
        starts = range(start, end, PIECE)
        ends = [min(end, piece + PIECE) for piece in starts]
        data = b"".join(obstore.get_ranges(self._store, self._key, starts=starts, ends=ends, coalesce=0))
        if len(data) != end - start:
            raise OSError(f"read {len(data)} bytes at {start}, expected {end - start}")
        return data


def _entry(meta: Any) -> Entry:
    return Entry(meta["path"], meta["size"], meta["last_modified"])
