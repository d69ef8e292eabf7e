"""``Table.restore``, SQL and the command line: the table is again what it was at an older version."""

from __future__ import annotations

import datetime as dt

import pytest

from contract.kinds import ANY_COLUMN_NAMES, NUMBERED, RESTORED_COLUMNS, ROW_IDS
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.formats import Restorable
from scanning import collected
from verbs import holds

pytestmark = [pytest.mark.spark, pytest.mark.numbered]

DDL = "id bigint, name string, p int"
ROWS = [(n, f"n{n}", n % 2) for n in range(12)]
COLUMNS = (
    "table_size_after_restore",
    "num_of_files_after_restore",
    "num_removed_files",
    "num_restored_files",
    "removed_files_size",
    "restored_files_size",
)


@pytest.fixture
def table(kind, spark, tmp_path):
    return kind.table(spark, tmp_path / "a t", DDL, ROWS, partition_by=["p"])


def live_files(table, version=None):
    """Each live file, and which deletes it has."""
    plan = table._table.snapshot(version).plan()
    deletes = plan.deletes.select(["location", "offset", "inline"]).to_pylist()
    columns = (plan.files.column(name).to_pylist() for name in ("location", "vector"))
    return {
        (path, None if vector is None else tuple(deletes[vector].values()))
        for path, vector in zip(*columns, strict=True)
    }


@pytest.mark.needs(RESTORED_COLUMNS)
def test_every_verb_is_undone(kind, spark, table, tmp_path):
    """After all verbs, each version in turn, backwards and forwards: rows, files, columns and properties."""
    from delvec import sql

    table.delete("id IN (1, 2)")
    table.update({"name": "upper(name)"}, "id = 3")
    table.merge(spark.createDataFrame([(4, "new", 0), (20, "new", 0)], DDL), "target.id = source.id") \
        .when_matched_delete().when_not_matched_insert_all().execute()  # fmt: skip
    table.add_columns("note string")
    table.append([(21, "x", 1, "y")])
    table.overwrite([(22, "z", 1, "y")], where="p = 1")
    table.set_properties({"owner": "me"})
    table.delete()
    last = table.version
    rows = {version: sorted(map(tuple, table.to_df(version).collect())) for version in range(last + 1)}
    assert len(rows[last]) == 0
    for version in (1, 7, 2, 0, 3, 5, 4, 6, 8):
        result = table.restore(version)
        assert result.version == table.version
        assert sorted(map(tuple, table.to_df().collect())) == rows[version]
        assert live_files(table) == live_files(table, version)
        assert table.schema == table.to_df(version).schema
        assert dict(table.properties) == dict(table._table.snapshot(version).properties)
    kind.is_read_by_others(table)
    at = next(row.timestamp for row in table.history().collect() if row.version == 2)
    newest = max(row.version for row in table.history().collect() if row.timestamp <= at)
    (row,) = collected(sql(spark, f"RESTORE TABLE delvec.`{table.location}` TO TIMESTAMP AS OF '{at}'"))
    assert tuple(row) == COLUMNS
    assert live_files(table) == live_files(table, newest)
    (row,) = collected(sql(spark, f"RESTORE delvec.`{table.location}` TO VERSION AS OF :v", {"v": 1}))
    assert row["num_of_files_after_restore"] == 2
    holds(table, ROWS)
    (commit,) = collected(table.history(1))
    assert commit["operation"] == "RESTORE"
    assert dict(commit["parameters"])["version"] == "1"


@pytest.mark.needs(NUMBERED)
def test_what_is_refused_changes_nothing(spark, table):
    from delvec import sql

    for choice in ({}, {"version": 0, "timestamp": "2024-01-01"}):
        with pytest.raises(InvalidOperationError, match="expected one of them"):
            table.restore(**choice)
    with pytest.raises(InvalidOperationError, match="expected a whole number"):
        table.restore("1")
    with pytest.raises(InvalidOperationError, match="version 9 does not exist, expected 0 to 1"):
        table.restore(9)
    with pytest.raises(InvalidOperationError, match="2999"):
        table.restore(timestamp=dt.datetime(2999, 1, 1, tzinfo=dt.UTC))
    with pytest.raises(InvalidOperationError, match="expected ISO 8601"):
        table.restore(timestamp="soon")
    for text in ("RESTORE TABLE {t}", "RESTORE {t} TO VERSION AS OF x", "RESTORE {t} TO VERSION AS OF 1 now"):
        with pytest.raises(InvalidOperationError):
            sql(spark, text.replace("{t}", f"delvec.`{table.location}`"))
    assert table.version == 1
    holds(table, ROWS)


def test_row_ids_are_those_of_the_version(kind, spark, tmp_path):
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, having=[ROW_IDS])
    first = table.version
    second = table.update({"name": "'moved'"}, "id < 3").version
    table.restore(first)
    table.append([(30, "new", 0)])
    table.restore(second)
    table.restore(first)
    table.append([(31, "new", 0)])
    plan = table._table.snapshot().plan()
    files = plan.files.select(["first_row_id", "record_count"]).to_pylist()
    ids = [file["first_row_id"] + n for file in files for n in range(file["record_count"])]
    assert len(set(ids)) == len(ids) == 13


@pytest.mark.needs(RESTORED_COLUMNS)
def test_renamed_storage_of_columns(kind, spark, tmp_path):
    """A column that is added again after a restore is another column: old values do not come back."""
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, having=[ANY_COLUMN_NAMES])
    table.add_columns("note string")
    table.append([(30, "x", 0, "old")])
    table.restore(1)
    table.add_columns("note string")
    assert {row["note"] for row in rows_of_dicts(table)} == {None}
    table.restore(3)
    assert {row["note"] for row in rows_of_dicts(table)} == {None, "old"}


def rows_of_dicts(table):
    return [row.asDict() for row in table.to_df().collect()]


@pytest.mark.core
def test_from_the_command_line(delvec, kind, table):
    location = table.location
    if not isinstance(table._table, Restorable):
        refused = delvec("restore", location, "--version", "0", "--yes")
        assert (refused.code, "RESTORE is not implemented for toy tables" in refused.err) == (5, True)
        with pytest.raises(UnsupportedFeatureError, match="RESTORE is not implemented for toy tables"):
            table.restore(0)
        return
    table.delete("id < 5")
    created, first, second = (kind.version(table, number) for number in range(3))
    planned = delvec("restore", location, "--version", first, "--dry-run", "--json").json
    assert (planned["dry_run"], planned["version"], planned["restored_version"]) == (True, second, first)
    assert planned["files"]["restored_files"] == planned["files"]["removed_files"] == 2
    assert table.version == second
    assert "would be restored" in delvec("restore", location, "--version", first, "--dry-run").out
    for arguments in ((), ("--version", first, "--timestamp", "2024-01-01"), ("--timestamp", "soon")):
        assert delvec("restore", location, *arguments, "--yes").code == 2
    assert delvec("restore", location, "--version", first).code == 2, "there is no terminal to confirm on"
    restored = delvec("restore", location, "--version", first, "--yes", "--json").json
    assert (restored["version"], restored["dry_run"]) == (kind.version(table, 3), False)
    holds(table, ROWS)
    if created >= 0:  # else the version without rows has no name
        done = delvec("restore", location, "--version", created, "--yes").out
        assert f"has the state of version {created}" in done
        holds(table, [])
    assert delvec("verify", location).code == 0
