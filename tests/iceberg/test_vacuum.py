"""Vacuum of Iceberg tables: what expires, what is deleted, what stays. Tables are written by hand."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connector_rows import connector_rows
from delvec import vacuum as vacuum_module
from delvec.detect import open_table
from delvec.errors import InvalidOperationError, StorageError, UnsupportedFeatureError
from delvec.iceberg.table import IcebergTable
from delvec.storage import open_storage
from delvec.vacuum import FILES_DELETED, FILES_LISTED, vacuum
from iceberg_tables import IcebergWriter, retained
from iceberg_tables.histories import History
from rows import multiset
from s3server import BUCKET, s3_server_or_skip

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
COLUMNS = pa.schema([("id", pa.int64())])


def now_ms():
    return int(time.time() * 1000)


class Lake(IcebergWriter):
    """A table whose first snapshot is ``days`` old; one an hour follows."""

    def __init__(self, root: Path, days: float = 10, **options) -> None:
        super().__init__(root, options.pop("columns", COLUMNS), **options)
        self.last_updated = now_ms() - int(days * DAY_MS)

    def rows_of(self, *ids):
        self.last_updated += HOUR_MS
        return self.append([{"id": number} for number in ids], at=self.last_updated)

    def put(self, path: str, days: float = 100, data: bytes = b"12345") -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        at = time.time() - days * 86400
        os.utime(place, (at, at))
        return place

    def files(self):
        """All files but those that only readers of the metadata need."""
        found = {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}
        return {path for path in found if not path.startswith(("metadata/v", "metadata/version"))}

    def needed(self, *snapshots):
        """What these snapshots need, of the files below the table."""
        found = set()
        for number in snapshots or self.snapshots:
            snapshot = self.snapshots[number]
            found.add(snapshot.json["manifest-list"])
            found |= {manifest.path for manifest in snapshot.manifests}
            found |= {entry.file.path for entry in snapshot.entries()}
        return {path.removeprefix(f"{self.location}/") for path in found}

    def data_files(self, snapshot):
        return {
            entry.file.path.removeprefix(f"{self.location}/") for entry in self.snapshots[snapshot].entries()
        }

    @property
    def table(self):
        return open_table(str(self.root))

    def vacuum(self, *arguments, **options):
        return vacuum(self.table, *arguments, **options)


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path / "a table %41", format_version=3)


def rewritten(lake, *ids):
    """A snapshot whose rows are in a new file, without the older files."""
    for entry in lake.head.entries():
        lake.remove_file(entry.file)
    return lake.rows_of(*ids)


# --- what expires ----------------------------------------------------------------------------------


def test_snapshots_expire_by_the_tables_properties(lake):
    first, second = lake.rows_of(1), rewritten(lake, 2)
    lake.last_updated = now_ms()
    third = rewritten(lake, 3)
    young = rewritten(lake, 4)
    assert lake.table.unneeded().expired_versions == 2
    before = lake.files()
    dry = lake.vacuum(dry_run=True)
    assert (dry.expired_versions, dry.metrics, dry.version) == (2, {}, young)
    assert lake.files() == before
    assert set(lake.table.snapshot().metadata.snapshots) == {first, second, third, young}
    result = lake.vacuum()
    assert set(lake.table.snapshot().metadata.snapshots) == {third, young}
    assert lake.files() == lake.needed(third, young)
    gone = before - lake.files()
    assert {str(lake.root / path) for path in gone} == set(dry.paths)
    assert (result.files, result.bytes, result.version) == (dry.files, dry.bytes, young)
    assert result.metrics == {
        "numExpiredSnapshots": 2,
        "numExpiredRefs": 0,
        "numDeletedDataFiles": 2,
        "numDeletedPositionDeleteFiles": 0,
        "numDeletedEqualityDeleteFiles": 0,
        "numDeletedManifests": 3,  # the rewritten one, and that of the removed file
        "numDeletedManifestLists": 2,
        "numDeletedStatisticsFiles": 0,
        "numDeletedOrphanFiles": 0,
    }
    assert lake.table.unneeded().expired_versions == 0
    again = lake.vacuum()
    assert (again.files, again.expired_versions) == (0, 0)


def test_the_table_says_how_many_and_how_long(lake):
    lake.set_properties({"history.expire.min-snapshots-to-keep": "3"})
    numbers = [rewritten(lake, number) for number in range(5)]
    assert lake.vacuum().expired_versions == 2
    assert lake.files() == lake.needed(*numbers[2:])
    lake = Lake(lake.root.parent / "other", format_version=2)
    lake.set_properties({"history.expire.max-snapshot-age-ms": str(300 * DAY_MS)})
    numbers = [rewritten(lake, number) for number in range(5)]
    assert lake.vacuum().expired_versions == 0
    assert lake.vacuum(9 * 24 + 21.5).expired_versions == 2
    assert lake.files() == lake.needed(*numbers[2:])
    with pytest.raises(
        InvalidOperationError, match=r"retain_hours is 71, expected at least 72 \(the least age"
    ):
        lake.vacuum(71)
    assert lake.vacuum(71, force=True).expired_versions == 2


def test_refs_are_protected_until_they_expire(lake):
    first = lake.rows_of(1)
    lake.set_tag("start", first)
    second = rewritten(lake, 2)
    lake.set_branch("audit", second)
    lake.append([{"id": 7}], branch="audit", at=lake.last_updated + 1)
    on_audit = list(lake.snapshots)[-1]
    lake.rows_of(3)
    head = rewritten(lake, 4)
    result = lake.vacuum()
    assert (result.expired_versions, result.expired_refs) == (2, ())
    assert lake.files() == lake.needed(first, on_audit, head)
    lake.refs["start"]["max-ref-age-ms"] = DAY_MS
    lake.metadata_version += 1
    del lake.snapshots[second]
    lake.write_metadata()
    result = lake.vacuum()
    assert result.expired_refs == ("start",)
    assert first not in lake.table.snapshot().metadata.snapshots
    assert sorted(lake.table.snapshot().metadata.refs) == ["audit", "main"]
    assert lake.files() == lake.needed(on_audit, head)


def test_a_puffin_file_stays_while_a_snapshot_has_an_entry_into_it(lake):
    files = [lake.add_file([{"id": number}, {"id": 8}]) for number in range(2)]
    lake.commit(at=lake.last_updated)
    lake.delete_by_vectors({file: [0] for file in files})
    both = lake.commit()
    (puffin,) = [path for path in lake.data_files(both) if path.endswith(".puffin")]
    lake.remove_file(files[0])
    (vector,) = [e.file for e in lake.head.entries(1) if e.file.referenced == files[0].path]
    lake.remove_file(vector)
    lake.commit()
    lake.vacuum()
    assert puffin in lake.files()
    assert files[0].path.removeprefix(f"{lake.root}/") not in lake.files()
    assert multiset(connector_rows(lake.root)) == multiset(lake.rows())
    lake.snapshots = {lake.head.id: lake.head}
    lake.metadata_version += 1
    lake.remove_file(files[1])
    (vector,) = [entry.file for entry in lake.head.entries(1)]
    lake.remove_file(vector)
    lake.rows_of(9)
    lake.vacuum()
    assert puffin not in lake.files()


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.slow] if n >= 15 else []) for n in range(90)]
)
def test_random_histories(tmp_path, seed, monkeypatch):
    """Every retained snapshot has its rows, and every file that stays is needed."""
    monkeypatch.setattr(vacuum_module, "_BATCH", 7)
    monkeypatch.setattr("delvec.iceberg.needed_files._GROUP_BYTES", 9000)
    rng = random.Random(seed)
    history = History(tmp_path / "t", rng, rng.choice([2, 3]))
    writer, now = history.table, now_ms() + HOUR_MS
    monkeypatch.setattr(vacuum_module, "_now_ms", lambda: now)
    monkeypatch.setattr("delvec.iceberg.table.clock_ms", lambda: now)
    for _ in range(rng.randrange(3, 16)):
        history.step()
        match rng.randrange(8):
            case 0:
                writer.set_branch(f"b{len(writer.refs)}", rng.choice(list(writer.snapshots)))
            case 1:
                writer.roll_back(rng.choice(list(writer.snapshots)))
            case 2:
                branch = rng.choice([name for name in writer.refs if writer.refs[name]["type"] == "branch"])
                writer.append([history._row()], branch=branch)
    if rng.random() < 0.5:
        writer.properties["history.expire.min-snapshots-to-keep"] = str(rng.randrange(1, 4))
    for ref in writer.refs.values():
        if rng.random() < 0.3:
            ref["max-ref-age-ms"] = rng.choice([1, 10 * now])
        if ref["type"] == "branch" and rng.random() < 0.3:
            ref["min-snapshots-to-keep"] = rng.randrange(1, 5)
    writer.write_metadata()
    hours = rng.choice([0, 24 * 365 * 100, (now - writer.last_updated + 2500) / HOUR_MS])
    (tmp_path / "t/data/orphan.parquet").write_bytes(b"x")
    (tmp_path / "t/data/_hidden.parquet").write_bytes(b"x")
    parents = {
        s.id: (s.json.get("parent-snapshot-id"), s.json["timestamp-ms"]) for s in writer.snapshots.values()
    }
    older_than = now - int(hours * HOUR_MS)
    refs, snapshots = retained.expired(parents, writer.refs, writer.properties, now, older_than)
    everything = set((tmp_path / "t").rglob("*"))
    dry = vacuum(open_table(str(writer.root)), hours, force=True, dry_run=True)
    assert set((tmp_path / "t").rglob("*")) == everything
    result = vacuum(open_table(str(writer.root)), hours, force=True)
    assert (set(result.expired_refs), result.expired_versions) == (refs, len(snapshots))
    assert (dry.expired_refs, dry.expired_versions) == (result.expired_refs, result.expired_versions)
    assert (dry.files, dry.bytes) == (result.files, result.bytes)
    metadata = open_table(str(writer.root)).snapshot().metadata
    kept = [number for number in writer.snapshots if number not in snapshots]
    assert set(metadata.snapshots) == set(kept)
    needed = {Path(path) for path in needed_paths(writer, kept)} | {tmp_path / "t/data/_hidden.parquet"}
    if hours > 24 * 365:
        needed.add(tmp_path / "t/data/orphan.parquet")
    left = {path for path in (tmp_path / "t").rglob("*") if path.is_file() and not path.name.startswith("v")}
    assert left == needed
    for number in rng.sample(kept, min(3, len(kept))):
        found = map(in_utc, connector_rows(writer.root, version=number))
        assert multiset(found) == multiset(writer.rows(number))


def in_utc(row):
    """The row with its times as the model has them."""
    times = {name: value.astimezone(dt.UTC) for name, value in row.items() if isinstance(value, dt.datetime)}
    return row | times


def needed_paths(writer, snapshots):
    found = set()
    for number in snapshots:
        snapshot = writer.snapshots[number]
        found |= {snapshot.json["manifest-list"], *(manifest.path for manifest in snapshot.manifests)}
        found |= {entry.file.path for entry in snapshot.entries()}
    return found


# --- what stays ------------------------------------------------------------------------------------


def test_orphans_go_when_they_are_three_days_old(lake):
    lake.rows_of(1)
    old = ["data/old.parquet", "metadata/old-m0.avro", "metadata/snap-1.avro", "other/x", "data/a=1/x"]
    kept = ["data/_x.parquet", "data/.x.parquet", "_folder/x", ".folder/x", "data/_temporary/0/x"]
    for path in [*old, *kept]:
        lake.put(path, days=3.1)
    lake.put("data/young.parquet", days=2.9)
    lake.put("_delvec_staging/x/y.parquet", days=3.1)
    result = lake.vacuum()
    assert lake.files() == {*lake.needed(), *kept, "data/young.parquet"}
    assert result.metrics["numDeletedOrphanFiles"] == result.files == len(old) + 1
    assert lake.vacuum(100).files == 0
    assert lake.vacuum(24, force=True).files == 1


def test_partitions_whose_names_start_with_an_underscore(tmp_path):
    columns = pa.schema([("id", pa.int64()), ("_p", pa.int64())])
    lake = Lake(tmp_path / "t", columns=columns, partition_by=["_p"])
    lake.append([{"id": 1, "_p": 2}], at=lake.last_updated)
    lake.put("data/_p=2/old.parquet")
    lake.put("data/_q=2/old.parquet")
    assert lake.vacuum().files == 1
    assert lake.files() == {*lake.needed(), "data/_q=2/old.parquet"}


def test_metadata_files(lake):
    lake.rows_of(1)
    lake.rows_of(2)
    for path in lake.root.glob("metadata/v*"):
        os.utime(path, (1, 1))
    body = lake.metadata()
    lake.put("metadata/leftover.metadata.json", data=json.dumps(body).encode())
    lake.put("metadata/damaged.metadata.json", data=b"{")
    lake.put("metadata/empty.metadata.json", data=b"")
    before = {path.name for path in lake.root.glob("metadata/v*")}
    assert lake.vacuum().metrics["numDeletedOrphanFiles"] == 1
    assert before < {path.name for path in lake.root.glob("metadata/v*")}
    for path in lake.root.glob("metadata/v*"):
        os.utime(path, (1, 1))
    assert lake.vacuum().files == 0
    left = {"metadata/damaged.metadata.json", "metadata/empty.metadata.json"}
    assert lake.files() == {*lake.needed(lake.head.id), *left}


def test_a_log_names_files_that_name_others(tmp_path):
    """Files of a catalog's table: those that the log of an older file has stay too."""
    from delvec.iceberg.old_metadata import old_metadata_files

    lake = Lake(tmp_path / "t", numbered=True)
    logged: list = []
    lake.edit_metadata = lambda body: body | {"metadata-log": logged[-2:]}
    paths = []
    for number in range(6):
        paths.append(lake.write_metadata())
        logged.append({"timestamp-ms": number, "metadata-file": str(paths[-1])})
    table = IcebergTable.of_file(str(paths[-1]))
    found = old_metadata_files(table.storage, f"metadata/{paths[-1].name}", table.snapshot().metadata)
    assert set(found.to_pylist()) == {*map(str, paths), str(lake.root / "metadata/version-hint.text")}
    paths[1].unlink()  # what it names is not found any more
    found = old_metadata_files(table.storage, f"metadata/{paths[-1].name}", table.snapshot().metadata)
    assert {*map(str, paths[1:])} <= set(found.to_pylist())
    assert str(paths[0]) not in found.to_pylist()


