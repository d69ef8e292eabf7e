"""`delvec rewrite-deletes`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from delvec.detect import open_table
from iceberg_tables.writer import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32())])
GATE = "write.delete.equality-vector.enabled"


@pytest.fixture
def table(tmp_path):
    """Two partitions with the ids 0 to 9; keys are deleted in each of them."""
    made = IcebergWriter(tmp_path / "t", COLUMNS, format_version=3, partition_by=["p"])
    for p in (1, 2):
        made.add_file([{"id": number, "p": p} for number in range(10)])
    made.commit()
    for p in (1, 2):
        made.delete_keys([{"id": 3}, {"id": 4}], on=["id"], partition={"p": p})
        made.commit()
    return made


def kinds(table) -> list[tuple[str, str]]:
    deletes = open_table(str(table.root)).snapshot().live_deletes().to_pylist()
    return sorted((delete["kind"], delete["encoding"]) for delete in deletes)


@pytest.mark.spark
def test_the_command(delvec, in_spark, table):
    planned = delvec("rewrite-deletes", table.root, "--dry-run", "--json").json
    assert (planned["dry_run"], planned["version"], planned["files"]) == (True, table.head.id, 2)
    assert planned["removed"] == {"equality files": 2}
    assert "would replace 2 equality files by deletion-vector" in delvec(
        "rewrite-deletes", table.root, "--dry-run"
    ).out.replace("\n", " ")
    run = delvec("rewrite-deletes", table.root, "--to", "equality-vector")
    assert (run.code, f"property {GATE} is not true" in " ".join(run.err.split())) == (2, True)
    table.set_properties({GATE: "true"})
    run = delvec("rewrite-deletes", table.root, "--to", "equality-vector", "--where", "p = 1", "--json")
    assert (run.code, run.json["keys"], run.json["kept"]) == (0, 2, 1)
    assert kinds(table) == [("equality-file", "deletion-vector"), ("equality-file", "full-row")]
    run = delvec("rewrite-deletes", table.root)
    assert (run.code, run.err) == (0, "")
    assert "1 equality files, 1 equality vectors" in " ".join(run.out.split())
    assert kinds(table) == [("position-vector", "deletion-vector")] * 2
    assert "(unchanged: nothing to rewrite)" in delvec("rewrite-deletes", table.root).out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--to", "vectors"], 2, "'vectors' is not one of 'deletion-vector'"),
        (["--ref", "nowhere"], 2, "'nowhere' does not exist"),
    ],
    ids=str,
)
def test_bad_input(delvec, no_spark, table, arguments, code, message):
    run = delvec("rewrite-deletes", table.root, *arguments)
    assert run.code == code
    assert message in " ".join(run.err.split())


@pytest.mark.spark
def test_bad_input_in_spark(delvec, in_spark, table):
    run = delvec("rewrite-deletes", table.root, "--where", "id = 3")
    assert (run.code, "expected partition columns only (p)" in " ".join(run.err.split())) == (2, True)
    run = delvec("rewrite-deletes", table.root, "--encoding", "hash-map")
    assert (run.code, "'hash-map' is reserved" in " ".join(run.err.split())) == (2, True)
    run = delvec("rewrite-deletes", table.root, "--to", "position-deletes")
    assert run.code == 5
