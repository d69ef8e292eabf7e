"""The files that snapshots need, against the test writer's own books."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from delvec.detect import open_table
from delvec.errors import FormatError, ObjectNotFoundError
from delvec.iceberg import needed_files
from delvec.iceberg.locations import Locations
from delvec.iceberg.manifest_cache import MANIFESTS
from delvec.iceberg.needed_files import (
    DATA,
    EQUALITY,
    FILES_SCHEMA,
    MANIFEST,
    MANIFEST_LIST,
    POSITIONS,
    SnapshotFiles,
)
from iceberg_tables import IcebergWriter
from iceberg_tables.histories import History

SOME = range(12)


def files_of(table, records, **options):
    """``(kind, location)`` of all that the snapshots need."""
    metadata = table.snapshot().metadata
    files = SnapshotFiles(table.storage, Locations(metadata.location), **options)
    found = files.metadata_files(records)
    parts = [found.lists, found.manifests, *files.live_files(found.manifests)]
    assert all(part.schema == FILES_SCHEMA for part in parts)
    return {(row["kind"], row["location"]) for part in parts for row in part.to_pylist()}


def expected(writer, snapshots):
    found = set()
    for snapshot in snapshots:
        if "manifest-list" in snapshot.json:
            found.add((MANIFEST_LIST, snapshot.json["manifest-list"]))
        found |= {(MANIFEST, manifest.path) for manifest in snapshot.manifests}
        found |= {(entry.file.content, entry.file.path) for entry in snapshot.entries()}
    return found


@pytest.mark.parametrize("seed", SOME)
@pytest.mark.parametrize("cached", [False, True])
def test_random_histories(tmp_path, seed, cached, monkeypatch):
    monkeypatch.setattr(needed_files, "_GROUP_BYTES", 4000)
    monkeypatch.setattr(needed_files, "_LISTS_AT_ONCE", 2)
    history = History(tmp_path / "t", random.Random(seed))
    for _ in range(history.rng.randrange(2, 14)):
        history.step()
    writer, table = history.table, open_table(str(tmp_path / "t"))
    MANIFESTS.clear()
    if cached:
        table.snapshot().plan()
    metadata = table.snapshot().metadata
    chosen = history.rng.sample(list(writer.snapshots.values()), history.rng.randrange(len(writer.snapshots)))
    records = [metadata.snapshots[snapshot.id] for snapshot in chosen]
    assert files_of(table, records) == expected(writer, chosen)


def test_kinds_and_sizes(tmp_path):
    writer = IcebergWriter(tmp_path / "t", pa.schema([("id", pa.int64())]), format_version=3)
    added = [writer.add_file([{"id": number}, {"id": 8}]) for number in range(2)]
    writer.commit()
    writer.delete_by_vectors({file: [0] for file in added})
    writer.delete_keys([{"id": 9}], on=["id"])
    writer.commit()
    table = open_table(str(tmp_path / "t"))
    metadata = table.snapshot().metadata
    files = SnapshotFiles(table.storage, Locations(metadata.location))
    found = files.metadata_files(metadata.snapshots.values())
    (live,) = files.live_files(found.manifests)
    # One Puffin file has both vectors.
    assert sorted(live.column("kind").to_pylist()) == [DATA, DATA, POSITIONS, EQUALITY]
    for row in [*live.to_pylist(), *found.manifests.to_pylist()]:
        assert table.storage.head(row["location"]).size == row["size"]
    assert found.lists.column("size").to_pylist() == [None, None]


def test_manifests_of_expired_snapshots_may_be_unreadable(tmp_path):
    writer = IcebergWriter(tmp_path / "t", pa.schema([("id", pa.int64())]))
    writer.append([{"id": 1}])
    writer.append([{"id": 2}])
    table = open_table(str(tmp_path / "t"))
    records = table.snapshot().metadata.snapshots.values()
    first, second = writer.snapshots.values()
    writer.place(first.manifests[0].path).unlink()
    with pytest.raises(ObjectNotFoundError):
        files_of(table, records)
    left = expected(writer, [second]) - {(DATA, first.manifests[0].entries[0].file.path)}
    assert files_of(table, records, skip_unreadable=True) == left | {
        (MANIFEST_LIST, first.json["manifest-list"])
    }
    writer.place(second.json["manifest-list"]).unlink()
    with pytest.raises(ObjectNotFoundError):
        files_of(table, records)
    lists = {(MANIFEST_LIST, snapshot.json["manifest-list"]) for snapshot in (first, second)}
    assert files_of(table, records, skip_unreadable=True) == lists | {(MANIFEST, first.manifests[0].path)}
    writer.place(first.json["manifest-list"]).write_bytes(b"damaged")
    with pytest.raises(FormatError, match=r"snap-.*\.avro"):
        files_of(table, list(records)[:1])
    assert files_of(table, records, skip_unreadable=True) == lists


def test_statistics(tmp_path):
    writer = IcebergWriter(tmp_path / "t", pa.schema([("id", pa.int64())]))
    one = {"snapshot-id": 1, "statistics-path": "s3a://b/1.puffin", "file-size-in-bytes": 7}
    two = {"snapshot-id": 2, "statistics-path": "file:/x/2.parquet"}
    writer.edit_metadata = lambda body: body | {"statistics": [one], "partition-statistics": [two]}
    writer.write_metadata()
    metadata = open_table(str(tmp_path / "t")).snapshot().metadata

    def found(**options):
        table = needed_files.statistics_files(metadata, Locations(metadata.location), **options)
        return list(zip(table.column("location").to_pylist(), table.column("size").to_pylist(), strict=True))

    assert found() == [("s3://b/1.puffin", 7), ("/x/2.parquet", None)]
    assert found(without_snapshots=frozenset({1})) == [("/x/2.parquet", None)]
