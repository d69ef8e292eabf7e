"""The files of a table's trees in its storage: roots, leaves, and the Puffin files of manifest vectors.

    metadata/snap-<id>-<uuid>.parquet     a root
    metadata/<uuid>-m<n>.parquet          leaves
    metadata/deletes-<uuid>.puffin        manifest vectors that are too large for the root

All are checked by the rules of manifests when they are read and before they are written. None ever changes,
so parsed leaves and roots are kept by location in bounded memory: the plan after a commit reads the new root
and the new leaves only.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

import pyarrow as pa

from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg import manifest_list
from delvec.iceberg.locations import Locations
from delvec.iceberg.manifest import read_manifest as read_avro_manifest
from delvec.iceberg.manifest_cache import ManifestCache
from delvec.iceberg.metadata import SnapshotRecord
from delvec.iceberg.tree.avro_leaves import avro_entries
from delvec.iceberg.tree.entries import DATA_CONTENT, DATA_MANIFEST, DELETE_CONTENT, ROOT_CONTENT
from delvec.iceberg.tree.manifest_file import ManifestFile, read_manifest, write_manifest
from delvec.iceberg.tree.manifest_files import StoredBlob, StoredManifest
from delvec.iceberg.tree.measured_columns import MeasuredColumns
from delvec.iceberg.tree.root import Root
from delvec.iceberg.tree.validation import verify_leaf, verify_root
from delvec.iceberg.vector_file import vectors_file
from delvec.puffin import BlobMetadata, PuffinReader
from delvec.storage import Storage

TREE_MANIFESTS: ManifestCache[ManifestFile] = ManifestCache()
"""The cache of this process for roots and leaves."""

_AVRO_MAGIC = b"Obj\x01"

Put = Callable[[str, bytes], None]
"""Stores a file at a location as the metadata records it."""


class StoredTree:
    """Reads the files of trees. Locations are as the metadata records them; errors name the file.

    ``columns``: None for a reader of roots alone.
    """

    def __init__(self, storage: Storage, locations: Locations, columns: MeasuredColumns | None) -> None:
        self._storage = storage
        self._locations = locations
        self._columns = columns

    def root(self, record: SnapshotRecord) -> Root:
        """The root manifest of a snapshot."""
        assert record.root_manifest is not None, "the snapshot has a tree"
        place = self._locations.resolve(record.root_manifest)
        found = TREE_MANIFESTS.get((place, record.snapshot_id))
        if found is None:
            found = read_manifest(self._storage.read(place), place)
            verify_root(found, place, snapshot_id=record.snapshot_id, sequence_number=record.sequence_number)
            TREE_MANIFESTS.put((place, record.snapshot_id), found)
        return Root(found.entries)

    def entries(self, location: str, size: int | None, content_type: int) -> pa.Table:
        """All entries of a leaf, as ``manifest_files.LeafReader``."""
        assert self._columns is not None, "leaves are read in the columns of a table"
        place = self._locations.resolve(location)
        content = DATA_CONTENT if content_type == DATA_MANIFEST else DELETE_CONTENT
        key, avro_key = (place, size, content), (place, size, content, str(self._columns.stats_type))
        found = TREE_MANIFESTS.get(key) or TREE_MANIFESTS.get(avro_key)
        if found is None:
            data = self._storage.read(place)
            is_avro = data.startswith(_AVRO_MAGIC)
            if size is not None and (len(data) < size if is_avro else len(data) != size):
                raise FormatError(f"leaf has {len(data)} bytes, expected {size}", path=place)
            found = _avro(data, place, content, self._columns) if is_avro else _parquet(data, place, content)
            TREE_MANIFESTS.put(avro_key if is_avro else key, found)
        return found.entries

    def blob(self, location: str, offset: int, length: int) -> bytes:
        """The framed blob of a stored manifest vector."""
        return self._storage.read_ranges(self._locations.resolve(location), [(offset, length)])[0]

    def puffin_blobs(self, location: str, size: int) -> Sequence[BlobMetadata]:
        """The blobs of a Puffin file, as its footer describes them."""
        place = self._locations.resolve(location)
        try:
            reader = PuffinReader(
                lambda offset, length: self._storage.read_ranges(place, [(offset, length)])[0], size
            )
        except FormatError as error:
            raise error.at(place) from None
        return reader.blobs


class NewTreeFiles(StoredTree):
    """Also stores the files of a commit, in ``folder``, through ``put``."""

    def __init__(
        self,
        storage: Storage,
        locations: Locations,
        columns: MeasuredColumns,
        *,
        folder: str,
        put: Put,
    ) -> None:
        super().__init__(storage, locations, columns)
        self._folder = folder
        self._put = put
        self._leaves = 0

    def store(self, entries: pa.Table, content_type: int) -> StoredManifest:
        """Store a leaf."""
        content = DATA_CONTENT if content_type == DATA_MANIFEST else DELETE_CONTENT
        place = f"{self._folder}/{uuid.uuid4()}-m{self._leaves}.parquet"
        self._leaves += 1
        leaf = ManifestFile(content, entries)
        verify_leaf(leaf, content, place)
        return StoredManifest(place, self._stored(leaf, place))

    def store_root(self, entries: pa.Table, *, snapshot_id: int, sequence_number: int) -> str:
        """Store the root of a snapshot; its location."""
        place = f"{self._folder}/snap-{snapshot_id}-{uuid.uuid4()}.parquet"
        root = ManifestFile(ROOT_CONTENT, entries)
        verify_root(root, place, snapshot_id=snapshot_id, sequence_number=sequence_number)
        self._stored(root, place)
        return place

    def store_blobs(self, blobs: Sequence[bytes], leaves: Sequence[str]) -> list[StoredBlob]:
        """Store manifest vectors, each a blob that refers to its leaf."""
        place = f"{self._folder}/deletes-{uuid.uuid4()}.puffin"
        data, places = vectors_file(blobs, leaves)
        self._put(place, data)
        return [StoredBlob(place, len(data), offset, length) for offset, length in places]

    def _stored(self, manifest: ManifestFile, place: str) -> int:
        data = write_manifest(manifest)
        self._put(place, data)
        return len(data)


def _parquet(data: bytes, place: str, content: str) -> ManifestFile:
    found = read_manifest(data, place)
    verify_leaf(found, content, place)
    return found


def _avro(data: bytes, place: str, content: str, columns: MeasuredColumns) -> ManifestFile:
    """A leaf from before the table had trees."""
    kind = manifest_list.DATA if content == DATA_CONTENT else manifest_list.DELETES
    try:
        manifest = read_avro_manifest(data, content=kind)
        entries = avro_entries(manifest, columns, manifest.spec_id or 0)
    except FormatError as error:
        raise error.at(place) from None
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(f"{error}: {place}", feature=error.feature) from None
    return ManifestFile(content, entries)
