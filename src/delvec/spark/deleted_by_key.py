"""Rows of files that concurrent commits deleted by their keys, for conflict checks."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from delvec.bitmap import Bitmap
from delvec.chunked import one_chunk
from delvec.formats import Snapshot
from delvec.plan import EQUALITY_FILE
from delvec.schema import Field, Primitive
from delvec.spark.file_constants import with_constants
from delvec.spark.kept_rows import FurtherColumns
from delvec.spark.row_bitmaps import collect_bitmaps
from delvec.spark.scan import own_prefix, scan_deleted_by_value
from delvec.spark.scan_part import united
from delvec.spark.target import Target


def rows_deleted_by_key(
    target: Target, newest: Snapshot, file_ids: pa.Array, after: int
) -> dict[int, Bitmap]:
    """The rows of these files of the newest version whose first delete by key has a sequence number above
    ``after``. Rows that are deleted by position are left out.
    """
    plan = newest.plan(among=file_ids)
    if not pc.any(pc.equal(plan.deletes.column("kind"), EQUALITY_FILE)).as_py():
        return {}
    file, row, deleted_by = (own_prefix(plan.schema) + name for name in ("id", "position", "by"))
    ids = one_chunk(plan.files.column("file_id"))
    plan = with_constants(plan, {Field(file, Primitive("long")): ids})
    further = FurtherColumns(row=row, deleted_by=deleted_by)
    frames = scan_deleted_by_value(target.spark, plan, target.deletes, further)
    if not frames:
        return {}
    rows = united(frames).where(F.col(deleted_by) > after)
    found = collect_bitmaps(rows, file, row).files
    return {int(number): positions for number, positions in found.items()}
