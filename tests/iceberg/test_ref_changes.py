"""Branches and tags that are made and dropped, and upgrades: commits that change the metadata alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from connector_rows import connector_rows
from delvec import formats
from delvec.detect import open_table, write_sample_table
from delvec.errors import (
    CommitConflictError,
    InvalidOperationError,
    StorageError,
    UnsupportedFeatureError,
)
from delvec.iceberg import refs
from delvec.iceberg.swaps import SwapUnknown, Taken
from delvec.iceberg.table import IcebergTable
from delvec.ref_changes import IfExists, NewRef, RefRetention
from iceberg_tables import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64())])


@pytest.fixture
def writer(tmp_path):
    writer = IcebergWriter(tmp_path / "t", COLUMNS)
    for number in range(3):
        writer.append([{"id": number}])
    return writer


@pytest.fixture
def ids(writer):
    return list(writer.snapshots)


@pytest.fixture
def table(writer):
    return open_table(str(writer.root))


def refs_of(table):
    return table.snapshot().metadata.raw["refs"]


def test_create_and_drop(writer, ids, table):
    table.create_ref(NewRef("audit"))
    table.create_ref(NewRef("start", "tag", ids[0]))
    assert refs_of(table) == {
        "main": {"snapshot-id": ids[2], "type": "branch"},
        "audit": {"snapshot-id": ids[2], "type": "branch"},
        "start": {"snapshot-id": ids[0], "type": "tag"},
    }
    # A table that is at a ref makes others there.
    table.on_ref("start").create_ref(NewRef("b", "branch"))
    assert refs_of(table)["b"] == {"snapshot-id": ids[0], "type": "branch"}
    assert [row["id"] for row in connector_rows(writer.root, ref="start")] == [0]
    table.drop_ref("b")
    table.drop_ref("start", "tag")
    table.drop_ref("audit", "branch", if_exists=True)
    assert list(refs_of(table)) == ["main"]
    metadata = table.snapshot().metadata
    assert list(metadata.snapshots) == ids
    assert len(metadata.snapshot_log) == 3


def test_what_happens_to_one_that_exists(writer, ids, table):
    kept = RefRetention(max_ref_age_ms=7, min_versions=2)
    table.create_ref(NewRef("b", version=ids[0], retention=kept))
    before = sorted(writer.root.rglob("*"))
    table.create_ref(NewRef("b", if_exists=IfExists.KEEP))
    table.create_ref(NewRef("b", "tag", if_exists=IfExists.KEEP))
    table.create_ref(NewRef("b", version=ids[0], if_exists=IfExists.REPLACE))
    assert sorted(writer.root.rglob("*")) == before
    with pytest.raises(InvalidOperationError, match=f"branch 'b' exists already, at snapshot {ids[0]}"):
        table.create_ref(NewRef("b"))
    with pytest.raises(InvalidOperationError, match="'b' is a branch, expected a tag"):
        table.create_ref(NewRef("b", "tag", if_exists=IfExists.REPLACE))
    with pytest.raises(InvalidOperationError, match="'c' does not exist, expected one of b, main"):
        table.create_ref(NewRef("c", if_exists=IfExists.MUST_REPLACE))
    assert sorted(writer.root.rglob("*")) == before
    table.create_ref(NewRef("b", if_exists=IfExists.REPLACE, retention=RefRetention(max_version_age_ms=9)))
    expected = {"snapshot-id": ids[2], "type": "branch", "min-snapshots-to-keep": 2}
    assert refs_of(table)["b"] == expected | {"max-ref-age-ms": 7, "max-snapshot-age-ms": 9}
    table.create_ref(NewRef("b", version=ids[1], if_exists=IfExists.MUST_REPLACE))
    assert refs_of(table)["b"]["snapshot-id"] == ids[1]


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda t: t.create_ref(NewRef("b", version=17)), "snapshot 17 does not exist or has expired"),
        (lambda t: t.create_ref(NewRef("main")), "branch 'main' exists already"),
        (lambda t: t.drop_ref("b"), "'b' does not exist, expected one of main"),
        (lambda t: t.drop_ref("main"), "branch main cannot be dropped"),
        (lambda t: t.drop_ref("main", "tag"), "'main' is a branch, expected a tag"),
    ],
)
def test_refusals(table, call, problem):
    before = refs_of(table)
    with pytest.raises(InvalidOperationError, match=problem):
        call(table)
    assert refs_of(table) == before


def test_a_table_without_snapshots(tmp_path):
    IcebergWriter(tmp_path / "t", COLUMNS)
    table = open_table(str(tmp_path / "t"))
    with pytest.raises(InvalidOperationError, match="no snapshot yet, so tag 'b' has none to be at"):
        table.create_ref(NewRef("b", "tag"))
    table.drop_ref("b", if_exists=True)
    with pytest.raises(InvalidOperationError, match="snapshot 7 does not exist or has expired"):
        table.create_ref(NewRef("b", version=7))


@pytest.mark.parametrize("version", [2, 3])
def test_a_branch_of_a_table_without_snapshots(tmp_path, version):
    """It gets a snapshot without files, as from Iceberg's own library, and main gets none."""
    writer = IcebergWriter(tmp_path / "t", COLUMNS, format_version=version)
    table = open_table(str(writer.root))
    kept = RefRetention(min_versions=2)
    table.create_ref(NewRef("audit", retention=kept))
    assert table.snapshot().version == refs.NO_SNAPSHOT
    head = table.on_ref("audit").snapshot()
    assert refs_of(table) == {
        "audit": {"snapshot-id": head.version, "type": "branch", "min-snapshots-to-keep": 2}
    }
    assert (head.record.summary["operation"], head.record.summary["total-records"]) == ("append", "0")
    assert (head.record.sequence_number, head.record.parent_id) == (1, None)
    assert len(head.plan().files) == 0
    assert connector_rows(writer.root) == connector_rows(writer.root, ref="audit") == []
    metadata = f"{writer.root}/metadata/v{writer.metadata_version + 1}.metadata.json"
    theirs = StaticTable.from_metadata(metadata)
    assert (theirs.current_snapshot(), theirs.scan(snapshot_id=head.version).to_arrow().num_rows) == (None, 0)
    with pytest.raises(InvalidOperationError, match="branch 'audit' exists already"):
        table.create_ref(NewRef("audit"))
    with pytest.raises(InvalidOperationError, match="no snapshot yet, so branch 'audit' has none to be at"):
        table.create_ref(NewRef("audit", if_exists=IfExists.REPLACE))


