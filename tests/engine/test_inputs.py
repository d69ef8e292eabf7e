"""Rows from Python: pandas, Arrow, lists; types follow the table's."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Row

from delvec.errors import InvalidOperationError
from delvec.table import Table
from verbs import refused, rows_of, table_of, unchanged

pytestmark = pytest.mark.spark

DDL = "id bigint, n smallint, d decimal(10,2), s string, t timestamp"
TIME = dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
DICTS = [{"id": 1, "n": 2, "d": 3, "s": "x", "t": TIME}, {"id": 2, "s": None}]
EXPECTED = [(1, 2, Decimal("3.00"), "x"), (2, None, None, None)]


class Stream:
    """An object that others see through the Arrow PyCapsule interface, as a polars frame is."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


ARROW = pa.table(
    {
        "id": pa.array([1, 2], pa.uint32()),
        "n": pa.array([2, None], pa.int8()),
        "d": pa.array([3, None], pa.int64()),
        "s": pa.array(["x", None], pa.large_string()).dictionary_encode(),
        "t": pa.array([TIME, None], pa.timestamp("us", "UTC")),
    }
)


def pandas_frame():
    pandas = pytest.importorskip("pandas")
    columns = {"id": [1, 2], "n": [2.0, float("nan")], "s": ["x", None]}
    frame = pandas.DataFrame(columns | {"d": [Decimal(3), None], "t": [pandas.Timestamp(TIME), pandas.NaT]})
    return frame.set_index(pandas.Index([7, 8]))


GIVEN = {
    "dicts": lambda: DICTS,
    "tuples": lambda: [(1, 2, 3, "x", TIME), (2, None, None, None, None)],
    "Rows": lambda: [Row(id=1, n=2, d=3, s="x", t=TIME), Row(id=2, n=None, d=None, s=None, t=None)],
    "Arrow": lambda: ARROW,
    "batch": lambda: ARROW.to_batches()[0],
    "stream": lambda: Stream(ARROW),
    "pandas": pandas_frame,
    "polars": lambda: pytest.importorskip("polars").from_arrow(ARROW),
    "function": lambda: lambda: DICTS,
}


@pytest.mark.parametrize("kind", GIVEN)
def test_append(spark, tmp_path, kind):
    table = table_of(spark, tmp_path / "t", DDL)
    table.append(GIVEN[kind]())
    rows = rows_of(table)
    assert [row[:4] for row in rows] == EXPECTED
    assert rows[0][4].replace(tzinfo=None) == TIME.replace(tzinfo=None)


def test_the_other_verbs(spark, tmp_path):
    table = Table.create(spark, str(tmp_path / "t"), [{"id": 1, "s": "a"}, {"id": 2, "s": "b"}])
    assert table.schema.simpleString() == "struct<id:bigint,s:string>"
    merge = table.merge([{"id": 2, "s": "c"}, {"id": 3, "s": "d"}], "target.id = source.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows_of(table) == [(1, "a"), (2, "c"), (3, "d")]
    table.overwrite(pa.table({"id": [9], "s": ["z"]}))
    assert rows_of(table) == [(9, "z")]
    table.append([{"id": 10, "more": 1.5}], merge_schema=True)
    assert rows_of(table) == [(10, None, 1.5), (9, "z", None)]


def test_an_empty_list_is_no_rows(spark, tmp_path):
    table = table_of(spark, tmp_path / "t", "id bigint NOT NULL, v variant, c char(3)")
    table.append(spark.sql("SELECT 1L AS id, parse_json('1') AS v, 'x' AS c"))
    with unchanged(table):
        table.append([])
        table.append(list)  # a function that returns it
        merge = table.merge([], "target.id = source.id")
        merge.when_matched_delete().when_not_matched_insert_all().execute()
    table.overwrite([])
    assert rows_of(table) == []
    with pytest.raises(InvalidOperationError, match="rows are an empty list"):
        Table.create(spark, str(tmp_path / "new"), [])


@pytest.mark.parametrize("version", ["1", True, 1.0])
def test_versions_that_are_no_whole_number(spark, tmp_path, version):
    table = table_of(spark, tmp_path / "t", DDL)
    with pytest.raises(InvalidOperationError, match=f"version is {version!r}, expected a whole number"):
        table.to_df(version=version)


def test_versions_and_times_of_numpy_and_pandas(spark, tmp_path):
    pandas = pytest.importorskip("pandas")
    table = table_of(spark, tmp_path / "t", DDL, [(1, None, None, None, None)])
    assert table.to_df(version=np.int64(0)).count() == 0
    assert table.to_df(timestamp=pandas.Timestamp.now()).count() == 1
    assert table.to_df(timestamp=pandas.Timestamp.now(tz="Asia/Tokyo")).count() == 1


def test_assignments_and_properties_that_are_refused(spark, tmp_path):
    table = table_of(spark, tmp_path / "t", DDL)
    with refused(table, InvalidOperationError, "set is str, expected a dict of column and expression"):
        table.update("n = 1")
    with refused(table, InvalidOperationError, "set of n is 2, expected a Spark SQL string or a Column"):
        table.update({"n": 2})
    for name in ("delvec.rewriteDeletedShare", "note", "comment", "delta.feature.v2Checkpoint"):
        told = f"property {name} is 0.8, expected a string"
        with refused(table, InvalidOperationError, told):
            table.set_properties({name: 0.8})
        with pytest.raises(InvalidOperationError, match=told):
            Table.create(spark, str(tmp_path / "new"), DDL, properties={name: 0.8})


def test_naive_datetimes_are_local(spark, tmp_path):
    table = table_of(spark, tmp_path / "t", "t timestamp")
    local = dt.datetime(2024, 1, 2, 3, 4, 5)
    table.append([{"t": local}])
    assert table.to_df().collect()[0].t == local


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (7, "rows are int, expected a Spark, pandas or polars DataFrame"),
        ({"id": [1]}, "rows are dict, expected"),
        ("x", "rows are str, expected"),
        ([1], "a row is int, expected a dict, a Row or a tuple"),
        ([(1, 2)], "a row has 2 values, expected 5: id, n, d, s, t"),
        ([{"id": "x"}], "column 'id' of the rows"),
        ([{"n": 100_000}], "column 'n' of the rows"),
        ([{"idd": 1}], "unknown column 'idd'"),
    ],
)
def test_what_is_refused(spark, tmp_path, given, message):
    table = table_of(spark, tmp_path / "t", DDL)
    with refused(table, InvalidOperationError, message):
        table.append(given)
