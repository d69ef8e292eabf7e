"""Exports the newest snapshot of a table with trees as metadata of version 3 at another place.

    <location>/metadata/v1.metadata.json    one snapshot; gc.enabled=false, as the data files are another
                                            table's
    <location>/metadata/…                   a manifest list, and manifests with the same data files, vectors
                                            and equality deletes, as EXISTING entries with their sequence
                                            numbers and row ids
    <location>/data/…                       only the full rows of vectors of keys

No data file is copied: a vacuum of the exported table removes files that the export still names, and later
commits are not seen.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from delvec import location
from delvec.errors import DelvecError, InvalidOperationError, StorageError, UnsupportedFeatureError
from delvec.iceberg.delete_properties import PROPERTIES as DELETE_PROPERTIES
from delvec.iceberg.live_entries import SPEC_ID
from delvec.iceberg.manifest_list import DATA, DELETES, MANIFESTS_SCHEMA
from delvec.iceberg.manifest_list_writer import with_row_ids, write_manifest_list
from delvec.iceberg.manifest_writer import manifest_row, write_manifest
from delvec.iceberg.metadata import MAIN, TableMetadata
from delvec.iceberg.metadata_files import FOLDER, SUFFIX, VERSION_HINT
from delvec.iceberg.snapshot_ids import new_snapshot_id
from delvec.iceberg.snapshot_summary import APPEND, ENGINE, OVERWRITE
from delvec.iceberg.swaps import METADATA_PATH
from delvec.iceberg.tree.exported_entries import data_files, delete_files
from delvec.iceberg.tree.limits import PROPERTIES
from delvec.iceberg.tree.mark import RESERVED, TREE_VERSION
from delvec.iceberg.updated_metadata import metadata_bytes, parsed
from delvec.storage import Storage, open_storage

if TYPE_CHECKING:
    from delvec.iceberg.snapshot import Snapshot

EXPORT_VERSION = 3

_FIRST = f"{FOLDER}/v1{SUFFIX}"
_MANIFEST_ENTRIES = 50_000
_NOT_EXPORTED = frozenset({*RESERVED, *PROPERTIES, *DELETE_PROPERTIES, METADATA_PATH})


def export(snapshot: Snapshot, place: str | None = None, *, format_version: int = EXPORT_VERSION) -> str:
    """Write the metadata; the location of the exported table. ``place``: by default beside the table, with
    ``-v3`` after its name. Refuses a location with files.
    """
    if format_version != EXPORT_VERSION:
        raise UnsupportedFeatureError(
            f"format_version of an export is {format_version!r}, expected {EXPORT_VERSION}: "
            f"{snapshot.location}",
            feature=f"export as format version {format_version}",
        )
    if snapshot.format_version < TREE_VERSION:
        raise InvalidOperationError(
            f"the table has format version {snapshot.format_version}, which other engines read, expected "
            f"{TREE_VERSION}: {snapshot.location}"
        )
    target = f"{snapshot.location.rstrip('/')}-v{EXPORT_VERSION}" if place is None else place
    storage = open_storage(target, snapshot.storage.options)
    _verify_free(storage, snapshot)
    exported = _Export(snapshot, storage)
    try:
        data = exported.metadata()
        if not storage.put_if_absent(_FIRST, data) and storage.read(_FIRST) != data:
            raise _taken(storage)
    except DelvecError:
        with suppress(StorageError):
            storage.delete(exported.stored)
        raise
    with suppress(StorageError):  # readers find the only file without it
        storage.put(VERSION_HINT, b"1")
    return storage.root


def _verify_free(storage: Storage, snapshot: Snapshot) -> None:
    """Refuse a location with files, and one in the table's own folder, where a vacuum would delete it."""
    home = snapshot.location
    if storage.root == home or location.relative(home, storage.root) or location.relative(storage.root, home):
        raise InvalidOperationError(
            f"location of the export is {storage.root}, expected one outside of the table {home}"
        )
    if storage.list():
        raise _taken(storage)


def _taken(storage: Storage) -> InvalidOperationError:
    return InvalidOperationError(f"location of an export has files already, expected none: {storage.root}")


