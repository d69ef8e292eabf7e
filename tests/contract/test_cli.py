"""The command line on every kind of table: what it shows and changes; the table is sound afterwards."""

from __future__ import annotations

import pytest

from contract.kinds import POSITION_FILES, REQUESTS
from verbs import holds

pytestmark = pytest.mark.spark

DDL = "id bigint, name string, p int"
ROWS = [(i, f"n{i}", i % 2) for i in range(10)]


@pytest.fixture
def table(kind, spark, tmp_path):
    return kind.table(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"])


@pytest.mark.core
@pytest.mark.common(every=True)
def test_what_is_shown(delvec, kind, table):
    shown = delvec("show", table.location, "--json").json
    assert (shown["format"], shown["version"]) == (kind.format, table.version)
    assert shown["partition_columns"] == ["p"]
    assert [column["name"] for column in shown["schema"]] == ["id", "name", "p"]
    assert shown["rows"] == {"physical": 10, "deleted": 0, "live": 10}
    files = delvec("files", table.location, "--where", "p = 1", "--json").json
    assert [(file["rows"], file["partition"]) for file in files["files"]] == [(5, {"p": 1})]
    assert (files["total"], files["skipped"]) == (1, 1)


@pytest.mark.core
def test_what_is_changed(delvec, in_spark, kind, table):
    location = table.location
    deleted = delvec("delete", location, "--where", "id IN (1, 2)", "--yes", "--json").json
    assert (deleted["version"], deleted["metrics"]["numDeletedRows"]) == (kind.version(table, 2), 2)
    updated = delvec(
        "update", location, "--set", "name = upper(name)", "--where", "id > 7", "--yes", "--json"
    )
    assert updated.json["metrics"]["numUpdatedRows"] == 2
    assert delvec("sql", f"DELETE FROM delvec.`{location}` WHERE id = 3", "--yes").code == 0
    holds(table, [(i, name.upper() if i > 7 else name, p) for i, name, p in ROWS if i not in {1, 2, 3}])
    commits = delvec("history", location, "--json").json["commits"]
    assert [commit["version"] for commit in commits][:3] == [kind.version(table, n) for n in (4, 3, 2)]
    if REQUESTS in kind.abilities:
        assert [commit["operation"].upper() for commit in commits][:3] == ["DELETE", "UPDATE", "DELETE"]
    live = None if POSITION_FILES in kind.features else 7
    assert delvec("show", location, "--json").json["rows"]["live"] == live
    assert delvec("verify", location).code == 0
