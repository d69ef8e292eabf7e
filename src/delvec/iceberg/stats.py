"""Statistics and partition values of the live files, as the facts that conditions are judged by.

A column is decoded when it is first needed, for all files in one pass, and then kept: entries do not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.chunked import Rows, one_chunk, rows_of
from delvec.file_facts import ColumnPath, ColumnStats, HashedColumn
from delvec.iceberg.partition_ranges import SourceRange, says_something, source_range
from delvec.iceberg.single_values import decode
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.schema import Array, DataType, Field, Map, Primitive, Schema, Struct

PARTITION = "partition."
"""Before the name of a partition field: its column in `live_files` tables."""


def field_at(schema: Schema, path: ColumnPath) -> Field | None:
    """The column at ``path``, by exact names; None if there is none."""
    found: Field | None = None
    parent: DataType = schema
    for name in path:
        matches = parent.find(name, case_sensitive=True) if isinstance(parent, Struct) else []
        if not matches:
            return None
        found = matches[0]
        parent = found.type
    return found


def values_of(maps: pa.ChunkedArray, key: int) -> pa.Array:
    """The value that each map has for ``key``; null where it has none.

    A map is a list of structs of a key and a value.
    """
    pieces = [_values_of(chunk, key) for chunk in maps.chunks]
    return pa.concat_arrays(pieces) if pieces else pa.nulls(0, maps.type.value_type.field(1).type)


def _values_of(maps: pa.LargeListArray, key: int) -> pa.Array:
    offsets = maps.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    items = maps.values
    keys = items.field(0).to_numpy(zero_copy_only=False)[first:last]
    found = np.flatnonzero(keys == key) + first
    index = np.full(len(maps), -1, np.int64)
    index[np.searchsorted(offsets, found, side="right") - 1] = found
    return items.field(1).take(pa.array(index, mask=index < 0))


class EntryFacts:
    """Facts about the files of ``entries`` (`live_files`), as ``file_facts.SelectableFacts``."""

    def __init__(self, entries: pa.Table, schema: Schema, specs: Mapping[int, PartitionSpec]) -> None:
        self._entries = entries
        self._schema = schema
        self._specs = specs
        self._columns: dict[ColumnPath, ColumnStats | None] = {}

    @property
    def count(self) -> int:
        return len(self._entries)

    @cached_property
    def record_count(self) -> pa.Array:
        return one_chunk(self._entries.column("record_count"))

    @cached_property
    def tight(self) -> pa.Array:
        """Bounds may be cut and may be those of deleted rows."""
        return pa.repeat(pa.scalar(value=False), self.count)

    def column(self, path: ColumnPath) -> ColumnStats | None:
        if path not in self._columns:
            self._columns[path] = self._decoded(path)
        return self._columns[path]

    def is_decoded(self, path: ColumnPath) -> bool:
        return path in self._columns

    def at(self, rows: Rows) -> EntryFacts | SelectedFacts:
        return self if len(rows) == self.count else SelectedFacts(self, rows)

    def not_decoded(self, rows: Rows) -> EntryFacts:
        """Facts about only these files, with nothing decoded yet."""
        return EntryFacts(rows_of(self._entries, rows), self._schema, self._specs)

    def _decoded(self, path: ColumnPath) -> ColumnStats | None:
        field = field_at(self._schema, path)
        if field is None or field.field_id is None or isinstance(field.type, Struct | Array | Map):
            return None
        stats = self._recorded(field.field_id, field.type)
        for partition_field, has_field in self._partition_fields(path):
            values = one_chunk(self._entries.column(PARTITION + partition_field.name))
            known = source_range(partition_field, field.type, values, values)
            nulls = pc.if_else(pc.is_null(values), self.record_count, pa.scalar(0, pa.int64()))
            stats = narrowed(stats, known, has_field, nulls)
        return stats

    def _recorded(self, field_id: int, data_type: DataType) -> ColumnStats:
        """The statistics of the files' columns."""
        lower, upper = (
            decode(values_of(self._entries.column(name), field_id), data_type)
            for name in ("lower_bounds", "upper_bounds")
        )
        if pt.is_floating(lower.type):  # a bound that is NaN was not computed as it should be
            wrong = pc.or_kleene(pc.is_nan(lower), pc.is_nan(upper))
            lower, upper = (_null_where(wrong, bound) for bound in (lower, upper))
        is_cut = data_type in (Primitive("string"), Primitive("binary"))
        return ColumnStats(
            lower=lower,
            upper=upper,
            null_count=values_of(self._entries.column("null_value_counts"), field_id),
            record_count=self.record_count,
            # Each writer cuts texts at a length of its choice, so any upper bound may be a prefix.
            upper_is_prefix=pc.is_valid(upper) if is_cut else None,
            nan_count=values_of(self._entries.column("nan_value_counts"), field_id),
        )

    def _partition_fields(self, path: ColumnPath) -> list[tuple[PartitionField, pa.Array]]:
        """The partition fields of the column, and which files have them by their spec."""
        spec_ids = one_chunk(self._entries.column("spec_id"))
        by_field: dict[PartitionField, list[int]] = {}
        for spec in self._specs.values():
            for field in spec.fields:
                if field.source == path and says_something(field):
                    by_field.setdefault(field, []).append(spec.spec_id)
        return [
            (field, pc.is_in(spec_ids, value_set=pa.array(ids, pa.int32())))
            for field, ids in by_field.items()
        ]


