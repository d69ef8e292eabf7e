"""OPTIMIZE and PURGE: which files are rewritten, what stays as it was, and what a concurrent writer keeps."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from delvec.errors import InvalidOperationError
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
    return {path for path in Path(table.location).rglob("*.parquet") if "_staging" not in str(path)}


def test_files_of_a_partition_become_one(spark, lake):
    table = opened(spark, lake)
    before = rows_of(table)
    result = table.optimize()
    assert (result.version, result.versions, files_of(table)) == (1, (1,), {0: 1, 1: 1})
    assert (result.removed.count, result.added.count, result.groups, result.partitions) == (4, 2, 2, 2)
    assert rows_of(table) == before
    assert rows_of(table) == rows_of_version(table, 0)


def rows_of_version(table, version):
    return sorted((tuple(row.asDict().values()) for row in table.to_df(version=version).collect()), key=str)


def test_nothing_to_do_commits_nothing(spark, lake):
    table = opened(spark, lake)
    table.optimize()
    with unchanged(table):
        again = table.optimize()
    assert (again.version, again.versions, again.removed.count, again.considered) == (1, (), 0, 2)
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
