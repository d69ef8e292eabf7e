"""UPDATE: new values from the old row, in the table's types, or refused."""

from __future__ import annotations

import datetime as dt

import pytest

from contract.kinds import (
    ANY_COLUMN_NAMES,
    APPEND_ONLY,
    CHANGE_FILES,
    SMALL_INTEGERS,
    VECTORS_OFF,
    Written,
)
from delvec.errors import InvalidOperationError
from verbs import holds, refused, rows_of, unchanged

pytestmark = pytest.mark.spark

DDL = "id bigint, name string, p int"
ROWS = [(i, None if i % 4 == 0 else f"n{i}", i % 2) for i in range(10)]
WIDE = (
    "id int NOT NULL, a int, b int, tiny tinyint, price decimal(5,2), at timestamp, s struct<x int, y string>"
)


@pytest.fixture
def wide(kind, spark, tmp_path):
    rows = [(1, 10, 20, 3, None, None, {"x": 1, "y": "one"}), (2, 30, None, 4, None, None, None)]
    return kind.table(spark, tmp_path / "t", WIDE, rows)


def picked(table, *columns):
    return [tuple(row) for row in table.to_df().orderBy("id").select(*columns).collect()]


@pytest.mark.core
def test_every_kind_of_table_gets_the_same_rows(spark, tmp_path, kind):
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"])
    result = table.update({"name": "concat(name, '!')"}, "id < 6")
    assert (result.version, result.metrics["numUpdatedRows"]) == (kind.version(table, 2), 6)
    table.update({"id": "id + 100"}, "id IN (4, 5)")
    holds(
        table,
        [
            (i + 100 if i in {4, 5} else i, name if i >= 6 or name is None else name + "!", p)
            for i, name, p in ROWS
        ],
    )
    kind.is_read_by_others(table)


def test_old_rows_get_vectors_and_new_rows_one_file(kind, spark, tmp_path):
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"])
    table.update({"name": "'x'"}, "id IN (2, 4)")
    assert kind.written(table) == Written(added=1, more_deleted=1)
    table.update({"name": "'y'"})
    assert kind.written(table) == Written(added=2, removed=3)
    holds(table, [(i, "y", p) for i, _, p in ROWS])


def test_existing_vectors_are_honoured_where_files_are_written_again(kind, spark, tmp_path):
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"])
    table.delete("id IN (0, 1)")
    table.set_properties(kind.properties(VECTORS_OFF))
    result = table.update({"name": "'x'"}, "id IN (0, 2, 3)")
    assert (result.metrics["numUpdatedRows"], result.metrics["numCopiedRows"]) == (2, 6)
    holds(table, [(i, "x" if i < 4 else name, p) for i, name, p in ROWS if i > 1])


def test_expressions_see_the_old_row(wide):
    wide.update({"a": "b", "b": "a", "tiny": "a - 7"}, "id = 1")
    assert picked(wide, "a", "b", "tiny") == [(20, 10, 3), (30, None, 4)]


@pytest.mark.core
def test_a_partition_column_moves_rows(kind, spark, tmp_path):
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"])
    table.update({"p": "id"}, "id IN (1, 2)")
    table.update({"p": "NULL"}, "p = 2 AND name = 'n2'")
    holds(table, [(i, name, None if i == 2 else p) for i, name, p in ROWS])
    kind.is_read_by_others(table)


def test_fields_of_structs(wide):
    wide.update({"s.x": "s.x + 1", "S.Y": "upper(s.y)"}, "id = 1")
    assert picked(wide, "s.x", "s.y") == [(2, "ONE"), (None, None)]


def test_a_field_of_a_null_struct_makes_a_struct(wide):
    """What is assigned must not be lost: the struct's other fields are null."""
    wide.update({"s.x": "7"}, "id = 2")
    assert picked(wide, "s")[1][0].asDict() == {"x": 7, "y": None}


def test_whole_structs_go_by_the_names_of_their_fields(wide):
    wide.update({"s": "named_struct('y', 'new', 'x', 5S)"}, "id = 2")
    assert picked(wide, "s.x", "s.y") == [(1, "one"), (5, "new")]
    wide.update({"s": "NULL"})
    assert picked(wide, "s") == [(None,), (None,)]
    with refused(wide, InvalidOperationError, "unknown field s.z, expected x, y"):
        wide.update({"s": "named_struct('z', 1)"})


