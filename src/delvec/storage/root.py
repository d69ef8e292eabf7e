"""The files of a table: one small interface for local disk, memory, S3, GCS and Azure.

A path is relative to the storage's root, or an absolute location (``location.resolve``). A location outside
of the root is opened with the same options. Paths are decoded: on every store ``p=a%2Fb/x y`` is the name of
the file itself.

``put_if_absent`` makes a commit atomic: it returns True to only one of several writers.
"""

from __future__ import annotations

import builtins
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from delvec import location
from delvec.errors import ObjectNotFoundError, StorageError
from delvec.storage.backend import Backend, Enter, Entry, mapped_errors
from delvec.storage.local import LocalBackend
from delvec.storage.objects import ObjectBackend
from delvec.storage.options import open_store

_MAX_SPAN = 16 * 1024 * 1024  # ranges are not merged beyond this size, so that large reads stay parallel


def open_storage(location_text: str, options: Mapping[str, str] | None = None) -> Storage:
    """The storage with this root. Reads nothing: the root need not exist."""
    return Storage(location.normalize(location_text), options)


class Storage:
    """The files below one root. Threads may share it. It is pickled as its root and options."""

    def __init__(
        self, root: str, options: Mapping[str, str] | None = None, *, requests: Counter[str] | None = None
    ) -> None:
        self.root = root
        self.options = dict(options or {})
        self.requests: Counter[str] = Counter() if requests is None else requests
        self._lock = threading.Lock()
        self._elsewhere: dict[str, Storage] = {}
        self._store, self._prefix = location.split_store(root)
        self._backend: Backend = (
            LocalBackend() if root.startswith("/") else ObjectBackend(open_store(root, self.options))
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (Storage, (self.root, self.options))

    def __repr__(self) -> str:
        return f"Storage({self.root!r})"

    def read(self, path: str) -> bytes:
        """The whole file; ObjectNotFoundError if it does not exist."""
        place, key = self._find(path)
        with place._request("read", key):
            return place._backend.read(key)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        """The bytes of each (offset, length), in the given order. Ranges near each other share a request.

        A range beyond the end of the file is a StorageError: the result never has fewer bytes than requested.
        """
        place, key = self._find(path)
        for offset, length in ranges:
            if offset < 0 or length < 0:
                where = place._location(key)
                raise StorageError(f"invalid range of {length} bytes at {offset}", path=where)
        spans = _merged(ranges, place._backend.gap)
        data = place._read_spans(key, spans) if spans else []
        return _cut(ranges, spans, data)

    def open_input(self, path: str) -> pa.NativeFile:
        """The file for random access, as Parquet readers need it, with few requests."""
        place, key = self._find(path)
        return place._backend.open_input(key, partial(place._request, "read", key))

    def head(self, path: str) -> Entry:
        """Size and time of a file; ObjectNotFoundError if it does not exist."""
        place, key = self._find(path)
        with place._request("head", key):
            entry = place._backend.head(key)
        return Entry(path, entry.size, entry.modified)

    def exists(self, path: str) -> bool:
        """Whether a file exists at the path. A folder is not a file."""
        try:
            self.head(path)
        except ObjectNotFoundError:
            return False
        return True

    def list(self, prefix: str = "", *, start_after: str | None = None) -> builtins.list[Entry]:
        """All files in the folder and below it, sorted by path; only those after ``start_after`` if it is
        given.
        """
        place, folder = self._folder(prefix)
        after = None if start_after is None else self._find(start_after)[1]
        with place._request("list", folder):
            entries = [item for item in place._backend.list(folder, after) if not after or item.path > after]
        return self._entries(place, entries)

    def list_folder(self, prefix: str = "") -> builtins.list[Entry]:
        """The files directly in the folder, sorted by path."""
        place, folder = self._folder(prefix)
        with place._request("list", folder):
            entries = builtins.list(place._backend.list_folder(folder))
        return self._entries(place, entries)

    def walk(self, enter: Enter) -> Iterator[pa.Table]:
        """All files below the root as tables of ``WALKED_SCHEMA``, in no particular order, with the folders
        on a store that has them. Lists several folders at the same time, and only those that ``enter``
        accepts; it gets paths relative to the root. Follows no links.
        """
        with self._request("list", self._prefix):
            yield from self._backend.walk(self._prefix, enter)

    def put(self, path: str, data: bytes) -> None:
        """Write the file, replacing an existing one; readers see either the old or the new file, complete."""
        place, key = self._find(path)
        with place._request("put", key):
            place._backend.put(key, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write the file unless it exists, atomically. True if it was written, False if it exists.

        A store may execute a request and still answer with an error, and obstore then repeats the request. So
        False may mean that this call itself wrote the file. A caller that must know reads the file.
        """
        place, key = self._find(path)
        with place._request("put", key):
            return place._backend.put_if_absent(key, data)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete the files; ignores files that do not exist."""
        by_place: dict[Storage, builtins.list[str]] = {}
        for path in paths:
            place, key = self._find(path)
            by_place.setdefault(place, []).append(key)
        for place, keys in by_place.items():
            with place._request("delete", keys[0], count=len(keys)):
                place._backend.delete(keys)

    def delete_folder(self, prefix: str) -> None:
        """Delete a folder and everything in it. No other writer may use the folder."""
        place, key = self._find(prefix)
        with place._request("delete", key):
            place._backend.delete_folder(key)

    def delete_empty_folders(self, paths: Iterable[str]) -> int:
        """Delete those of the folders below the root that are empty, in the given order. Returns how many."""
        keys = [self._find(path)[1] for path in paths]
        if not keys:
            return 0
        with self._request("delete", keys[0], count=len(keys)):
            return self._backend.delete_empty_folders(keys)

    def copy(self, source: str, target: str, *, overwrite: bool = True) -> bool:
        """Copy a file. False, without a change, if the target exists and ``overwrite`` is false."""
        (place, key), (target_store, target_key) = self._find(source), self._find(target)
        if place is not target_store:
            return self._copy_across(source, target, overwrite=overwrite)
        with place._request("copy", key):
            return place._backend.copy(key, target_key, overwrite=overwrite)

    def move(self, source: str, target: str, *, overwrite: bool = True) -> bool:
        """Like ``copy``, then removes the source. Atomic on the local disk only."""
        (place, key), (target_store, target_key) = self._find(source), self._find(target)
        if place is not target_store:
            moved = self._copy_across(source, target, overwrite=overwrite)
            if moved:
                self.delete([source])
            return moved
        with place._request("move", key):
            return place._backend.move(key, target_key, overwrite=overwrite)

    def _copy_across(self, source: str, target: str, *, overwrite: bool) -> bool:
        data = self.read(source)
        if not overwrite:
            return self.put_if_absent(target, data)
        self.put(target, data)
        return True

    def _find(self, path: str) -> tuple[Storage, str]:
        """The storage of the path, and the path's key in it."""
        if not location.is_absolute(path):
            return self, location.join(self._prefix, _inside(path, self.root)).lstrip("/")
        store, key = location.split_store(location.normalize(path))
        return (self if store == self._store else self._at_store(store)), key

    def _at_store(self, store: str) -> Storage:
        with self._lock:
            place = self._elsewhere.get(store)
            if place is None:
                place = self._elsewhere[store] = Storage(store, self.options, requests=self.requests)
            return place

    def _location(self, key: str) -> str:
        return location.join(self._store, key)

    def _folder(self, prefix: str) -> tuple[Storage, str]:
        return self._find(prefix) if prefix else (self, self._prefix)

    def _entries(self, place: Storage, entries: Iterable[Entry]) -> builtins.list[Entry]:
        """The entries sorted by path: relative paths below the root, absolute ones elsewhere."""
        base = self._prefix + "/" if self._prefix else ""

        def path(key: str) -> str:
            return key[len(base) :] if place is self and key.startswith(base) else place._location(key)

        return sorted((Entry(path(item.path), item.size, item.modified) for item in entries), key=_path)

    @contextmanager
    def _request(self, kind: str, key: str, *, count: int = 1) -> Iterator[None]:
        with self._lock:
            self.requests[kind] += count
        with mapped_errors(kind, self._location(key)):
            self._backend.check_process()
            yield

    def _read_spans(self, key: str, spans: Sequence[tuple[int, int]]) -> builtins.list[Any]:
        try:
            with self._request("read", key, count=len(spans)):
                data = self._backend.read_spans(key, spans)
        except ObjectNotFoundError:
            raise
        except StorageError:  # stores have different messages for a range beyond the end of the file
            self._check_size(key, spans)
            raise
        for (start, end), piece in zip(spans, data, strict=True):
            if len(piece) != end - start:
                self._check_size(key, spans)
                raise StorageError(
                    f"read {len(piece)} bytes at {start}, expected {end - start}", path=self._location(key)
                )
        return data

    def _check_size(self, key: str, spans: Sequence[tuple[int, int]]) -> None:
        with self._request("head", key):
            size = self._backend.head(key).size
        for start, end in spans:
            if end > size:
                raise StorageError(
                    f"range of {end - start} bytes at {start} ends beyond the file's {size} bytes",
                    path=self._location(key),
                )


def _path(entry: Entry) -> str:
    return entry.path


def _inside(path: str, root: str) -> str:
    segments = [segment for segment in path.split("/") if segment not in ("", ".")]
    if ".." in segments or not segments or "\0" in path:
        raise StorageError(f"path {path!r} is not a relative path below the root", path=root)
    return "/".join(segments)


def _merged(ranges: Iterable[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """The ranges merged to spans (start, end): ranges with a gap of at most ``gap`` bytes become one span."""
    spans: list[tuple[int, int]] = []
    for offset, length in sorted(item for item in ranges if item[1]):
        end = offset + length
        if spans and offset - spans[-1][1] <= gap and end - spans[-1][0] <= _MAX_SPAN:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        elif spans and end <= spans[-1][1]:
            continue
        else:
            spans.append((offset, end))
    return spans


def _cut(
    ranges: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]], data: Sequence[Any]
) -> list[bytes]:
    """The bytes of each range, cut out of the spans."""
    starts = [start for start, _ in spans]
    result = []
    for offset, length in ranges:
        if not length:
            result.append(b"")
            continue
        span = bisect_right(starts, offset) - 1
        start = offset - starts[span]
        result.append(bytes(data[span][start : start + length]))
    return result
