"""Creating tables, appending to them, and overwriting what is in them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest

from contract.kinds import APPEND_ONLY, CHANGE_FILES, NESTED_COLUMNS, TYPE_WIDENING, VECTORS_OFF, Written
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from verbs import frame_of, holds, refused, rows_of, unchanged

pytestmark = pytest.mark.spark

DDL = "id bigint, name string, p int"
ROWS = [(i, f"n{i}", i % 2) for i in range(6)]


@pytest.fixture
def table(kind, spark, tmp_path):
    return kind.table(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"])


@pytest.mark.core
def test_create_from_rows(kind, spark, tmp_path):
    table = kind.create(
        spark, tmp_path / "t", frame_of(spark, DDL, ROWS), partition_by="p", properties={"mine": "1"}
    )
    assert table.version == kind.version(table, 0)
    assert table.properties["mine"] == "1"
    holds(table, ROWS)
    assert sorted(row["partition"]["p"] for row in table.files().collect()) == [0, 1]
    kind.is_read_by_others(table)


@pytest.mark.numbered
def test_create_from_a_schema_or_its_text(kind, spark, tmp_path):
    ddl = "id bigint NOT NULL, s struct<x int NOT NULL, y array<string>>, m map<string, double>"
    by_text = kind.create(spark, tmp_path / "a", ddl, having=[VECTORS_OFF])
    by_schema = kind.create(spark, tmp_path / "b", by_text.schema)
    assert by_text.schema == by_schema.schema
    assert [field.nullable for field in by_schema.schema] == [False, True, True]
    assert (by_text.version, rows_of(by_text)) == (kind.version(by_text, 0), [])
    by_text.append(frame_of(spark, ddl, [(1, {"x": 1, "y": ["a", None]}, {"k": 1.5})]))
    kind.is_read_by_others(by_text)


def test_rows_without_null_make_no_column_not_null(kind, spark, tmp_path):
    table = kind.create(spark, tmp_path / "t", spark.range(2))
    assert table.schema["id"].nullable
    table.append(frame_of(spark, "id bigint", [(None,)]))
    holds(table, [(0,), (1,), (None,)])


@pytest.mark.core
def test_append_takes_columns_by_name(kind, spark, table):
    result = table.append(frame_of(spark, "P int, ID int", [(7, 70)]))
    assert (result.version, result.metrics["numOutputRows"]) == (kind.version(table, 2), 1)
    holds(table, [*ROWS, (70, None, 7)])
    kind.is_read_by_others(table)


@pytest.mark.core
def test_append_of_no_rows_is_no_commit(spark, table):
    with unchanged(table):
        table.append(frame_of(spark, DDL, []))


def test_append_from_the_table_itself(table):
    table.append(table.to_df())
    holds(table, ROWS * 2)


def test_append_refuses_what_does_not_fit(spark, table):
    for ddl, row, told in [
        (DDL + ", extra int", (1, "a", 1, 1), "unknown column 'extra' in the new rows, expected id, name, p"),
        ("id string", ("1",), "value for column id is of type string, expected bigint"),
        ("id boolean", (True,), "value for column id is of type boolean"),
        ("id array<int>", ([1],), "value for column id is of type array<int>, expected bigint"),
        ("p bigint", (1 << 40,), "column p of type int: 1099511627776"),
    ]:
        with refused(table, InvalidOperationError, told):
            table.append(frame_of(spark, ddl, [row]))
    with refused(table, InvalidOperationError, "column 'ID' appears twice in the new rows"):
        table.append(spark.sql("SELECT 1 AS id, 2 AS ID"))


def test_append_refuses_null_where_the_table_does(kind, spark, tmp_path):
    table = kind.table(spark, tmp_path / "t", "id int NOT NULL, name string NOT NULL", [(1, "a")])
    with refused(table, InvalidOperationError, "null in NOT NULL column id"):
        table.append(frame_of(spark, "id int, name string", [(2, "b"), (None, "c")]))
    with refused(table, InvalidOperationError, "null in NOT NULL column name"):
        table.append(frame_of(spark, "id int", [(2,)]))


def test_only_rows_that_are_appended_must_keep_to_the_rules(kind, spark, tmp_path):
    """Spark may compute a check early, on rows that a join then leaves out."""
    table = kind.table(spark, tmp_path / "t", "id int NOT NULL, tiny tinyint NOT NULL")
    table.set_properties(kind.constraint("positive", "id > 0"))
    rows = frame_of(spark, "id int, tiny int", [(1, None), (-1, 1), (2, 2), (3, 999)])
    table.append(rows.join(spark.sql("SELECT 2 AS id"), "id", "left_semi"))
    holds(table, [(2, 2)])
    with refused(table, InvalidOperationError, "constraint positive"):
        table.append(rows.where("id < 0"))


@pytest.mark.core
def test_schema_merges_add_columns_nested_ones_too(kind, spark, tmp_path):
    rows = [(1, {"x": 1}, [{"k": 1}])]
    kinds = "id int, s struct<x int>, l array<struct<k int>>"
    table = kind.table(spark, tmp_path / "t", kinds, rows, having=[NESTED_COLUMNS])
    ddl = "late string, s struct<y double, x int>, l array<struct<k int, v int>>, id int NOT NULL"
    more = frame_of(spark, ddl, [("z", {"y": 2.5, "x": 2}, [{"k": 2, "v": 3}], 2)])
    with refused(table, InvalidOperationError, "late"):
        table.append(more)
    table.append(more, merge_schema=True)
    holds(
        table,
        [
            (1, {"x": 1, "y": None}, [{"k": 1, "v": None}], None),
            (2, {"x": 2, "y": 2.5}, [{"k": 2, "v": 3}], "z"),
        ],
    )
    table.append(frame_of(spark, "id int, empty int", []), merge_schema=True)
    assert table.schema.names == ["id", "s", "l", "late", "empty"]
    with unchanged(table):
        table.append(frame_of(spark, "id int", []), merge_schema=True)
    kind.is_read_by_others(table)


def test_types_widen_only_where_the_table_allows_it(kind, spark, tmp_path):
    more = frame_of(spark, "id bigint", [(1 << 40,)])
    if kind.having(TYPE_WIDENING):  # else every table allows it
        fixed = kind.table(spark, tmp_path / "a", "id int", [(1,)])
        with refused(fixed, UnsupportedFeatureError, "column id is of type long, expected integer"):
            fixed.append(more, merge_schema=True)
    widening = kind.table(spark, tmp_path / "b", "id int", [(1,)], having=[TYPE_WIDENING])
    widening.append(more, merge_schema=True)
    assert widening.schema.simpleString() == "struct<id:bigint>"
    holds(widening, [(1,), (1 << 40,)])


@pytest.mark.core
def test_an_idempotent_writer_writes_each_version_once(kind, spark, table):
    rows = frame_of(spark, DDL, [(9, "x", 0)])
    assert table.append(rows, app_id="job", app_version=3).version == kind.version(table, 2)
    with unchanged(table):
        table.append(rows, app_id="job", app_version=3)
        table.append(rows, app_id="job", app_version=2)
    assert table.append(rows, app_id="other", app_version=1).version == kind.version(table, 3)
    assert table.append(rows, app_id="job", app_version=4).version == kind.version(table, 4)
    with refused(table, InvalidOperationError, "expected both or none"):
        table.append(rows, app_id="job")


@pytest.mark.core
def test_overwrite_on_every_kind_of_table(spark, tmp_path, kind):
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"])
    table.overwrite(frame_of(spark, DDL, [(10, "a", 0), (3, "b", 1)]), where="id = 10 OR id >= 3")
    holds(table, [*ROWS[:3], (10, "a", 0), (3, "b", 1)])
    table.overwrite(frame_of(spark, DDL, [(11, "c", 1), (12, "d", 2)]), partitions="dynamic")
    holds(table, [ROWS[0], ROWS[2], (10, "a", 0), (11, "c", 1), (12, "d", 2)])
    table.overwrite(frame_of(spark, "id int", [(1,)]))
    holds(table, [(1, None, None)])
    kind.is_read_by_others(table)


def test_overwrite_replaces_all_without_reading(kind, spark, table):
    for file in table.files().collect():
        Path(file["location"]).unlink()
    result = table.overwrite(frame_of(spark, DDL, [(1, "a", 1)]))
    assert result.metrics["numDeletedRows"] == 6
    assert kind.written(table) == Written(added=1, removed=2)
    holds(table, [(1, "a", 1)])


def test_overwrite_by_no_rows_empties_the_table(spark, table):
    table.overwrite(frame_of(spark, DDL, []))
    holds(table, [])
    with unchanged(table):
        table.overwrite(frame_of(spark, DDL, []))


@pytest.mark.core
def test_overwrite_from_the_table_itself(table):
    table.overwrite(table.to_df(where="id > 3"))
    holds(table, ROWS[4:])


def test_new_rows_outside_of_the_condition_are_refused(spark, table):
    from pyspark.sql import functions as f

    for row in [(9, "x", 0), (9, "x", None)]:
        for where in ("p = 1", f.col("p") == 1):
            with refused(table, InvalidOperationError, "outside of the condition"):
                table.overwrite(frame_of(spark, DDL, [(8, "y", 1), row]), where=where)
    result = table.overwrite(frame_of(spark, DDL, [(8, "y", 1)]), where=f.col("p") == 1)
    assert result.metrics["numOutputRows"] == 1
    holds(table, [*(row for row in ROWS if row[2] == 0), (8, "y", 1)])


def test_nothing_appended_leaves_no_file(kind, spark, tmp_path):
    """Spark writes one without rows; among others it is not part of the table either."""
    table = kind.table(spark, tmp_path / "t", DDL, ROWS)
    before = set((tmp_path / "t").rglob("*.parquet"))
    with unchanged(table):
        table.append(frame_of(spark, DDL, []))
    assert set((tmp_path / "t").rglob("*.parquet")) == before
    some = spark.range(0, 10, 1, 2).selectExpr("id", "'x' AS name", "0 AS p").where("id > 4")
    table.append(some)
    (new,) = set((tmp_path / "t").rglob("*.parquet")) - before
    assert new.stat().st_size > 0
    assert sorted(row[0] for row in rows_of(table)) == sorted([*range(6), *range(5, 10)])


def test_overwrite_where_nothing_is_and_nothing_comes(spark, table):
    with unchanged(table):
        table.overwrite(frame_of(spark, DDL, []), where="id = 77")
    table.overwrite(frame_of(spark, DDL, []), where="id = 1")
    holds(table, [row for row in ROWS if row[0] != 1])
    table.overwrite(frame_of(spark, DDL, [(77, "x", 5)]), where="id = 77")
    assert (77, "x", 5) in rows_of(table)


def test_changes_of_an_overwrite_where_files_are_written_again(kind, spark, tmp_path):
    having = [VECTORS_OFF, CHANGE_FILES]
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"], having=having)
    table.overwrite(frame_of(spark, DDL, [(2, "new", 7)]), where="p = 1 OR id = 2")
    told = {("delete", i, f"n{i}", str(p)): 1 for i, _, p in ROWS if p == 1 or i == 2}
    assert kind.changes(table) == told | {("insert", 2, "new", "7"): 1}


def test_overwrite_refuses_what_it_does_not_know(spark, table):
    rows = frame_of(spark, DDL, [])
    with refused(table, InvalidOperationError, "expected static or dynamic"):
        table.overwrite(rows, partitions="all")
    with refused(table, InvalidOperationError, "where and partitions='dynamic' exclude each other"):
        table.overwrite(rows, where="p = 1", partitions="dynamic")
    with refused(table, InvalidOperationError, "nope"):
        table.overwrite(rows, where="nope = 1")


def test_append_only_tables_take_appends_alone(kind, spark, tmp_path):
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, having=[APPEND_ONLY])
    for options in ({}, {"where": "id = 1"}, {"partitions": "dynamic"}):
        with refused(table, InvalidOperationError, "append-only"):
            table.overwrite(frame_of(spark, DDL, [(1, "a", 1)]), **options)


PARTITION_VALUES = {
    "string": [
        "a/b",
        "100%",
        "%41",
        "a:b",
        "é",
        "it's",
        "two words",
        " x ",
        "a=b",
        "[0]",
        "{x}",
        "日本",
        "x+y",
        None,
    ],
    "int": [-5, 0, 2**31 - 1, None],
    "bigint": [-(2**63), 2**63 - 1],
    "date": [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(2024, 2, 29), dt.date(9999, 12, 31), None],
    "decimal(20,3)": [Decimal("-1.500"), Decimal("0.000"), Decimal("12345678901234567.891"), None],
    "boolean": [True, False, None],
    "double": [0.1, -1e300, 1e-300, 3.0, None],
    "timestamp_ntz": [dt.datetime(2024, 3, 10, 2, 30), dt.datetime(1900, 1, 1, 0, 0, 0, 5), None],
    "timestamp": [
        dt.datetime(2024, 11, 3, 5, 30, tzinfo=dt.UTC),
        dt.datetime(2024, 11, 3, 6, 30, tzinfo=dt.UTC),
        dt.datetime(1900, 1, 1, 0, 0, 0, 5, tzinfo=dt.UTC),
        None,
    ],
}


ZONES = [(data_type, zone) for data_type in PARTITION_VALUES for zone in ("UTC", "America/New_York")]


@pytest.mark.parametrize(
    ("data_type", "zone"), [z for z in ZONES if z[1] == "UTC" or z[0].startswith("timestamp")]
)
def test_partition_values_come_back_and_dynamic_overwrites_find_them(
    kind, spark, tmp_path, conf, data_type, zone
):
    conf("spark.sql.session.timeZone", zone)
    values = PARTITION_VALUES[data_type]
    ddl = f"id int, p {data_type}"
    table = kind.table(spark, tmp_path / "t", ddl, list(enumerate(values)), partition_by=["p"])
    holds(table, list(enumerate(values)))
    assert len(table.files().collect()) == len(values)
    some = values[1::2]
    table.overwrite(frame_of(spark, ddl, [(100, value) for value in some]), partitions="dynamic")
    expected = [(i, value) for i, value in enumerate(values) if i % 2 == 0] + [(100, value) for value in some]
    holds(table, expected)
    kind.is_read_by_others(table)


def test_times_are_stored_right_whatever_the_zone(kind, spark, tmp_path, conf):
    conf("spark.sql.session.timeZone", "America/New_York")
    conf("spark.sql.parquet.outputTimestampType", "INT96")
    conf("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    table = kind.table(spark, tmp_path / "t", "id int, at timestamp, d date")
    with_settings = spark.conf.get("spark.sql.parquet.outputTimestampType")
    table.append(spark.sql("SELECT 1 AS id, TIMESTAMP'2024-07-01 12:00:00' AS at, DATE'1500-03-01' AS d"))
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == with_settings == "INT96"
    holds(table, [(1, dt.datetime(2024, 7, 1, 16, tzinfo=dt.UTC), dt.date(1500, 3, 1))])
    assert table.to_df(where="at >= TIMESTAMP'2024-07-01 12:00:00'").count() == 1
    assert table.to_df(where="at > TIMESTAMP'2024-07-01 12:00:00'").count() == 0
    kind.is_read_by_others(table)


def test_a_job_that_fails_leaves_the_table_as_it_was(spark, table):
    from pyspark.errors import PySparkException

    bad = spark.range(10).selectExpr("IF(id = 9, raise_error('too bad'), id) AS id", "'x' AS name", "0 AS p")
    for write in (
        table.append,
        table.overwrite,
        lambda df: table.overwrite(df, where="p = 0"),
        lambda df: table.overwrite(df, partitions="dynamic"),
    ):
        with refused(table, PySparkException, "too bad"):
            write(bad)
