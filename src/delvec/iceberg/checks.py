"""Checks of a snapshot's own records, for ``verify``: what a plan does not show.

manifest    a manifest has the recorded size, and as many files and rows as the manifest list says; in trees
            also the rules across leaves (`tree_rules`)
summary     the totals of the snapshot's summary are those of its live files
puffin      the footer of a Puffin file describes each vector as the manifest does: offset, length,
            data file, number of deleted rows
delete-file each delete file exists and has the recorded size
orphan      (warning) no live data file needs the vector or position file
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.deletes.key_vector import EQUALITY_DELETE_VECTOR, FIELD_ID
from delvec.errors import FormatError, ObjectNotFoundError
from delvec.findings import ERROR, WARNING, Finding
from delvec.iceberg.delete_scopes import PUFFIN, referenced_files
from delvec.iceberg.manifest import ADDED, DELETED, EQUALITY_DELETES, EXISTING, read_manifest
from delvec.iceberg.tree.live_tree import LiveTree
from delvec.iceberg.tree.tree_rules import tree_problems
from delvec.puffin import DELETION_VECTOR, BlobMetadata, PuffinReader
from delvec.puffin.file import CARDINALITY, REFERENCED_DATA_FILE
from delvec.storage import Storage, in_parallel

if TYPE_CHECKING:
    from delvec.iceberg.snapshot import Snapshot

_STATUSES = (("added", ADDED), ("existing", EXISTING), ("deleted", DELETED))


def check_snapshot(snapshot: Snapshot) -> Iterator[Finding]:
    """All findings about the snapshot's metadata files and delete files."""
    if snapshot.record is None:
        return
    live = snapshot.files.live
    deletes = live.deletes()
    if isinstance(live, LiveTree):
        yield from _check_tree(snapshot, live)
    else:
        yield from _check_manifests(snapshot)
    yield from _check_summary(snapshot, live.data(), deletes)
    yield from _check_orphans(snapshot, live.data(), deletes)
    yield from _check_delete_files(snapshot, deletes)


def _check_manifests(snapshot: Snapshot) -> Iterator[Finding]:
    rows = snapshot.files.live.manifests.to_pylist()
    for findings in in_parallel(lambda row: _check_manifest(snapshot, row), rows):
        yield from findings


def _check_tree(snapshot: Snapshot, live: LiveTree) -> Iterator[Finding]:
    """Rules across manifests; those of single manifests were checked when they were read."""
    assert snapshot.record is not None
    place = snapshot.record.root_manifest or ""
    for where, problem in tree_problems(live.root, live.stored, live.columns.stats_type, place):
        yield Finding(ERROR, "manifest", snapshot.locations.resolve(where), problem)


def _check_manifest(snapshot: Snapshot, row: Mapping[str, Any]) -> list[Finding]:
    place = snapshot.locations.resolve(row["path"])
    data = snapshot.storage.read(place)
    found = []
    if row["length"] is not None and len(data) != row["length"]:
        message = f"manifest has {len(data)} bytes, expected {row['length']}"
        found.append(Finding(ERROR, "manifest", place, message))
    entries = read_manifest(data, content=row["content"]).entries
    for name, status in _STATUSES:
        of_status = entries.filter(pc.equal(entries.column("status"), status))
        counts = {"files": len(of_status), "rows": _sum(of_status.column("record_count"))}
        for what, count in counts.items():
            recorded = row[f"{name}_{what}"]
            if recorded not in (None, count):
                message = (
                    f"manifest list says {recorded} {name} {what}, expected {count}, as the manifest has"
                )
                found.append(Finding(ERROR, "manifest", place, message))
    return found


def _check_summary(snapshot: Snapshot, data: pa.Table, deletes: pa.Table) -> Iterator[Finding]:
    assert snapshot.record is not None
    is_equality = pc.equal(deletes.column("content"), EQUALITY_DELETES)
    rows = deletes.column("record_count")
    actual = {
        "total-data-files": len(data),
        "total-records": _sum(data.column("record_count")),
        "total-delete-files": len(deletes),
        "total-position-deletes": _sum(rows.filter(pc.invert(is_equality))),
        "total-equality-deletes": _sum(rows.filter(is_equality)),
    }
    record = snapshot.record
    place = record.manifest_list or record.root_manifest or snapshot.opened.metadata_path
    for name, count in actual.items():
        recorded = snapshot.record.summary.get(name)
        if recorded not in (None, str(count)):
            message = f"snapshot summary says {name} {recorded}, expected {count}, as the manifests have"
            yield Finding(ERROR, "summary", snapshot.locations.resolve(place), message)


