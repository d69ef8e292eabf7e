"""`delvec optimize` and `delvec purge`."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark


@pytest.fixture
def place(spark, tmp_path):
    """Two partitions of three files each; one row is deleted."""
    from delvec.table import Table

    table = Table.create(spark, str(tmp_path / "t"), "id bigint, p int", partition_by=["p"])
    for first in (0, 20, 40):
        table.append(spark.range(first, first + 20, 1, 1).selectExpr("id", "CAST(id % 2 AS INT) AS p"))
    table.delete("id = 7")
    return table.location


def test_the_commands(delvec, in_spark, place):
    planned = delvec("optimize", place, "--dry-run", "--json").json
    assert (planned["dry_run"], planned["version"], planned["versions"]) == (True, 4, [])
    assert (planned["removed"]["files"], planned["added"]["files"], planned["deleted_rows"]) == (6, 2, 1)
    assert "PURGE of version 4 would rewrite 1 file" in delvec("purge", place, "--dry-run").out
    purged = delvec("purge", place, "--where", "p = 1", "--json").json
    assert (purged["version"], purged["metrics"]["numDeletionVectorsRemoved"]) == (5, 1)
    run = delvec("optimize", place, "--zorder-by", "id", "--target-file-size", 1 << 20)
    assert (run.code, run.err) == (0, "")
    assert "6 files" in run.out
    assert "2 files" in run.out
    assert "6 (unchanged: nothing to rewrite)" in delvec("optimize", place).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--where", "id = 3"], "expected partition columns only (p)"),
        (["--zorder-by", "p"], "zorder_by names partition column 'p'"),
        (["--target-file-size", "0"], "Invalid value for '--target-file-size'"),
        (["--max-deleted-rows-ratio", "2"], "Invalid value for '--max-deleted-rows-ratio'"),
    ],
    ids=str,
)
def test_bad_input(delvec, in_spark, place, arguments, message):
    run = delvec("optimize", place, *arguments)
    assert run.code == 2
    assert message in " ".join(run.err.split())