def test_statistics_of_retained_snapshots(lake):
    first, head = lake.rows_of(1), rewritten(lake, 2)
    for name, days in (("one", 1), ("parts", 1), ("two", 100), ("both", 100)):
        lake.put(f"metadata/{name}.stats", days=days)

    def statistics(snapshot, name):
        return {"snapshot-id": snapshot, "statistics-path": f"{lake.root}/metadata/{name}.stats",
                "file-size-in-bytes": 5, "file-footer-size-in-bytes": 1, "blob-metadata": []}  # fmt: skip

    given = [statistics(first, "one"), statistics(head, "two"), statistics(head, "both")]
    parts = [statistics(first, "parts"), statistics(first, "both")]
    lake.edit_metadata = lambda body: body | {"statistics": given, "partition-statistics": parts}
    lake.write_metadata()
    assert lake.vacuum().metrics["numDeletedStatisticsFiles"] == 2
    assert lake.files() == {*lake.needed(head), "metadata/two.stats", "metadata/both.stats"}
    raw = lake.table.snapshot().metadata.raw
    assert [item["snapshot-id"] for item in raw["statistics"]] == [head, head]
    assert raw["partition-statistics"] == []


@pytest.mark.parametrize("form", ["file:", "file://"])
def test_recorded_locations_of_another_form(tmp_path, form):
    lake = Lake(tmp_path / "ä %41", location=f"{form}{tmp_path}/ä %41")
    lake.rows_of(1)
    lake.edit_entry = lambda record: (
        record
        | {
            "data_file": record["data_file"]
            | {"file_path": record["data_file"]["file_path"].removeprefix(form)}
        }
    )
    lake.rows_of(2)
    head = rewritten(lake, 3)
    lake.put("data/orphan.parquet")
    assert lake.vacuum().metrics["numDeletedDataFiles"] == 2
    assert lake.files() == lake.needed(head)


