"""What each command tells of a table, to people and to programs."""

from __future__ import annotations

import shutil

import pytest

from delvec.bitmap import Bitmap
from delvec.delta.table import DeltaTable
from delvec.puffin import PuffinWriter
from delvec.schema import Field, Primitive, Struct
from golden_data import golden

LARGE = "delta/table-with-dv-large"


def test_show_json(delvec, orders):
    run = delvec("show", orders, "--json")
    assert run.code == 0
    assert run.err == ""
    shown = run.json
    size = shown["files"].pop("bytes")
    assert size == sum(path.stat().st_size for path in orders.rglob("*.parquet"))
    assert shown["vectors"].pop("bytes") == 183
    assert shown == {
        "format": "delta",
        "location": str(orders),
        "version": 2,
        "timestamp": "2025-01-01T14:00:00+00:00",
        "schema": [
            {"name": "id", "type": "long", "nullable": True},
            {"name": "customer", "type": "string", "nullable": True},
            {"name": "amount", "type": "double", "nullable": True},
            {"name": "placed", "type": "date", "nullable": True},
            {"name": "region", "type": "string", "nullable": True},
        ],
        "partition_columns": ["region"],
        "files": {"count": 4},
        "rows": {"physical": 40, "deleted": 17, "live": 23},
        "vectors": {"count": 4, "inline": 0, "files": 2},
        "delete_files": {"position": 0, "equality": 0, "key_vectors": 0, "rows": 0, "bytes": 0},
        "details": {
            "reader version": 3,
            "writer version": 7,
            "reader features": ["deletionVectors"],
            "writer features": ["appendOnly", "deletionVectors", "inCommitTimestamp", "invariants"],
            "id": "210369a6-2047-5a8c-a2a1-425d080514e9",
        },
        "properties": {"delta.enableDeletionVectors": "true", "delta.enableInCommitTimestamps": "true"},
        "advice": [
            {
                "verb": "optimize",
                "reason": "4 files with more than 5% deleted rows (17 rows)",
                "files": 4,
                "deleted_rows": 17,
            }
        ],
    }


def test_show_for_people(delvec, orders):
    run = delvec("show", orders)
    assert run.code == 0
    assert "23 live, 17 deleted, 40 in files" in run.out
    assert "2, committed 2025-01-01 14:00:00 UTC" in run.out
    assert "\x1b" not in run.out


def test_show_the_comment_of_a_table(delvec, tmp_path):
    schema = Struct((Field("id", Primitive("long")),))
    DeltaTable.create(str(tmp_path / "t"), schema, properties={"comment": "all orders", "x": "y"})
    shown = delvec("show", tmp_path / "t", "--json").json
    assert shown["details"]["description"] == "all orders"
    assert "comment" not in shown["properties"]
    assert "all orders" in delvec("show", tmp_path / "t").out


@pytest.mark.parametrize(
    ("version", "deleted", "vectors"), [(0, 0, 0), (1, 13, 4), (2, 17, 4)], ids=["0", "1", "2"]
)
def test_show_of_a_version(delvec, orders, version, deleted, vectors):
    shown = delvec("show", orders, "--version", version, "--json").json
    assert shown["version"] == version
    assert shown["rows"] == {"physical": 40, "deleted": deleted, "live": 40 - deleted}
    assert shown["vectors"]["count"] == vectors


def test_show_at_a_time(delvec, orders):
    shown = delvec("show", orders, "--timestamp", "2025-01-01T13:30:00Z", "--json").json
    assert (shown["version"], shown["timestamp"]) == (1, "2025-01-01T13:00:00+00:00")


def test_show_a_table_another_engine_wrote(delvec):
    shown = delvec("show", golden(LARGE), "--json").json
    assert shown["rows"] == {"physical": 2004, "deleted": 11, "live": 1993}
    assert shown["vectors"]["count"] == 8


def test_files_json(delvec, orders):
    listed = delvec("files", orders, "--json").json
    assert {key: listed[key] for key in listed if key != "files"} == {
        "location": str(orders),
        "version": 2,
        "where": None,
        "total": 4,
        "skipped": 0,
    }
    file = next(file for file in listed["files"] if file["path"].endswith("part-00002.parquet"))
    vector = file.pop("vector")
    assert file == {
        "path": "region=us/part-00002.parquet",
        "location": f"{orders}/region=us/part-00002.parquet",
        "size": (orders / "region=us/part-00002.parquet").stat().st_size,
        "rows": 10,
        "deleted": 7,
        "live": 3,
        "partition": {"region": "us"},
        "delete_files": 0,
        "match": None,
    }
    assert (vector["storage"], vector["offset"], vector["size"]) == ("table", 1, 43)
    assert (orders / vector["path"]).is_file()


