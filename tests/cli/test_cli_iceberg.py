"""The commands on Iceberg tables: what they show, and what they refuse by name."""

from __future__ import annotations

import pyarrow as pa
import pytest

from iceberg_tables import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32())])


def rows(*ids, p=1):
    return [{"id": number, "p": p} for number in ids]


@pytest.fixture
def table(tmp_path):
    """Version 3: two partitions, a vector of two rows on the first file; a tag at the first snapshot."""
    table = IcebergWriter(tmp_path / "t", COLUMNS, format_version=3, partition_by=["p"])
    table.first = table.add_file(rows(1, 2, 3, 4), name="data/a.parquet")
    table.add_file(rows(5, 6, p=2), name="data/b.parquet")
    table.set_tag("start", table.commit(at=1_735_689_600_000))
    table.vector = table.delete_rows(table.first, [1, 2])
    table.newest = table.commit(at=1_735_693_200_000)
    return table


@pytest.fixture
def keys(tmp_path):
    """Version 2: a position file and an equality file on one data file."""
    table = IcebergWriter(tmp_path / "t", COLUMNS)
    file = table.add_file(rows(1, 2, 3))
    table.commit()
    table.delete_rows(file, [0])
    table.delete_keys([{"id": 3}], on=["id"])
    table.commit()
    return table


def test_show(delvec, table):
    shown = delvec("show", table.root, "--json").json
    assert (shown["format"], shown["version"]) == ("iceberg", table.newest)
    assert shown["timestamp"] == "2025-01-01T01:00:00+00:00"
    assert shown["rows"] == {"physical": 6, "deleted": 2, "live": 4}
    assert shown["vectors"] == {"count": 1, "inline": 0, "files": 1, "bytes": table.vector.length}
    none = {"position": 0, "equality": 0, "key_vectors": 0, "rows": 0, "bytes": 0}
    assert shown["delete_files"] == none
    assert shown["partition_columns"] == ["p"]
    assert shown["details"]["format version"] == 3
    assert shown["details"]["branches and tags"][0] == f"main (branch): {table.newest}"
    assert [advice["verb"] for advice in shown["advice"]] == ["optimize"]
    at_tag = delvec("show", table.root, "--ref", "start", "--json").json
    assert at_tag["rows"] == {"physical": 6, "deleted": 0, "live": 6}


def test_show_delete_files(delvec, keys):
    text = delvec("show", keys.root).out
    assert "? live, ? deleted, 3 in files" in text
    assert "1 position file, 1 equality file, 2 rows" in text
    assert "DELETE copy-on-write (default), UPDATE copy-on-write (default), MERGE" in " ".join(text.split())
    assert delvec("show", keys.root, "--json").json["delete_files"]["equality"] == 1


def test_files_with_delete_files(delvec, keys):
    listed = delvec("files", keys.root, "--json").json
    assert [(file["deleted"], file["delete_files"], file["vector"]) for file in listed["files"]] == [
        (None, 2, None)
    ]
    assert "delete files" in delvec("files", keys.root).out


def test_files_with_a_vector_and_a_condition(delvec, table):
    found = delvec("files", table.root, "--where", "p = 1", "--json").json
    (file,) = found["files"]
    assert (found["skipped"], file["path"], file["match"]) == (1, "data/a.parquet", "all")
    assert (file["rows"], file["deleted"], file["partition"]) == (4, 2, {"p": 1})
    assert file["vector"]["offset"] == table.vector.offset
    assert "delete files" not in delvec("files", table.root).out


def test_files_show_the_partition_of_their_own_spec(delvec, table):
    table.replace_spec(["bucket[4](id)"])
    table.add_file(rows(7), name="data/c.parquet")
    table.commit()
    files = {file["path"]: file["partition"] for file in delvec("files", table.root, "--json").json["files"]}
    assert files["data/a.parquet"] == {"p": 1}
    (field,) = files["data/c.parquet"]
    assert "bucket" in field


