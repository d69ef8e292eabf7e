"""Large results of finding rows: united with the old vectors and stored on the executors.

The driver gets a row for each file: where its new vector is, and counts. Files are spread over tasks by their
id; a task holds the bits of its files, unites each with the file's old vector, and stores them together.
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.deletes.applied import VECTOR_COLUMNS
from delvec.deletes.loader import load_vectors
from delvec.errors import FormatError
from delvec.plan import ScanPlan
from delvec.row_delta import StoreVectors
from delvec.spark.file_paths import file_path
from delvec.spark.find_rows import CHUNK_BITS, CHUNK_BYTES, positions, united
from delvec.spark.load_on_executors import check_executors
from delvec.spark.progress import ROWS_FOUND, VECTORS_STORED, tell
from delvec.storage import Storage, open_storage

_TASK_BYTES = 32 << 20
_FILE, _BUCKET = "file_id", "bucket"
_BITS = ("path", "chunk", "bits", "count", "flagged")
_STORED = pa.schema(
    [
        (name, pa.string() if name == "location" else pa.int64())
        for name in ("file_id", "location", "offset", "length", "cardinality", "deleted", "count", "flagged")
    ]
)
_DDL = ", ".join(f"{f.name} {'string' if f.type == pa.string() else 'bigint'}" for f in _STORED)


def bits_size(plan: ScanPlan) -> int:
    """The most that the bits of rows in these files take; a file of unknown count is taken for large."""
    counts = plan.files.column("record_count").to_pylist()
    chunks = sum(((count or 0) >> CHUNK_BITS) + 1 for count in counts)
    return chunks * CHUNK_BYTES + sum(1 << 20 for count in counts if count is None)


def store_vectors(bits: DataFrame, plan: ScanPlan, storage: Storage, store: StoreVectors) -> pa.Table:
    """The new vectors of the plan's files that ``bits`` (of `find.row_bits`) has rows of, stored.

    Columns: file_id, location, offset, length, cardinality, deleted, count, flagged.
    """
    spark = bits.sparkSession
    check_executors(spark, "the rows found are too many for the driver, and the executors cannot store them")
    files = spark.createDataFrame(_files(plan))
    tasks = max(1, math.ceil(bits_size(plan) / _TASK_BYTES))
    named = bits.toDF(*_BITS).join(files, "path", "left")
    root, options = storage.root, dict(storage.options)

    def stored(group: pa.Table) -> pa.Table:
        return _stored(open_storage(root, options), store, group)

    bucket = F.pmod(F.col(_FILE), F.lit(tasks)).alias(_BUCKET)
    made = named.groupBy(bucket).applyInArrow(stored, _DDL).toArrow()
    tell(ROWS_FOUND, sum(made.column("count").to_pylist()))
    tell(VECTORS_STORED, len(made))
    return made


def _files(plan: ScanPlan) -> pa.Table:
    files = plan.files
    old = plan.deletes.take(files.column("vector")).select(VECTOR_COLUMNS)
    columns = {f"old_{name}": old.column(name) for name in VECTOR_COLUMNS}
    places = pa.array([file_path(place) for place in files.column("location").to_pylist()], pa.string())
    return pa.table(
        {"path": places, _FILE: files.column(_FILE), "records": files.column("record_count"), **columns}
    )


def _stored(storage: Storage, store: StoreVectors, group: pa.Table) -> pa.Table:
    rows = sorted(group.to_pylist(), key=lambda row: (row[_FILE] is None, row[_FILE]))
    files = [list(of) for _, of in groupby(rows, key=lambda row: row[_FILE])]
    old = _old_vectors(storage, [of[0] for of in files])
    found = [_new_vector(of, before) for of, before in zip(files, old, strict=True)]
    places = store(storage, [row.pop("blob") for row in found])
    named = zip(found, places, strict=True)
    whole = [row | {"location": at, "offset": offset, "length": size} for row, (at, offset, size) in named]
    return pa.Table.from_pylist(whole, schema=_STORED)


def _new_vector(rows: list[dict[str, Any]], old: Bitmap | None) -> dict[str, Any]:
    """The new vector of one file, from the rows of its chunks."""
    first = rows[0]
    if first[_FILE] is None:
        raise FormatError("a scan found rows in a file that is not in its plan", path=first["path"])
    found = Bitmap.from_numpy(positions([(row["chunk"], row["bits"]) for row in rows]))
    vector, deleted = united(found, old)
    _verify_inside(vector, first)
    return {
        "file_id": first[_FILE],
        "blob": blob.encode(vector),
        "cardinality": vector.cardinality,
        "deleted": deleted,
        "count": sum(row["count"] for row in rows),
        "flagged": sum(row["flagged"] for row in rows),
    }


def _old_vectors(storage: Storage, files: list[dict[str, Any]]) -> list[Bitmap | None]:
    """The vector of each file, None where it has none; those that share a file are read together."""
    deletes = [
        {name: row[f"old_{name}"] for name in VECTOR_COLUMNS} for row in files if row["old_kind"] is not None
    ]
    loaded = load_vectors(storage, pa.Table.from_pylist(deletes)) if deletes else {}
    each = (loaded[number] for number in range(len(deletes)))
    return [None if row["old_kind"] is None else next(each) for row in files]


def _verify_inside(united: Bitmap, row: dict[str, Any]) -> None:
    last = united.max()
    if row["records"] is not None and last is not None and last >= row["records"]:
        raise FormatError(f"row {last} was found, expected fewer than {row['records']}", path=row["path"])
