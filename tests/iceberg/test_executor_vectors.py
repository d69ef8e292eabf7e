"""Vectors of a large delete: executors make and store them, a Puffin file for each task. Rows, entries and
blobs are those that the driver would have made.
"""

from __future__ import annotations

import pytest

from delvec.detect import open_table
from delvec.puffin import PuffinReader
from delvec.spark import find_rows, store_on_executors
from iceberg_tables.readers import read_by_duckdb, read_by_pyiceberg
from racing import losing
from scanning import collected

pytestmark = pytest.mark.spark


@pytest.fixture
def executors_only(monkeypatch):
    monkeypatch.setattr(find_rows, "FEW_ROWS", 0)
    monkeypatch.setattr(find_rows, "FEW_REPEATED_ROWS", 0)
    monkeypatch.setattr(find_rows, "DRIVER_BYTES", 0)
    monkeypatch.setattr(store_on_executors, "_TASK_BYTES", 16 << 10)  # several tasks


def made(spark, root, **options):
    from delvec import Table

    rows = spark.range(12_000).selectExpr("id", "CAST(id % 6 AS INT) AS p", "id * 2 AS v")
    return Table.create(spark, str(root), rows, format="iceberg", partition_by=["p"], **options)


def rows_of(table):
    return sorted((row["id"], row["v"]) for row in collected(table.to_df()))


def puffin_files(root):
    return sorted(root.glob("data/*.puffin"))


def live_vectors(root):
    """(data file, Puffin file, offset, length, cardinality) of each live vector, as the manifests have it."""
    deletes = open_table(str(root)).snapshot().files.live.deletes()
    names = ("referenced_data_file", "file_path", "content_offset", "content_size", "record_count")
    return list(zip(*(deletes.column(name).to_pylist() for name in names), strict=True))


def verify_vectors(table, root, deleted):
    """One vector for each data file, at the place that the manifest says, named as the manifest names it."""
    vectors = live_vectors(root)
    assert len({vector[0] for vector in vectors}) == len(vectors) == 6
    assert sum(vector[4] for vector in vectors) == deleted
    for data_file, place, offset, length, cardinality in vectors:
        data = (root / "data" / place.rpartition("/")[2]).read_bytes()
        blobs = {(blob.offset, blob.length): blob for blob in PuffinReader.from_bytes(data).blobs}
        assert blobs[offset, length].properties == {
            "referenced-data-file": data_file,
            "cardinality": str(cardinality),
        }
    assert table.verify().findings == ()


def test_vectors_of_several_tasks_include_the_old_ones(spark, tmp_path, executors_only):
    root = tmp_path / "t"
    table = made(spark, root)
    assert table.delete("id % 7 = 0").metrics["numDeletedRows"] == 1715
    assert len(puffin_files(root)) > 1
    verify_vectors(table, root, 1715)
    first = live_vectors(root)
    assert table.delete("id % 7 < 2").metrics["numDeletedRows"] == 1715
    verify_vectors(table, root, 3430)
    assert not {vector[1] for vector in first} & {vector[1] for vector in live_vectors(root)}
    expected = [(i, 2 * i) for i in range(12_000) if i % 7 > 1]
    assert rows_of(table) == expected
    for read in (read_by_duckdb, read_by_pyiceberg):
        assert sorted((row["id"], row["v"]) for row in read(root)) == expected
    table.update({"v": "-1"}, "id % 7 = 3")
    source = spark.range(11_990, 12_010).selectExpr("id", "CAST(1 AS INT) AS p", "0L AS v")
    merge = table.merge(source, "target.id = source.id").when_matched_delete()
    merge.when_not_matched_insert_all().execute()
    after = {i: -1 if i % 7 == 3 else 2 * i for i, _ in expected if i < 11_990}
    after |= dict.fromkeys([i for i in range(11_990, 12_010) if i not in dict(expected)], 0)
    assert rows_of(table) == sorted(after.items())
    assert table.verify().findings == ()


def test_two_writers_unite_vectors_that_executors_have_stored(spark, tmp_path, executors_only):
    root = tmp_path / "t"
    made(spark, root)
    table = losing(spark, str(root), lambda other: other.delete("id % 7 = 0"))
    result = table.delete("id % 7 = 1")
    assert (result.metrics["numFilesUnited"], "numRuns" in result.metrics) == (6, False)
    assert rows_of(table) == [(i, 2 * i) for i in range(12_000) if i % 7 > 1]
    verify_vectors(table, root, 3430)


def test_some_files_are_changed_by_both(spark, tmp_path, executors_only):
    """Vectors of the other files stay where the executors stored them."""
    root = tmp_path / "t"
    made(spark, root)
    table = losing(spark, str(root), lambda other: other.delete("id % 2 = 0 AND id % 7 = 0"))
    assert table.delete("id % 7 = 1").metrics["numFilesUnited"] == 3
    assert rows_of(table) == [(i, 2 * i) for i in range(12_000) if i % 7 != 1 and (i % 2 or i % 7)]
    assert len({vector[1] for vector in live_vectors(root)}) > 1
    assert table.verify().findings == ()


def test_position_files_of_version_2_become_part_of_the_vectors(spark, tmp_path, monkeypatch):
    root = tmp_path / "t"
    table = made(spark, root, format_version=2)
    table.delete("id % 7 = 0")
    table.upgrade(3)
    for name in ("FEW_ROWS", "DRIVER_BYTES"):
        monkeypatch.setattr(find_rows, name, 0)
    table.delete("id % 7 = 1")
    assert rows_of(table) == [(i, 2 * i) for i in range(12_000) if i % 7 > 1]
    verify_vectors(table, root, 3430)


def test_files_that_lose_many_rows_are_written_again(spark, tmp_path, executors_only):
    """From vectors that executors have stored and that the table never gets."""
    root = tmp_path / "t"
    table = made(spark, root, properties={"delvec.rewriteDeletedShare": "0.5"})
    result = table.delete("id % 2 = 0 AND id % 7 > 1 OR id % 7 = 1")
    assert result.metrics["numCopiedRows"] == 858
    assert rows_of(table) == [(i, 2 * i) for i in range(12_000) if i % 7 == 0 or (i % 2 and i % 7 > 1)]
    assert len(live_vectors(root)) == 3
    assert table.verify().findings == ()


def test_version_2_has_no_vectors(spark, tmp_path, executors_only):
    """Position files, which the driver writes."""
    root = tmp_path / "t"
    table = made(spark, root, format_version=2)
    assert table.delete("id % 7 = 0").metrics["numDeletedRows"] == 1715
    assert puffin_files(root) == []
    assert rows_of(table) == [(i, 2 * i) for i in range(12_000) if i % 7]
