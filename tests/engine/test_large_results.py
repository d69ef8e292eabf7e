"""Rows found beyond what the driver takes: vectors united and stored by the executors, the same result."""

from __future__ import annotations

import pyarrow as pa
import pytest

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.spark import find_rows, row_bitmaps, store_on_executors
from delvec.storage import open_storage
from rows import multiset
from scanning import collected

pytestmark = pytest.mark.spark


@pytest.fixture
def executors_only(monkeypatch):
    monkeypatch.setattr(find_rows, "FEW_ROWS", 0)
    monkeypatch.setattr(find_rows, "DRIVER_BYTES", 0)


def made(spark, path, **properties):
    from delvec.table import Table

    rows = spark.range(0, 40_000, 1, 2).selectExpr("id", "CAST(id % 3 AS INT) AS p", "id * 2 AS v")
    return Table.create(spark, str(path), rows, partition_by=["p"], properties=properties or None)


def merged(table, spark):
    news = spark.range(39_990, 40_010).selectExpr("id", "CAST(1 AS INT) AS p", "-id AS v")
    merging = table.merge(news, "target.id = source.id").when_matched_update_all()
    return merging.when_not_matched_insert_all().execute()


def test_every_verb_gives_what_the_driver_would(spark, tmp_path, monkeypatch):
    tables, results = [], []
    # Positions as they are, bits on the driver, bits on the executors.
    for few, limit in ((find_rows.FEW_ROWS, 0), (0, find_rows.DRIVER_BYTES), (0, 0)):
        monkeypatch.setattr(find_rows, "FEW_ROWS", few)
        monkeypatch.setattr(find_rows, "DRIVER_BYTES", limit)
        table = made(spark, tmp_path / f"{few} {limit}")
        results.append(
            [
                table.delete("id % 7 = 0"),
                table.delete("id % 11 = 0 OR p = 2"),
                table.update({"v": "v + 1"}, "id % 500 = 1"),
                merged(table, spark),
                table.delete("id > 100"),
            ]
        )
        tables.append(table)
    one, *others = (multiset(collected(table.to_df())) for table in tables)
    assert others == [one, one]
    for mine, *theirs in zip(*results, strict=True):
        for name, count in mine.metrics.items():
            if not name.endswith(("TimeMs", "Bytes")):
                assert [result.metrics[name] for result in theirs] == [count, count], name


def test_vectors_are_stored_by_executors_and_include_the_old_ones(spark, tmp_path, executors_only):
    table = made(spark, tmp_path / "t")
    table.delete("id % 7 = 0")
    before = sorted((tmp_path / "t").glob("deletion_vector_*.bin"))
    table.delete("id % 7 = 1")
    after = sorted((tmp_path / "t").glob("deletion_vector_*.bin"))
    assert len(before) >= 1
    assert len(after) > len(before)
    assert table.to_df().where("id % 7 < 2").count() == 0
    assert table.to_df().count() == sum(1 for i in range(40_000) if i % 7 > 1)


def test_files_without_vectors_are_written_again(spark, tmp_path, executors_only):
    table = made(spark, tmp_path / "t", **{"delta.enableDeletionVectors": "false"})
    result = table.delete("id % 2 = 0")
    assert result.metrics["numDeletedRows"] == 20_000
    assert result.metrics["numCopiedRows"] == 20_000
    assert table.to_df().count() == 20_000


def test_executors_without_delvec_are_said_to_lack_it(spark, tmp_path, executors_only, monkeypatch):
    from delvec.errors import UnsupportedFeatureError
    from delvec.spark import load_on_executors

    def lacking(_, why):
        raise UnsupportedFeatureError(f"{why}: delvec and pyarrow must be installed there")

    table = made(spark, tmp_path / "t")
    assert store_on_executors.check_executors is load_on_executors.check_executors
    monkeypatch.setattr(store_on_executors, "check_executors", lacking)
    with pytest.raises(UnsupportedFeatureError, match=r"too many for the driver.*must be installed"):
        table.delete("id % 2 = 0")
    assert table.version == 0


def test_each_vector_is_stored_with_the_name_of_its_data_file(tmp_path):
    """As the metadata has it. The chunks of the files come in any order."""
    stored = {}

    def store(_, blobs, names):
        stored.update(zip(names, map(blob.decode, blobs), strict=True))
        return [("place", 0, len(framed)) for framed in blobs]

    def chunk(file_id, number, byte):
        bits = bytes([byte]) + bytes(row_bitmaps.CHUNK_BYTES - 1)
        counts = {"count": 1, "flagged": 0, "records": 100_000, "old_deletes": []}
        name = f"p=%2541/raw {file_id}"
        return {"file_id": file_id, "raw_location": name, "path": "x", "chunk": number, "bits": bits} | counts

    group = pa.Table.from_pylist([chunk(2, 0, 4), chunk(1, 1, 1), chunk(2, 1, 2), chunk(1, 0, 8)])
    found = store_on_executors._stored(open_storage(str(tmp_path)), store, group)
    size = 1 << row_bitmaps.CHUNK_BITS
    assert stored == {"p=%2541/raw 1": Bitmap.of(3, size), "p=%2541/raw 2": Bitmap.of(2, size + 1)}
    assert found.column("file_id").to_pylist() == [1, 2]
