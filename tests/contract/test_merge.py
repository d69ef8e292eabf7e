"""MERGE: which clause decides on a row, what it makes of it, and what is refused."""

from __future__ import annotations

from collections import Counter

import pytest

from contract.kinds import ANY_COLUMN_NAMES, APPEND_ONLY, CHANGE_FILES, VECTORS_OFF, Written
from delvec.errors import InvalidOperationError
from scanning import collected
from verbs import frame_of, holds, refused, rows_of, unchanged

pytestmark = pytest.mark.spark

DDL = "id bigint, name string, p int"
ROWS = [(i, f"n{i}", i % 2) for i in range(8)]
ON = "target.id = source.id"


@pytest.fixture
def table(kind, spark, tmp_path):
    return kind.table(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"])


@pytest.fixture
def source(spark):
    """Rows 6 and 7 of the table, and 8 and 9 which it lacks."""
    return frame_of(spark, DDL, [(i, f"s{i}", i % 2) for i in range(6, 10)])


def upserted(first=6, last=10):
    return [row for row in ROWS if row[0] < first] + [(i, f"s{i}", i % 2) for i in range(first, last)]


@pytest.mark.core
def test_every_kind_of_table_gets_the_same_rows(spark, tmp_path, source, kind):
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"])
    result = (
        table.merge(source, ON)
        .when_matched_delete("source.id = 6")
        .when_matched_update_all()
        .when_not_matched_insert_all("source.id <> 9")
        .when_not_matched_by_source_update({"name": "concat(name, '?')"}, "target.id = 0")
        .when_not_matched_by_source_delete("id = 1")
        .execute()
    )
    counts = {name: result.metrics[f"numTargetRows{name}"] for name in ("Updated", "Deleted", "Inserted")}
    assert counts == {"Updated": 2, "Deleted": 2, "Inserted": 1}
    holds(table, [(0, "n0?", 0), *ROWS[2:6], (7, "s7", 1), (8, "s8", 0)])
    kind.is_read_by_others(table)


def test_an_upsert_sets_vectors_and_adds_a_file_for_each_partition(kind, table, source):
    table.merge(source, ON).when_matched_update_all().when_not_matched_insert_all().execute()
    assert kind.written(table) == Written(added=2, more_deleted=2)
    holds(table, upserted())


def test_the_first_clause_that_applies_decides(table, source):
    result = (
        table.merge(source, ON)
        .when_matched_update({"name": "'first'"}, "source.id = 6")
        .when_matched_update({"name": "'second'"}, "source.id >= 6")
        .when_matched_delete()
        .when_not_matched_insert({"id": "source.id", "name": "'a'"}, "source.id > 8")
        .when_not_matched_insert({"id": "id", "p": "NULL"})
        .execute()
    )
    assert result.metrics["numTargetRowsDeleted"] == 0
    holds(table, [*ROWS[:6], (6, "first", 0), (7, "second", 1), (9, "a", None), (8, None, None)])


def test_a_row_for_which_no_clause_applies_stays(table, source):
    with unchanged(table):
        (
            table.merge(source, ON)
            .when_matched_update_all("source.name IS NULL OR NULL")
            .when_matched_delete("target.name > NULL")
            .when_not_matched_insert_all("source.id > 99")
            .when_not_matched_by_source_delete("name = NULL")
            .execute()
        )


def test_expressions_see_the_old_row_and_the_source_row(table, source):
    values = {"name": "concat(target.name, source.name)", "p": "target.p + source.p", "id": "target.id * 10"}
    table.merge(source, ON).when_matched_update(values).execute()
    holds(table, [*ROWS[:6], (60, "n6s6", 0), (70, "n7s7", 2)])


def test_columns_as_conditions_and_values(spark, table):
    from pyspark.sql import functions as f

    source = frame_of(spark, "key bigint, value string", [(1, "x"), (20, "y")])
    (
        table.merge(source, f.col("target.id") == source["key"])
        .when_matched_update({"name": source["value"]}, f.col("source.value") == "x")
        .when_not_matched_insert({"id": f.col("key"), "name": f.upper("source.value")})
        .execute()
    )
    holds(table, [(i, "x" if i == 1 else name, p) for i, name, p in ROWS] + [(20, "Y", None)])


def test_update_all_takes_columns_by_name_whatever_their_order_case_and_number(spark, table):
    source = frame_of(spark, "extra int, P int, NAME string, Id int", [(1, 5, "x", 0), (1, 5, "y", 10)])
    table.merge(source, ON).when_matched_update_all().when_not_matched_insert_all().execute()
    assert table.schema.names == ["id", "name", "p"]
    holds(table, [*ROWS[1:], (0, "x", 5), (10, "y", 5)])


@pytest.mark.parametrize("clause", ["when_matched_update_all", "when_not_matched_insert_all"])
def test_all_needs_all_columns(spark, table, clause):
    source = frame_of(spark, "id bigint, name string", [(1, "x")])
    with refused(table, InvalidOperationError, "column 'p' is not in the source"):
        getattr(table.merge(source, ON), clause)().execute()


@pytest.mark.parametrize("more", [[], [VECTORS_OFF]], ids=str)
def test_columns_are_added_where_asked_nested_ones_too(kind, spark, tmp_path, more):
    rows = [(1, {"x": 1}), (2, {"x": 2}), (3, None)]
    table = kind.table(spark, tmp_path / "t", "id int, s struct<x int>", rows, having=[CHANGE_FILES, *more])
    source = frame_of(
        spark,
        "id int, s struct<x int, y string>, late double",
        [(2, {"x": 20, "y": "b"}, 2.5), (4, None, 4.5)],
    )
    (
        table.merge(source, ON, merge_schema=True)
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_update({"id": "target.id * 10"}, "target.id = 3")
        .execute()
    )
    assert table.schema.simpleString() == "struct<id:int,s:struct<x:int,y:string>,late:double>"
    holds(
        table,
        [
            (1, {"x": 1, "y": None}, None),
            (2, {"x": 20, "y": "b"}, 2.5),
            (30, None, None),
            (4, None, 4.5),
        ],
    )
    counts = Counter({"insert": 1, "update_postimage": 2, "update_preimage": 2})
    assert Counter(change[0] for change in kind.changes(table).elements()) == counts
    kind.is_read_by_others(table)


def test_columns_added_by_a_source_that_changes_no_row(spark, table):
    source = frame_of(spark, DDL + ", late int", [])
    table.merge(source, ON, merge_schema=True).when_matched_update_all().execute()
    assert table.schema.names == ["id", "name", "p", "late"]
    holds(table, [(*row, None) for row in ROWS])


def test_missing_columns_keep_their_value_where_columns_may_be_added(spark, table):
    source = frame_of(spark, "id bigint, late int", [(1, 5), (50, 6)])
    merge = table.merge(source, ON, merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    expected = [(*row, 5 if row[0] == 1 else None) for row in ROWS] + [(50, None, None, 6)]
    holds(table, expected)


def test_a_target_row_matched_twice_is_refused_with_an_example_and_the_count(spark, table):
    source = frame_of(
        spark, DDL, [(1, "a", 1), (1, "b", 1), (1, "c", 1), (2, "a", 0), (2, "b", 0), (3, "x", 1)]
    )
    told = r"2 target rows are matched by more than one source row \(up to 3\).*\"id\":[12]"
    for clause in ("when_matched_update_all", "when_matched_delete"):
        with refused(table, InvalidOperationError, told):
            getattr(table.merge(source, ON), clause)("source.name <> 'q'").execute()
    merge = table.merge(source, ON).when_matched_update_all("source.name IN ('a', 'x')")
    assert merge.execute().metrics["numTargetRowsUpdated"] == 3  # one clause's row for each


def test_a_single_unconditional_delete_may_match_twice(kind, spark, tmp_path):
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, having=[CHANGE_FILES])
    source = frame_of(spark, DDL, [(1, "a", 1), (1, "b", 1), (9, "c", 1)])
    merge = table.merge(source, ON).when_matched_delete().when_not_matched_insert_all()
    result = merge.execute()
    assert (result.metrics["numTargetRowsDeleted"], result.metrics["numTargetRowsInserted"]) == (1, 1)
    holds(table, [*(row for row in ROWS if row[0] != 1), (9, "c", 1)])
    assert kind.changes(table) == {("delete", 1, "n1", 1): 1, ("insert", 9, "c", 1): 1}


def test_source_rows_that_are_equal_are_all_inserted(spark, table):
    source = frame_of(spark, DDL, [(9, "c", 1), (9, "c", 1)])
    table.merge(source, ON).when_not_matched_insert_all().execute()
    holds(table, [*ROWS, (9, "c", 1), (9, "c", 1)])


@pytest.mark.core
def test_the_source_may_be_the_table_itself(table):
    source = table.to_df(where="id < 3")
    merge = table.merge(source, "target.id = source.id + 6")
    merge.when_matched_update({"name": "source.name"}).when_not_matched_insert_all().execute()
    holds(table, [*ROWS[:6], (6, "n0", 0), (7, "n1", 1), ROWS[2]])


def test_an_empty_source_and_an_empty_table(kind, spark, tmp_path, table):
    nothing = frame_of(spark, DDL, [])
    with unchanged(table):
        table.merge(nothing, ON).when_matched_delete().when_not_matched_insert_all().execute()
    empty = kind.table(spark, tmp_path / "e", DDL)
    with unchanged(empty):
        empty.merge(nothing, ON).when_matched_delete().when_not_matched_by_source_delete().execute()
    source = frame_of(spark, DDL, ROWS)
    empty.merge(source, ON).when_matched_update_all().when_not_matched_insert_all().execute()
    holds(empty, ROWS)
    table.merge(nothing, ON).when_not_matched_by_source_delete().execute()
    holds(table, [])


def test_null_keys_match_only_where_asked(kind, spark, tmp_path):
    table = kind.table(spark, tmp_path / "t", "id int, name string", [(None, "null"), (1, "one")])
    source = frame_of(spark, "id int, name string", [(None, "new"), (1, "1")])
    table.merge(source, "target.id <=> source.id").when_matched_update_all().execute()
    holds(table, [(None, "new"), (1, "1")])
    table.merge(source, ON).when_matched_delete().when_not_matched_insert_all().execute()
    holds(table, [(None, "new"), (None, "new")])


def test_conditions_with_partition_columns_and_without_equality(spark, table):
    source = frame_of(spark, "k int, low int, high int", [(0, 2, 4), (1, 5, 6)])
    merge = table.merge(source, "target.p = k AND target.id BETWEEN low AND high")
    merge.when_matched_delete().execute()
    holds(table, [row for row in ROWS if row[0] not in {2, 4, 5}])
    merge = table.merge(source, "target.id > source.high").when_matched_delete()
    merge.when_not_matched_by_source_update({"name": "'low'"}).execute()
    holds(table, [(i, "low", i % 2) for i in (0, 1, 3)])


def test_a_partition_column_may_be_set(kind, table, source):
    table.merge(source, ON).when_matched_update({"p": "source.id + 100"}).execute()
    holds(table, [*ROWS[:6], (6, "n6", 106), (7, "n7", 107)])
    kind.is_read_by_others(table)


def test_other_aliases(table, source):
    merge = table.merge(source, "`old rows`.id = s.id", source_alias="s", target_alias="old rows")
    merge.when_matched_update({"name": "`old rows`.name || s.name"}).when_not_matched_insert_all().execute()
    holds(table, [*ROWS[:6], (6, "n6s6", 0), (7, "n7s7", 1), (8, "s8", 0), (9, "s9", 1)])


def test_columns_named_like_our_own(kind, spark, tmp_path):
    ddl = "target int, source int, `a.b` int, __delvec_row int, __delvec_m_clause int"
    rows = [(1, 1, 1, 1, 1), (2, 2, 2, 2, 2)]
    table = kind.table(spark, tmp_path / "t", ddl, rows, having=[ANY_COLUMN_NAMES])
    source = frame_of(spark, ddl, [(2, 20, 20, 20, 20), (3, 30, 30, 30, 30)])
    merge = table.merge(source, "target.target = source.target AND target.`a.b` < source.`a.b`")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    holds(table, [(1, 1, 1, 1, 1), (2, 20, 20, 20, 20), (3, 30, 30, 30, 30)])
    named = frame_of(spark, "target int, __delvec_file int, __delvec_m_source int", [(3, 7, 8)])
    merge = table.merge(named, "target.target = source.target")
    merge.when_matched_update({"source": "__delvec_file", "`a.b`": "__delvec_m_source"}).execute()
    assert (3, 7, 8, 30, 30) in rows_of(table)


def test_only_rows_that_are_written_must_keep_to_the_rules(kind, spark, tmp_path):
    """A source row that no clause inserts may hold what the table refuses."""
    ddl = "id int NOT NULL, tiny tinyint, name string NOT NULL"
    properties = kind.constraint("short", "length(name) < 5")
    table = kind.table(spark, tmp_path / "t", ddl, [(1, 1, "a"), (2, 2, "b")], properties=properties)
    source = frame_of(
        spark, "id int, tiny int, name string", [(1, 1000, None), (2, 2, "much too long"), (3, 3, "c")]
    )
    merge = table.merge(source, ON).when_matched_delete("source.id = 1").when_not_matched_insert_all()
    merge.execute()
    holds(table, [(2, 2, "b"), (3, 3, "c")])
    more = frame_of(
        spark, "id int, tiny int, name string", [(4, 4, None), (5, 5, "much too long"), (6, 300, "d")]
    )
    for number, told in ((4, "NOT NULL column name"), (5, "constraint short"), (6, "column tiny")):
        with refused(table, InvalidOperationError, told):
            table.merge(more, ON).when_not_matched_insert_all(f"source.id = {number}").execute()


def test_changes_are_told(kind, spark, tmp_path, source):
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"], having=[CHANGE_FILES])
    (
        table.merge(source, ON)
        .when_matched_delete("source.id = 6")
        .when_matched_update({"p": "5"})
        .when_not_matched_insert_all("source.id = 8")
        .when_not_matched_by_source_delete("id = 0")
        .execute()
    )
    assert kind.changes(table) == {
        ("delete", 6, "n6", "0"): 1,
        ("delete", 0, "n0", "0"): 1,
        ("update_preimage", 7, "n7", "1"): 1,
        ("update_postimage", 7, "n7", "5"): 1,
        ("insert", 8, "s8", "0"): 1,
    }


def test_existing_vectors_are_honoured_where_files_are_written_again(kind, table, source):
    table.delete("id IN (0, 6)")
    table.set_properties(kind.properties(VECTORS_OFF))
    table.merge(source, ON).when_matched_update_all().when_not_matched_insert_all().execute()
    assert kind.written(table).more_deleted == 0
    holds(table, [row for row in upserted() if row[0] != 0])
    kind.is_read_by_others(table)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (lambda merge: merge, "no clause"),
        (lambda merge: merge.when_matched_delete().when_matched_update_all(), "after it never applies"),
        (
            lambda merge: merge.when_matched_update({"nope": "1"}),
            "unknown column 'nope' in when matched update",
        ),
        (lambda merge: merge.when_matched_update({"p": "source.nope"}), "nope"),
        (lambda merge: merge.when_matched_update({"p": "1", "P": "2"}), "twice"),
        (lambda merge: merge.when_matched_update({"p": "name"}), "(?i)ambiguous"),
        (lambda merge: merge.when_matched_update({"p": "'x'"}), "value for column p is of type string"),
        (lambda merge: merge.when_matched_update({"p": "max(source.p)"}), "(?i)max|aggregate"),
        (lambda merge: merge.when_matched_update({}), "is empty"),
        (lambda merge: merge.when_matched_update("p = 1"), "set is str, expected a dict of column"),
        (lambda merge: merge.when_not_matched_insert(["id"]), "values is list, expected a dict of column"),
        (lambda merge: merge.when_not_matched_by_source_update({"p": 1}), "set of p is 1, expected a Spark"),
        (lambda merge: merge.when_matched_update({1: "p"}), "a column in set is 1, expected its name"),
        (lambda merge: merge.when_matched_delete("id = 1"), "(?i)ambiguous"),
        (lambda merge: merge.when_matched_delete("rand() > 0.5"), "(?i)deterministic"),
        (lambda merge: merge.when_matched_delete("sum(source.id) OVER () > 1"), "(?i)window"),
        (lambda merge: merge.when_not_matched_insert_all("target.id = 1"), "target"),
        (lambda merge: merge.when_not_matched_insert({"id": "target.id"}), "target"),
        (lambda merge: merge.when_not_matched_by_source_delete("source.id = 1"), "source"),
        (lambda merge: merge.when_not_matched_by_source_update({"p": "source.p"}), "source"),
    ],
)
def test_clauses_that_are_refused(table, source, asked, told):
    with refused(table, InvalidOperationError, told):
        asked(table.merge(source, ON)).execute()


