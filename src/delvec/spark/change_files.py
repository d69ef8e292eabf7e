"""Change files: the old and new rows of a change, written if the table has a change data feed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from delvec.change_plan import CHANGE_TYPE
from delvec.spark.target import Target
from delvec.spark.write_rows import NOTHING_WRITTEN, WrittenFiles, write_rows

FOLDER = "_change_data"


def write_changes(target: Target, changes: Sequence[tuple[str, DataFrame]], *, size: int) -> WrittenFiles:
    """Write the rows of each frame, which has the table's columns, as changes of the kind that is paired with
    it.
    """
    kinds = [frame.withColumn(CHANGE_TYPE, F.lit(kind)) for kind, frame in changes]
    if not kinds:
        return NOTHING_WRITTEN
    rows = kinds[0]
    for more in kinds[1:]:
        rows = rows.unionByName(more)
    rules = replace(target.rules, measured=())  # tables keep no statistics of change files
    return write_rows(rows, target.storage, rules, size=size, folder=FOLDER, extra=(CHANGE_TYPE,))
