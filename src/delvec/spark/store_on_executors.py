"""New vectors that are too large for the driver: made and stored on the executors.

A task gets the bits of the rows found in some of the files, unites them with the old deleted rows of each
file, and stores the new vectors together. The driver gets a row for each file: where its new vector is, and
counts.
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from delvec.bitmap import Bitmap
from delvec.deletes.loader import DeleteLoader
from delvec.deletes.new_vectors import new_vector
from delvec.deletes.sets import DeleteSets, described
from delvec.errors import FormatError
from delvec.plan import ScanPlan
from delvec.row_delta import StoreVectors
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.file_paths import file_path
from delvec.spark.load_on_executors import check_executors
from delvec.spark.progress import ROWS_FOUND, VECTORS_STORED, tell
from delvec.spark.row_bitmaps import CHUNK_BITS, CHUNK_BYTES, positions
from delvec.storage import Storage, open_storage

_TASK_BYTES = 32 << 20
_FILE, _NAME, _BUCKET, _OLD_DELETES = "file_id", "raw_location", "bucket", "old_deletes"
_BITS = ("path", "chunk", "bits", "count", "flagged")
_STORED = pa.schema(
    [
        (name, pa.string() if name == "location" else pa.int64())
        for name in ("file_id", "location", "offset", "length", "cardinality", "deleted", "count", "flagged")
    ]
)
_DDL = ", ".join(f"{f.name} {'string' if f.type == pa.string() else 'bigint'}" for f in _STORED)


def bits_size(plan: ScanPlan) -> int:
    """An upper bound of the bytes of bits for these files; a file without a row count is taken as large."""
    counts = plan.files.column("record_count").to_pylist()
    chunks = sum(((count or 0) >> CHUNK_BITS) + 1 for count in counts)
    return chunks * CHUNK_BYTES + sum(1 << 20 for count in counts if count is None)


def store_vectors(bits: DataFrame, plan: ScanPlan, storage: Storage, store: StoreVectors) -> pa.Table:
    """Make and store the new vectors of the files in ``bits``, which `row_bitmaps.row_bits` returned.

    Returned columns: file_id, location, offset, length, cardinality, deleted, count, flagged.
    """
    spark = bits.sparkSession
    check_executors(spark, "the rows found are too many for the driver, and the executors cannot store them")
    files = frame_of_table(spark, _files(plan))
    tasks = max(1, math.ceil(bits_size(plan) / _TASK_BYTES))
    joined = bits.toDF(*_BITS).join(files, "path", "left")
    root, options = storage.root, dict(storage.options)

    def stored(group: pa.Table) -> pa.Table:
        return _stored(open_storage(root, options), store, group)

    bucket = F.pmod(F.col(_FILE), F.lit(tasks)).alias(_BUCKET)
    vectors = joined.groupBy(bucket).applyInArrow(stored, _DDL).toArrow()
    tell(ROWS_FOUND, sum(vectors.column("count").to_pylist()))
    tell(VECTORS_STORED, len(vectors))
    return vectors


def _files(plan: ScanPlan) -> pa.Table:
    """A row for each file: its path as Spark returns it, id, recorded name, number of rows, and deletes."""
    files = plan.files
    return pa.table(
        {
            "path": pa.array(map(file_path, files.column("location").to_pylist()), pa.string()),
            _FILE: files.column(_FILE),
            _NAME: files.column(_NAME),
            "records": files.column("record_count"),
            _OLD_DELETES: DeleteSets.of(plan).describe_by_file(),
        }
    )


def _stored(storage: Storage, store: StoreVectors, group: pa.Table) -> pa.Table:
    """The new vectors of the files in ``group``, which has a row for each chunk, stored."""
    chunks = sorted(group.to_pylist(), key=lambda row: (row[_FILE] is None, row[_FILE]))
    files = [list(rows) for _, rows in groupby(chunks, key=lambda row: row[_FILE])]
    old = DeleteLoader(storage).load(described([rows[0][_OLD_DELETES] or [] for rows in files]))
    vectors = [_new_vector(rows, before) for rows, before in zip(files, old, strict=True)]
    names = [rows[0][_NAME] for rows in files]
    places = store(storage, [vector.pop("rows") for vector in vectors], names)
    stored = [
        vector | {"location": location, "offset": offset, "length": length}
        for vector, (location, offset, length) in zip(vectors, places, strict=True)
    ]
    return pa.Table.from_pylist(stored, schema=_STORED)


def _new_vector(rows: list[dict[str, Any]], old: Bitmap | None) -> dict[str, Any]:
    """The new vector of one file, from the chunks of the rows found."""
    first = rows[0]
    if first[_FILE] is None:
        raise FormatError("a scan found rows in a file that is not in its plan", path=first["path"])
    new_rows = Bitmap.from_numpy(positions([(row["chunk"], row["bits"]) for row in rows]))
    for bitmap in (new_rows, old or new_rows):
        _verify_inside(bitmap, first)
    counts = {name: sum(row[name] for row in rows) for name in ("count", "flagged")}
    return new_vector(first[_FILE], new_rows, old) | counts


def _verify_inside(bitmap: Bitmap, row: dict[str, Any]) -> None:
    last = bitmap.max()
    if row["records"] is not None and last is not None and last >= row["records"]:
        raise FormatError(f"row {last} was found, expected fewer than {row['records']}", path=row["path"])
