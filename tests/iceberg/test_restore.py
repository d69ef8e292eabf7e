"""Restore of Iceberg tables: a branch is set to an older snapshot. Tables are written by hand."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from connector_rows import connector_rows
from delvec.detect import open_table
from delvec.errors import InvalidOperationError, StorageError
from delvec.iceberg.table import IcebergTable
from delvec.restore import restore
from iceberg_tables import IcebergWriter
from iceberg_tables.avro import DATA
from iceberg_tables.histories import History
from rows import multiset

COLUMNS = pa.schema([("id", pa.int64())])


@pytest.fixture
def writer(tmp_path):
    return IcebergWriter(tmp_path / "t", COLUMNS, format_version=3)


@pytest.fixture
def snapshots(writer):
    """a: rows 1 and 2; b: without 1, by a vector; c: row 3 in place of all."""
    first = writer.append([{"id": 1}, {"id": 2}])
    (file,) = [entry.file for entry in writer.head.entries(DATA)]
    writer.delete_rows(file, [0])
    second = writer.commit()
    for entry in writer.head.entries():
        writer.remove_file(entry.file)
    return {"a": first, "b": second, "c": writer.append([{"id": 3}])}


def ids(writer, **options):
    return sorted(row["id"] for row in connector_rows(writer.root, **options))


def restored(writer, version, **options):
    return restore(open_table(str(writer.root)), version=version, **options)


def test_the_branch_is_set_to_the_snapshot(writer, snapshots):
    before = sorted(writer.root.rglob("*"))
    dry = restored(writer, snapshots["a"], dry_run=True)
    assert sorted(writer.root.rglob("*")) == before
    result = restored(writer, snapshots["a"])
    assert (result.version, result.restored_version) == (snapshots["a"], snapshots["a"])
    assert (dry.version, dry.counts) == (snapshots["c"], result.counts)
    assert (result.counts.removed_files, result.counts.restored_files, result.counts.files_after) == (1, 1, 1)
    assert result.metrics["numRestoredFiles"] == 1
    assert ids(writer) == [1, 2]
    new = set(writer.root.rglob("*")) - set(before)
    assert [path.name for path in new] == [f"v{writer.metadata_version + 1}.metadata.json"]
    metadata = open_table(str(writer.root)).snapshot().metadata
    assert set(metadata.snapshots) == set(snapshots.values())
    assert [number for _, number in metadata.snapshot_log] == [*snapshots.values(), snapshots["a"]]
    assert restored(writer, snapshots["c"]).version == snapshots["c"]
    assert ids(writer) == [3]


def test_a_file_whose_deletes_change_counts_as_removed_and_restored(writer, snapshots):
    restored(writer, snapshots["b"])
    counts = restored(writer, snapshots["a"]).counts
    assert (counts.removed_files, counts.restored_files) == (1, 1)
    assert counts.removed_bytes == counts.restored_bytes == counts.bytes_after > 0
    assert restored(writer, snapshots["b"]).counts.restored_files == 1
    assert ids(writer) == [2]


def test_history_shows_it(writer, snapshots):
    restored(writer, snapshots["a"])
    rows = {
        row["version"]: dict(row["parameters"]) for row in open_table(str(writer.root)).history().to_pylist()
    }
    assert rows[snapshots["a"]] == {"refs": "main"}
    for name in "bc":
        assert rows[snapshots[name]] == {"is_current_ancestor": "false"}


def test_nothing_is_committed_if_the_branch_is_there_already(writer, snapshots):
    before = sorted(writer.root.rglob("*"))
    assert restored(writer, snapshots["c"]).version == snapshots["c"]
    assert sorted(writer.root.rglob("*")) == before


def test_columns_and_properties_stay(writer, snapshots):
    writer.add_column(pa.field("late", pa.int32()))
    writer.set_properties({"owner": "me"})
    restored(writer, snapshots["a"])
    snapshot = open_table(str(writer.root)).snapshot()
    assert ([field.name for field in snapshot.schema], snapshot.properties["owner"]) == (["id", "late"], "me")


def test_a_branch_keeps_its_retention(writer, snapshots):
    writer.set_branch("audit", snapshots["c"])
    writer.refs["audit"] |= {"min-snapshots-to-keep": 3, "max-ref-age-ms": 5}
    writer.write_metadata()
    table = open_table(str(writer.root), ref="audit")
    assert restore(table, version=snapshots["a"]).version == snapshots["a"]
    assert table.snapshot().version == snapshots["a"]
    metadata = open_table(str(writer.root)).snapshot().metadata
    assert metadata.raw["refs"]["audit"] == {
        "snapshot-id": snapshots["a"], "type": "branch", "min-snapshots-to-keep": 3, "max-ref-age-ms": 5,
    }  # fmt: skip
    assert metadata.current_snapshot_id == snapshots["c"]


def test_by_time(writer, snapshots):
    at = open_table(str(writer.root)).committed_at(snapshots["b"])
    assert restore(open_table(str(writer.root)), timestamp=at).version == snapshots["b"]


@pytest.mark.parametrize("seed", range(10))
def test_random_histories(tmp_path, seed):
    """To any snapshot of the table, of another branch too, and back."""
    history = History(tmp_path / "t", random.Random(seed), 3 - seed % 2)
    for _ in range(history.rng.randrange(2, 12)):
        history.step()
    writer = history.table
    number = history.rng.choice(list(writer.snapshots))
    head = writer.head.id
    result = restored(writer, number)
    assert result.version == number
    then, now = (
        {entry.file.path for entry in writer.snapshots[each].entries(DATA)} for each in (number, head)
    )
    assert result.counts.files_after == len(then)
    assert result.counts.removed_files >= len(now - then)
    assert result.counts.restored_files >= len(then - now)
    table = open_table(str(tmp_path / "t"))
    assert table.snapshot().version == number
    assert restore(table, version=head).counts.removed_files == result.counts.restored_files


# --- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", ["data", "manifest", "list", "vector"])
def test_files_that_are_gone_are_named(writer, snapshots, gone):
    snapshot = writer.snapshots[snapshots["b"]]
    paths = {
        "data": snapshot.entries(DATA)[0].file.path,
        "vector": snapshot.entries(1)[0].file.path,
        "manifest": snapshot.manifests[0].path,
        "list": snapshot.json["manifest-list"],
    }
    place = Path(paths[gone])
    before = writer.metadata_version
    table = open_table(str(writer.root))
    place.unlink()
    with pytest.raises((InvalidOperationError, StorageError), match=place.name):
        restore(table, version=snapshots["b"])
    assert open_table(str(writer.root)).snapshot().version == snapshots["c"]
    assert not (writer.root / f"metadata/v{before + 1}.metadata.json").exists()


def test_a_snapshot_that_does_not_exist(writer, snapshots):
    with pytest.raises(InvalidOperationError, match="snapshot 17 does not exist or has expired"):
        restored(writer, 17)
    assert snapshots


def test_a_tag(writer, snapshots):
    writer.set_tag("start", snapshots["c"])
    with pytest.raises(InvalidOperationError, match="'start' is a tag, expected a branch"):
        restore(open_table(str(writer.root), ref="start"), version=snapshots["a"])


def test_a_table_that_was_opened_by_a_metadata_file(writer, snapshots):
    table = IcebergTable.of_file(str(writer.root / f"metadata/v{writer.metadata_version}.metadata.json"))
    with pytest.raises(InvalidOperationError, match="opened by one of its metadata files"):
        restore(table, version=snapshots["a"])


# --- other writers ---------------------------------------------------------------------------------


def test_a_commit_that_is_first_is_undone_too(writer, snapshots, monkeypatch):
    table = open_table(str(writer.root))
    commit, commits = table._newest.pointer.commit, []

    def late(*arguments):
        if not commits:
            commits.append(writer.append([{"id": 4}]))
        return commit(*arguments)

    monkeypatch.setattr(table._newest.pointer, "commit", late)
    assert restore(table, version=snapshots["a"]).version == snapshots["a"]
    assert commits
    assert ids(writer) == [1, 2]
    assert multiset(connector_rows(writer.root, version=commits[0])) == multiset([{"id": 3}, {"id": 4}])