def test_the_first_branch_and_another_writer(writer, tmp_path, monkeypatch):
    """The other writer's snapshot is the one that the branch starts at. The empty one is deleted."""
    empty = IcebergWriter(tmp_path / "empty", COLUMNS)
    table = open_table(str(empty.root))
    commit, late = table._newest.pointer.commit, []

    def after_another(*arguments):
        if not late:
            late.append(empty.append([{"id": 7}]))
        return commit(*arguments)

    monkeypatch.setattr(table._newest.pointer, "commit", after_another)
    table.create_ref(NewRef("b"))
    assert refs_of(table)["b"]["snapshot-id"] == refs_of(table)["main"]["snapshot-id"] == late[0]
    assert len(list(empty.root.rglob("snap-*"))) == 1


def test_tables_that_cannot_be_changed(tmp_path, writer, ids):
    file = IcebergTable.of_file(str(writer.root / f"metadata/v{writer.metadata_version}.metadata.json"))
    with pytest.raises(InvalidOperationError, match="opened by one of its metadata files"):
        file.create_ref(NewRef("b"))
    old = IcebergWriter(tmp_path / "old", COLUMNS, format_version=1)
    old.append([{"id": 1}])
    empty = IcebergWriter(tmp_path / "empty", COLUMNS, format_version=1)
    for root in (old.root, empty.root):
        with pytest.raises(UnsupportedFeatureError, match=r"version (is )?1"):
            open_table(str(root)).create_ref(NewRef("b"))
    assert not list(empty.root.rglob("snap-*"))
    with pytest.raises(InvalidOperationError, match="delta tables have no branches and tags"):
        formats.with_refs(write_sample_table(str(tmp_path / "delta")), "b")