def test_files_that_a_condition_leaves(delvec, orders):
    listed = delvec("files", orders, "--where", "id >= 30 AND region = 'us'", "--json").json
    assert (listed["total"], listed["skipped"]) == (1, 3)
    assert [(file["path"], file["match"]) for file in listed["files"]] == [
        ("region=us/part-00003.parquet", "all")
    ]
    assert "1 file may match, 3 files skipped" in delvec("files", orders, "--where", "id > 35").out


def test_no_file_left(delvec, orders):
    run = delvec("files", orders, "--where", "id > 1000")
    assert (run.code, run.out) == (0, "0 files may match, 4 files skipped\n")


def test_files_are_limited(delvec, orders):
    run = delvec("files", orders, "--limit", 1)
    assert run.out.count(".parquet") == 1
    assert "4 files; 3 more not shown (--limit)" in run.out
    assert len(delvec("files", orders, "--limit", 1, "--json").json["files"]) == 1
    assert len(delvec("files", orders, "--limit", 0, "--json").json["files"]) == 4


def test_files_are_limited_to_a_hundred_unless_told(delvec, tmp_path):
    from delvec.delta import sample  # the smallest way to a table with many files

    table = tmp_path / "many"
    detect_write(table, sample, files=130)
    assert "130 files; 30 more not shown (--limit)" in delvec("files", table).out


def detect_write(table, sample, *, files):
    from delvec.storage import open_storage

    storage = open_storage(str(table))
    sample.write(storage)
    log = table / "_delta_log"
    line = next(s for s in (log / f"{0:020d}.json").read_text().splitlines() if s.startswith('{"add"'))
    name = line.split('"path":"')[1].split('"')[0]
    more = [line.replace(name, f"more-{number}.parquet") for number in range(files - 4)]
    info = '{"commitInfo":{"inCommitTimestamp":1735748400000,"operation":"WRITE"}}'
    (log / f"{3:020d}.json").write_text("\n".join([info, *more]) + "\n")


def test_history(delvec, orders):
    listed = delvec("history", orders, "--json").json
    assert listed["truncated"] is False
    assert [(c["version"], c["operation"]) for c in listed["commits"]] == [
        (2, "DELETE"),
        (1, "DELETE"),
        (0, "CREATE TABLE AS SELECT"),
    ]
    newest = listed["commits"][0]
    assert newest["parameters"] == {"predicate": '["id BETWEEN 21 AND 26"]'}
    changed = {name: count for name, count in newest["metrics"].items() if count != "0"}
    assert changed == {
        "numDeletedRows": "4",
        "numDeletionVectorsAdded": "1",
        "numDeletionVectorsUpdated": "1",
        "numDeletionVectorsRemoved": "1",
    }
    assert newest["timestamp"] == "2025-01-01T14:00:00+00:00"


def test_history_is_limited(delvec, orders):
    run = delvec("history", orders, "--limit", 2)
    assert "commits before version 1 not shown (--limit)" in run.out
    assert "CREATE" not in run.out
    assert delvec("history", orders, "--limit", 2, "--json").json["truncated"] is True
    assert "not shown" not in delvec("history", orders, "--limit", 3).out


def test_vectors_of_a_table(delvec, orders):
    listed = delvec("dv", orders, "--json").json
    assert (listed["version"], listed["total"]) == (2, 4)
    vector = next(v for v in listed["vectors"] if v["data_file"] == "region=us/part-00002.parquet")
    vector.pop("path")
    assert vector == {
        "data_file": "region=us/part-00002.parquet",
        "storage": "table",
        "offset": 1,
        "size": 43,
        "recorded_cardinality": 7,
        "cardinality": 7,
        "min": 1,
        "max": 8,
        "range_count": 2,
        "ranges": [[1, 7], [8, 9]],
        "bitmaps": 1,
        "containers": {"array": 0, "bitmap": 0, "run": 1},
        "error": None,
    }
    assert "4 vectors" in delvec("dv", orders).out


def test_vector_of_one_file(delvec, orders):
    run = delvec("dv", orders, "--file", "part-00000.parquet", "--ranges", 2)
    assert "ranges       3: 1, 4, … 1 more (--ranges)" in run.out
    assert "1 array in 1 bitmap" in run.out


def test_file_without_a_vector(delvec, orders):
    run = delvec("dv", orders, "--file", "part-00000.parquet", "--version", 0)
    assert (run.code, run.out) == (0, "0 vectors\n")


def test_vectors_are_limited(delvec, orders):
    assert "4 vectors; 3 more not shown (--limit)" in delvec("dv", orders, "--limit", 1).out


def test_vectors_of_a_vector_file(delvec, vector_files):
    listed = delvec("dv", vector_files[1], "--json").json
    assert listed["version"] is None
    assert [(v["offset"], v["cardinality"]) for v in listed["vectors"]] == [
        (1, 3),
        (47, 4),
        (95, 3),
        (141, 3),
    ]


