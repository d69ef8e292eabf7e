"""Which row groups of a data file may have a matching row, by the statistics in its footer.

A row group is judged in the same way as a file: its statistics become the facts that a condition asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from delvec.connector import arrow_columns
from delvec.file_facts import ColumnPath, ColumnStats, ConstantColumn
from delvec.footers.bounds import read_bounds, typed_array
from delvec.footers.footer import Footer
from delvec.plan import ReadSchema
from delvec.predicate import Condition
from delvec.schema import Array, DataType, Map, Primitive, Struct, arrow_type, is_string


def matching(
    footer: Footer, condition: Condition, read_schema: ReadSchema, constants: Mapping[str, Any]
) -> list[int]:
    """The row groups that may have a row for which the condition is true."""
    matches = condition.match(RowGroupFacts(footer, read_schema, constants))
    return [group for group, may in enumerate(matches.may.tolist()) if may]


@dataclass(frozen=True, slots=True)
class RowGroupFacts:
    """Facts about the row groups of one file, as ``file_facts.FileFacts``.

    ``constants`` are the values of columns that are not in the file.
    """

    footer: Footer
    read_schema: ReadSchema
    constants: Mapping[str, Any]

    @property
    def count(self) -> int:
        return len(self.footer.row_groups)

    @property
    def record_count(self) -> pa.Array:
        return pa.array([group.num_rows for group in self.footer.row_groups], pa.int64())

    @property
    def tight(self) -> pa.Array:
        return pa.repeat(pa.scalar(value=False), self.count)

    def column(self, path: ColumnPath) -> ColumnStats | ConstantColumn | None:
        if path[0] in self.constants:
            kind = arrow_type(self.read_schema.schema.find(path[0], case_sensitive=True)[0].type)
            return ConstantColumn(pa.repeat(pa.scalar(self.constants[path[0]], kind), self.count))
        leaf = self._leaf(path)
        return None if leaf is None else self._stats(*leaf)

    def _leaf(self, path: ColumnPath) -> tuple[int, DataType] | None:
        """The position of the leaf column that holds ``path`` in the file, and its type in the table."""
        stored: pa.DataType = pa.struct(list(self.footer.schema))
        data_type: DataType = self.read_schema.schema
        names = []
        for name in path:
            fields = data_type.find(name, case_sensitive=True) if isinstance(data_type, Struct) else []
            if len(fields) != 1 or not pa.types.is_struct(stored):
                return None
            index = arrow_columns.find(stored, fields[0])
            if index is None:
                return None
            names.append(stored.field(index).name)
            stored, data_type = stored.field(index).type, fields[0].type
        if isinstance(data_type, Struct | Array | Map) or data_type == Primitive("variant"):
            return None
        position = self.footer.positions.get(tuple(names))
        return None if position is None else (position, data_type)

    def _stats(self, position: int, data_type: DataType) -> ColumnStats:
        bounds = read_bounds(self.footer, position, data_type)
        return ColumnStats(
            typed_array(bounds.lower, data_type),
            typed_array(bounds.upper, data_type),
            pa.array(self.footer.null_counts(position), pa.int64()),
            self.record_count,
            # A writer may have cut a long text, so any upper bound of a string may be a prefix.
            upper_is_prefix=pa.repeat(pa.scalar(is_string(data_type)), self.count),
        )
