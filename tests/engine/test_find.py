"""Finding rows, by either way: the files' bitmaps, the counts, and what is no place of a row."""

from __future__ import annotations

import zlib

import pyarrow as pa
import pytest

from delvec.errors import FormatError
from delvec.spark import find_rows
from delvec.spark.row_bitmaps import collect_bitmaps, collect_positions
from lake import Lake
from scanning import collected, colliding_names, opened

pytestmark = pytest.mark.spark

PATHS = ["file:/t/a.parquet", "file:/t/b c/\u00e9.parquet", "s3a://bucket/t/p=1/c.parquet"]
EDGES = [0, 1, 62, 63, 64, 32767, 32768, 65535, 65536, 2**20, 2**31 - 1]


def frame_of(spark, places):
    table = {"f": [path for path, _ in places], "r": pa.array([row for _, row in places], pa.int64())}
    return spark.createDataFrame(pa.table(table))


def numbered(frame, path, row, flag=None):
    return collect_positions(frame, path, row, {zlib.crc32(path.encode()): path for path in PATHS}, flag)


@pytest.mark.parametrize("find", [collect_bitmaps, numbered])
def test_the_rows_of_each_file(spark, find):
    from pyspark.sql import functions

    places = [(path, row + n) for n, path in enumerate(PATHS) for row in EDGES if row + n < 2**31]
    again = [*places, *places[:5], *places[:2]]
    frame = frame_of(spark, again).repartition(3)
    found = find(frame, "f", "r", functions.expr("r % 2 = 0"))
    assert {path: list(rows) for path, rows in found.files.items()} == {
        path: [row for other, row in places if other == path] for path in PATHS
    }
    assert found.count == len(again)
    assert found.distinct == len(places)
    assert found.flagged == sum(row % 2 == 0 for _, row in again)


@pytest.mark.parametrize("find", [collect_bitmaps, numbered])
def test_no_row(spark, find):
    found = find(frame_of(spark, [(PATHS[0], 3)]).where("r < 0"), "f", "r")
    assert (found.files, found.count, found.flagged) == ({}, 0, 0)


def test_a_row_beyond_what_the_number_holds_is_refused(spark):
    with pytest.raises(Exception, match=r"too far from the first of its file: file:/t/a\.parquet"):
        numbered(frame_of(spark, [(PATHS[0], 2**31)]), "f", "r")


def test_a_file_that_is_not_in_the_plan_is_refused(spark):
    with pytest.raises(FormatError, match=r"not in its plan: .* expected that of one of 3 paths"):
        numbered(frame_of(spark, [(PATHS[0], 1), ("file:/t/other.parquet", 1)]), "f", "r")


def test_files_that_have_one_number(spark, tmp_path, monkeypatch):
    """They are not told apart by it: rows go by the files' paths then."""
    root = tmp_path / "t"
    lake = Lake(root, pa.schema([("id", pa.int64())]))
    for number, name in enumerate(colliding_names(root)):
        lake.write([{"id": number * 10 + i} for i in range(10)], name=name)
    lake.commit()
    monkeypatch.setattr(find_rows, "collect_positions", None)
    table = opened(spark, lake)
    table.delete("id % 10 = 3")
    table.update({"id": "-id"}, "id % 10 = 4")
    left = [i for i in range(20) if i % 10 not in (3, 4)]
    assert sorted(row["id"] for row in collected(table.to_df())) == [-14, -4, *left]