@pytest.mark.parametrize(
    "on", ["id = id", "target.nope = source.id", "rand() < 0.5", "target.id", "max(source.id) = 1"]
)
def test_conditions_that_are_refused(table, source, on):
    with refused(table, InvalidOperationError, "on .* is invalid"):
        table.merge(source, on).when_matched_delete().execute()


def test_equal_aliases_and_doubled_source_columns_are_refused(spark, table, source):
    with refused(table, InvalidOperationError, "expected two different names"):
        table.merge(source, ON, source_alias="Target").when_matched_delete().execute()
    doubled = source.selectExpr("id", "name", "p", "p AS P")
    with refused(table, InvalidOperationError, "(?i)ambiguous|twice"):
        table.merge(doubled, ON).when_matched_update_all().execute()


def test_append_only_tables_take_inserts_alone(kind, spark, tmp_path, source):
    table = kind.table(spark, tmp_path / "t", DDL, ROWS, having=[APPEND_ONLY])
    with refused(table, InvalidOperationError, "append-only"):
        table.merge(source, ON).when_matched_update_all().execute()
    table.merge(source, ON).when_not_matched_insert_all().execute()
    holds(table, [*ROWS, (8, "s8", 0), (9, "s9", 1)])


@pytest.mark.parametrize("where", ["source", "set", "on"])
def test_a_job_that_fails_leaves_the_table_as_it_was(table, source, where):
    from pyspark.errors import PySparkException

    bad = "CASE WHEN {}id = 7 THEN raise_error('too bad') ELSE {} END"
    rows = source.selectExpr("id", bad.format("", "name") + " AS name", "p") if where == "source" else source
    on = "target.id = " + bad.format("source.", "source.id") if where == "on" else ON
    value = bad.format("source.", "source.name") if where == "set" else "source.name"
    with refused(table, PySparkException, "too bad"):
        merge = table.merge(rows, on).when_matched_update({"name": value})
        merge.when_not_matched_insert_all().execute()


