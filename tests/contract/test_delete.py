"""DELETE: which rows go, how their files leave, and what is read for it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from contract.kinds import (
    ANY_COLUMN_NAMES,
    APPEND_ONLY,
    CHANGE_FILES,
    POSITION_FILES,
    VARIANTS,
    VECTORS_OFF,
    Written,
)
from delvec.errors import InvalidOperationError
from scanning import opened
from verbs import holds, refused, rows_of, unchanged

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("p", pa.int32())])
DDL = "id bigint, name string, p int"


@pytest.fixture
def lake(kind, tmp_path):
    """Partitions 0 and 1 with two files each: ids 0–9, 10–19, 100–109, 110–119."""
    lake = kind.lake(tmp_path / "t", SCHEMA, partition_by=["p"])
    for first in (0, 10, 100, 110):
        p = first // 100
        lake.write(
            [{"id": i, "name": None if i % 5 == 0 else f"n{i}", "p": p} for i in range(first, first + 10)]
        )
    lake.commit()
    return lake


def ids(table):
    return sorted(row[0] for row in rows_of(table))


def all_ids():
    return [*range(20), *range(100, 120)]


def lose_data(lake, *numbers):
    """Remove data files from the disk: whoever reads one fails."""
    for number in numbers:
        (lake.root / lake.files[number].path).unlink()


@pytest.mark.numbered
def test_whole_partitions_go_without_being_read(kind, spark, lake):
    lose_data(lake, 2, 3)
    table = opened(spark, lake)
    result = table.delete("p = 1")
    assert (result.version, result.metrics["numDeletedRows"]) == (kind.version(table, 1), 20)
    assert kind.written(table) == Written(removed=2)
    assert ids(table) == [*range(20)]


def test_whole_files_go_without_being_read_where_statistics_prove_it(kind, spark, lake):
    lose_data(lake, 1, 2, 3)
    table = opened(spark, lake)
    assert table.delete("id >= 10").metrics["numDeletedRows"] == 30
    assert kind.written(table) == Written(removed=3)
    assert ids(table) == [*range(10)]


def test_no_job_runs_where_metadata_decides(spark, lake):
    table = opened(spark, lake)
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("metadata-only", "")
    try:
        table.delete("p = 1")
        table.delete("id < 10")
        table.delete("id = 9999")
        table.delete()
        assert list(tracker.getJobIdsForGroup("metadata-only")) == []
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert ids(table) == []


@pytest.mark.numbered
def test_a_delete_without_a_condition_reads_nothing(kind, spark, lake):
    lose_data(lake, 0, 1, 2, 3)
    table = opened(spark, lake)
    assert table.delete().metrics["numDeletedRows"] == 40
    assert ids(table) == []
    with unchanged(table):
        assert table.delete().version == kind.version(table, 1)
    kind.is_read_by_others(table)


def test_other_rows_get_vectors_and_whole_files_are_removed_beside_them(kind, spark, lake):
    table = opened(spark, lake)
    result = table.delete("id BETWEEN 5 AND 19 OR id = 101")
    assert result.metrics["numDeletedRows"] == 16
    assert kind.written(table) == Written(removed=1, more_deleted=2)
    gone = {*range(5, 20), 101}
    assert ids(table) == [i for i in all_ids() if i not in gone]
    kind.is_read_by_others(table)


def test_new_vectors_include_the_old_and_an_emptied_file_is_removed(kind, spark, lake):
    table = opened(spark, lake)
    table.delete("id IN (1, 3)")
    table.delete("id IN (3, 5, 7)")
    counts = [row["deleted_count"] for row in table.files().collect() if row["deleted_count"]]
    assert counts == ([] if POSITION_FILES in kind.features else [4])
    assert ids(table)[:6] == [0, 2, 4, 6, 8, 9]
    table.delete("id % 2 = 0 AND id < 10")
    assert table.delete("length(name) = 2").metrics["numDeletedRows"] == 1  # n9: the last of its file
    assert kind.written(table) == Written(removed=1)
    assert ids(table) == [*range(10, 20), *range(100, 120)]
    kind.is_read_by_others(table)


def test_a_whole_file_with_a_vector_counts_only_its_live_rows(kind, spark, lake):
    table = opened(spark, lake)
    table.delete("id = 3")
    counted = table.delete("id < 10").metrics.get("numDeletedRows")
    assert counted == (None if POSITION_FILES in kind.features else 9)  # not without reading the deletes


@pytest.mark.numbered
@pytest.mark.parametrize("where", ["id = 9999", "name = 'nobody'", "p IS NULL", "name > 'z'", "false"])
def test_nothing_matched_is_no_commit(kind, spark, lake, where):
    table = opened(spark, lake)
    with unchanged(table):
        result = table.delete(where)
    assert (result.version, result.metrics["numDeletedRows"]) == (kind.version(table, 0), 0)


def test_null_in_a_condition_is_no_match(spark, lake):
    table = opened(spark, lake)
    assert table.delete("name <> 'n1'").metrics["numDeletedRows"] == 31  # eight names are null
    assert ids(table) == [0, 1, 5, 10, 15, 100, 105, 110, 115]
    assert table.delete("name IS NULL OR id = NULL").metrics["numDeletedRows"] == 8
    assert ids(table) == [1]


def test_conditions_as_columns(spark, lake):
    from pyspark.sql import functions as f

    table = opened(spark, lake)
    table.delete((f.col("p") == 0) & f.col("name").isNotNull())
    assert ids(table) == [0, 5, 10, 15, *range(100, 120)]


def test_conditions_with_subqueries(spark, lake):
    table = opened(spark, lake)
    spark.range(3, 6).createOrReplaceTempView("gone")
    table.delete("id IN (SELECT id FROM gone)")
    table.delete("id = (SELECT max(id) FROM gone) + 5")
    table.delete("EXISTS (SELECT 1 FROM gone WHERE gone.id + 100 = p * 100 + 3 AND p = 1)")
    assert ids(table) == [i for i in range(20) if i not in {3, 4, 5, 10}]


def test_subqueries_that_name_the_table(spark, lake):
    """A bare ``id`` would be the subquery's own."""
    table = opened(spark, lake)
    spark.range(3, 6).createOrReplaceTempView("gone")
    table.delete("EXISTS (SELECT 1 FROM gone WHERE gone.id = a_name.id)", alias="a_name")
    table.delete("id = (SELECT max(gone.id) FROM gone WHERE gone.id + 3 >= `a name`.id)", alias="a name")
    table.update({"id": "(SELECT max(gone.id) FROM gone WHERE gone.id < t.id) + 900"}, "id = 19", alias="t")
    assert ids(table) == [*(i for i in range(19) if i not in {3, 4, 5}), *range(100, 120), 905]


