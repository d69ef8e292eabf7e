"""CHAR and VARCHAR columns: padded on write and on read, compared as Spark compares its own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as T

from delvec.errors import InvalidOperationError
from verbs import MAPPED, VECTORS_OFF, frame_of, holds, refused, rows_of

pytestmark = pytest.mark.spark

DDL = "id INT, c CHAR(5), v VARCHAR(3), s STRUCT<a: CHAR(4), n: INT>, l ARRAY<CHAR(3)>, p CHAR(3)"
PLAIN = "id int, c string, v string, s struct<a: string, n: int>, l array<string>, p string"
ROWS = [
    (1, "ab", "xy", ("q", 1), ["k", None], "p"),
    (2, "ab   ", "xy ", ("q  ", 2), ["k  "], "p "),
    (3, "abc", "x", None, None, "pp"),
    (4, None, None, (None, 4), [], None),
]
PADDED = [
    (1, "ab   ", "xy", {"a": "q   ", "n": 1}, ["k  ", None], "p  "),
    (2, "ab   ", "xy ", {"a": "q   ", "n": 2}, ["k  "], "p  "),
    (3, "abc  ", "x", None, None, "pp "),
    (4, None, None, {"a": None, "n": 4}, [], None),
]
CONDITIONS = [
    "c = 'ab'",
    "c = 'ab         '",
    "'ab' <=> c",
    "c IN ('ab', 'x')",
    "c < 'abc'",
    "c = p",
    "c LIKE 'ab'",
    "length(c) = 5",
    "c IN ('ab   ')",
    "v = 'xy'",
    "v = c",
    "p = 'p'",
    "p IN ('p', 'zz') AND id < 9",
    "p >= 'pp'",
    "s.a = 'q'",
    "s.a = 'q   '",
    "get(l, 0) = 'k'",
    "NOT (c = 'ab')",
]
AS_STRINGS = "spark.sql.legacy.charVarcharAsString"
KINDS = {"vectors": {}, "mapped, copy-on-write": VECTORS_OFF | MAPPED}
SETTINGS = {
    "padded": {},
    "padded when compared": {"spark.sql.readSideCharPadding": "false"},
    "strings": {AS_STRINGS: "true"},
}


@pytest.fixture(params=KINDS)
def table(spark, tmp_path, request):
    """A table whose files hold the values as they are given, as Delta-Spark stores them."""
    from delvec.table import Table

    table = Table.create(spark, str(tmp_path / "t"), DDL, partition_by=["p"], properties=KINDS[request.param])
    spark.conf.set(AS_STRINGS, "true")
    try:
        table.append(frame_of(spark, PLAIN, ROWS))
    finally:
        spark.conf.unset(AS_STRINGS)
    return table


@pytest.fixture(scope="module")
def judge(spark, tmp_path_factory):
    """Spark's own table of the same columns, over files that hold the same values."""
    place = tmp_path_factory.mktemp("judge")
    frame_of(spark, PLAIN, ROWS).write.mode("overwrite").parquet(str(place))
    spark.sql(f"CREATE TABLE judge ({DDL}) USING parquet LOCATION '{place}'")
    yield "judge"
    spark.sql("DROP TABLE judge")


def ids(frame):
    return sorted(row.id for row in frame.select("id").collect())


def test_values_are_padded_on_read(spark, table):
    from delvec import sql

    holds(table, PADDED)
    assert ids(table.to_df(where="c = 'ab'")) == [1, 2]
    name = f"delvec.`{table.location}`"
    assert ids(sql(spark, f"SELECT * FROM {name} t WHERE t.c = 'ab' AND p = 'p'")) == [1, 2]
    by_connector = spark.read.format("delvec").load(table.location)
    assert sorted(map(str, by_connector.collect())) == sorted(map(str, table.to_df().collect()))
    assert ids(by_connector.where("c = 'ab' AND p = 'p'")) == [1, 2]
    assert ids(table.to_df().union(table.to_df()).where("p = 'pp'")) == [3, 3]


def test_declared_types_are_described(spark, table, judge):
    from delvec import sql

    described = sql(spark, f"DESCRIBE delvec.`{table.location}`").collect()
    wanted = spark.sql(f"DESCRIBE {judge}").collect()
    assert [tuple(row)[:2] for row in described[:6]] == [tuple(row)[:2] for row in wanted[:6]]
    assert described[1].data_type == "char(5)"


def test_partition_values_that_folders_do_not_tell(table, monkeypatch):
    monkeypatch.setattr(
        "delvec.spark.file_groups.in_folder_names", lambda plan, _: np.zeros(len(plan.files), dtype=bool)
    )
    holds(table, PADDED)
    assert ids(table.to_df(where="p = 'p'")) == [1, 2]


@pytest.mark.parametrize("settings", SETTINGS)
def test_conditions_match_as_spark_has_it(spark, table, judge, conf, settings):
    for name, value in SETTINGS[settings].items():
        conf(name, value)
    frame = table.to_df()
    spark.catalog.refreshTable(judge)  # Spark keeps the relation as the settings had it
    wanted = spark.table(judge)
    assert sorted(map(str, frame.collect())) == sorted(map(str, wanted.collect()))
    for condition in CONDITIONS:
        expected = ids(wanted.where(condition))
        assert ids(table.to_df(where=condition)) == expected, condition
        assert ids(frame.where(condition)) == expected, condition


