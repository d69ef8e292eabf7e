"""COUNT: the number of rows, from the metadata where that decides."""

from __future__ import annotations

from pyspark.sql import Column, SparkSession

from delvec.formats import Snapshot
from delvec.recorded_count import recorded_rows
from delvec.spark import read
from delvec.spark.scan import scan
from delvec.spark.session import sql_settings
from delvec.storage import Storage


def count_rows(spark: SparkSession, snapshot: Snapshot, storage: Storage, where: str | Column | None) -> int:
    """The number of live rows for which ``where`` is true. Reads only the files that the metadata does not
    decide, and runs no job if it decides all of them.
    """
    recorded = recorded_rows(snapshot, where, sql_settings(spark))
    if recorded is None:
        return read.rows(spark, snapshot, storage, where, None).count()
    is_decided = not len(recorded.undecided.files)
    if is_decided and where is None:
        return recorded.rows
    rows = scan(spark, recorded.undecided, storage)
    if where is not None:
        rows = rows.where(where)
        _ = rows.schema  # Spark refuses here what it does not understand
    return recorded.rows + (0 if is_decided else rows.count())
