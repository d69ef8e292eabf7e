"""Live rows of files, unchanged and with their ids, for new files that replace these files."""

from __future__ import annotations

from pyspark.sql import DataFrame

from delvec.plan import ScanPlan
from delvec.spark.new_rows import conformed
from delvec.spark.scan import place_columns
from delvec.spark.target import Target


def copied_rows(target: Target, plan: ScanPlan, *, with_path: bool = False) -> DataFrame:
    """The live rows of the plan's files in the table's columns, and ids if the rows have them.

    ``with_path``: also the path of each row's file, in the first column of `scan.place_columns`.
    """
    path, row = place_columns(target.schema)
    located = with_path or bool(target.lineage)
    frame = target.scan_located(plan) if located else target.scan(plan)
    frame = frame.drop(row) if with_path else frame.drop(path, row)
    extra = (*target.lineage, path) if with_path else target.lineage
    return conformed(frame, target.rules.schema, extra=extra)
