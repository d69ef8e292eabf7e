"""Large results of finding rows: united with the old vectors and stored on the executors.

The driver gets a row for each file: where its new vector is, and counts. Files are spread over tasks by their
id; a task holds the bits of its files, unites each with the file's old vector, and stores them together.
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.deletes.loader import load_vectors
from delvec.errors import FormatError
from delvec.plan import ScanPlan
from delvec.row_delta import StoreVectors
from delvec.spark.distributed import check_executors
from delvec.spark.files import file_path
from delvec.spark.find import CHUNK_BITS, CHUNK_BYTES, positions
from delvec.storage import Storage, open_storage

_TASK_BYTES = 32 << 20
_FILE, _BUCKET = "file_id", "bucket"
_BITS = ("path", "chunk", "bits", "count", "flagged")
_OLD = ["kind", "location", "inline", "offset", "length", "cardinality", "referenced_file"]
_STORED = (
    "file_id bigint, location string, offset bigint, length bigint, cardinality bigint, deleted bigint, "
    "count bigint, flagged bigint"
)


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
    return named.groupBy(bucket).applyInArrow(stored, _STORED).toArrow()


def _files(plan: ScanPlan) -> pa.Table:
    files = plan.files
    old = plan.deletes.take(files.column("vector")).select(_OLD)
    columns = {f"old_{name}": old.column(name) for name in _OLD}
    places = pa.array([file_path(place) for place in files.column("location").to_pylist()], pa.string())
    return pa.table(
        {"path": places, _FILE: files.column(_FILE), "records": files.column("record_count"), **columns}
    )


def _stored(storage: Storage, store: StoreVectors, group: pa.Table) -> pa.Table:
    rows = sorted(group.to_pylist(), key=lambda row: (row[_FILE] is None, row[_FILE]))
    found = [_united(storage, list(of)) for _, of in groupby(rows, key=lambda row: row[_FILE])]
    places = store(storage, [row.pop("blob") for row in found])
    named = zip(found, places, strict=True)
    whole = [row | {"location": at, "offset": offset, "length": size} for row, (at, offset, size) in named]
    return pa.Table.from_pylist(whole, schema=_SCHEMA)


_SCHEMA = pa.schema(
    [
        (name, pa.string() if name == "location" else pa.int64())
        for name in ("file_id", "location", "offset", "length", "cardinality", "deleted", "count", "flagged")
    ]
)


def _united(storage: Storage, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The new vector of one file, from the rows of its chunks."""
    first = rows[0]
    if first[_FILE] is None:
        raise FormatError("a scan found rows in a file that is not in its plan", path=first["path"])
    found = Bitmap.from_numpy(np.concatenate([positions(row["chunk"], row["bits"]) for row in rows]))
    old = _old_vector(storage, first)
    united = found if old is None else old | found
    _verify_inside(united, first)
    return {
        "file_id": first[_FILE],
        "blob": blob.encode(united),
        "cardinality": united.cardinality,
        "deleted": united.cardinality - (0 if old is None else old.cardinality),
        "count": sum(row["count"] for row in rows),
        "flagged": sum(row["flagged"] for row in rows),
    }


def _old_vector(storage: Storage, row: dict[str, Any]) -> Bitmap | None:
    if row["old_kind"] is None:
        return None
    deletes = pa.Table.from_pylist([{name: row[f"old_{name}"] for name in _OLD}])
    return load_vectors(storage, deletes)[0]


def _verify_inside(united: Bitmap, row: dict[str, Any]) -> None:
    last = united.max()
    if row["records"] is not None and last is not None and last >= row["records"]:
        raise FormatError(f"row {last} was found, expected fewer than {row['records']}", path=row["path"])