def test_files_outside_of_the_location(lake, tmp_path):
    """Those that only expired snapshots needed go, as Iceberg's procedures do it."""
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    lake.rows_of(1)
    for entry in lake.head.entries():
        shutil.copy(entry.file.path, outside / "x.parquet")

    def moved(record):
        return record | {"data_file": record["data_file"] | {"file_path": f"file:{outside}/x.parquet"}}

    lake.edit_entry = moved
    second = rewritten(lake, 2)
    (outside / "y.parquet").write_bytes(b"y")
    lake.set_tag("keep", second)
    lake.edit_entry = lambda record: record
    lake.rows_of(3)
    lake.vacuum()
    assert (outside / "x.parquet").exists()
    del lake.refs["keep"]
    head = lake.head.id
    lake.edit_entry = lambda record: record
    for entry in lake.head.entries():
        lake.remove_file(entry.file)
    lake.metadata_version += 1
    lake.snapshots = {second: lake.snapshots[second], head: lake.snapshots[head]}
    lake.rows_of(4)
    dry = lake.vacuum(dry_run=True)
    assert str(outside / "x.parquet") in dry.paths
    result = lake.vacuum()
    assert (result.files, result.bytes) == (dry.files, dry.bytes)
    assert [path.name for path in outside.iterdir()] == ["y.parquet"]


