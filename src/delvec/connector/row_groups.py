"""Which row groups of a data file may hold a matching row, by their statistics.

A row group is judged as a file is judged: its Parquet statistics become the facts that a condition asks for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delvec.connector import arrow_columns
from delvec.file_facts import ColumnPath, ColumnStats, ConstantColumn
from delvec.plan import ReadSchema
from delvec.predicate import Condition
from delvec.schema import Array, DataType, Decimal, Map, Primitive, Struct, arrow_type, is_string

_INT96 = "INT96"  # has no order, and so no bounds
# What conversions of bounds raise: one that cannot be had is not known.
_UNKNOWN = (pa.ArrowException, ValueError, TypeError, OverflowError, NotImplementedError)


def matching(
    file: pq.ParquetFile, condition: Condition, read_schema: ReadSchema, constants: Mapping[str, Any]
) -> list[int]:
    """The row groups that may hold a row for which the condition is true."""
    found = condition.match(RowGroupFacts(file, read_schema, constants))
    return [group for group, may in enumerate(found.may.tolist()) if may]


@dataclass(frozen=True, slots=True)
class RowGroupFacts:
    """Facts about the row groups of one file, as ``stats.FileFacts``."""

    file: pq.ParquetFile
    read_schema: ReadSchema
    constants: Mapping[str, Any]

    @property
    def count(self) -> int:
        return int(self.file.metadata.num_row_groups)

    @property
    def record_count(self) -> pa.Array:
        groups = range(self.count)
        return pa.array([self.file.metadata.row_group(group).num_rows for group in groups], pa.int64())

    @property
    def tight(self) -> pa.Array:
        return pa.repeat(pa.scalar(value=False), self.count)

    def column(self, path: ColumnPath) -> ColumnStats | ConstantColumn | None:
        if path[0] in self.constants:
            kind = arrow_type(self.read_schema.schema.find(path[0], case_sensitive=True)[0].type)
            return ConstantColumn(pa.repeat(pa.scalar(self.constants[path[0]], kind), self.count))
        place = self._place(path)
        return None if place is None else self._stats(*place)

    def _place(self, path: ColumnPath) -> tuple[int, pa.DataType, DataType] | None:
        """The leaf column of the file that holds the path, its Arrow type, and the table's type."""
        held: pa.DataType = pa.struct(list(self.file.schema_arrow))
        inside: DataType = self.read_schema.schema
        names = []
        for name in path:
            fields = inside.find(name, case_sensitive=True) if isinstance(inside, Struct) else []
            if len(fields) != 1 or not pa.types.is_struct(held):
                return None
            index = arrow_columns.find(held, fields[0], by_id=self.read_schema.by_id)
            if index is None:
                return None
            names.append(held.field(index).name)
            held, inside = held.field(index).type, fields[0].type
        if isinstance(inside, Struct | Array | Map) or inside == Primitive("variant"):
            return None
        leaf = self._leaf(".".join(names))
        return None if leaf is None else (leaf, held, inside)

    def _leaf(self, path: str) -> int | None:
        schema = self.file.schema
        found = [index for index in range(len(schema)) if schema.column(index).path == path]
        return found[0] if len(found) == 1 else None

    def _stats(self, leaf: int, held: pa.DataType, kind: DataType) -> ColumnStats | None:
        metadata = self.file.metadata
        chunks = [metadata.row_group(group).column(leaf) for group in range(self.count)]
        stats = [chunk.statistics if chunk.is_stats_set else None for chunk in chunks]
        nulls = [s.null_count if s is not None and s.has_null_count else None for s in stats]
        bounded = [s if s is not None and _is_bounded(s) else None for s in stats]
        try:
            lower = _bounds([None if s is None else s.min for s in bounded], held, kind)
            upper = _bounds([None if s is None else s.max for s in bounded], held, kind)
        except _UNKNOWN:
            unknown = pa.nulls(self.count, arrow_type(kind))
            lower, upper = unknown, unknown
        return ColumnStats(
            lower,
            upper,
            pa.array(nulls, pa.int64()),
            self.record_count,
            # Writers may cut long texts; those that cut well lose nothing by the doubt.
            upper_is_prefix=pa.repeat(pa.scalar(is_string(kind)), self.count),
        )


def _bounds(values: list[Any], held: pa.DataType, kind: DataType) -> pa.Array:
    known = [None if isinstance(value, float) and math.isnan(value) else value for value in values]
    if isinstance(kind, Decimal) and pa.types.is_integer(held):
        return arrow_columns.widen(pa.array(known, pa.int64()), arrow_type(kind))
    return arrow_columns.widen(pa.array(known, held), arrow_type(kind))


def _is_bounded(stats: pq.Statistics) -> bool:
    return bool(stats.has_min_max) and stats.physical_type != _INT96