# --- upgrades --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new"), [(1, 2), (1, 3), (2, 3)])
def test_upgrade(tmp_path, old, new):
    writer = IcebergWriter(tmp_path / "t", COLUMNS, format_version=old)
    writer.append([{"id": 1}])
    table = open_table(str(writer.root))
    before = set(writer.root.rglob("*"))
    formats.upgrade(table, new)
    (file,) = set(writer.root.rglob("*")) - before
    assert file.name == f"v{writer.metadata_version + 1}.metadata.json"
    assert table.snapshot().format_version == new
    assert table.snapshot().metadata.next_row_id == (0 if new == 3 else None)
    assert [row["id"] for row in connector_rows(writer.root)] == [1]
    formats.upgrade(table, new)
    assert set(writer.root.rglob("*")) - before == {file}
    with pytest.raises((InvalidOperationError, UnsupportedFeatureError), match="format-version is"):
        formats.upgrade(table, new - 1)
    assert table.snapshot().format_version == new


@pytest.mark.parametrize("version", [0, 5, -3])
def test_versions_that_are_not_there(table, version):
    with pytest.raises(UnsupportedFeatureError, match=f"format-version is '{version}', expected 2, 3 or 4"):
        formats.upgrade(table, version)


@pytest.mark.parametrize("version", ["3", None, True, 2.0])
def test_versions_that_are_no_numbers(table, version):
    with pytest.raises(
        InvalidOperationError, match=f"format_version is {version!r}, expected a whole number"
    ):
        formats.upgrade(table, version)


def test_a_format_without_versions(tmp_path):
    with pytest.raises(UnsupportedFeatureError, match="delta tables have no format version to upgrade"):
        formats.upgrade(write_sample_table(str(tmp_path / "t")), 3)


# --- other writers ---------------------------------------------------------------------------------


def test_another_writer_is_first(writer, table, monkeypatch):
    """Two commits that change other things: both are there."""
    commit, late = table._newest.pointer.commit, []

    def after_another(*arguments):
        if len(late) < 3:
            late.append(writer.append([{"id": 7}]))
        return commit(*arguments)

    monkeypatch.setattr(table._newest.pointer, "commit", after_another)
    table.create_ref(NewRef("b"))
    assert len(late) == 3
    assert refs_of(table)["b"]["snapshot-id"] == refs_of(table)["main"]["snapshot-id"] == late[-1]


def test_another_writer_did_the_same(writer, ids, table, monkeypatch):
    commit = table._newest.pointer.commit

    def after_another(*arguments):
        writer.set_branch("b", ids[0])
        return commit(*arguments)

    monkeypatch.setattr(table._newest.pointer, "commit", after_another)
    with pytest.raises(InvalidOperationError, match="branch 'b' exists already"):
        table.create_ref(NewRef("b"))
    assert refs_of(table)["b"]["snapshot-id"] == ids[0]


def test_outcomes_without_a_commit(table, monkeypatch):
    monkeypatch.setattr(table._newest.pointer, "commit", lambda *_: SwapUnknown("no answer"))
    with pytest.raises(StorageError, match="cannot tell whether create tag was committed: no answer"):
        table.create_ref(NewRef("b", "tag"))
    monkeypatch.setattr(table._newest.pointer, "commit", lambda *_: Taken())
    table.snapshot().metadata.properties.update(
        {"commit.retry.num-retries": "2", "commit.retry.max-wait-ms": "0"}
    )
    with pytest.raises(CommitConflictError, match=r"upgrade gave up: .* 3 times"):
        table.upgrade(3)
    assert list(refs_of(table)) == ["main"]
