"""delete_keys and upsert, on every kind of table: the rows are those of a plain model."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F

from delvec.errors import InvalidOperationError
from delvec.table import Table
from verbs import refused, rows_of, unchanged

pytestmark = pytest.mark.spark

KINDS: dict[str, dict[str, Any]] = {
    "delta": {"format": "delta"},
    "delta, copy-on-write": {"format": "delta", "properties": {"delta.enableDeletionVectors": "false"}},
    "iceberg-2": {"format": "iceberg", "format_version": 2},
    "iceberg-3": {"format": "iceberg", "format_version": 3},
    "iceberg-3, vectors of keys": {
        "format": "iceberg",
        "format_version": 3,
        "properties": {"write.delete.equality-vector.enabled": "true"},
    },
    "iceberg, copy-on-write": {
        "format": "iceberg",
        "properties": {f"write.{verb}.mode": "copy-on-write" for verb in ("delete", "update", "merge")},
    },
}
DDL = "id bigint, p string, v int"
ROWS = [(1, "a", 10), (2, "a", 20), (3, "b", 30), (4, "b", 40), (None, "c", 50)]
FEW = ("delta", "iceberg-3, vectors of keys")


@pytest.fixture(params=[pytest.param(name, marks=() if name in FEW else pytest.mark.slow) for name in KINDS])
def kind(request):
    return KINDS[request.param]


def made(
    spark: Any, place: Any, kind: dict[str, Any], ddl: str = DDL, rows: Any = ROWS, **options: Any
) -> Any:
    table = Table.create(spark, str(place), ddl, **kind, **options)
    if rows:
        table.append(spark.createDataFrame([tuple(row) for row in rows], ddl).coalesce(1))
    return table


def test_rows_with_a_key_are_deleted(spark, tmp_path, kind):
    table = made(spark, tmp_path / "t", kind)
    table.append([{"id": 3, "p": "z", "v": 31}, {"id": 9, "p": "z", "v": 90}])
    version = table.version
    result = table.delete_keys([{"id": 3}, {"id": 1}, {"id": 77}, {"id": 3}], on="id")
    assert result.version != version
    assert rows_of(table) == sorted([ROWS[1], ROWS[3], ROWS[4], (9, "z", 90)], key=str)
    assert result.metrics["numKeys"] == 3


def test_null_equals_null(spark, tmp_path, kind):
    table = made(spark, tmp_path / "t", kind)
    table.delete_keys([{"id": None}, {"id": 4}], on=["id"])
    assert rows_of(table) == sorted(ROWS[:3], key=str)
    table.upsert([{"id": None, "p": "n", "v": 1}], on="id")
    table.upsert([{"id": None, "p": "n", "v": 2}], on="id")
    assert rows_of(table) == sorted([*ROWS[:3], (None, "n", 2)], key=str)


def test_several_columns(spark, tmp_path, kind):
    table = made(spark, tmp_path / "t", kind)
    table.delete_keys([("a", 2), ("b", 1), ("c", None)], on=["p", "id"])
    assert rows_of(table) == sorted([ROWS[0], ROWS[2], ROWS[3]], key=str)
    table.upsert([(3, "b", 31), (3, "a", 32)], on=("id", "p"))
    assert rows_of(table) == sorted([ROWS[0], (3, "b", 31), ROWS[3], (3, "a", 32)], key=str)


def test_an_upsert_replaces_all_rows_of_a_key_and_adds_the_others(spark, tmp_path, kind):
    table = made(spark, tmp_path / "t", kind)
    table.append([(2, "a", 21)])
    version = table.version
    result = table.upsert(spark.createDataFrame([(2, "x", 22), (8, "x", 80)], DDL), on="id")
    assert rows_of(table) == sorted([ROWS[0], *ROWS[2:], (2, "x", 22), (8, "x", 80)], key=str)
    assert (result.metrics["numKeys"], result.metrics["numOutputRows"]) == (2, 2)
    assert set(rows_at(table, version)) == {*ROWS, (2, "a", 21)}


def rows_at(table: Any, version: int) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table.to_df(version=version).collect()]


def test_the_last_row_of_a_key_wins(spark, tmp_path, kind):
    table = made(spark, tmp_path / "t", kind)
    changes = [
        {"id": 1, "p": "first", "v": 1, "at": 5},
        {"id": 1, "p": "last", "v": 2, "at": 7},
        {"id": 1, "p": "none", "v": 3, "at": None},
        {"id": 6, "p": "new", "v": 6, "at": 1},
    ]
    table.upsert(changes, on="id", order_by="at")
    assert rows_of(table) == sorted([(1, "last", 2), *ROWS[1:], (6, "new", 6)], key=str)
    rows = [(1, "x", 5), (1, "y", 6), (1, "z", 6)]
    table.upsert(rows, on="id", order_by=["v", F.col("p")])
    assert (1, "z", 6) in rows_of(table)


def test_new_rows_with_one_key_are_refused(spark, tmp_path, kind):
    table = made(spark, tmp_path / "t", kind)
    twice = [(1, "x", 5), (1, "y", 6), (2, "z", 6)]
    with refused(table, InvalidOperationError, r'2 new rows have the key \{"id":1\}, expected one of each'):
        table.upsert(twice, on="id")
    with refused(table, InvalidOperationError, r'2 new rows have the key \{"id":null,"p":"x"\}'):
        table.upsert([(None, "x", 5), (None, "x", 5)], on=["id", "p"], order_by="v")


def test_no_keys_commit_nothing(spark, tmp_path, kind):
    table = made(spark, tmp_path / "t", kind)
    with unchanged(table):
        result = table.delete_keys([], on="id")
        table.upsert([], on="id")
        table.delete_keys(spark.createDataFrame([], "id bigint"), on="id")
    assert (result.version, result.metrics["numKeys"], result.metrics["numDeletedRows"]) == (
        table.version,
        0,
        0,
    )


def test_dry_runs_count_and_change_nothing(spark, tmp_path, kind):
    table = made(spark, tmp_path / "t", kind)
    with unchanged(table):
        deleting = table.delete_keys([{"id": 1}, {"id": 77}, {"id": 1}], on="id", dry_run=True)
        upserting = table.upsert([(2, "x", 22), (8, "x", 80)], on="id", dry_run=True)
        with pytest.raises(InvalidOperationError, match="2 new rows have the key"):
            table.upsert([(1, "x", 5), (1, "y", 6)], on="id", dry_run=True)
    for preview, name in ((deleting, "numDeletedRows"), (upserting, "numOutputRows")):
        assert preview.metrics["numKeys"] == 2
        assert preview.metrics["numDeletedRows"] == (None if preview.keys else 1)
        assert preview.keys in (None, 2)
        assert len(preview.files) == 1
        assert name in preview.metrics
    assert table.delete_keys([{"id": 1}], on="id").metrics["numDeletedRows"] in (None, 1)


GIVEN = {
    "dicts": lambda _: [{"id": 2}, {"id": 3, "other": 1}],
    "tuples": lambda _: [(2,), (3,)],
    "Rows": lambda _: [Row(id=2), Row(id=3)],
    "Arrow": lambda _: pa.table({"ID": pa.array([2, 3], pa.int16()), "more": ["x", "y"]}),
    "pandas": lambda _: pytest.importorskip("pandas").DataFrame({"id": [2, 3]}),
    "polars": lambda _: pytest.importorskip("polars").DataFrame({"id": [2, 3]}),
    "Spark": lambda spark: spark.range(2, 4),
    "function": lambda spark: lambda: spark.range(2, 4),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", FEW)
def test_keys_come_in_many_forms(spark, tmp_path, name, given):
    table = made(spark, tmp_path / "t", KINDS[name])
    table.delete_keys(GIVEN[given](spark), on="id")
    assert rows_of(table) == sorted([ROWS[0], *ROWS[3:]], key=str)


TYPED = (
    "b boolean, y tinyint, s smallint, i int, l bigint, d decimal(10,2), t string, x binary, day date, "
    "ts timestamp, local timestamp_ntz"
)
ZONED = dt.datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
LOCAL = ZONED.replace(tzinfo=None)
VALUES = [
    (True, 1, 2, 3, 4, Decimal("5.25"), "six", b"7", dt.date(2024, 8, 9), ZONED, LOCAL),
    (False, -1, -2, -3, -4, Decimal("-5.25"), "", b"", dt.date(1960, 8, 9), ZONED.replace(1960), LOCAL),
    (None,) * 11,
]


@pytest.mark.parametrize("name", FEW)
def test_every_type_of_key(spark, tmp_path, name):
    table = made(spark, tmp_path / "t", KINDS[name], TYPED, VALUES)
    columns = table.schema.names
    keys = table.to_df().where("i > 0 OR i IS NULL").toArrow()
    table.delete_keys(keys, on=columns)
    assert [row[3] for row in rows_of(table)] == [-3]
    for column in columns:
        table.upsert(table.to_df().where("i = -3").toArrow(), on=column)
        assert [row[3] for row in rows_of(table)] == [-3], column


@pytest.mark.parametrize("name", FEW)
def test_bad_keys_are_refused(spark, tmp_path, name):
    ddl = "id bigint, day date, f float, d double, s struct<a: int>, l array<int>"
    table = made(spark, tmp_path / "t", KINDS[name], ddl, [])
    bad = {
        "on is empty": ([(1,)], []),
        "on is 3, expected the name": ([(1,)], 3),
        "key column 'idd' does not exist, expected one of id": ([(1,)], "idd"),
        "on names column 'id' twice": ([(1, 1)], ["id", "ID"]),
        "key column 'f' is of type float, expected an integer": ([(1.0,)], "f"),
        "key column 'd' is of type double": ([(1.0,)], "d"),
        "key column 's' is of type struct": ([((1,),)], "s"),
        "key column 'l' is of type array": ([([1],)], "l"),
        "key column 's.a' does not exist": ([(1,)], "s.a"),
        "the rows have no column 'day', expected the key columns id, day": ([{"id": 1}], ["id", "day"]),
        "value for column id is of type string, expected bigint": (pa.table({"id": ["1"]}), "id"),
        "key column id is of type bigint, which cannot hold 1.5": (pa.table({"id": [1.0, 1.5]}), "id"),
        "value does not fit column id of type bigint": (spark.sql("SELECT 1e30 AS id"), "id"),
        "key column day is of type date, which cannot hold 2024-01-02 03": (
            pa.table({"day": [LOCAL]}),
            "day",
        ),
        "rows are int, expected": (3, "id"),
    }
    for message, (keys, on) in bad.items():
        with refused(table, InvalidOperationError, message):
            table.delete_keys(keys, on=on)
    with refused(table, InvalidOperationError, "order_by names column 'at', expected columns of the new"):
        table.upsert([{"id": 1}], on="id", order_by="at")
    with refused(table, InvalidOperationError, "unknown column 'at' in the new rows"):
        table.upsert([{"id": 1, "at": 1}], on="id")
    table.upsert([{"id": 1}], on="id")
    table.delete_keys(pa.table({"day": [dt.datetime(2024, 1, 2)]}), on="day")
    table.delete_keys(pa.table({"id": [1.0]}), on="id")
    assert rows_of(table) == []


@pytest.mark.parametrize("name", FEW)
def test_columns_that_are_missing_get_their_default(spark, tmp_path, name):
    table = made(spark, tmp_path / "t", KINDS[name])
    table.upsert([{"id": 1, "v": 11}, {"v": 12, "id": 12}], on="id")
    assert rows_of(table) == sorted([(1, None, 11), (12, None, 12), *ROWS[1:]], key=str)


@pytest.mark.parametrize("name", FEW)
def test_a_row_that_breaks_a_rule_changes_nothing(spark, tmp_path, name):
    table = made(spark, tmp_path / "t", KINDS[name], "id bigint NOT NULL, v int", [(1, 1)])
    with refused(table, InvalidOperationError, "null in NOT NULL column id"):
        table.upsert([(None, 1), (2, 2)], on="id")


def test_partitions(spark, tmp_path, kind):
    table = made(spark, tmp_path / "t", kind, partition_by=["p"])
    table.delete_keys([{"id": 1}], on="id")
    table.delete_keys([{"id": 3, "p": "b"}, {"id": 4, "p": "a"}], on=["id", "p"])
    table.upsert([(2, "z", 22), (None, None, 1)], on="id")
    table.upsert([(4, "b", 44), (4, "a", 45)], on=["id", "p"])
    assert rows_of(table) == sorted([(2, "z", 22), (None, None, 1), (4, "b", 44), (4, "a", 45)], key=str)