@dataclass(slots=True)
class _Export:
    """``stored``: the files that were written, except for the metadata file."""

    snapshot: Snapshot
    storage: Storage
    stored: list[str] = field(default_factory=list)

    def put(self, path: str, data: bytes) -> str:
        self.stored.append(path)
        self.storage.put(path, data)
        return location.join(self.storage.root, path)

    def metadata(self) -> bytes:
        """The metadata file; stores what it refers to."""
        metadata, record = self.snapshot.metadata, self.snapshot.record
        now = max(time.time_ns() // 1_000_000, metadata.last_updated_ms)
        members = _members(metadata, self.storage.root, now)
        if record is not None:
            snapshot_id = new_snapshot_id(metadata)
            list_place, next_row_id, has_deletes = self._manifest_list(snapshot_id)
            totals = {n: v for n, v in record.summary.items() if n.startswith("total-")}
            first_row_id = metadata.next_row_id or 0
            snapshot = {
                "snapshot-id": snapshot_id,
                "sequence-number": metadata.last_sequence_number,
                "timestamp-ms": now,
                "manifest-list": list_place,
                "summary": {"operation": OVERWRITE if has_deletes else APPEND, **totals, **ENGINE},
                "schema-id": self.snapshot.schema_id,
                "first-row-id": first_row_id,
                "added-rows": next_row_id - first_row_id,
            }
            members |= {
                "current-snapshot-id": snapshot_id,
                "current-schema-id": self.snapshot.schema_id,
                "snapshots": [snapshot],
                "snapshot-log": [{"timestamp-ms": now, "snapshot-id": snapshot_id}],
                "refs": {MAIN: {"snapshot-id": snapshot_id, "type": "branch"}},
                "next-row-id": next_row_id,
            }
        parsed(members, _FIRST)
        return metadata_bytes(members)

    def _manifest_list(self, snapshot_id: int) -> tuple[str, int, bool]:
        """Store the list and its manifests; its location, the next row id, and whether there are deletes."""
        metadata, live = self.snapshot.metadata, self.snapshot.files.live
        schema, locations = self.snapshot.schema, self.snapshot.locations
        data = data_files(live.data(), schema, locations)
        deletes = delete_files(live.deletes(), schema, locations, storage=self.snapshot.storage, put=self.put)
        rows = [
            self._manifest(part, content, snapshot_id)
            for content, entries in ((DATA, data), (DELETES, deletes))
            for part in _parts(entries)
        ]
        first = metadata.next_row_id or 0
        table, next_row_id = with_row_ids(pa.Table.from_pylist(rows, schema=MANIFESTS_SCHEMA), first)
        written = write_manifest_list(
            table,
            snapshot_id=snapshot_id,
            parent_id=None,
            sequence_number=metadata.last_sequence_number,
            first_row_id=first,
            format_version=EXPORT_VERSION,
        )
        place = self.put(f"{FOLDER}/snap-{snapshot_id}-1-{uuid.uuid4()}.avro", written)
        return place, next_row_id, len(deletes) > 0

    def _manifest(self, entries: pa.Table, content: int, snapshot_id: int) -> dict[str, Any]:
        metadata = self.snapshot.metadata
        spec_id = entries.column(SPEC_ID)[0].as_py()
        spec = self.snapshot.specs[spec_id]
        data = write_manifest(
            entries,
            spec=spec,
            schema_json=metadata.schema_json,
            spec_json=metadata.spec_json(spec_id),
            format_version=EXPORT_VERSION,
            content=content,
        )
        return manifest_row(
            entries,
            path=self.put(f"{FOLDER}/{uuid.uuid4()}-m0.avro", data),
            length=len(data),
            spec=spec,
            content=content,
            sequence_number=metadata.last_sequence_number,
            snapshot_id=snapshot_id,
        )


def _parts(entries: pa.Table) -> list[pa.Table]:
    """The entries of each spec, in pieces."""
    specs = entries.column(SPEC_ID)
    found = []
    for spec_id in specs.unique().to_pylist():
        chosen = entries.filter(pc.equal(specs, spec_id))
        found += [
            chosen.slice(start, _MANIFEST_ENTRIES) for start in range(0, len(chosen), _MANIFEST_ENTRIES)
        ]
    return found


def _members(metadata: TableMetadata, place: str, now: int) -> dict[str, Any]:
    """The metadata of version 3 without a snapshot."""
    raw = metadata.raw
    properties = {name: value for name, value in metadata.properties.items() if name not in _NOT_EXPORTED}
    return {
        "format-version": EXPORT_VERSION,
        "table-uuid": str(uuid.uuid4()),
        "location": place,
        "last-sequence-number": metadata.last_sequence_number,
        "last-updated-ms": now,
        "last-column-id": metadata.last_column_id,
        "schemas": raw["schemas"],
        "current-schema-id": metadata.current_schema_id,
        "partition-specs": [metadata.spec_json(spec_id) for spec_id in metadata.raw_specs],
        "default-spec-id": metadata.default_spec_id,
        "last-partition-id": raw["last-partition-id"],
        "sort-orders": raw["sort-orders"],
        "default-sort-order-id": raw["default-sort-order-id"],
        "properties": {**properties, "gc.enabled": "false"},
        "current-snapshot-id": None,
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {},
        "next-row-id": metadata.next_row_id or 0,
    }
