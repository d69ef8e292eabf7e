"""Which files snapshots need: manifest lists, roots, manifests, and the files that are live in these.

A manifest that many snapshots share is read once. Its live files are the same in all of them, or those of a
leaf of trees that not all of them mask. Manifest lists mask nothing. Memory holds the locations of the
manifests, and the files of a group of manifests.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.bitmap import Bitmap
from delvec.chunked import one_chunk
from delvec.errors import FormatError, ObjectNotFoundError
from delvec.iceberg.json_object import JsonObject
from delvec.iceberg.locations import Locations
from delvec.iceberg.manifest import DATA_FILE, EQUALITY_DELETES, POSITION_DELETES, read_live_files
from delvec.iceberg.manifest_cache import MANIFESTS
from delvec.iceberg.manifest_list import read_manifest_list
from delvec.iceberg.metadata import SnapshotRecord, TableMetadata
from delvec.iceberg.tree.needed_leaves import (
    PARQUET_MAGIC,
    RootFiles,
    live_files_of_leaf,
    masked_in_all,
    root_files_of,
)
from delvec.iceberg.tree.stored_tree import StoredTree
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
    """The metadata files of some snapshots, each once, as ``FILES_SCHEMA``.

    lists       manifest lists and root manifests
    manifests   also the leaves of trees
    contents    the files that are live in roots themselves, and the Puffin files of manifest vectors
    masks       by the location of a leaf: the positions that all of the snapshots mask. A manifest that a
                manifest list names has none
    """

    lists: pa.Table
    manifests: pa.Table
    contents: pa.Table = field(default_factory=FILES_SCHEMA.empty_table)
    masks: Mapping[str, Bitmap] = field(default_factory=dict)

    def without(self, others: MetadataFiles) -> MetadataFiles:
        """Those that the other snapshots do not have."""
        return MetadataFiles(
            without(self.lists, others.lists.column("location")),
            without(self.manifests, others.manifests.column("location")),
            without(self.contents, others.contents.column("location")),
            self.masks,
        )

    def masked_by(self, others: MetadataFiles) -> pa.Table:
        """The leaves that the other snapshots have too, and of which they mask more."""
        more = [place for place, mask in others.masks.items() if mask - self.masks.get(place, Bitmap())]
        is_more = pc.is_in(self.manifests.column("location"), value_set=pa.array(more, pa.large_string()))
        return self.manifests.filter(is_more)


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
        trees = self._trees([record for record in records if record.root_manifest is not None])
        inline = sorted({path for record in records for path in record.manifests})
        manifests = _files([(self.locations.resolve(raw), None) for raw in inline], MANIFEST)
        places = lists.column("location").to_pylist()
        for start in range(0, len(places), _LISTS_AT_ONCE):
            read = in_parallel(self._read_list, places[start : start + _LISTS_AT_ONCE])
            manifests = each_once(pa.concat_tables([manifests, *read]))
        unmasked = frozenset(manifests.column("location").to_pylist())
        return MetadataFiles(
            pa.concat_tables([lists, trees.lists]),
            each_once(pa.concat_tables([manifests, trees.manifests])),
            trees.contents,
            {place: mask for place, mask in trees.masks.items() if place not in unmasked},
        )

    def live_files(
        self, manifests: pa.Table, masks: Mapping[str, Bitmap] | None = None
    ) -> Iterator[pa.Table]:
        """The data and delete files that are live in manifests, as ``FILES_SCHEMA``: for a group of manifests
        at a time. A file may come more than once. ``masks``: as ``MetadataFiles.masks``.
        """
        known = masks or {}
        for group in _groups(manifests):
            read = in_parallel(lambda item: self._read_manifest(*item, known.get(item[0])), group)
            yield each_once(pa.concat_tables(read))

    def _trees(self, records: Sequence[SnapshotRecord]) -> MetadataFiles:
        """The root manifests and leaves of snapshots, and what the roots name themselves."""
        found: list[RootFiles] = []
        for start in range(0, len(records), _LISTS_AT_ONCE):
            read = in_parallel(self._read_root, records[start : start + _LISTS_AT_ONCE])
            found += [root for root in read if root is not None]
        roots = [
            (self.locations.resolve(record.root_manifest), None)
            for record in records
            if record.root_manifest is not None
        ]
        puffin = sorted({place for root in found for place in root.vectors})
        nothing = FILES_SCHEMA.empty_table()
        leaves = [self._named(root.leaves, MANIFEST) for root in found]
        files = [self._named(root.files) for root in found]
        vectors = _files([(self.locations.resolve(place), None) for place in puffin], MANIFEST)
        masks = masked_in_all(found)
        return MetadataFiles(
            each_once(_files(roots, MANIFEST_LIST)),
            each_once(pa.concat_tables([nothing, *leaves])),
            each_once(pa.concat_tables([nothing, *files, vectors])),
            {self.locations.resolve(place): mask for place, mask in masks.items()},
        )

    def _read_root(self, record: SnapshotRecord) -> RootFiles | None:
        stored = StoredTree(self.storage, self.locations, None)
        try:
            return root_files_of(stored.root(record), stored)
        except (FormatError, ObjectNotFoundError) as error:
            assert record.root_manifest is not None
            self._unreadable(error, self.locations.resolve(record.root_manifest))
            return None

    def _named(self, entries: pa.Table, kind: int | None = None) -> pa.Table:
        kinds = (
            entries.column("content_type")
            if kind is None
            else pa.repeat(pa.scalar(kind, pa.int32()), len(entries))
        )
        return self._resolved(entries.column("location"), entries.column("size"), kinds)

    def _read_list(self, place: str) -> pa.Table:
        try:
            table = read_manifest_list(self.storage.read(place))
        except (FormatError, ObjectNotFoundError) as error:
            return self._unreadable(error, place)
        kinds = pa.repeat(pa.scalar(MANIFEST, pa.int32()), len(table))
        return self._resolved(table.column("path"), table.column("length"), kinds)

    def _read_manifest(self, place: str, length: int | None, mask: Bitmap | None = None) -> pa.Table:
        parsed = MANIFESTS.get((place, length)) if mask is None else None
        try:
            entries = self._live_files(place, mask) if parsed is None else parsed.entries
        except (FormatError, ObjectNotFoundError) as error:
            return self._unreadable(error, place)
        return self._resolved(
            entries.column("file_path"), entries.column("file_size"), entries.column("content")
        )

    def _live_files(self, place: str, mask: Bitmap | None) -> pa.Table:
        data = self.storage.read(place)
        if data.startswith(PARQUET_MAGIC):
            return live_files_of_leaf(data, place, mask)
        return read_live_files(data, mask)

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
