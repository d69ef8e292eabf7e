"""The plans that Spark makes of a scan: what is pushed down, what is pruned, and what is not in them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from delvec import detect
from delvec.spark import file_paths, scan, scan_part
from lake import FLAT, Lake
from scanning import collected, colliding_names, files_read, opened

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.float64()), ("p", pa.int32())])
PYTHON = ("Python", "MapInArrow", "ArrowEval", "InPandas")


def rows(p, first):
    return [{"id": first + i, "name": f"n{i}", "v": i / 2, "p": p} for i in range(10)]


def written(root, *, deleted, layout="folders"):
    lake = Lake(root, SCHEMA, partition_by=["p"], layout=layout)
    for p in range(5):
        lake.write(rows(p, p * 100), deleted=deleted, size=4000)
    lake.commit()
    return lake


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    root = tmp_path_factory.mktemp("plans")
    return {
        "none": written(root / "none", deleted=()),
        "folders": written(root / "folders", deleted=[3]),
        "flat": written(root / "flat", deleted=[3], layout=FLAT),
        "odd folder": written(root / "a b é's %20[x]", deleted=[3]),
    }


def plan(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def scans(frame):
    return [line for line in plan(frame).splitlines() if "FileScan parquet" in line]


def read_columns(line):
    return re.findall(r"([\w.]+):", re.search(r"ReadSchema: struct<(.*?)>", line)[1])


@pytest.mark.usefixtures("applied")
@pytest.mark.parametrize("kind", ["folders", "odd folder", "flat", "none"])
def test_filters_reach_the_parquet_scan(spark, lakes, kind):
    frame = opened(spark, lakes[kind]).to_df().where("id > 205 and name = 'n7'")
    for line in scans(frame):
        pushed = re.search(r"PushedFilters: \[(.*?)\]", line)[1]
        assert "GreaterThan(id,205)" in pushed
        assert "EqualTo(name,n7)" in pushed
    assert [row["id"] for row in collected(frame.orderBy("id"))] == [207, 307, 407]


@pytest.mark.usefixtures("applied")
@pytest.mark.parametrize("kind", ["folders", "odd folder"])
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


@pytest.mark.parametrize("kind", ["folders", "odd folder", "flat"])
def test_vectors_are_broadcast_and_no_row_goes_through_python(spark, lakes, applied, kind):
    text = plan(opened(spark, lakes[kind]).to_df())
    vectors_joined = applied == "join"
    values_joined = kind == "flat"
    assert text.count("BroadcastHashJoin") == vectors_joined + values_joined
    assert ("Subquery" in text) == (applied == "words")
    assert "SortMergeJoin" not in text
    assert not any(name in text for name in PYTHON), text


@pytest.mark.usefixtures("applied")
@pytest.mark.parametrize("kind", ["folders", "odd folder", "none"])
def test_a_later_filter_on_the_partition_column_prunes_files(spark, lakes, kind):
    frame = opened(spark, lakes[kind]).to_df().where("p = 3")
    (line,) = scans(frame)
    assert re.search(r"PartitionFilters: \[.*p#\d+ = 3", line)
    assert files_read(frame) == 1
    assert {row["p"] for row in collected(frame)} == {3}


@pytest.mark.usefixtures("applied")
@pytest.mark.parametrize("kind", ["folders", "odd folder", "none"])
def test_joins_prune_partitions_dynamically(spark, lakes, kind):
    from pyspark.sql import functions

    chosen = spark.createDataFrame([(2, "x"), (9, "y")], "p int, tag string").where("tag = 'x'")
    frame = opened(spark, lakes[kind]).to_df().join(functions.broadcast(chosen), "p")
    for line in scans(frame):
        assert "dynamicpruningexpression(p#" in line
    assert files_read(frame) == 1
    assert {row["p"] for row in collected(frame)} == {2}


def test_all_files_are_read_once(spark, lakes):
    assert files_read(opened(spark, lakes["folders"]).to_df()) == 5


def test_large_vectors_go_through_python_but_rows_do_not(spark, lakes, monkeypatch):
    monkeypatch.setattr(scan, "DRIVER_CHUNK_BYTES", 0)
    text = plan(opened(spark, lakes["folders"]).to_df())
    assert text.count("MapInArrow") == 1
    below = text[text.index("MapInArrow") :]
    assert "FileScan" not in below, "rows of the table are below the Python node"


def many(root, count=60):
    """A table of many files, beside which lie dead ones: one of them under a live file's name."""
    lake = Lake(root, SCHEMA, partition_by=["p"])
    live = [lake.write(rows(n % 3, n * 100)) for n in range(count)]
    dead = lake.write(rows(0, 9999))
    lake.commit()
    lake.forget(dead)
    shutil.copy(root / live[0].path, (root / live[1].path).parent)
    return lake