# --- refusals --------------------------------------------------------------------------------------


def refused(lake, match, error=InvalidOperationError, table=None):
    before = lake.files()
    for options in ({}, {"dry_run": True}):
        with pytest.raises(error, match=match):
            vacuum(table or lake.table, **options)
    assert lake.files() == before


def test_a_table_without_garbage_collection(lake):
    lake.rows_of(1)
    lake.rows_of(2)
    lake.set_properties({"gc.enabled": "false"})
    refused(lake, r"property gc\.enabled is false, expected true")
    assert lake.table.unneeded().expired_versions == 0


def test_version_1(tmp_path):
    lake = Lake(tmp_path / "t", format_version=1)
    lake.rows_of(1)
    lake.rows_of(2)
    refused(lake, r"version is 1, which delvec only reads.*upgrade", UnsupportedFeatureError)
    assert lake.table.unneeded().expired_versions == 0


def test_metadata_that_may_not_be_the_newest(tmp_path, lake):
    lake.rows_of(1)
    lake.put("data/orphan.parquet")
    refused(
        lake, "opened by one of its metadata files", table=IcebergTable.of_file(str(lake.write_metadata()))
    )
    catalogs = Lake(tmp_path / "c", numbered=True)
    catalogs.rows_of(1)
    catalogs.put("data/orphan.parquet")
    with pytest.warns(UserWarning, match="belongs to a catalog"):
        refused(catalogs, "a table of a catalog is changed through its catalog")