def test_verbs_match_padded_values(spark, table):
    table.update({"v": "'hit'", "c": "'z'"}, "c = 'ab' AND id = 1")
    assert rows_of(table)[0][:3] == (1, "z    ", "hit")
    pairs = spark.createDataFrame([("z    ", "m")], "k string, w string")
    table.merge(pairs, "target.c = source.k").when_matched_update({"v": "source.w"}).execute()
    table.merge(pairs, "target.c = 'abc' AND source.w = 'm'").when_matched_delete().execute()
    assert [row[:3] for row in rows_of(table)] == [(1, "z    ", "m"), (2, "ab   ", "xy "), (4, None, None)]
    table.delete("p = 'p' AND c = 'ab'")
    assert [row[0] for row in rows_of(table)] == [1, 4]


def test_partitions_are_replaced_whatever_the_spaces(spark, table):
    table.overwrite(frame_of(spark, "id int, p string", [(9, "p  ")]), partitions="dynamic")
    assert [row[0] for row in rows_of(table)] == [3, 4, 9]
    table.overwrite(frame_of(spark, "id int, p string", [(8, "p ")]), where="p = 'p'")
    assert [(row[0], row[-1]) for row in rows_of(table)] == [(3, "pp "), (4, None), (8, "p  ")]


@pytest.mark.parametrize(
    ("ddl", "row", "column"),
    [
        ("id int, c string", (5, "abcdef"), "column c of type char\\(5\\)"),
        ("id int, v string", (5, "abc "), "column v of type varchar\\(3\\)"),
        ("id int, s struct<a: string>", (5, ("abcde",)), "column s of type struct<a:char"),
        ("id int, l array<string>", (5, ["a", "abcd"]), "column l of type array<char\\(3\\)>"),
        ("id int, p string", (5, "abcd"), "column p of type char\\(3\\)"),
    ],
)
def test_longer_values_are_refused(table, conf, ddl, row, column):
    spark = table._spark
    table.delete()
    with refused(table, InvalidOperationError, f"value is too long for {column}"):
        table.append(frame_of(spark, ddl, [row]))
    conf(AS_STRINGS, "true")
    table.append(frame_of(spark, ddl, [row]))
    conf(AS_STRINGS, "false")
    with refused(table, InvalidOperationError, f"value is too long for {column}"):
        table.update({"id": "7"})


def recorded(table):
    text = (Path(table.location) / "_delta_log/00000000000000000000.json").read_text()
    (metadata,) = [json.loads(line)["metaData"] for line in text.splitlines() if "metaData" in line]
    fields = json.loads(metadata["schemaString"])["fields"]
    return {f["name"]: (f["type"], f["metadata"].get("__CHAR_VARCHAR_TYPE_STRING")) for f in fields}


def test_tables_are_created_as_delta_spark_records_them(spark, tmp_path, conf):
    from delvec import sql
    from delvec.table import Table

    fields = [
        T.StructField("c", T.CharType(5)),
        T.StructField("m", T.MapType(T.VarcharType(2), T.IntegerType())),
        T.StructField("s", T.StringType()),
    ]
    text = "c CHAR(5), m MAP<VARCHAR(2), INT>, s STRING"
    given = {"schema": T.StructType(fields), "text": text}
    for name, schema in given.items():
        Table.create(spark, str(tmp_path / name), schema)
    sql(spark, f"CREATE TABLE delvec.`{tmp_path}/sql` ({text})")
    kind = {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True}
    wanted = {"c": ("string", "char(5)"), "m": (kind, "map<varchar(2),int>"), "s": ("string", None)}
    for name in (*given, "sql"):
        table = Table.open(spark, str(tmp_path / name))
        assert recorded(table) == wanted
        assert table.to_df().schema == table.schema
    table.add_columns("w VARCHAR(2)")
    with refused(table, InvalidOperationError, "column w of type varchar"):
        table.append(frame_of(spark, "w string", [("abc",)]))
    copy = Table.create(spark, str(tmp_path / "copy"), table.to_df())
    assert recorded(copy)["c"] == ("string", "char(5)")
    conf("spark.sql.charAsVarchar", "true")
    assert recorded(Table.create(spark, str(tmp_path / "v"), text))["c"] == ("string", "varchar(5)")


def test_files_hold_padded_values(spark, tmp_path, conf):
    from delvec.table import Table

    table = Table.create(spark, str(tmp_path / "t"), "id INT, c CHAR(5)")
    table.append(frame_of(spark, "id int, c string", [(1, "ab"), (2, "ab ")]))
    (file,) = Path(table.location).glob("*.parquet")
    assert pq.ParquetFile(file).read(["c"]).column(0).to_pylist() == ["ab   ", "ab   "]
    conf(AS_STRINGS, "true")
    table.overwrite(frame_of(spark, "id int, c string", [(1, "ab"), (2, "ab ")]))
    assert rows_of(table) == [(1, "ab"), (2, "ab ")]
