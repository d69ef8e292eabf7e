"""Position files in the engine: read, deleted on top of, and counted.

No format writes them yet, so the plans of a Delta table are given some.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delvec.delta.snapshot import Snapshot
from lake import Lake
from scanning import opened, same

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64())])
ROWS = 5000
DELETED = {0: {0, 3, 4999}, 1: {7, 4096}}
"""By file. Row 3 is in two position files."""


@pytest.fixture
def table(spark, tmp_path, monkeypatch):
    """Two files with position files, one with a vector, one without deletes."""
    lake = Lake(tmp_path / "t", SCHEMA)
    for number in range(4):
        rows = [{"id": number * ROWS + row} for row in range(ROWS)]
        lake.write(rows, deleted=[9] if number == 2 else [], name=f"file-{number}.parquet")
    lake.commit()
    first = [("file-0.parquet", 3), ("file-1.parquet", 7), ("file-1.parquet", 4096)]
    second = [("file-0.parquet", 0), ("file-0.parquet", 3), ("file-0.parquet", 4999)]
    deletes = [position_file(tmp_path / f"d{n}.parquet", rows) for n, rows in enumerate((first, second))]
    planned = Snapshot.plan

    def plan(self, *given, **named):
        found = planned(self, *given, **named)
        count = len(found.deletes)
        # The rule leaves out position files where the file has got a vector since.
        groups = [
            0 if name in ("file-0.parquet", "file-1.parquet") else None
            for name in found.files.column("raw_location").to_pylist()
        ]
        at = found.files.schema.get_field_index("delete_group")
        more = pa.Table.from_pylist(deletes, schema=found.deletes.schema)
        return replace(
            found,
            files=found.files.set_column(at, "delete_group", pa.array(groups, pa.int32())),
            deletes=pa.concat_tables([found.deletes, more]),
            delete_groups=((count, count + 1),),
        )

    monkeypatch.setattr(Snapshot, "plan", plan)
    return opened(spark, lake)


def position_file(path, rows):
    paths, positions = zip(*rows, strict=True)
    pq.write_table(pa.table({"file_path": list(paths), "pos": list(positions)}), path)
    place = {"location": str(path), "length": path.stat().st_size, "cardinality": len(rows)}
    return {"kind": "position-file", "encoding": "full-row", **place}


def live(*, without=()):
    gone = {(file, row) for file, rows in (DELETED | {2: {9}}).items() for row in rows}
    ids = (n * ROWS + row for n in range(4) for row in range(ROWS) if (n, row) not in gone)
    return [{"id": one} for one in ids if one not in without]


@pytest.mark.parametrize("way", ["words", "chunks", "executors"])
def test_are_applied_by_the_scan(table, monkeypatch, way):
    if way != "words":
        monkeypatch.setattr("delvec.spark.vector_words.MOST_BYTES", -1)
    if way == "executors":
        monkeypatch.setattr("delvec.spark.scan.DRIVER_CHUNK_BYTES", 0)
    same(table.to_df(), live())


@pytest.mark.parametrize("on", ["driver", "executors"])
def test_become_part_of_the_new_vector(table, monkeypatch, on):
    if on == "executors":
        monkeypatch.setattr("delvec.spark.find_rows.FEW_ROWS", 0)
        monkeypatch.setattr("delvec.spark.find_rows.DRIVER_BYTES", 0)
    table.delete("id IN (4, 3, 10010)")  # row 3 of the first file is deleted already
    (version,) = table.history(1).select("version").collect()[0]
    assert version == 1
    counts = {row["location"][-14:]: row["deleted_count"] for row in table.files().collect()}
    assert counts == {"file-0.parquet": 4, "file-1.parquet": None, "file-2.parquet": 2, "file-3.parquet": 0}
    same(table.to_df(), live(without={4, 10010}))


def test_a_dry_run_counts_them(table):
    files = {file["location"][-14:]: file for file in table.delete("id < 6", dry_run=True).files.to_pylist()}
    (file,) = files.values()
    assert (file["deleted"], file["matching"], file["outcome"]) == (3, 4, "grown-vector")
    assert table.delete("id >= 0", dry_run=True).metrics == {"numCopiedRows": 0}, (
        "counts of whole files are not recorded"
    )


def test_a_delete_reads_each_vector_once(spark, tmp_path, monkeypatch):
    from delvec.deletes import loader

    lake = Lake(tmp_path / "t", SCHEMA)
    for number in range(3):
        lake.write([{"id": number * 10 + row} for row in range(10)], deleted=[number])
    lake.commit()
    loaded = []
    examine = loader.examine

    def counted(storage, sets):
        loaded.append(len(sets.file))
        return examine(storage, sets)

    monkeypatch.setattr(loader, "examine", counted)
    table = opened(spark, lake)
    assert table.delete("id % 10 = 5").metrics["numDeletedRows"] == 3
    assert sum(loaded) == 3
    same(table.to_df(), [row for row in lake.live if row["id"] % 10 != 5])