class SelectedFacts:
    """Facts about some files. A column that is decoded for all of them is taken from there."""

    def __init__(self, all_facts: EntryFacts, rows: Rows) -> None:
        self._all_facts = all_facts
        self._rows = rows
        self._own: EntryFacts | None = None

    @property
    def count(self) -> int:
        return len(self._rows)

    @property
    def record_count(self) -> pa.Array:
        return self._all_facts.record_count.take(pa.array(self._rows))

    @property
    def tight(self) -> pa.Array:
        return self._all_facts.tight.take(pa.array(self._rows))

    def column(self, path: ColumnPath) -> ColumnStats | None:
        if not self._all_facts.is_decoded(path):
            if self._own is None:
                self._own = self._all_facts.not_decoded(self._rows)
            return self._own.column(path)
        facts = self._all_facts.column(path)
        return None if facts is None else facts.at(pa.array(self._rows))

    def at(self, rows: Rows) -> SelectedFacts:
        return SelectedFacts(self._all_facts, self._rows[rows])


def narrowed(stats: ColumnStats, known: SourceRange, has_field: pa.Array, nulls: pa.Array) -> ColumnStats:
    """The facts, with what partition values say where ``has_field``; ``nulls`` is the null count there."""
    exact = pc.and_(has_field, known.exact)
    lower, upper = (_only_where(has_field, bound) for bound in (known.lower, known.upper))
    nan_count = stats.nan_count
    if pt.is_floating(lower.type):
        is_nan = pc.fill_null(pc.is_nan(lower), False)  # noqa: FBT003
        lower, upper = (_null_where(is_nan, bound) for bound in (lower, upper))
        constant = pc.if_else(is_nan, stats.record_count, pa.scalar(0, pa.int64()))
        nan_count = pc.if_else(exact, constant, nan_count)
    hashed = stats.hashed
    if known.hashed is not None:
        numbers = _only_where(has_field, known.hashed.numbers)
        hashed = (*hashed, HashedColumn(numbers, known.hashed.number_of))
    prefix = stats.upper_is_prefix
    if prefix is None:
        upper = _least(stats.upper, upper, exact)
    else:
        upper, prefix = _text_upper(stats, upper, exact, known.upper_is_prefix)
    return ColumnStats(
        lower=_greatest(stats.lower, lower, exact),
        upper=upper,
        null_count=pc.if_else(has_field, nulls, stats.null_count),
        record_count=stats.record_count,
        upper_is_prefix=prefix,
        nan_count=nan_count,
        hashed=hashed,
    )


def _text_upper(
    stats: ColumnStats, upper: pa.Array, exact: pa.Array, is_prefix: pa.Array | None
) -> tuple[pa.Array, pa.Array]:
    """The upper bound of texts and bytes, and whether it is a prefix. Both bounds hold: the recorded one is
    taken where there is one, unless the partition value is the value itself.
    """
    of_partition = pc.or_(exact, pc.is_null(stats.upper))
    prefix = (
        pc.is_valid(stats.upper) if is_prefix is None else pc.or_kleene(pc.is_valid(stats.upper), is_prefix)
    )
    prefix = pc.and_not(pc.fill_null(prefix, True), exact)  # noqa: FBT003
    return pc.if_else(of_partition, upper, stats.upper), prefix


def _greatest(recorded: pa.Array, known: pa.Array, exact: pa.Array) -> pa.Array:
    """The greater lower bound; ``known`` where it is ``exact``."""
    is_greater = pc.coalesce(pc.greater(known, recorded), pc.is_null(recorded))
    return pc.if_else(pc.or_(exact, is_greater), known, recorded)


def _least(recorded: pa.Array, known: pa.Array, exact: pa.Array) -> pa.Array:
    """The smaller upper bound; ``known`` where it is ``exact``."""
    is_less = pc.coalesce(pc.less(known, recorded), pc.is_null(recorded))
    return pc.if_else(pc.or_(exact, is_less), known, recorded)


def _only_where(mask: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(mask, values, pa.scalar(None, values.type))


def _null_where(mask: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(mask, False), pa.scalar(None, values.type), values)  # noqa: FBT003
