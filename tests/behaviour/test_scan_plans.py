"""The plans that Spark makes of a scan: what is pushed down, what is pruned, and what is not in them."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from lake import FLAT, Lake
from scanning import collected, opened

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.float64()), ("p", pa.int32())])
PYTHON = ("Python", "MapInArrow", "ArrowEval", "InPandas")


def rows(p, first):
    return [{"id": first + i, "name": f"n{i}", "v": i / 2, "p": p} for i in range(10)]


def written(root, *, deleted, size=None, layout="folders"):
    lake = Lake(root, SCHEMA, partition_by=["p"], layout=layout)
    for p in range(5):
        lake.write(rows(p, p * 100), deleted=deleted, size=size or 4000 + p)
    lake.commit()
    return lake


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    root = tmp_path_factory.mktemp("plans")
    return {
        "none": written(root / "none", deleted=()),
        "by size": written(root / "size", deleted=[3]),
        "by path": written(root / "path", deleted=[3], size=4000),
        "by path, flat": written(root / "flat", deleted=[3], size=4000, layout=FLAT),
    }


def plan(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def scans(frame):
    return [line for line in plan(frame).splitlines() if "FileScan parquet" in line]


def read_columns(line):
    return re.findall(r"([\w.]+):", re.search(r"ReadSchema: struct<(.*?)>", line)[1])


@pytest.mark.parametrize("kind", ["by size", "by path", "by path, flat", "none"])
def test_filters_reach_the_parquet_scan(spark, lakes, kind):
    frame = opened(spark, lakes[kind]).to_df().where("id > 205 and name = 'n7'")
    for line in scans(frame):
        pushed = re.search(r"PushedFilters: \[(.*?)\]", line)[1]
        assert "GreaterThan(id,205)" in pushed
        assert "EqualTo(name,n7)" in pushed
    assert [row["id"] for row in collected(frame.orderBy("id"))] == [207, 307, 407]


@pytest.mark.parametrize("kind", ["by size", "by path"])
def test_only_needed_columns_are_read(spark, lakes, kind):
    frame = opened(spark, lakes[kind]).to_df().where("v >= 1").select("id")
    (line,) = scans(frame)
    data = [name for name in read_columns(line) if not name.startswith("_")]
    assert data == ["id", "v"]
    assert "row_index" in line


def test_files_without_vectors_pay_nothing(spark, lakes):
    frame = opened(spark, lakes["none"]).to_df()
    (line,) = scans(frame)
    text = plan(frame)
    assert "Join" not in text
    assert "Filter (" not in text
    assert "row_index" not in text
    assert [name for name in read_columns(line) if name.startswith("_")] == []


@pytest.mark.parametrize("kind", ["by size", "by path", "by path, flat"])
def test_vectors_are_broadcast_and_no_row_goes_through_python(spark, lakes, kind):
    text = plan(opened(spark, lakes[kind]).to_df())
    assert "BroadcastHashJoin" in text
    assert "SortMergeJoin" not in text
    assert not any(name in text for name in PYTHON), text


@pytest.mark.parametrize("kind", ["by size", "by path", "none"])
def test_a_later_filter_on_the_partition_column_prunes_files(spark, lakes, kind):
    frame = opened(spark, lakes[kind]).to_df().where("p = 3")
    (line,) = scans(frame)
    assert re.search(r"PartitionFilters: \[.*p#\d+ = 3", line)
    assert files_read(frame) == 1
    assert {row["p"] for row in collected(frame)} == {3}


def files_read(frame):
    """The number of files that the frame's scans open."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    found = [node.metrics().apply("numFiles").value() for node in nodes(plan) if is_scan(node)]
    assert found
    return sum(found)


def nodes(node):
    if node.nodeName() == "AdaptiveSparkPlan":
        node = node.executedPlan()
    if node.nodeName().endswith("QueryStage"):
        node = node.plan()
    yield node
    children = node.children()
    for index in range(children.size()):
        yield from nodes(children.apply(index))


def is_scan(node):
    return node.nodeName().startswith("Scan parquet")


@pytest.mark.parametrize("kind", ["by size", "by path", "none"])
def test_joins_prune_partitions_dynamically(spark, lakes, kind):
    from pyspark.sql import functions

    chosen = spark.createDataFrame([(2, "x"), (9, "y")], "p int, tag string").where("tag = 'x'")
    frame = opened(spark, lakes[kind]).to_df().join(functions.broadcast(chosen), "p")
    for line in scans(frame):
        assert "dynamicpruningexpression(p#" in line
    assert files_read(frame) == 1
    assert {row["p"] for row in collected(frame)} == {2}


def test_all_files_are_read_once(spark, lakes):
    assert files_read(opened(spark, lakes["by size"]).to_df()) == 5


def test_large_vectors_go_through_python_but_rows_do_not(spark, lakes, monkeypatch):
    from delvec.spark import scan

    monkeypatch.setattr(scan, "DRIVER_CHUNK_BYTES", 0)
    text = plan(opened(spark, lakes["by size"]).to_df())
    assert text.count("MapInArrow") == 1
    below = text[text.index("MapInArrow") :]
    assert "FileScan" not in below, "rows of the table are below the Python node"


def test_many_files_are_read_by_folder_and_name(spark, tmp_path):
    lake = Lake(tmp_path / "t", SCHEMA, partition_by=["p"])
    for n in range(60):
        lake.write(rows(n % 3, n * 100))
    dead = lake.write(rows(0, 9999))
    lake.commit()
    lake.forget(dead)
    frame = opened(spark, lake).to_df()
    (line,) = scans(frame)
    assert "file_name" in line
    assert files_read(frame) == 60
    assert files_read(frame.where("p = 1")) == 20
