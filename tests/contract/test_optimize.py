"""OPTIMIZE and PURGE: which files are rewritten, what stays as it was, what concurrent writers keep."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from contract.kinds import (
    APPEND_ONLY,
    CHANGE_FILES,
    REQUESTS,
    ROW_IDS,
    TYPE_WIDENING,
    VECTOR_FILES,
    VECTORS_OFF,
    Written,
)
from delvec.errors import InvalidOperationError
from racing import losing
from scanning import opened
from verbs import refused, rows_of, unchanged

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("p", pa.int32())])
BIG = 1 << 30


def lake_of(kind, folder, *firsts, count=10, **options):
    """A table with a file of ``count`` rows for each first id; partitions are hundreds of ids."""
    lake = kind.lake(folder, SCHEMA, partition_by=["p"], **options)
    for first in firsts:
        ids = range(first, first + count)
        lake.write([{"id": i, "name": None if i % 5 == 0 else f"n{i}", "p": first // 100} for i in ids])
    lake.commit()
    return lake


@pytest.fixture
def lake(kind, tmp_path):
    """Partitions 0 and 1 with two files each: ids 0–9, 10–19, 100–109, 110–119."""
    return lake_of(kind, tmp_path / "t", 0, 10, 100, 110)


def files_of(table):
    """The number of live files in each partition."""
    partitions = table._table.snapshot().plan().files.column("partition").combine_chunks().field("p")
    return {pair["values"]: pair["counts"] for pair in pc.value_counts(partitions).to_pylist()}


def data_files(table):
    files = Path(table.location).rglob("*.parquet")
    return {path for path in files if "_staging" not in str(path) and "deletes-" not in path.name}


@pytest.mark.numbered
def test_files_of_a_partition_become_one(kind, spark, lake):
    table = opened(spark, lake)
    before = rows_of(table)
    result = table.optimize()
    first = kind.version(table, 1)
    assert (result.version, result.versions, files_of(table)) == (first, (first,), {0: 1, 1: 1})
    assert (result.removed.count, result.added.count, result.groups, result.partitions) == (4, 2, 2, 2)
    assert rows_of(table) == before
    assert rows_of(table) == rows_of_version(table, kind.version(table, 0))


def rows_of_version(table, version):
    return sorted((tuple(row.asDict().values()) for row in table.to_df(version=version).collect()), key=str)


@pytest.mark.numbered
def test_nothing_to_do_commits_nothing(kind, spark, lake):
    table = opened(spark, lake)
    table.optimize()
    with unchanged(table):
        again = table.optimize()
    assert (again.version, again.versions) == (kind.version(table, 1), ())
    assert (again.removed.count, again.considered) == (0, 2)
    assert not any(again.metrics.values())
    with unchanged(table):
        assert table.purge().versions == ()


def test_a_condition_selects_partitions(spark, lake):
    table = opened(spark, lake)
    assert table.optimize("p = 1").considered == 2
    assert files_of(table) == {0: 2, 1: 1}
    # A function, which only Spark understands.
    assert table.optimize("concat('p', p) = 'p0'").considered == 2
    assert files_of(table) == {0: 1, 1: 1}


@pytest.mark.parametrize("where", ["id = 3", "p = 1 AND name IS NULL", "p ="])
def test_a_condition_on_other_columns_is_refused(spark, lake, where):
    table = opened(spark, lake)
    with refused(table, InvalidOperationError, r"expected partition columns only \(p\)"):
        table.optimize(where)
    with refused(table, InvalidOperationError, r"expected partition columns only \(p\)"):
        table.purge(where)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target_file_size": 0}, "target_file_size is 0, expected a number of bytes above 0"),
        ({"target_file_size": "1g"}, "target_file_size is '1g', expected"),
        ({"bytes_per_commit": -1}, "bytes_per_commit is -1, expected"),
        ({"max_deleted_rows_ratio": 5}, "max_deleted_rows_ratio is 5, expected a number from 0 to 1"),
        ({"zorder_by": ["id", "nme"]}, "unknown column 'nme' in zorder_by, expected some of id, name, p"),
        ({"zorder_by": "p"}, "zorder_by names partition column 'p'"),
        ({"zorder_by": ["id", "ID"]}, "zorder_by names column 'ID' twice"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(kind, spark, lake, arguments, message):
    if kind.format == "toy" and "twice" in message:
        pytest.skip("the toy format has no statistics")
    table = opened(spark, lake)
    with refused(table, InvalidOperationError, message):
        table.optimize(**arguments)


def test_files_of_the_target_size_stay(spark, lake):
    table = opened(spark, lake)
    sizes = [row["size"] for row in table.files().collect()]
    with unchanged(table):
        assert table.optimize(target_file_size=min(sizes)).versions == ()
    # Two files do not fit into one.
    with unchanged(table):
        assert table.optimize(target_file_size=max(sizes) + 1).versions == ()


@pytest.mark.needs(VECTOR_FILES)  # position files do not say how many rows they delete
def test_files_with_many_deleted_rows_are_rewritten_whatever_their_size(kind, spark, tmp_path):
    lake = lake_of(kind, tmp_path / "t", 0, 100, 200, count=40)
    table = opened(spark, lake)
    table.delete("id IN (0, 1, 2, 100, 101) OR id BETWEEN 200 AND 239 AND id != 239")
    table.delete("id = 239")  # a file without a live row, if the format keeps it
    size = min(row["size"] for row in table.files().collect())
    before = rows_of(table)
    with unchanged(table):
        assert table.optimize(target_file_size=size, max_deleted_rows_ratio=0.2).removed.count == 0
    result = table.optimize(target_file_size=size, max_deleted_rows_ratio=0.06)
    assert (result.removed.count, result.added.count, result.deleted_rows) == (1, 1, 3)
    assert rows_of(table) == before
    result = table.purge()
    assert (result.removed.count, result.deleted_rows, result.vectors) == (1, 2, 1)
    assert rows_of(table) == before
    assert table.purge().versions == ()


@pytest.mark.needs(VECTOR_FILES)  # position files do not say how many rows they delete
def test_a_file_without_live_rows_leaves_without_being_read(kind, spark, tmp_path):
    lake = kind.lake(tmp_path / "t", SCHEMA, partition_by=["p"])
    for first, gone in ((0, range(10)), (10, ()), (100, ())):
        rows = [{"id": i, "name": f"n{i}", "p": first // 100} for i in range(first, first + 10)]
        lake.write(rows, deleted=gone)
    lake.commit()
    (lake.root / lake.files[0].path).unlink()
    table = opened(spark, lake)
    assert table.optimize(dry_run=True).removed.count == 1
    result = table.optimize()
    assert (result.removed.count, result.added.count, result.deleted_rows) == (1, 0, 10)
    assert sorted(row[0] for row in rows_of(table)) == [*range(10, 20), *range(100, 110)]


@pytest.mark.core
def test_every_kind_of_table(kind, spark, tmp_path):
    """Rows that were appended, updated and deleted, in partitions and with missing values."""
    rows = spark.range(0, 60, 1, 3).selectExpr("id", "CAST(id % 3 AS INT) AS p", "nullif(id % 7, 0) AS v")
    table = kind.create(spark, tmp_path / "t", rows, partition_by=["p"])
    table.delete("id % 10 = 4")
    table.update({"v": "-1"}, "id > 50")
    before = rows_of(table)
    result = table.purge()
    assert rows_of(table) == before
    assert table.purge().versions == ()
    result = table.optimize()
    assert (result.added.count, files_of(table)) == (3, {0: 1, 1: 1, 2: 1})
    assert rows_of(table) == before
    assert table.optimize().versions == ()
    assert sum(table._table.snapshot().plan().deleted_rows.to_pylist()) == 0
    kind.is_read_by_others(table)


def test_a_small_group_of_many_is_written_by_one_job(spark, lake, monkeypatch):
    from delvec.spark import write_groups

    monkeypatch.setattr(write_groups, "MAX_JOBS", 1)
    table = opened(spark, lake)
    before = rows_of(table)
    table.delete("id IN (3, 104)")
    result = table.optimize()
    assert (result.added.count, result.groups, files_of(table)) == (2, 2, {0: 1, 1: 1})
    assert rows_of(table) == [row for row in before if row[0] not in (3, 104)]
    assert table.optimize(zorder_by=["id", "name"]).removed.count == 2
    assert rows_of(table) == [row for row in before if row[0] not in (3, 104)]


def winners():
    rows = [(3, "merged", 0)]
    return {
        "delete": (lambda t: t.delete("id = 3"), 1),
        "update": (lambda t: t.update({"name": "'new'"}, "id = 3"), 1),
        "merge": (lambda t: merged(t, rows), 1),
        "overwrite": (lambda t: t.overwrite([(3, "new", 0)], where="id = 3"), 1),
        "overwrite a partition": (lambda t: t.overwrite([(3, "new", 0)], where="p = 0"), 1),
        "replace": (lambda t: t.overwrite([(900, "new", 9)]), 2),
        "optimize": (lambda t: t.optimize("p = 0"), 1),
        "purge, deleted": (lambda t: (t.delete("id = 3"), t.purge()), 1),
        "append": (lambda t: t.append([(900, "new", 0)]), 0),
        "delete elsewhere": (lambda t: (t.append([(900, "new", 0)]), t.delete("id = 900")), 0),
    }


def merged(table, rows):
    source = table._spark.createDataFrame(rows, "id bigint, name string, p int")
    merge = table.merge(source, "target.id = source.id")
    return merge.when_matched_update_all().when_not_matched_insert_all().execute()


@pytest.mark.parametrize("winner", winners())
def test_what_another_writer_did_meanwhile_is_kept(kind, spark, lake, winner):
    statement, dropped = winners()[winner]
    table = losing(spark, str(lake.root), statement)
    result = table.optimize()
    files = data_files(table)
    expected = opened_at_winner(kind, table, result)
    assert rows_of(table) == expected
    assert result.dropped == dropped
    assert len(result.versions) == (dropped < 2)
    named = {row["location"] for row in table.files().collect()}
    assert {str(path) for path in files} >= named
    assert len(files) == len(stored_files(kind, table)), "new files of dropped groups are deleted"


def opened_at_winner(kind, table, result):
    """The rows before the compaction was committed."""
    return rows_of_version(table, kind.version(table, kind.commits(table) - len(result.versions)))


def stored_files(kind, table):
    """The data files of all versions."""
    names = set()
    for number in range(kind.commits(table) + 1):
        version = kind.version(table, number)
        names |= set(table._table.snapshot(version).plan().files.column("location").to_pylist())
    return names


LOSERS = {
    "delete": (lambda t: t.delete("id = 3"), lambda rows: [row for row in rows if row[0] != 3]),
    "update": (
        lambda t: t.update({"name": "'new'"}, "id = 3"),
        lambda rows: sorted(((*r[:1], "new", *r[2:]) if r[0] == 3 else r for r in rows), key=str),
    ),
    "merge": (
        lambda t: merged(t, [(3, "merged", 0)]),
        lambda rows: sorted(((3, "merged", 0) if r[0] == 3 else r for r in rows), key=str),
    ),
}


@pytest.mark.parametrize("loser", LOSERS)
def test_a_statement_that_loses_to_a_compaction_runs_again(spark, lake, loser):
    statement, expected = LOSERS[loser]
    table = losing(spark, str(lake.root), lambda other: other.optimize())
    before = rows_of(table)
    assert statement(table).metrics["numRuns"] == 2
    assert rows_of(table) == expected(before)


@pytest.mark.numbered
def test_a_metadata_change_meanwhile_makes_it_run_again(kind, spark, lake):
    table = losing(spark, str(lake.root), lambda other: other.add_columns("note string"))
    before = rows_of(table)
    result = table.optimize()
    assert (result.version, files_of(table)) == (kind.version(table, 2), {0: 1, 1: 1})
    assert rows_of(table) == [(*row, None) for row in before]


@pytest.mark.numbered
def test_a_commit_for_each_part(kind, spark, lake, monkeypatch):
    table = opened(spark, lake)
    before = rows_of(table)
    result = table.optimize(bytes_per_commit=1)
    first, second = (kind.version(table, number) for number in (1, 2))
    assert (result.version, result.versions) == (second, (first, second))
    assert files_of(table) == {0: 1, 1: 1}
    assert (result.removed.count, result.added.count) == (4, 2)
    assert result.metrics["numRemovedFiles"] == 4
    assert rows_of(table) == before


@pytest.mark.numbered
def test_commits_before_an_error_stand(kind, spark, lake, monkeypatch):
    from delvec.spark import optimize as module

    table, write = opened(spark, lake), module.write_groups
    before = rows_of(table)
    calls = []

    def write_once(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            raise InvalidOperationError("the disk is full")
        return write(*arguments, **options)

    monkeypatch.setattr(module, "write_groups", write_once)
    with pytest.raises(InvalidOperationError, match="disk is full") as raised:
        table.optimize(bytes_per_commit=1)
    assert raised.value.__notes__ == [f"committed before it: version {kind.version(table, 1)}"]
    assert (table.version, sorted(files_of(table).values())) == (kind.version(table, 1), [1, 2])
    assert rows_of(table) == before


@pytest.mark.numbered
def test_a_failed_write_leaves_no_files(kind, spark, lake):
    table = opened(spark, lake)
    (lake.root / lake.files[3].path).write_bytes(b"PAR1 no parquet")
    before = data_files(table)
    with pytest.raises(Exception, match=r"(?i)parquet"):
        table.optimize()
    assert (table.version, kind.commits(table)) == (kind.version(table, 0), 0)
    assert data_files(table) == before


def lineage_of(table):
    """The id and version of each row, by its key."""
    from delvec.row_delta import Verb
    from delvec.spark.target import Target

    target = Target.of(table._spark, table._table, Verb.COMPACT)
    frame = target.scan_located(target.plan(None)).select("id", *(f"`{name}`" for name in target.lineage))
    return {row[0]: tuple(row[1:]) for row in frame.collect()}


def test_row_ids_and_versions_survive(kind, spark, tmp_path):
    rows = spark.range(0, 40, 1, 4).selectExpr("id", "id AS v")
    table = kind.create(spark, tmp_path / "t", rows, having=[ROW_IDS])
    table.update({"v": "-1"}, "id IN (3, 33)")
    table.delete("id IN (5, 6)")
    before = lineage_of(table)
    assert len({pair[0] for pair in before.values()}) == 38
    table.optimize()
    assert lineage_of(table) == before
    table.delete("id = 7")
    table.purge()
    table.optimize(zorder_by="v")
    assert lineage_of(table) == {key: pair for key, pair in before.items() if key != 7}


@pytest.mark.parametrize("module", ["write_groups", "row_lineage"])
def test_a_row_of_an_unknown_file_ends_it(kind, spark, tmp_path, monkeypatch, module):
    """Such a row would be in the wrong group, or get a new id."""
    rows = spark.range(4).selectExpr("id", "id % 2 AS p").coalesce(1)
    table = kind.create(spark, tmp_path / "t", rows, partition_by=["p"], having=[ROW_IDS])
    table.append(rows)
    monkeypatch.setattr("delvec.spark.write_groups.MAX_JOBS", 1)
    monkeypatch.setattr(f"delvec.spark.{module}.file_path", lambda place: f"{place}.other")
    with refused(table, Exception, "not in its plan"):
        table.optimize()


def test_a_table_that_takes_no_deletes_is_compacted(kind, spark, tmp_path):
    rows = spark.range(0, 40, 1, 4).selectExpr("id", "id AS v")
    table = kind.create(spark, tmp_path / "t", rows, having=[APPEND_ONLY, CHANGE_FILES])
    assert table.optimize().removed.count == 4
    assert kind.written(table) == Written(added=1, removed=4)
    assert table.changes(1, 1).count() == 0
    assert len(rows_of(table)) == 40


def test_a_table_without_vectors_is_compacted(kind, spark, tmp_path):
    rows = spark.range(0, 40, 1, 4).selectExpr("id", "id AS v")
    table = kind.create(spark, tmp_path / "t", rows, having=[VECTORS_OFF])
    table.delete("id < 15")
    result = table.optimize()
    assert result.added.count == 1
    assert [row[0] for row in sorted(rows_of(table))] == [*range(15, 40)]


def test_z_order_lets_scans_skip_files(kind, spark, tmp_path):
    grid = spark.range(0, 4096, 1, 2).selectExpr(
        "CAST((id * 7919) % 64 AS INT) AS a",
        "CAST(((id * 7919) div 64) % 64 AS INT) - 32 AS b",
        "concat('text ', lpad((id * 31) % 4096, 5, '0')) AS s",
        "CAST(id AS DOUBLE) / 3 AS d",
        "CAST(id * 31 % 1000 AS DECIMAL(10, 2)) AS m",
        "timestamp_micros(id * 1000003) AS t",
        "IF(id % 50 = 0, NULL, date_add(DATE'2020-01-01', CAST(id % 900 AS INT))) AS day",
    )
    table = kind.create(spark, tmp_path / "t", grid)
    before = rows_of(table)
    size = sum(row["size"] for row in table.files().collect()) // 16
    result = table.optimize(zorder_by=["a", "b"], target_file_size=size)
    assert rows_of(table) == before
    assert 8 <= result.added.count <= 24
    for where in ("a = 5", "b = -30"):
        assert len(read_files(table, where)) <= result.added.count // 2, where
    for columns in (["s", "d"], ["m", "t", "day"]):
        table.optimize(zorder_by=columns, target_file_size=size)
        assert rows_of(table) == before
    assert len(read_files(table, "m < 3")) < 12


def read_files(table, where):
    from plans import plan_where

    return plan_where(table._table.snapshot(), where).files


@pytest.mark.needs(VECTOR_FILES)  # position files do not say how many rows they delete
def test_a_dry_run_says_what_would_be_rewritten(spark, lake):
    table = opened(spark, lake)
    with unchanged(table):
        preview = table.optimize(dry_run=True)
    result = table.optimize()
    assert (preview.removed, preview.groups, preview.added.count) == (result.removed, 2, 2)
    assert preview.files.column_names == ["location", "size", "group", "deleted"]
    assert sorted(preview.files.column("group").to_pylist()) == [0, 0, 1, 1]
    table.delete("id = 3")
    with unchanged(table):
        preview = table.purge(dry_run=True)
    assert (preview.removed.count, preview.deleted_rows) == (1, 1)


@pytest.mark.needs(VECTOR_FILES)  # position files do not say how many rows they delete
def test_sql(kind, spark, lake):
    from delvec import sql

    table = opened(spark, lake)
    name = f"delvec.`{lake.root}`"
    row = sql(spark, f"OPTIMIZE {name} WHERE p = :p", {"p": 1}).first()
    metrics = row["metrics"]
    assert (row["path"], metrics["numFilesAdded"], metrics["numFilesRemoved"]) == (str(lake.root), 1, 2)
    assert (metrics["totalConsideredFiles"], metrics["filesAdded"]["totalFiles"]) == (2, 1)
    assert metrics["zOrderStats"] is None
    table.delete("id = 3")
    metrics = sql(spark, f"REORG TABLE {name} WHERE p IN (0, 7) APPLY (PURGE)").first()["metrics"]
    assert metrics["deletionVectorStats"].asDict().popitem()[1] == 1
    metrics = sql(spark, f"OPTIMIZE {name} ZORDER BY (id, name)").first()["metrics"]
    assert (metrics["numFilesRemoved"], metrics["zOrderStats"]["numOutputCubes"]) == (3, 2)
    if REQUESTS in kind.abilities:
        operations = [row["operation"] for row in table.history(3).collect()]
        assert operations == ["OPTIMIZE", "REORG", "DELETE"]
    for text, message in {
        "OPTIMIZE {t} WHERE": "expected a condition",
        "OPTIMIZE {t} WHERE id = 3": "expected partition columns only",
        "OPTIMIZE {t} ZORDER (id)": "expected BY",
        "OPTIMIZE {t} ZORDER BY ()": "expected a column",
        "OPTIMIZE {t} ZORDER BY (id) WHERE p = 1": "expected the end of the statement",
        "REORG TABLE {t}": "expected APPLY",
        "REORG TABLE {t} APPLY (VACUUM)": "expected PURGE",
    }.items():
        with refused(table, InvalidOperationError, message):
            sql(spark, text.format(t=name))


def test_files_from_before_a_change_of_columns(kind, spark, tmp_path):
    """A column that was widened, a column that was added, and nested columns."""
    place = tmp_path / "t"
    old = spark.range(0, 20, 1, 2).selectExpr("id", "CAST(id AS INT) AS n", "struct(id AS x) AS s")
    table = kind.create(spark, place, old, having=[TYPE_WIDENING])
    new = spark.range(20, 30, 1, 1).selectExpr(
        "id", "id + 5000000000 AS n", "struct(id AS x, 'y' AS y) AS s", "'late' AS t"
    )
    table.append(new, merge_schema=True)
    table.delete("id IN (3, 25)")
    before = rows_of(table)
    assert table.optimize().added.count == 1
    assert rows_of(table) == before
    assert table.optimize(zorder_by=["s.x", "n"]).added.count == 1
    assert rows_of(table) == before