def test_conditions_that_only_spark_understands(kind, spark, lake, tmp_path):
    table = opened(spark, lake)
    table.delete("exists(array(name), x -> reverse(x) = '3n')")
    assert 3 not in ids(table)
    if VARIANTS not in kind.abilities:
        return
    variants = kind.table(spark, tmp_path / "v", "id int, v variant")
    variants.append(
        spark.sql("""SELECT i AS id, parse_json('{"a": ' || i || '}') AS v FROM range(4) AS r(i)""")
    )
    # PySpark 4.0 has no text for that which others do not understand.
    variants.delete("v:a::int = 2" if spark.version > "4.1" else "variant_get(v, '$.a', 'int') = 2")
    assert ids(variants) == [0, 1, 3]


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("rand() < 0.5", "rand"),
        ("uuid() = name", "uuid"),
        ("monotonically_increasing_id() > 3", "monotonically_increasing_id|deterministic"),
        ("nmae = 'x'", "nmae"),
        ("max(id) = 3", "max|aggregate"),
        ("row_number() OVER (ORDER BY id) = 1", "(?i)window"),
        ("id", "(?i)boolean"),
        ("id +", "id +"),
        ("", "''"),
        ("id = 'x' AND struct(1) > 2", "(?i)struct"),
        (5, "5"),
        (True, "True"),
    ],
)
def test_conditions_that_are_refused(spark, lake, where, told):
    table = opened(spark, lake)
    with refused(table, InvalidOperationError, told):
        table.delete(where)


def test_a_non_deterministic_column_is_refused(spark, lake):
    from pyspark.sql import functions as f

    table = opened(spark, lake)
    with refused(table, InvalidOperationError, "(?i)deterministic"):
        table.delete(f.rand() < 0.5)


def test_an_ambiguous_column_is_refused(kind, spark, tmp_path, conf):
    lake = kind.lake(tmp_path / "t", pa.schema([("a", pa.int64()), ("s", pa.struct([("b", pa.int64())]))]))
    lake.write([{"a": 1, "s": {"b": 1}}])
    lake.commit()
    table = opened(spark, lake)
    with refused(table, InvalidOperationError, "s.c|`c`"):
        table.delete("s.c = 1")
    conf("spark.sql.caseSensitive", "true")
    with refused(table, InvalidOperationError, "`A`"):
        table.delete("A = 1")


@pytest.mark.core
def test_every_kind_of_table_loses_the_same_rows(spark, tmp_path, kind):
    rows = [(i, f"n{i}", i % 2) for i in range(12)]
    table = kind.table(spark, tmp_path / "t", DDL, rows, partition_by=["p"])
    table.delete("id IN (1, 2, 3)")
    assert table.delete("id IN (3, 4, 5) OR name = 'n11'").metrics["numDeletedRows"] == 3
    holds(table, [row for row in rows if row[0] not in {1, 2, 3, 4, 5, 11}])
    table.delete("p = 1")
    holds(table, [row for row in rows if row[0] in {0, 6, 8, 10}])
    kind.is_read_by_others(table)