def test_many_files_are_read_by_folder_and_path(spark, tmp_path):
    frame = opened(spark, many(tmp_path / "t")).to_df()
    (line,) = scans(frame)
    assert "file_path" in line
    assert files_read(frame) == 60
    assert files_read(frame.where("p = 1")) == 20
    assert frame.count() == 600


def test_many_files_in_a_folder_whose_name_spark_encodes(spark, tmp_path):
    frame = opened(spark, many(tmp_path / "a b é's %20[x]")).to_df()
    (line,) = scans(frame)
    assert "file_path" in line
    assert files_read(frame) == 60
    assert frame.count() == 600


def test_many_local_files_of_many_rows_go_by_path(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(file_paths, "_MANY_ROWS", 10)
    frame = opened(spark, many(tmp_path / "t")).to_df()
    assert "Filter (" not in plan(frame)
    assert "file_path" not in plan(frame)
    assert files_read(frame) == 60


def test_a_missing_file_among_many_is_named(spark, tmp_path):
    lake = many(tmp_path / "t")
    table = opened(spark, lake)
    (file,) = table.files().limit(1).select("location").first()
    Path(file).unlink()
    with pytest.raises(Exception, match=Path(file).name):
        table.to_df().collect()


def test_a_folder_is_listed_once_for_files_with_and_without_vectors(spark, tmp_path, monkeypatch):
    lake = Lake(tmp_path / "t", SCHEMA, partition_by=["p"])
    for n in range(80):
        lake.write(rows(n % 3, n * 100), deleted=[1] if n % 2 else ())
    lake.commit()
    listed, usual = [], file_paths.FileReader._listed

    def counted(self, paths, *given, **settings):
        listed.append(paths)
        return usual(self, paths, *given, **settings)

    monkeypatch.setattr(file_paths.FileReader, "_listed", counted)
    frame = opened(spark, lake).to_df()
    assert len(listed) == 1
    assert frame.count() == 80 * 10 - 40


def test_a_spark_that_tells_no_positions_is_refused(spark, lakes, monkeypatch):
    """Were they null, no row would be left out."""
    monkeypatch.setattr(scan, "ROW_INDEX", "_tmp_metadata_of_another_name")
    frame = opened(spark, lakes["folders"]).to_df()
    place = re.escape(str(lakes["folders"].root))
    with pytest.raises(Exception, match=rf"does not provide the positions of rows in {place}: \S+\.parquet"):
        frame.collect()
    with pytest.raises(Exception, match=rf"does not provide the positions of rows in {place}: \S+\.parquet"):
        opened(spark, lakes["folders"]).to_df(where="p = 3").collect()


def test_of_a_single_file_spark_need_not_tell_which_it_is(spark, lakes):
    """It would make a struct of that for every row."""
    table = opened(spark, lakes["folders"])
    one, two = (table.to_df(where=where).select("id") for where in ("p = 3", "p IN (2, 3)"))
    assert "file_name" not in plan(one)
    assert "file_name" in plan(two)
    assert (one.count(), two.count()) == (9, 18)


def numbered(root, names):
    lake = Lake(root, SCHEMA)
    for number, name in enumerate(names):
        lake.write(rows(number, number * 100), deleted=[number % 10], size=4000, name=name)
    lake.commit()
    return lake


def test_files_of_equal_size_are_read_by_one_scan_and_no_path(spark, tmp_path, applied):
    frame = opened(spark, numbered(tmp_path / "t", [f"{n}.parquet" for n in range(6)])).to_df()
    assert len(scans(frame)) == 1
    assert "file_path" not in plan(frame)
    assert plan(frame).count("BroadcastHashJoin") == (applied == "join")
    assert sorted(row["id"] for row in collected(frame)) == alive(6)


def located_rows(spark, table):
    parts = scan.scan_parts(spark, table.snapshot().plan(), table.storage)
    return scan_part.united([part.live() for part in parts])


@pytest.mark.parametrize(
    ("names", "told_by"),
    [
        (["a.parquet", "b-1_c=2.parquet"], "file_name"),
        (["p=0/a.parquet", "p=1/a.parquet"], "file_path"),
        (["a.parquet", "a b.parquet"], "file_path"),
        (["a%20b.parquet", "a b.parquet"], "file_path"),
        (["é.parquet", "a.parquet"], "file_path"),
    ],
)
@pytest.mark.usefixtures("applied")
def test_what_tells_files_apart(spark, tmp_path, names, told_by):
    """Names, where they are unique and Spark shows them as they are; else the longer paths."""
    lake = numbered(tmp_path / "t", names)
    frame = opened(spark, lake).to_df()
    assert len(scans(frame)) == 1
    assert f".{told_by} as binary" in plan(frame)
    assert sorted(row["id"] for row in collected(frame)) == alive(2)
    table = detect.open_table(str(lake.root))
    located = located_rows(spark, table)
    assert sorted(row["id"] for row in collected(located)) == alive(2)


@pytest.mark.usefixtures("applied")
@pytest.mark.parametrize("used", [["id"], ["id", "__delvec_row"], ["id", "__delvec_file"]])
@pytest.mark.parametrize("files", [1, 2])
def test_places_of_which_not_all_is_used(spark, tmp_path, files, used):
    table = detect.open_table(str(numbered(tmp_path / "t", [f"{n}.parquet" for n in range(files)]).root))
    located = located_rows(spark, table)
    assert sorted(row["id"] for row in collected(located.select(*used))) == alive(files)


def test_files_whose_numbers_collide_are_told_apart_by_path(spark, tmp_path, applied):
    root = tmp_path / "t"
    names = ["a.parquet", *colliding_names(root), "b.parquet"]
    frame = opened(spark, numbered(root, names)).to_df()
    assert len(scans(frame)) == 2
    assert plan(frame).count("BroadcastHashJoin") == (3 if applied == "join" else 2)
    assert sorted(row["id"] for row in collected(frame)) == alive(4)


@pytest.mark.parametrize(
    ("sizes", "names"),
    [
        ([4000, 4000, 4000], ["b.parquet", "ba.parquet", "a.parquet"]),
        ([4000, 5000, 4000], ["p-1.parquet", "p-10.parquet", "p-100.parquet"]),
        ([4000, 5000, 6000], ["b", "a.parquet", "B.parquet"]),
        ([4000] * 32, [f"part-{n:05}.parquet" for n in range(32)]),
    ],
)
def test_few_files_are_told_apart_without_a_join(spark, tmp_path, sizes, names):
    lake = Lake(tmp_path / "t", SCHEMA)
    for number, (size, name) in enumerate(zip(sizes, names, strict=True)):
        lake.write(rows(number, number * 100), deleted=[number % 10], size=size, name=name)
    lake.commit()
    frame = opened(spark, lake).to_df()
    assert "BroadcastHashJoin" not in plan(frame)
    assert sorted(row["id"] for row in collected(frame)) == alive(len(names))


@pytest.mark.usefixtures("applied")
def test_the_jvm_compiles_the_code_for_as_many_files_as_there_are(spark, tmp_path, capsys):
    """A method of more than 8,000 bytes is interpreted: a row would take a microsecond. What a query does
    besides is in the same method.
    """
    frame = opened(spark, numbered(tmp_path / "t", [f"{n}.parquet" for n in range(32)])).to_df()
    frame = frame.selectExpr("sum(id)", "sum(length(name))", "sum(v)")
    frame.collect()
    frame.explain("codegen")
    sizes = [int(size) for size in re.findall(r"maxMethodCodeSize:(\d+)", capsys.readouterr().out)]
    assert len(sizes) > 1
    assert max(sizes) < 2500


def test_more_files_than_a_few_are_joined(spark, tmp_path):
    frame = opened(spark, numbered(tmp_path / "t", [f"{n}.parquet" for n in range(33)])).to_df()
    assert plan(frame).count("BroadcastHashJoin") == 1
    assert sorted(row["id"] for row in collected(frame)) == alive(33)


def test_values_of_files_whose_numbers_collide(spark, tmp_path):
    root = tmp_path / "t"
    lake = Lake(root, SCHEMA, partition_by=["p"], layout=FLAT)
    for p, name in enumerate(colliding_names(root)):
        lake.write(rows(p, p * 100), name=name)
    lake.commit()
    found = collected(opened(spark, lake).to_df())
    assert sorted((row["p"], row["id"]) for row in found) == [
        (p, p * 100 + i) for p in (0, 1) for i in range(10)
    ]


def alive(files):
    return [n * 100 + i for n in range(files) for i in range(10) if i != n % 10]