def test_columns_as_values_and_conditions(wide):
    from pyspark.sql import functions as f

    wide.update({"a": f.col("b") * 2, "b": f.lit(0)}, f.col("id") == 1)
    assert picked(wide, "a", "b") == [(40, 0), (30, None)]


def test_values_are_cast_to_the_columns_types(wide):
    wide.update({"tiny": "a + 0L", "price": "a / 3", "at": "DATE'2024-01-02'", "b": "1.9D"}, "id = 1")
    from decimal import Decimal

    assert picked(wide, "tiny", "price", "b")[0] == (10, Decimal("3.33"), 1)
    assert rows_of(wide)[0][5] == dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
    wide.update({"s.y": "a"})
    assert picked(wide, "s.y") == [("10",), ("30",)]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_value_that_does_not_fit_is_refused_whatever_the_session_says(kind, wide, conf, ansi):
    conf("spark.sql.ansi.enabled", ansi)
    if SMALL_INTEGERS in kind.abilities:
        with refused(wide, InvalidOperationError, "column tiny of type tinyint: 300"):
            wide.update({"tiny": "a * 10"}, "id = 2")
    with refused(wide, InvalidOperationError, "column price"):
        wide.update({"price": "12345.67BD"})
    with refused(wide, InvalidOperationError, "column b of type int: 3.0E10"):
        wide.update({"b": "3e10D"})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"nope": "1"}, "unknown column 'nope' in set, expected one of id, a, b"),
        ({"s.z": "1"}, r"unknown column 's.z' in set, expected one of x, y"),
        ({"a.b": "1"}, "unknown column 'a.b'"),
        ({"a": "nope"}, "nope"),
        ({"a": "max(b)"}, "(?i)max|aggregate"),
        ({"a": "sum(b) OVER ()"}, "(?i)window"),
        ({"a": "explode(array(1, 2))"}, "(?i)explode|generator"),
        ({"a": "1", "b": "nope"}, "set of b: 'nope' is invalid"),
        ({"a": "CAST(rand() AS int)", "b": "max(id)"}, r"set of b: 'max\(id\)' is invalid"),
        ({"a": "'text'"}, "value for column a is of type string, expected int"),
        ({"a": "s"}, "value for column a is of type struct"),
        ({"s": "1"}, "value for column s is of type int"),
        ({"at": "5"}, "value for column at is of type int, expected timestamp"),
        ({"a": "1", "A": "2"}, "set sets column A twice"),
        ({"a": "1", "`a`": "2"}, "twice"),
        ({"s": "NULL", "s.x": "1"}, "s.x twice"),
        ({"s.x": "1", "s": "NULL"}, "column s twice"),
        ({}, "set is empty"),
        ({"a": "1 +"}, r"1 \+"),
        ({"a": 1}, "1, expected a Spark SQL string or a Column"),
    ],
)
def test_assignments_that_are_refused(wide, given, told):
    with refused(wide, InvalidOperationError, told):
        wide.update(given)


def test_values_may_be_random(wide):
    wide.update({"a": "CAST(100 + 10 * rand() AS int)", "b": "a + 1"}, "id = 2")
    assert [(100 <= a < 110, b) for a, b in picked(wide, "a", "b")][-1] == (True, 31)


@pytest.mark.parametrize("where", ["nope = 1", "max(a) = 1", "rand() > 0.5", "a", "count(*) OVER () = 1"])
def test_conditions_that_are_refused(wide, where):
    with refused(wide, InvalidOperationError, "condition .* is invalid"):
        wide.update({"a": "1"}, where)


def test_not_null_columns_refuse_null(kind, spark, wide, tmp_path):
    with refused(wide, InvalidOperationError, "null in NOT NULL column id"):
        wide.update({"id": "b"})
    wide.update({"id": "b"}, "b IS NOT NULL")
    nested = kind.table(
        spark, tmp_path / "n", "id int, s struct<x int NOT NULL, y int>", [(1, {"x": 1, "y": 2})]
    )
    with refused(nested, InvalidOperationError, "null in NOT NULL column s.x"):
        nested.update({"s.x": "NULL"})
    nested.update({"s": "NULL"})
    assert rows_of(nested) == [(1, None)]


