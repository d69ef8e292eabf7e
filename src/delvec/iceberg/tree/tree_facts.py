"""Statistics of entries, as the facts that conditions are judged by: of data files, and of whole leaves.

A column has facts by its own statistics, and by those of each expression of it: the day of a timestamp, or
the bucket of an id where all files share one. They are computed when a condition first needs them, and kept.
"""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.chunked import Rows, one_chunk, rows_of
from delvec.file_facts import ColumnPath, ColumnStats
from delvec.iceberg.partition_ranges import says_something, source_range
from delvec.iceberg.stats import field_at, narrowed
from delvec.iceberg.tree.content_stats import LOWER, NANS, NULLS, UPPER, VALUES, promoted, statistic
from delvec.iceberg.tree.entries import CONTENT_STATS, DATA
from delvec.iceberg.tree.measured_columns import MeasuredColumns, PartitionExpression
from delvec.schema import Array, DataType, Map, Primitive, Struct, arrow_type

_TEXTS = (Primitive("string"), Primitive("binary"))


class TreeFacts:
    """Facts about the rows of each entry: a data file, or all files of a leaf. As ``SelectableFacts``."""

    def __init__(self, entries: pa.Table, columns: MeasuredColumns) -> None:
        self._entries = entries
        self._columns = columns
        self._found: dict[ColumnPath, ColumnStats | None] = {}

    @property
    def count(self) -> int:
        return len(self._entries)

    @cached_property
    def record_count(self) -> pa.Array:
        """Rows of data files; null for leaves, whose masked files may or may not count."""
        is_data = pc.equal(one_chunk(self._entries.column("content_type")), DATA)
        rows = one_chunk(self._entries.column("record_count"))
        return pc.if_else(is_data, rows, pa.scalar(None, pa.int64()))

    @cached_property
    def tight(self) -> pa.Array:
        """Bounds may be those of deleted rows."""
        return pa.repeat(pa.scalar(value=False), self.count)

    def column(self, path: ColumnPath) -> ColumnStats | None:
        if path not in self._found:
            self._found[path] = self._computed(path)
        return self._found[path]

    def at(self, rows: Rows) -> TreeFacts:
        return self if len(rows) == self.count else TreeFacts(rows_of(self._entries, rows), self._columns)

    @cached_property
    def _units(self) -> pa.Array:
        """What null and NaN counts are counted in: rows of a file, or 1 for a leaf, where only 0 and all have
        a meaning.
        """
        return pc.fill_null(self.record_count, 1)

    def _computed(self, path: ColumnPath) -> ColumnStats | None:
        field = field_at(self._columns.schema, path)
        if field is None or field.field_id is None or isinstance(field.type, Struct | Array | Map):
            return None
        stats = self._recorded(field.field_id, field.type)
        for item in self._columns.all_expressions:
            if item.field.source == path and says_something(item.field) and item.expr_id != field.field_id:
                stats = self._narrowed(stats, item, field.type)
        return stats

    def _recorded(self, field_id: int, data_type: DataType) -> ColumnStats:
        kind = arrow_type(data_type)
        lower, upper = (self._bound(field_id, name, kind) for name in (LOWER, UPPER))
        if pt.is_floating(kind):  # a bound that is NaN was not computed as it should be
            wrong = pc.fill_null(pc.or_kleene(pc.is_nan(lower), pc.is_nan(upper)), False)  # noqa: FBT003
            nothing = pa.scalar(None, kind)
            lower, upper = (pc.if_else(wrong, nothing, bound) for bound in (lower, upper))
        is_prefix = pa.repeat(pa.scalar(value=False), self.count) if data_type in _TEXTS else None
        return ColumnStats(
            lower=lower,
            upper=upper,
            null_count=self._share(field_id, NULLS),
            record_count=self._units,
            upper_is_prefix=is_prefix,
            nan_count=self._share(field_id, NANS) if pt.is_floating(kind) else None,
        )

    def _narrowed(self, stats: ColumnStats, item: PartitionExpression, data_type: DataType) -> ColumnStats:
        """With what the values of an expression say about its source column."""
        kind = arrow_type(item.field.type)
        lower, upper = (self._bound(item.expr_id, name, kind) for name in (LOWER, UPPER))
        nulls = self._share(item.expr_id, NULLS)
        known = source_range(item.field, data_type, lower, upper)
        has_bounds = pc.and_(lower.is_valid(), upper.is_valid())
        all_null = pc.fill_null(pc.equal(nulls, self._units), False)  # noqa: FBT003
        counts = pc.coalesce(nulls, stats.null_count)
        return narrowed(stats, known, pc.or_(has_bounds, all_null), counts)

    def _bound(self, field_id: int, name: str, kind: pa.DataType) -> pa.Array:
        """A bound of each entry. A null upper bound of the expression of a single value means the lower one,
        which cannot be told from an unknown one here, so it stays unknown.
        """
        found = statistic(self._entries.column(CONTENT_STATS), field_id, name)
        return pa.nulls(self.count, kind) if found is None else promoted(found, kind)

    def _share(self, field_id: int, name: str) -> pa.Array:
        """Nulls or NaNs: 0, all, or unknown."""
        column = self._entries.column(CONTENT_STATS)
        counts, values = (statistic(column, field_id, part) for part in (name, VALUES))
        unknown = pa.scalar(None, pa.int64())
        if counts is None or values is None:
            return pa.nulls(self.count, pa.int64())
        is_all = pc.fill_null(pc.equal(counts, values), False)  # noqa: FBT003
        is_none = pc.fill_null(pc.equal(counts, 0), False)  # noqa: FBT003
        share = pc.if_else(is_all, self._units, unknown)
        return pc.if_else(is_none, pa.scalar(0, pa.int64()), share)