def test_history_and_count(delvec, no_spark, table):
    commits = delvec("history", table.root, "--json").json["commits"]
    assert [commit["operation"] for commit in commits] == ["delete", "append"]
    assert commits[0]["metrics"]["added-position-deletes"] == "2"
    assert delvec("count", table.root, "--json").json["rows"] == 4
    assert delvec("count", table.root, "--where", "p = 2", "--json").json == {
        "location": str(table.root),
        "version": table.newest,
        "where": "p = 2",
        "rows": 2,
        "read": False,
    }


def test_dv_of_a_data_file_and_of_a_puffin_file(delvec, table):
    of_file = delvec("dv", table.root, "--file", "a.parquet", "--json").json
    (vector,) = of_file["vectors"]
    assert (vector["data_file"], vector["cardinality"], vector["ranges"]) == ("data/a.parquet", 2, [[1, 3]])
    assert (vector["offset"], vector["size"]) == (table.vector.offset, table.vector.length)
    (alone,) = delvec("dv", table.place(table.vector.path), "--json").json["vectors"]
    assert (alone["data_file"], alone["cardinality"]) == (table.first.path, 2)


def test_dv_says_that_equality_files_are_not_listed(delvec, keys):
    found = delvec("dv", keys.root, "--json").json
    assert (found["total"], found["equality_files"]) == (1, 1)
    text = delvec("dv", keys.root).out
    assert "not listed, because they delete rows by their values: 1 equality-delete file" in text


def test_tree(delvec, table):
    lines = delvec("tree", table.root, "--limit", 1).out.splitlines()
    assert lines[0].startswith(
        f"snapshot {table.newest} · operation delete · committed 2025-01-01 01:00:00 UTC"
    )
    assert lines[2] == (
        f"│   ├── data file data/a.parquet · 4 rows · {table.first.size} B · p=1 · sequence 1"
    )
    assert "vector data/" in lines[3]
    assert lines[4:] == ["│   └── … and 1 more (--limit)", "└── … and 1 more (--limit)"]


def test_verify(delvec, table):
    run = delvec("verify", table.root)
    assert (run.code, run.out) == (
        0,
        f"version {table.newest}: 2 files, 1 vector, 2 deleted rows checked: sound\n",
    )
    place = table.place(table.vector.path)
    place.write_bytes(place.read_bytes().replace(b'"cardinality": "2"', b'"cardinality": "3"'))
    run = delvec("verify", table.root)
    assert run.code == 1
    assert "footer says number of deleted rows 3" in run.out


def test_a_range_of_changes_is_refused_without_spark(delvec, no_spark, table):
    run = delvec("changes", table.root, "--from", "1")
    assert run.code == 2
    assert "snapshot 1 does not exist or has expired, expected" in run.err
    run = delvec("changes", table.root, "--from", table.newest, "--ref", "start")
    assert run.code == 2
    assert f"snapshot {table.newest}" in run.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["delete", "--all", "--yes"],
        ["update", "--set", "id = 1", "--all", "--yes"],
        ["optimize"],
        ["purge"],
        ["rewrite-deletes"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_tables_of_version_1_are_read_only(delvec, no_spark, tmp_path, arguments):
    table = IcebergWriter(tmp_path / "t", COLUMNS, format_version=1)
    command, *options = arguments
    run = delvec(command, table.root, *options)
    assert run.code == 5
    assert "format version is 1, which delvec only reads, expected 2, 3 or 4" in run.err


def test_a_statement_that_writes_is_refused_without_spark(delvec, no_spark, tmp_path):
    table = IcebergWriter(tmp_path / "t", COLUMNS, format_version=1)
    run = delvec("sql", f"DELETE FROM iceberg.`{table.root}` WHERE id = 1", "--yes")
    assert run.code == 5
    assert "format version is 1, which delvec only reads" in run.err