def test_without_vectors_files_are_written_again_and_existing_vectors_honoured(kind, spark, tmp_path):
    rows = [(i, f"n{i}", i % 2) for i in range(12)]
    table = kind.table(spark, tmp_path / "t", DDL, rows, partition_by=["p"])
    table.delete("id IN (0, 1)")
    table.set_properties(kind.properties(VECTORS_OFF))
    result = table.delete("id IN (2, 5, 7)")
    assert (result.metrics["numDeletedRows"], result.metrics["numCopiedRows"]) == (3, 7)
    assert kind.written(table) == Written(added=2, removed=2)
    holds(table, [row for row in rows if row[0] not in {0, 1, 2, 5, 7}])
    table.delete("p = 0 AND id >= 4")  # the last rows of its file
    holds(table, [row for row in rows if row[0] in {3, 9, 11}])
    kind.is_read_by_others(table)


def test_copied_rows_are_no_changes(kind, spark, tmp_path):
    """Readers of the change feed take a commit's change files where it has any, else its data files: so a
    file written again must come with all of the commit's changes, those of whole files too.
    """
    rows = [(i, f"n{i}", i % 2) for i in range(8)]
    table = kind.table(
        spark, tmp_path / "t", DDL, rows, partition_by=["p"], having=[VECTORS_OFF, CHANGE_FILES]
    )
    table.delete("p = 1 OR id = 2")
    assert kind.changes(table) == {("delete", i, f"n{i}", str(p)): 1 for i, _, p in rows if p == 1 or i == 2}
    table.delete("p = 0")
    assert kind.written(table).change_files == 0  # the removed file says it all


def test_with_vectors_the_data_files_tell_the_changes(kind, spark, tmp_path):
    table = kind.table(spark, tmp_path / "t", DDL, [(1, "a", 0), (2, "b", 0)], having=[CHANGE_FILES])
    table.delete("id = 1")
    assert kind.written(table) == Written(more_deleted=1)


def test_append_only_tables_refuse(kind, spark, tmp_path):
    table = kind.table(spark, tmp_path / "t", DDL, [(1, "a", 0)], having=[APPEND_ONLY])
    for where in (None, "id = 1", "id = 9"):
        with refused(table, InvalidOperationError, "append-only"):
            table.delete(where)


def test_times_in_conditions_are_the_sessions(kind, spark, tmp_path, conf):
    conf("spark.sql.session.timeZone", "America/New_York")
    table = kind.table(spark, tmp_path / "t", "id int, at timestamp", partition_by=["at"])
    table.append(
        spark.sql(
            "SELECT 1 AS id, TIMESTAMP'2024-03-10 01:30:00' AS at UNION ALL "
            "SELECT 2, TIMESTAMP'2024-03-10 03:30:00.123456' UNION ALL "
            "SELECT 3, TIMESTAMP'2024-11-03 01:30:00'"
        )
    )
    with unchanged(table):
        table.delete("at = TIMESTAMP'2024-03-10 06:30:00'")  # as it would be in UTC
    table.delete("at = TIMESTAMP'2024-03-10 01:30:00'")
    assert ids(table) == [2, 3]
    table.delete("hour(at) = 3")
    assert ids(table) == [3]
    kind.is_read_by_others(table)


def test_a_job_that_fails_leaves_the_table_as_it_was(spark, lake):
    from pyspark.errors import PySparkException

    table = opened(spark, lake)
    with refused(table, PySparkException, "too bad"):
        table.delete("CASE WHEN id = 7 THEN raise_error('too bad') ELSE id = 1 END")


def test_names_that_need_quoting(kind, spark, tmp_path):
    ddl = "`a.b` int, `c d` int, `e``f` int, target int, __delvec_row int"
    place = tmp_path / "with space %"
    table = kind.table(
        spark,
        place,
        ddl,
        [(i, i, i, i, i) for i in range(8)],
        having=[ANY_COLUMN_NAMES],
    )
    for number, column in enumerate(["`a.b`", "`c d`", "`e``f`", "target", "__delvec_row"]):
        table.delete(f"{column} = {number}")
    holds(table, [(i,) * 5 for i in (5, 6, 7)])
    assert Path(table.location).is_dir()
    kind.is_read_by_others(table)  # DuckDB does not find a folder with % in its name


def test_an_alias_that_is_the_name_of_a_struct(kind, spark, tmp_path):
    """Spark reads ``t.id`` as the column ``id`` of ``t``, not as the struct's field."""
    rows = [(5, {"id": 1}), (1, {"id": 5})]
    for verb, left in (
        (lambda table: table.delete("t.id = 5", alias="t"), [(1, {"id": 5})]),
        (lambda table: table.update({"id": "100"}, "T.id = 5", alias="T"), [(100, {"id": 1}), rows[1]]),
    ):
        table = kind.table(spark, tmp_path / str(len(left)), "id int, t struct<id int>", rows[:1])
        table.append(spark.createDataFrame(rows[1:], "id int, t struct<id int>"))
        verb(table)
        holds(table, left)