def test_a_source_that_changes_between_runs_is_seen_once(spark, table):
    source = spark.range(4, 12).selectExpr("id", "uuid() AS name", "CAST(rand() * 100 AS int) AS p")
    table.merge(source, ON).when_matched_update_all().when_not_matched_insert_all().execute()
    found = collected(table.to_df())
    assert sorted(row["id"] for row in found) == [*range(12)]
    assert len({row["name"] for row in found}) == 12


def test_clauses_add_the_columns_that_they_assign_and_no_others(kind, spark, tmp_path):
    rows = [(1, {"x": 1}, 1), (2, {"x": 2}, 2)]
    table = kind.table(spark, tmp_path / "t", "id int, s struct<x int>, p int", rows, partition_by=["p"])
    source = frame_of(
        spark,
        "id int, s struct<x int, y string, z int>, late double, `a.b` int, unused int, p bigint",
        [(2, {"x": 20, "y": "b", "z": 1}, 2.5, 5, 0, 9), (4, None, 4.5, 6, 0, 9)],
    )
    (
        table.merge(source, ON, merge_schema=True)
        .when_matched_update({"Late": "source.late * 2", "s.y": "source.s.y"})
        .when_not_matched_insert({"id": "source.id", "`a.b`": "source.`a.b`", "p": "7"})
        .execute()
    )
    assert table.schema.simpleString() == "struct<id:int,s:struct<x:int,y:string>,p:int,late:double,a.b:int>"
    holds(
        table,
        [
            (1, {"x": 1, "y": None}, 1, None, None),
            (2, {"x": 2, "y": "b"}, 2, 5.0, None),
            (4, None, 7, None, 6),
        ],
    )
    kind.is_read_by_others(table)


