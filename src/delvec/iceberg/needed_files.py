"""Which files snapshots need: manifest lists, manifests, and the files that are live in these.

A manifest that many snapshots share is read once. Its live files are the same in all of them. Memory holds
the locations of the manifests, and the files of a group of manifests.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.errors import FormatError, ObjectNotFoundError
from delvec.iceberg.json_object import JsonObject
from delvec.iceberg.locations import Locations
from delvec.iceberg.manifest import DATA_FILE, EQUALITY_DELETES, POSITION_DELETES, read_live_files
from delvec.iceberg.manifest_cache import MANIFESTS
from delvec.iceberg.manifest_list import read_manifest_list
from delvec.iceberg.metadata import SnapshotRecord, TableMetadata
from delvec.storage import Storage, in_parallel

_LOGGER = logging.getLogger(__name__)

DATA, POSITIONS, EQUALITY = DATA_FILE, POSITION_DELETES, EQUALITY_DELETES
MANIFEST, MANIFEST_LIST, STATISTICS = 3, 4, 5
"""Kinds of files. The first three are the contents of manifest entries."""

FILES_SCHEMA = pa.schema([("location", pa.large_string()), ("size", pa.int64()), ("kind", pa.int32())])
"""``location`` is absolute and decoded. ``size`` is null where the metadata does not record it."""

_LISTS_AT_ONCE = 64
_GROUP_BYTES = 64 << 20
_UNKNOWN_LENGTH = 1 << 20
_MANY = 100_000


@dataclass(frozen=True, slots=True)
class MetadataFiles:
    """The manifest lists and the manifests of some snapshots, each once, as ``FILES_SCHEMA``."""

    lists: pa.Table
    manifests: pa.Table

    def without(self, others: MetadataFiles) -> MetadataFiles:
        """Those that the other snapshots do not have."""
        return MetadataFiles(
            without(self.lists, others.lists.column("location")),
            without(self.manifests, others.manifests.column("location")),
        )


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """Finds the files of snapshots. ``skip_unreadable``: a manifest or manifest list that is gone or damaged
    is skipped with a warning in the log.
    """

    storage: Storage
    locations: Locations
    skip_unreadable: bool = False

    def metadata_files(self, records: Iterable[SnapshotRecord]) -> MetadataFiles:
        """The manifest lists and manifests of snapshots."""
        records = list(records)
        named = [record.manifest_list for record in records if record.manifest_list is not None]
        lists = each_once(_files([(self.locations.resolve(raw), None) for raw in named], MANIFEST_LIST))
        inline = sorted({path for record in records for path in record.manifests})
        manifests = _files([(self.locations.resolve(raw), None) for raw in inline], MANIFEST)
        places = lists.column("location").to_pylist()
        for start in range(0, len(places), _LISTS_AT_ONCE):
            read = in_parallel(self._read_list, places[start : start + _LISTS_AT_ONCE])
            manifests = each_once(pa.concat_tables([manifests, *read]))
        return MetadataFiles(lists, manifests)

    def live_files(self, manifests: pa.Table) -> Iterator[pa.Table]:
        """The data and delete files that are live in manifests, as ``FILES_SCHEMA``: for a group of manifests
        at a time. A file may come more than once.
        """
        for group in _groups(manifests):
            read = in_parallel(lambda item: self._read_manifest(*item), group)
            yield each_once(pa.concat_tables(read))

    def _read_list(self, place: str) -> pa.Table:
        try:
            table = read_manifest_list(self.storage.read(place))
        except (FormatError, ObjectNotFoundError) as error:
            return self._unreadable(error, place)
        kinds = pa.repeat(pa.scalar(MANIFEST, pa.int32()), len(table))
        return self._resolved(table.column("path"), table.column("length"), kinds)

    def _read_manifest(self, place: str, length: int | None) -> pa.Table:
        parsed = MANIFESTS.get((place, length))
        try:
            entries = read_live_files(self.storage.read(place)) if parsed is None else parsed.entries
        except (FormatError, ObjectNotFoundError) as error:
            return self._unreadable(error, place)
        return self._resolved(
            entries.column("file_path"), entries.column("file_size"), entries.column("content")
        )

    def _resolved(self, paths: pa.ChunkedArray, sizes: pa.ChunkedArray, kinds: pa.Array) -> pa.Table:
        locations = self.locations.resolve_many(paths).cast(pa.large_string())
        return pa.table([locations, sizes, kinds], schema=FILES_SCHEMA)

    def _unreadable(self, error: FormatError | ObjectNotFoundError, place: str) -> pa.Table:
        if self.skip_unreadable:
            _LOGGER.warning("files of a snapshot are not found: %s", error)
            return FILES_SCHEMA.empty_table()
        raise error.at(place) if isinstance(error, FormatError) else error


def without(files: pa.Table, locations: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The files that are not at one of these locations."""
    values = locations.cast(pa.large_string())
    return files.filter(pc.invert(pc.is_in(files.column("location"), value_set=values)))


def each_once(files: pa.Table) -> pa.Table:
    """The first row of each location."""
    locations = one_chunk(files.column("location"))
    first = pc.index_in(locations, value_set=locations.unique())
    _, rows = np.unique(first.to_numpy(zero_copy_only=False), return_index=True)
    return files if len(rows) == len(files) else files.take(pa.array(rows))


def united(parts: Iterable[pa.Table]) -> pa.Table:
    """The files of all parts, each once. Takes a part at a time, so that copies do not pile up."""
    files, pending = FILES_SCHEMA.empty_table(), 0
    for part in parts:
        files, pending = pa.concat_tables([files, part]), pending + len(part)
        if pending > max(_MANY, len(files) // 2):
            files, pending = each_once(files), 0
    return each_once(files)


def statistics_files(
    metadata: TableMetadata, locations: Locations, without_snapshots: frozenset[int] = frozenset()
) -> pa.Table:
    """The statistics files and partition statistics files, except those of some snapshots."""
    root = JsonObject(dict(metadata.raw), "table metadata")
    files = [
        (locations.resolve(item.text("statistics-path")), item.number_or_none("file-size-in-bytes"))
        for item in (*root.children("statistics"), *root.children("partition-statistics"))
        if item.number("snapshot-id", -1) not in without_snapshots
    ]
    return _files(files, STATISTICS)


def _files(files: Sequence[tuple[str, int | None]], kind: int) -> pa.Table:
    columns = [
        pa.array([place for place, _ in files], pa.large_string()),
        pa.array([size for _, size in files], pa.int64()),
        pa.repeat(pa.scalar(kind, pa.int32()), len(files)),
    ]
    return pa.table(columns, schema=FILES_SCHEMA)


def _groups(manifests: pa.Table) -> Iterator[list[tuple[str, int | None]]]:
    """The manifests with their lengths, in groups of not too many bytes."""
    group: list[tuple[str, int | None]] = []
    size = 0
    columns = (manifests.column(name).to_pylist() for name in ("location", "size"))
    for place, length in zip(*columns, strict=True):
        size += length or _UNKNOWN_LENGTH
        if group and size > _GROUP_BYTES:
            yield group
            group, size = [], length or _UNKNOWN_LENGTH
        group.append((place, length))
    if group:
        yield group
