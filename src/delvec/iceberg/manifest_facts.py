"""Partition summaries of manifests, as facts about the rows of all files that a manifest lists.

A manifest stands for a file here: if no row of it can satisfy a condition, none of its files is needed. Only
partition columns have facts.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.chunked import Mask, one_chunk
from delvec.file_facts import ColumnPath, ColumnStats
from delvec.iceberg.partition_ranges import SourceRange, says_something, source_range
from delvec.iceberg.single_values import decode
from delvec.iceberg.stats import field_at, narrowed
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.schema import DataType, Primitive, Schema, arrow_type

_BOUND_CUT = (Primitive("string"), Primitive("binary"))


class ManifestFacts:
    """Facts about the rows of each manifest in ``manifests``, as ``file_facts.FileFacts``."""

    def __init__(self, manifests: pa.Table, schema: Schema, specs: Mapping[int, PartitionSpec]) -> None:
        self._schema = schema
        self._specs = specs
        self._spec_ids = one_chunk(manifests.column("spec_id")).to_numpy()
        self._summaries = one_chunk(manifests.column("partitions"))
        self.count = len(manifests)
        self.record_count = pa.repeat(pa.scalar(1, pa.int64()), self.count)
        self.tight = pa.repeat(pa.scalar(value=False), self.count)

    def column(self, path: ColumnPath) -> ColumnStats | None:
        column = field_at(self._schema, path)
        if column is None:
            return None
        stats = None
        for spec in self._specs.values():
            for position, field in enumerate(spec.fields):
                if field.source == path and says_something(field):
                    stats = stats or self._unknown(column.type)
                    stats = self._narrowed(stats, spec.spec_id, position, field, column.type)
        return stats

    def _unknown(self, data_type: DataType) -> ColumnStats:
        bounds, counts = pa.nulls(self.count, arrow_type(data_type)), pa.nulls(self.count, pa.int64())
        is_cut = pa.repeat(pa.scalar(value=False), self.count) if data_type in _BOUND_CUT else None
        return ColumnStats(bounds, bounds, counts, self.record_count, is_cut, counts)

    def _narrowed(
        self, stats: ColumnStats, spec_id: int, position: int, field: PartitionField, source: DataType
    ) -> ColumnStats:
        has_summary, items = summaries_at(self._summaries, position)
        has_field = has_summary & (self._spec_ids == spec_id)
        low, high = (decode(items.field(name), field.type) for name in ("lower", "upper"))
        known = source_range(field, source, low, high)
        nowhere = pa.repeat(pa.scalar(value=False), self.count)
        prefix = pa.repeat(pa.scalar(value=True), self.count) if source in _BOUND_CUT else None
        known = SourceRange(known.lower, known.upper, nowhere, prefix, known.hashed)
        return narrowed(stats, known, pa.array(has_field), _null_counts(items, low.type))


def summaries_at(summaries: pa.LargeListArray, position: int) -> tuple[Mask, pa.StructArray]:
    """Which manifests have a summary at ``position`` of their list, and these summaries."""
    offsets = summaries.offsets.to_numpy()
    has_summary = np.diff(offsets) > position
    index = np.where(has_summary, offsets[:-1] + position, 0)
    return has_summary, summaries.values.take(pa.array(index, mask=~has_summary))


def _null_counts(items: pa.StructArray, kind: pa.DataType) -> pa.Array:
    """0 if no partition value is null, 1 (all rows) if all are, null if that is not known."""
    some_null = items.field("contains_null")
    no_bounds = pc.and_(pc.is_null(items.field("lower")), pc.is_null(items.field("upper")))
    no_nan = pc.equal(items.field("contains_nan"), False) if pt.is_floating(kind) else True  # noqa: FBT003
    all_null = pc.and_kleene(pc.and_kleene(some_null, no_bounds), no_nan)
    count = pc.if_else(pc.fill_null(all_null, False), 1, pa.scalar(None, pa.int64()))  # noqa: FBT003
    return pc.if_else(pc.fill_null(pc.invert(some_null), False), pa.scalar(0, pa.int64()), count)  # noqa: FBT003