def test_constraints_are_enforced_by_name(kind, spark, tmp_path):
    properties = kind.constraint("small", "id < 100")
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, properties=properties)
    with refused(table, InvalidOperationError, "constraint small .*id < 100"):
        table.update({"id": "id + 95"})
    with refused(table, InvalidOperationError, "constraint small"):
        table.update({"id": "NULL"}, "id = 3")  # Delta takes null for violated
    table.update({"id": "id + 90"})
    assert rows_of(table)[0][0] == 90


def test_nothing_matched_is_no_commit(wide):
    with unchanged(wide):
        assert wide.update({"a": "1"}, "id = 99").metrics["numUpdatedRows"] == 0
        assert wide.update({"a": "1"}, "b > NULL").metrics["numUpdatedRows"] == 0


def test_an_empty_table(kind, spark, tmp_path):
    table = kind.table(spark, tmp_path / "t", DDL)
    with unchanged(table):
        assert table.update({"id": "1"}).metrics["numUpdatedRows"] == 0


def test_append_only_tables_refuse(kind, spark, tmp_path):
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, having=[APPEND_ONLY])
    with refused(table, InvalidOperationError, "append-only"):
        table.update({"id": "1"}, "id = 99")


@pytest.mark.parametrize("more", [[], [VECTORS_OFF]], ids=str)
def test_changes_are_told_before_and_after(kind, spark, tmp_path, more):
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"], having=[CHANGE_FILES, *more])
    table.update({"name": "'x'", "p": "7"}, "id IN (3, 4)")
    assert kind.changes(table) == {
        ("update_preimage", 3, "n3", "1"): 1,
        ("update_preimage", 4, None, "0"): 1,
        ("update_postimage", 3, "x", "7"): 1,
        ("update_postimage", 4, "x", "7"): 1,
    }


def test_names_that_need_quoting(kind, spark, tmp_path):
    ddl = "`a.b` int, `c d` int, `e``f` int, target int, source int, __delvec_row int, a struct<`b.c` int>"
    rows = [(1, 2, 3, 4, 5, 6, {"b.c": 7})]
    table = kind.table(spark, tmp_path / "t", ddl, rows, having=[ANY_COLUMN_NAMES])
    table.update({"`a.b`": "`c d`", "c d": "`a.b`", "`e``f`": "target", "target": "source"})
    table.update({"source": "__delvec_row", "__delvec_row": "`e``f`", "a.`b.c`": "a.`b.c` + 1"})
    holds(table, [(2, 1, 4, 5, 6, 4, {"b.c": 8})])
    kind.is_read_by_others(table)


def test_times_are_the_sessions(kind, spark, tmp_path, conf):
    conf("spark.sql.session.timeZone", "America/New_York")
    ddl = "id int, at timestamp, day timestamp"
    table = kind.table(spark, tmp_path / "t", ddl, [(1, None, None), (2, None, None)], partition_by=["day"])
    zones = {"at": "TIMESTAMP'2024-07-01 12:00:00'", "day": "TIMESTAMP'2024-11-03 01:30:00.000001'"}
    with_settings = spark.conf.get("spark.sql.session.timeZone")
    table.update(zones, "id = 1")
    assert spark.conf.get("spark.sql.session.timeZone") == with_settings
    noon = dt.datetime(2024, 7, 1, 16, tzinfo=dt.UTC)
    night = dt.datetime(2024, 11, 3, 5, 30, 0, 1, tzinfo=dt.UTC)
    holds(table, [(1, noon, night), (2, None, None)])
    kind.is_read_by_others(table)


def test_a_job_that_fails_leaves_the_table_as_it_was(wide):
    from pyspark.errors import PySparkException

    with refused(wide, PySparkException, "too bad"):
        wide.update({"a": "CASE WHEN id = 2 THEN raise_error('too bad') ELSE 1 END"})
