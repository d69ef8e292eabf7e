"""Maintenance of Iceberg tables on the command line: vacuum, restore, upgrade, and the advice of show."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from iceberg_tables import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64())])


@pytest.fixture
def writer(tmp_path):
    """Three snapshots of nine days ago, each with other rows."""
    writer = IcebergWriter(tmp_path / "warehouse/db/t", COLUMNS)
    return filled(writer)


def filled(writer):
    writer.last_updated = int((time.time() - 9 * 86_400) * 1000)
    for number in range(3):
        for entry in writer.head.entries():
            writer.remove_file(entry.file)
        writer.append([{"id": number}])
    return writer


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """A table of the catalog ``lake`` of pyiceberg's configuration: ``db.t``."""
    from pyiceberg.catalog.sql import SqlCatalog

    writer = filled(IcebergWriter(tmp_path / "lake/db/t", COLUMNS, numbered=True))
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("lake", uri=uri, warehouse=str(tmp_path))
    catalog.create_namespace("db")
    newest = sorted((writer.root / "metadata").glob("*.metadata.json"))[-1]
    catalog.register_table("db.t", str(newest))
    catalog.engine.dispose()
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", uri)
    return writer


def test_vacuum(delvec, no_spark, writer):
    writer.refs["old"] = {"snapshot-id": next(iter(writer.snapshots)), "type": "tag", "max-ref-age-ms": 5}
    writer.write_metadata()
    advice = delvec("show", writer.root, "--json").json["advice"]
    assert advice == [
        {"verb": "vacuum", "reason": "2 versions that the table's properties no longer retain", "versions": 2}
    ]
    run = delvec("vacuum", writer.root, "--dry-run")
    assert run.code == 0
    *paths, expired, deleted = run.out.splitlines()
    assert expired == "VACUUM would let expire 2 versions, old"
    assert deleted.startswith("VACUUM would delete 7 files (")
    assert len(paths) == 7
    assert {path.split("/")[0] for path in paths} == {"data", "metadata"}
    document = delvec("vacuum", writer.root, "--yes", "--json").json
    assert (document["expired_versions"], document["expired_refs"], document["files"]) == (2, ["old"], 7)
    assert document["metrics"]["numDeletedDataFiles"] == 2
    assert delvec("show", writer.root, "--json").json["advice"] == []
    assert "expired" not in delvec("vacuum", writer.root, "--yes").out


def test_restore_of_a_branch(delvec, no_spark, writer):
    first, second, third = writer.snapshots
    writer.set_branch("audit", third)
    run = delvec("restore", writer.root, "--ref", "audit", "--version", second, "--yes", "--json")
    assert (run.json["version"], run.json["restored_version"]) == (second, second)
    assert delvec("show", writer.root, "--ref", "audit", "--json").json["version"] == second
    assert delvec("show", writer.root, "--json").json["version"] == third
    assert delvec("restore", writer.root, "--version", first, "--yes").code == 0
    rows = delvec("history", writer.root, "--json").json["commits"]
    assert {row["version"]: row["parameters"].get("refs") for row in rows} == {
        first: "main", second: "audit", third: None,
    }  # fmt: skip


def test_upgrade(delvec, no_spark, writer):
    run = delvec("upgrade", writer.root, "--dry-run", "--json")
    assert run.json == {
        "dry_run": True, "location": str(writer.root), "operation": "UPGRADE", "before": 2, "after": 3,
    }  # fmt: skip
    assert delvec("show", writer.root, "--json").json["details"]["format version"] == 2
    assert "2 → 3 (not changed yet)" in delvec("upgrade", writer.root, "--dry-run").out
    run = delvec("upgrade", writer.root, "--yes")
    assert "2 → 3" in run.out
    assert delvec("show", writer.root, "--json").json["details"]["format version"] == 3
    run = delvec("upgrade", writer.root, "--format-version", "4", "--yes", "--json")
    assert (run.json["before"], run.json["after"]) == (3, 4)
    assert delvec("verify", writer.root).code == 0
    assert "data manifest" in delvec("tree", writer.root).out


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        ([], 2, "no terminal to confirm on: pass --yes"),
        (["--yes", "--format-version", "1"], 5, "format-version is '1', expected 2, 3 or 4"),
        (["--yes", "--format-version", "5"], 5, "format-version is '5', expected 2, 3 or 4"),
        (["--yes", "--format-version", "x"], 2, "'--format-version'"),
    ],
)
def test_upgrades_that_are_refused(delvec, no_spark, writer, arguments, code, problem):
    run = delvec("upgrade", writer.root, *arguments)
    assert run.code == code
    assert problem in run.err
    assert delvec("show", writer.root, "--json").json["details"]["format version"] == 2


def test_a_format_without_versions(delvec, no_spark, tmp_path):
    from delvec.detect import write_sample_table

    write_sample_table(str(tmp_path / "delta"))
    for option in ("--yes", "--dry-run"):
        run = delvec("upgrade", tmp_path / "delta", option)
        assert (run.code, "delta tables have no format version to upgrade" in run.err) == (5, True)


@pytest.mark.filterwarnings("ignore:the table belongs to a catalog")
def test_no_advice_for_what_is_refused(delvec, no_spark, lake):
    """The table of a catalog cannot be vacuumed by its path, nor by the path of a metadata file."""
    by_catalog = delvec("show", "db.t", "--catalog", "lake", "--json").json["advice"]
    assert [advice["verb"] for advice in by_catalog] == ["vacuum"]
    newest = sorted((lake.root / "metadata").glob("*.metadata.json"))[-1]
    for place in (lake.root, newest):
        assert delvec("show", place, "--json").json["advice"] == []
        assert delvec("vacuum", place, "--yes").code == 2


def test_tables_of_a_catalog(delvec, no_spark, lake):
    first, second, third = lake.snapshots
    assert delvec("restore", "db.t", "--catalog", "lake", "--version", second, "--yes").code == 0
    assert delvec("show", "db.t", "--catalog", "lake", "--json").json["version"] == second
    document = delvec("vacuum", "db.t", "--catalog", "lake", "--yes", "--json").json
    assert document["expired_versions"] == 2
    assert delvec("upgrade", "db.t", "--catalog", "lake", "--yes").code == 0
    document = delvec("show", "db.t", "--catalog", "lake", "--json").json
    assert (document["version"], document["details"]["format version"]) == (second, 3)
    assert first != third


@pytest.mark.spark
def test_changes_of_a_branch_of_a_catalogs_table(delvec, lake, in_spark):
    lake_refs = ["--catalog", "lake", "--ref", "audit"]
    run = delvec("sql", "ALTER TABLE lake.db.t CREATE BRANCH audit", "--yes")
    assert run.code == 0, run.err
    run = delvec("update", "db.t", *lake_refs, "--set", "id = 70", "--all", "--yes", "--json")
    assert run.code == 0, run.err
    assert delvec("count", "db.t", *lake_refs, "--where", "id = 70", "--json").json["rows"] == 1
    assert delvec("count", "db.t", "--catalog", "lake", "--where", "id = 70", "--json").json["rows"] == 0
    run = delvec("delete", "db.t", *lake_refs, "--all", "--yes")
    assert run.code == 0, run.err
    assert delvec("count", "db.t", *lake_refs, "--json").json["rows"] == 0
    assert delvec("purge", "db.t", *lake_refs).code == 0
    run = delvec("delete", "db.t", "--catalog", "lake", "--ref", "other", "--all", "--yes")
    assert (run.code, "'other' does not exist, expected one of audit, main" in run.err) == (2, True)