def test_an_assigned_struct_brings_its_new_fields(kind, spark, tmp_path):
    table = kind.table(spark, tmp_path / "t", "id int, s struct<x int>", [(1, {"x": 1}), (2, {"x": 2})])
    source = frame_of(spark, "id int, s struct<x bigint, y string>", [(2, {"x": 20, "y": "b"})])
    table.merge(source, ON, merge_schema=True).when_matched_update({"s": "source.s"}).execute()
    assert table.schema.simpleString() == "struct<id:int,s:struct<x:int,y:string>>"
    holds(table, [(1, {"x": 1, "y": None}), (2, {"x": 20, "y": "b"})])


def test_a_column_that_the_source_lacks_is_not_added(spark, table):
    source = frame_of(spark, "id bigint, other int", [(1, 5)])
    for merge_schema in (True, False):
        with refused(table, InvalidOperationError, r"unknown column 'late' in when matched update"):
            merge = table.merge(source, ON, merge_schema=merge_schema)
            merge.when_matched_update({"late": "source.other"}).execute()
    merge = table.merge(source, ON, merge_schema=True)
    with refused(table, InvalidOperationError, r"unknown column 'other' in when not matched by source"):
        merge.when_not_matched_by_source_update({"other": "1"}).execute()


def test_a_field_of_the_tables_struct_comes_before_a_source_column_with_a_dot(kind, spark, tmp_path):
    table = kind.table(spark, tmp_path / "t", "id int, a struct<b int>", [(1, {"b": 1}), (2, {"b": 2})])
    source = frame_of(spark, "id int, `a.b` int", [(2, 20)])
    merge = table.merge(source, ON, merge_schema=True)
    merge.when_matched_update({"a.b": "source.`a.b`"}).execute()
    assert table.schema.simpleString() == "struct<id:int,a:struct<b:int>>"
    holds(table, [(1, {"b": 1}), (2, {"b": 20})])