def _check_orphans(snapshot: Snapshot, data: pa.Table, deletes: pa.Table) -> Iterator[Finding]:
    referenced = referenced_files(deletes)
    is_live = pc.is_in(referenced, value_set=one_chunk(data.column("file_path")))
    orphans = pc.and_(pc.is_valid(referenced), pc.invert(is_live))
    for delete, data_file in zip(
        deletes.filter(orphans).to_pylist(), referenced.filter(orphans).to_pylist(), strict=True
    ):
        kind = "vector" if delete["file_format"] == PUFFIN else "position file"
        message = f"the {kind}'s data file is not live: {data_file}"
        yield Finding(WARNING, "orphan", snapshot.locations.resolve(delete["file_path"]), message)


# --- delete files ----------------------------------------------------------------------------------


def _check_delete_files(snapshot: Snapshot, deletes: pa.Table) -> Iterator[Finding]:
    by_path: dict[str, list[Mapping[str, Any]]] = {}
    for delete in deletes.select(_OF_DELETES).to_pylist():
        by_path.setdefault(delete["file_path"], []).append(delete)

    def check(path: str) -> list[Finding]:
        return list(_check_delete_file(snapshot.storage, snapshot.locations.resolve(path), by_path[path]))

    for findings in in_parallel(check, by_path):
        yield from findings


_OF_DELETES = [
    *("content", "file_path", "file_format", "file_size", "record_count"),
    *("referenced_data_file", "content_offset", "content_size", "equality_ids"),
]


def _check_delete_file(
    storage: Storage, place: str, deletes: Iterable[Mapping[str, Any]]
) -> Iterator[Finding]:
    """A delete file; a Puffin file has several vectors."""
    deletes = list(deletes)
    try:
        size = storage.head(place).size
    except ObjectNotFoundError:
        yield Finding(ERROR, "delete-file", place, "delete file is missing")
        return
    for recorded in sorted({delete["file_size"] for delete in deletes} - {size}):
        message = f"delete file has {size} bytes, expected {recorded}"
        yield Finding(ERROR, "delete-file", place, message)
    if deletes[0]["file_format"] != PUFFIN:
        return
    try:
        reader = PuffinReader(lambda offset, length: storage.read_ranges(place, [(offset, length)])[0], size)
    except FormatError as error:
        yield Finding(ERROR, "puffin", place, str(error.at(place)))
        return
    blobs = {blob.offset: blob for blob in reader.blobs}
    for delete in deletes:
        for message in _check_blob(blobs, delete):
            yield Finding(ERROR, "puffin", place, message)


def _check_blob(blobs: Mapping[int, BlobMetadata], delete: Mapping[str, Any]) -> Iterator[str]:
    """The blob that a manifest names, as the footer describes it."""
    offset, length = delete["content_offset"], delete["content_size"]
    blob = blobs.get(offset)
    if blob is None:
        starts = ", ".join(map(str, sorted(blobs))) or "none"
        yield f"manifest names a vector at {offset}, expected one of the footer's blobs, at {starts}"
        return
    has_keys = delete["content"] == EQUALITY_DELETES
    expected_type = EQUALITY_DELETE_VECTOR if has_keys else DELETION_VECTOR
    if blob.type != expected_type:
        yield f"blob at {offset} is a {blob.type}, expected a {expected_type}"
        return
    expected = {
        "length": (str(blob.length), str(length)),
        "number of deleted rows": (blob.properties.get(CARDINALITY), str(delete["record_count"])),
    }
    if has_keys:
        field_ids = ", ".join(map(str, delete["equality_ids"] or ()))
        expected["column"] = blob.properties.get(FIELD_ID), field_ids
    else:
        expected["data file"] = blob.properties.get(REFERENCED_DATA_FILE), delete["referenced_data_file"]
    for what, (found, recorded) in expected.items():
        if found != recorded:
            yield f"footer says {what} {found} of the vector at {offset}, expected {recorded} (manifest)"
    if blob.compression_codec is not None and not has_keys:
        yield f"vector at {offset} is compressed with {blob.compression_codec}, expected no compression"


def _sum(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)
