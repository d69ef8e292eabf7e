"""Rows that deletes by value deleted: one scan for all commits.

The scan finds for each row the first delete that applies to it (`first_deletes`), among those of the range
and those from before it. The row is a change if that is a delete of a commit of its file's period: otherwise
the row was deleted before, or the file was not there yet.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from delvec.change_plan import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, DELETE, FilesInRange
from delvec.deletes.loader import DeleteLoader
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.change_columns import ChangeColumns
from delvec.spark.file_constants import with_constants
from delvec.spark.scan import scan_deleted_by_value
from delvec.spark.types import selected

_FIRST, _END = "first", "end"


def rows_deleted_by_value(
    spark: SparkSession,
    commits: pa.Table,
    periods: FilesInRange,
    columns: ChangeColumns,
    loader: DeleteLoader,
) -> list[DataFrame]:
    """The deleted rows with the columns of a change feed: a frame for each scan. No file is there twice.

    ``commits`` are those of the plan.
    """
    first, end, sequence = (columns.prefix + name for name in (_FIRST, _END, "sequence"))
    bounds = {columns.long(first): pa.array(periods.first), columns.long(end): pa.array(periods.end)}
    plan = with_constants(columns.widened(periods.plan), bounds)
    by_sequence = F.broadcast(_by_sequence(spark, commits, sequence, columns.prefix + "number"))
    is_change = F.expr(
        f"{columns.deleted_by} = {sequence} AND {columns.prefix}number >= {first} "
        f"AND {columns.prefix}number < {end}"
    )
    found: list[Column | str] = [F.lit(DELETE).alias(CHANGE_TYPE), COMMIT_VERSION, COMMIT_TIMESTAMP]
    return [
        selected(rows.join(by_sequence, is_change), columns.selected(*found))
        for rows in scan_deleted_by_value(spark, plan, loader, columns.with_deleted_by)
    ]


def _by_sequence(spark: SparkSession, commits: pa.Table, sequence: str, number: str) -> DataFrame:
    """The commits that can delete by value, by the sequence of these deletes."""
    columns = {
        sequence: commits.column("sequence"),
        number: pa.array(range(len(commits)), pa.int64()),
        COMMIT_VERSION: commits.column("version"),
        COMMIT_TIMESTAMP: commits.column("timestamp"),
    }
    table = pa.table(columns)
    return frame_of_table(spark, table.filter(table.column(sequence).is_valid()))
