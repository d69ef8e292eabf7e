"""Finding the rows that a statement removes: one scan, collected on the driver or stored by executors.

How the rows are collected depends on their number: each row as a number if the files have few rows, bits for
each file (`row_bitmaps`) if these fit on the driver, otherwise as vectors that executors store.
"""

from __future__ import annotations

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame

from delvec.plan import ScanPlan
from delvec.spark.file_paths import file_path, numbers, shown_alike
from delvec.spark.row_bitmaps import FoundRows, collect_bitmaps, collect_positions, row_bits
from delvec.spark.scan import place_columns
from delvec.spark.store_on_executors import bits_size, store_vectors
from delvec.spark.target import Target

DRIVER_BYTES = 64 << 20
"""The most that the driver collects of found rows as bits: 4 KiB for each 32,768 rows of the files."""

FEW_ROWS = 1 << 25
"""If the files have no more rows than this together, the driver collects each row found as a number: 256 MiB
if all rows are found.
"""

FEW_REPEATED_ROWS = 1 << 16
"""The same limit if a row may be found many times."""


def find_matching(target: Target, plan: ScanPlan, where: str | Column) -> FoundRows:
    """The rows of the plan's files for which ``where`` is true. Runs no job if there are no files."""
    if not len(plan.files):
        return FoundRows({}, 0)
    return find(target, plan, target.matching(plan, where), place_columns(target.schema))


def find(
    target: Target,
    plan: ScanPlan,
    frame: DataFrame,
    places: tuple[str, str],
    flag: Column | None = None,
    *,
    repeated: bool = False,
) -> FoundRows:
    """The rows of the plan's files whose places, path and row, are in the frame's columns ``places``.

    If they may take more than ``DRIVER_BYTES`` as bits, executors make and store the new vectors.
    ``repeated``: the frame may contain a row many times.
    """
    if has_few_rows(plan, repeated=repeated):
        paths = _paths_by_number(frame, plan)
        if paths is not None:
            return collect_positions(frame, *places, paths, flag)
    store = target.rules.store_vectors
    if store is None or bits_size(plan) <= DRIVER_BYTES:
        return collect_bitmaps(frame, *places, flag)
    stored = store_vectors(row_bits(frame, *places, flag), plan, target.storage, store)
    counts, flagged = (sum(stored.column(name).to_pylist()) for name in ("count", "flagged"))
    return FoundRows({}, counts, flagged, stored)


def has_few_rows(plan: ScanPlan, *, repeated: bool = False) -> bool:
    """Whether the files have so few rows that the driver collects each row found, without a shuffle."""
    rows = plan.files.column("record_count")
    few = min(FEW_ROWS, FEW_REPEATED_ROWS) if repeated else FEW_ROWS
    return not rows.null_count and (pc.sum(rows).as_py() or 0) <= few


def _paths_by_number(frame: DataFrame, plan: ScanPlan) -> dict[int, str] | None:
    """The paths of the files by their numbers; None if numbers collide or Spark returns other paths."""
    paths = list(map(file_path, plan.files.column("location").to_pylist()))
    by_number = dict(zip(numbers(paths).tolist(), paths, strict=True))
    return by_number if len(by_number) == len(paths) and shown_alike(frame, paths) else None