def test_a_copied_table(lake, tmp_path):
    lake.rows_of(1)
    rewritten(lake, 2)
    copy = tmp_path / "copy"
    shutil.copytree(lake.root, copy)
    for table in (open_table(str(copy)), open_table(str(copy), relocate=True)):
        refused(lake, "recorded location is .*, expected the path where it is", table=table)


@pytest.mark.parametrize("place", ["metadata", "inner/metadata", "data/deep/down/metadata"])
def test_another_table_in_the_location(lake, tmp_path, place):
    lake.rows_of(1)
    lake.put("data/orphan.parquet")
    other = Lake(tmp_path / "other", seed=7, compressed=place == "metadata")
    file = other.write_metadata()
    lake.put(f"{place}/00001-{file.name}", data=file.read_bytes(), days=0)
    refused(lake, f"{place}/00001-.* belongs to another table")


@pytest.mark.parametrize("place", ["_delta_log", "inner/_delta_log"])
def test_a_table_of_another_format_in_the_location(lake, place):
    lake.rows_of(1)
    lake.put("data/orphan.parquet")
    lake.put(f"{place}/{0:020d}.json")
    folder = place.rpartition("/")[0] or "."
    refused(
        lake, f"folder {folder} belongs to another table", table=IcebergTable(open_storage(str(lake.root)))
    )