def test_vectors_of_a_puffin_file(delvec, tmp_path):
    writer = PuffinWriter()
    writer.add_vector(Bitmap.from_range(10, 20), "s3://lake/a.parquet")
    (tmp_path / "x.puffin").write_bytes(writer.finish())
    (vector,) = delvec("dv", tmp_path / "x.puffin", "--json").json["vectors"]
    assert vector["data_file"] == "s3://lake/a.parquet"
    assert (vector["cardinality"], vector["ranges"]) == (10, [[10, 20]])
    assert vector["attributes"]["type"] == "deletion-vector-v1"
    assert "s3://lake/a.parquet" in delvec("dv", tmp_path / "x.puffin").out


def test_other_blobs_of_a_puffin_file_are_named_only(delvec, tmp_path):
    writer = PuffinWriter()
    writer.add_blob(b"sketch", blob_type="apache-datasketches-theta-v1", fields=[1])
    (tmp_path / "x.puffin").write_bytes(writer.finish())
    run = delvec("dv", tmp_path / "x.puffin")
    assert run.code == 0
    assert "apache-datasketches-theta-v1" in run.out


def test_a_blob_alone(delvec):
    path = golden("blobs/all-container-types-position-index.bin")
    (vector,) = delvec("dv", path, "--json").json["vectors"]
    assert (vector["offset"], vector["cardinality"], vector["bitmaps"]) == (0, 132561, 2)
    assert (vector["min"], vector["max"]) == (5, (1 << 32) + 196606)


def test_a_bare_puffin_vector(delvec):
    path = golden("iceberg/legacy_bare_deletion_vector/data/legacy-bare-deletion-vector.puffin")
    (vector,) = delvec("dv", path, "--json").json["vectors"]
    assert vector["ranges"] == [[1, 2]]


def test_verify_sound(delvec, orders):
    run = delvec("verify", orders)
    expected = "version 2: 4 files, 4 vectors, 17 deleted rows checked: sound\n"
    assert (run.code, run.out, run.err) == (0, expected, "")
    assert delvec("verify", orders, "--json").json == {
        "location": str(orders),
        "version": 2,
        "sound": True,
        "checked": {"files": 4, "vectors": 4, "delete_files": 0, "deleted_rows": 17},
        "errors": 0,
        "warnings": 0,
        "findings": [],
    }


@pytest.mark.parametrize(
    "name",
    [
        "table-with-dv-small",
        "table-with-dv-large",
        "dv-partitioned-with-checkpoint",
        "basic-dv-with-checkpoint",
        "basic-dv-no-checkpoint",
        "log-replay-dv-key-cases",
        "cdf-table-with-dv",
    ],
)
def test_tables_of_other_engines_are_sound(delvec, name):
    run = delvec("verify", golden(f"delta/{name}"), "--json")
    assert (run.code, run.json["findings"]) == (0, [])


def test_verify_lists_every_finding(delvec, tmp_path):
    table = tmp_path / "large"
    shutil.copytree(golden(LARGE), table)
    for path in table.glob("deletion_vector_*.bin"):
        path.unlink()
    run = delvec("verify", table, "--json")
    assert (run.code, run.json["errors"], run.json["sound"]) == (1, 8, False)
    assert {finding["check"] for finding in run.json["findings"]} == {"vector"}
    limited = delvec("verify", table, "--limit", 3)
    assert "5 more not shown (--limit)" in limited.out
    assert "not sound, 8 errors" in limited.out


def test_tree_for_people(delvec, orders):
    lines = delvec("tree", orders).out.splitlines()
    assert lines[0].startswith(
        "version 2 · committed 2025-01-01 14:00:00 UTC · 4 files · 40 rows · 4 vectors"
    )
    assert lines[1].startswith("├── commit 00000000000000000000.json · operation CREATE TABLE AS SELECT")
    assert lines[3] == "│   ├── data file region=eu/part-00000.parquet · 10 rows · 1.4 KiB · region=eu"
    assert lines[4].startswith("│   │   └── vector deletion_vector_")
    assert lines[4].endswith(".bin @ 1 · 3 deleted rows · 46 B")
    assert len(lines) == 12


def test_tree_json_and_limit(delvec, orders):
    found = delvec("tree", orders, "--limit", 2, "--version", 1, "--json").json
    assert found["location"] == str(orders)
    root = found["tree"]
    assert (root["kind"], root["name"], root["count"]) == ("version", "1", 2)
    commit = root["children"][1]
    assert (commit["facts"]["added files"], commit["count"], len(commit["children"])) == (4, 4, 2)
    assert "… and 2 more (--limit)" in delvec("tree", orders, "--limit", 2, "--version", 1).out