@pytest.mark.parametrize("name", ["", "."])
def test_names_without_a_part_are_unknown(table, source, name):
    with refused(table, InvalidOperationError, f"unknown column '{name}' in when matched update"):
        table.merge(source, ON, merge_schema=True).when_matched_update({name: "1"}).execute()


def test_an_assigned_array_or_map_keeps_its_types_and_brings_new_fields(kind, spark, tmp_path):
    ddl = "id int, x array<int>, m map<int, struct<v int>>, s array<struct<v int>>"
    table = kind.table(spark, tmp_path / "t", ddl, [(1, [1], {1: {"v": 1}}, [{"v": 1}])])
    wide = "id int, x array<bigint>, m map<bigint, struct<v bigint, w int>>, s array<struct<v bigint, w int>>"
    source = frame_of(spark, wide, [(1, [2], {2: {"v": 2, "w": 3}}, [{"v": 2, "w": 3}])])
    merge = table.merge(source, ON, merge_schema=True)
    merge.when_matched_update({"x": "array(5)"}).execute()
    assert table.schema.simpleString() == (
        "struct<id:int,x:array<int>,m:map<int,struct<v:int>>,s:array<struct<v:int>>>"
    )
    merge.when_matched_update({"m": "source.m", "s": "source.s"}).execute()
    assert table.schema.simpleString() == (
        "struct<id:int,x:array<int>,m:map<int,struct<v:int,w:int>>,s:array<struct<v:int,w:int>>>"
    )
    assert table.to_df().selectExpr("x[0]", "m[2].v", "m[2].w", "s[0].w").first() == (5, 2, 3, 3)
