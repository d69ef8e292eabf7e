"""Symlink manifests: which data files are live, for readers that do not read the log.

    _symlink_format_manifest/manifest                      all files of a table without partitions
    _symlink_format_manifest/day=2025-01-31/…/manifest     the files of one partition

A manifest has the locations of the files, one per line. It cannot express deleted rows or renamed columns, so
a table with vectors or column mapping has none.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec import location
from delvec.chunked import Rows, one_chunk
from delvec.delta import properties
from delvec.delta.partition_values import partition_texts
from delvec.delta.schema import MAPPING_NONE
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.hive_folders import folder
from delvec.storage import Storage, in_parallel

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot

FOLDER = "_symlink_format_manifest"
_NAME = "manifest"


def write_manifests(storage: Storage, snapshot: Snapshot, *, since: Snapshot | None = None) -> None:
    """Write the manifests of the version. With ``since``, an older version whose manifests are there, only
    those that differ from it. Deletes the manifests of partitions that have no file any more.
    """
    verify_manifests(snapshot)
    files = _Files.of(snapshot)
    if since is None or not files.is_partitioned:
        folders = set(files.folders)
        existing = storage.list(FOLDER)
        old = {entry.path for entry in existing if entry.path.rpartition("/")[2] == _NAME}
        stale = old - set(map(_path, folders))
    else:
        before = _Files.of(since)
        changed = before.changed(files) | files.changed(before)
        folders = changed & set(files.folders)
        stale = set(map(_path, changed - folders))
    in_parallel(lambda file: storage.put(_path(file[0]), file[1]), files.manifests(folders))
    storage.delete(sorted(stale))


def verify_manifests(snapshot: Snapshot) -> None:
    """Refuse a table that manifests cannot describe, by the name of a file that has a vector."""
    if snapshot.mapping != MAPPING_NONE:
        raise UnsupportedFeatureError(
            f"a table with {properties.MAPPING_MODE} = {snapshot.mapping} has no symlink manifests: their "
            f"readers do not know its columns: {snapshot.location}",
            feature="symlink manifests with column mapping",
        )
    path = file_with_vector(snapshot)
    if path is not None:
        raise InvalidOperationError(
            f"file {path} has a deletion vector, which a symlink manifest cannot express: rewrite such files "
            f"first (purge): {snapshot.location}"
        )


def file_with_vector(snapshot: Snapshot) -> str | None:
    """The first live file that has a vector."""
    has_vector = pc.is_valid(snapshot.adds.column("dv_storage"))
    first = pc.index(has_vector, True).as_py()
    return None if first < 0 else str(snapshot.adds.column("path")[first].as_py())


@dataclass(frozen=True, slots=True)
class _Files:
    """The live files of a version. ``numbers``: the number of each file's folder in ``folders``."""

    root: str
    paths: pa.ChunkedArray
    numbers: Rows
    folders: list[str]
    is_partitioned: bool

    @classmethod
    def of(cls, snapshot: Snapshot) -> _Files:
        paths, names = snapshot.adds.column("path"), snapshot.partition_columns
        if not names:
            numbers = np.zeros(len(paths), np.int64)
            return cls(snapshot.location, paths, numbers, [""], is_partitioned=False)
        maps = snapshot.adds.column("partition_values")
        texts = [one_chunk(partition_texts(maps, name)) for name in names]
        codes = [text.dictionary_encode(null_encoding="encode").indices.to_numpy() for text in texts]
        _, first, numbers = np.unique(np.stack(codes, axis=1), axis=0, return_index=True, return_inverse=True)
        values = zip(*(text.take(pa.array(first)).to_pylist() for text in texts), strict=True)
        folders = ["/".join(map(folder, names, row)) for row in values]
        return cls(snapshot.location, paths, numbers.reshape(-1), folders, is_partitioned=True)

    def manifests(self, names: Collection[str]) -> list[tuple[str, bytes]]:
        """The manifests of these folders."""
        order = np.argsort(self.numbers, kind="stable")
        starts = np.searchsorted(self.numbers[order], np.arange(len(self.folders) + 1))
        return [
            (name, self._manifest(order[starts[number] : starts[number + 1]]))
            for number, name in enumerate(self.folders)
            if name in names
        ]

    def _manifest(self, rows: Rows) -> bytes:
        places = location.resolve_many(self.root, self.paths.take(pa.array(rows))).to_pylist()
        return "".join(f"{_url(place)}\n" for place in places).encode()

    def changed(self, other: _Files) -> set[str]:
        """The folders of files that the other version does not have."""
        is_new = ~pc.is_in(self.paths, value_set=one_chunk(other.paths)).to_numpy()
        return {self.folders[number] for number in np.unique(self.numbers[is_new])}


def _path(name: str) -> str:
    return "/".join(part for part in (FOLDER, name, _NAME) if part)


def _url(place: str) -> str:
    """The location as Hadoop writes it."""
    return f"file:{place}" if place.startswith("/") else place
