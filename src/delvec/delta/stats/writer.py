"""The ``stats`` texts of new data files.

    {"numRecords": 3, "minValues": {…}, "maxValues": {…}, "nullCount": {…}, "tightBounds": true}

Columns have their physical names, nested as they are in the table. The statistics themselves are
measured by `delvec.footers.statistics`; a statistic that is not known is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from delvec.delta.stats.bounds import Json, has_bounds, lower_bounds, upper_bounds
from delvec.delta.stats.columns import StatsRules
from delvec.footers.statistics import MeasuredColumn, column_statistics
from delvec.schema import Primitive


@dataclass(frozen=True, slots=True)
class _JsonColumn:
    """The statistics of one column as JSON values, one per file; None where there is none."""

    path: tuple[str, ...]
    lower: Sequence[Json]
    upper: Sequence[Json]
    null_count: Sequence[int | None]


def new_stats_texts(files: pa.Table, rules: StatsRules) -> list[str]:
    """The text for each of the new ``files``, as `RowDelta.added` has them."""
    files = files.combine_chunks()
    columns = [_json_column(files, column, rules.string_length) for column in rules.columns]
    counts = files.column("record_count").to_pylist()
    return [_text(count, columns, row) for row, count in enumerate(counts)]


def _json_column(files: pa.Table, column: MeasuredColumn, string_length: int) -> _JsonColumn:
    statistics, no_values = column_statistics(files, column.path), [None] * len(files)
    if statistics is None:
        return _JsonColumn(column.path, no_values, no_values, no_values)
    nulls = no_values if column.type == Primitive("void") else statistics.null_count.to_pylist()
    if not has_bounds(column.type):
        return _JsonColumn(column.path, no_values, no_values, nulls)
    # Readers of Delta treat NaN as the largest number.
    upper = pc.if_else(statistics.upper_covers_nan, statistics.upper, pa.scalar(None, statistics.upper.type))
    return _JsonColumn(
        column.path,
        lower_bounds(statistics.lower, column.type, string_length),
        upper_bounds(upper, column.type, string_length),
        nulls,
    )


def _text(record_count: int, columns: Sequence[_JsonColumn], row: int) -> str:
    lowers: dict[str, Any] = {}
    uppers: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for column in columns:
        _put(nulls, column.path, column.null_count[row])
        _put(lowers, column.path, column.lower[row])
        _put(uppers, column.path, column.upper[row])
    stats = {
        "numRecords": record_count,
        "minValues": lowers,
        "maxValues": uppers,
        "nullCount": nulls,
        "tightBounds": True,
    }
    return orjson.dumps(stats).decode()


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Json) -> None:
    if value is None:
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value