def test_an_unreadable_manifest_of_a_retained_snapshot(lake):
    lake.rows_of(1)
    lake.rows_of(2)
    lake.put("data/orphan.parquet")
    place = Path(lake.head.manifests[-1].path)
    data = place.read_bytes()
    place.unlink()
    before = lake.files()
    with pytest.raises(StorageError, match="not found"):
        lake.vacuum()
    assert lake.files() == before
    place.write_bytes(data)
    # The snapshot has expired, and what only it needed is an orphan now.
    assert lake.vacuum().files == 1
    assert lake.vacuum(0, force=True).files == 1
    assert lake.files() == lake.needed(lake.head.id)


# --- other writers ---------------------------------------------------------------------------------


def test_a_commit_during_the_run_keeps_its_files(lake, monkeypatch):
    """One that the run's first look did not see, and one between two batches."""
    monkeypatch.setattr(vacuum_module, "_BATCH", 1)
    head = lake.rows_of(1)
    for number in range(4):
        lake.put(f"data/{number}.parquet")
    events = []

    def report(kind, count):
        del count
        if kind == FILES_LISTED and "listed" not in events:
            events.append("listed")
            commit_with("data/0.parquet")
        if kind == FILES_DELETED and events == ["listed"]:
            events.append("deleted")
            commit_with(
                next(path for path in ("data/1.parquet", "data/2.parquet") if (lake.root / path).exists())
            )

    def commit_with(path):
        content = (lake.root / path).read_bytes()
        lake.add_file([{"id": 5}], name=path)
        (lake.root / path).write_bytes(content)
        os.utime(lake.root / path, (1, 1))
        lake.commit(at=now_ms())

    lake.vacuum(report=report)
    assert events == ["listed", "deleted"]
    assert lake.files() == lake.needed(head, *lake.snapshots)
    assert len(lake.files() & {f"data/{number}.parquet" for number in range(4)}) == 2


def test_a_commit_before_the_expiry(lake, monkeypatch):
    """Another writer is first: what expires is found again on top of its commit."""
    first = lake.rows_of(1)
    rewritten(lake, 2)
    commits = []
    table = lake.table
    commit = table._newest.pointer.commit

    def late(*arguments):
        if not commits:
            commits.append(lake.set_tag("start", first))
        return commit(*arguments)

    monkeypatch.setattr(table._newest.pointer, "commit", late)
    result = vacuum(table)
    assert commits
    assert (result.expired_versions, result.files) == (0, 0)
    assert lake.files() == lake.needed()


# --- stores ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_on_s3(tmp_path, scheme):
    """Recorded locations have the one scheme or the other, whichever opened the table."""
    with s3_server_or_skip(tmp_path / "server") as server:
        lake = Lake(server.folder / "a t", location=f"{scheme}://{BUCKET}/a t")
        lake.rows_of(1)
        other = "s3a" if scheme == "s3" else "s3"
        lake.edit_entry = lambda record: (
            record
            | {
                "data_file": record["data_file"]
                | {"file_path": record["data_file"]["file_path"].replace(f"{scheme}://", f"{other}://")}
            }
        )
        lake.rows_of(2)
        lake.edit_entry = lambda record: record
        head = rewritten(lake, 3)
        for number in range(3):
            lake.put(f"data/{number}.parquet")
        lake.put("data/young.parquet", days=1)
        table = open_table(f"{other}://{BUCKET}/a t", server.options)
        result = vacuum(table)
        assert (result.metrics["numDeletedDataFiles"], result.metrics["numDeletedOrphanFiles"]) == (2, 3)
        assert lake.files() == lake.needed(head) | {"data/young.parquet"}
        (place,) = table.snapshot().plan().files.column("location").to_pylist()
        assert pq.read_table(table.storage.open_input(place)).column("id").to_pylist() == [3]
