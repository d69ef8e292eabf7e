"""Statistics and partition values of a snapshot's files, as the facts that conditions are judged by.

A column is parsed when it is first needed, and then kept: a snapshot does not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Rows, rows_of
from delvec.delta.partition_values import partition_values
from delvec.delta.stats import parser
from delvec.file_facts import ColumnPath, ColumnStats, ConstantColumn
from delvec.footers.statistics import MeasuredColumn
from delvec.schema import Field, Schema, Struct, is_string


class SnapshotFacts:
    """Facts about all files of ``adds``, as ``file_facts.SelectableFacts``.

    ``time_zone``: the zone of timestamps in partition values that name none.
    """

    def __init__(
        self, adds: pa.Table, schema: Schema, partition_columns: tuple[str, ...], *, time_zone: str = "UTC"
    ) -> None:
        self._adds = adds
        self._schema = schema
        self._partition_columns = partition_columns
        self._time_zone = time_zone
        self._columns: dict[ColumnPath, ColumnStats | ConstantColumn | None] = {}
        self.counts: tuple[pa.Array, pa.Array] | None = None  # record_count and tight, None until parsed

    @property
    def count(self) -> int:
        return len(self._adds)

    @property
    def record_count(self) -> pa.Array:
        return self._record_count_and_tight()[0]

    @property
    def tight(self) -> pa.Array:
        return self._record_count_and_tight()[1]

    def column(self, path: ColumnPath) -> ColumnStats | ConstantColumn | None:
        if path not in self._columns:
            self.prepare([path])
        return self._columns[path]

    def prepare(self, paths: Iterable[ColumnPath]) -> None:
        """Parse several columns in one pass over the statistics."""
        missing = [path for path in paths if path not in self._columns]
        by_stats: dict[ColumnPath, MeasuredColumn] = {}
        for path in missing:
            fields = _fields(self._schema, path)
            if len(path) == 1 and path[0] in self._partition_columns:
                self._columns[path] = self._constant(fields[0])
            elif fields and not isinstance(fields[-1].type, Struct):
                names = tuple(field.physical_name for field in fields)
                by_stats[path] = MeasuredColumn(names, fields[-1].type)
            else:
                self._columns[path] = None
        if by_stats:
            self._parse(by_stats)

    def at(self, rows: Rows) -> SelectedFacts:
        return SelectedFacts(self, rows)

    def is_parsed(self, path: ColumnPath) -> bool:
        """Whether the column's facts are parsed already."""
        return path in self._columns

    def unparsed(self, rows: Rows) -> SnapshotFacts:
        """Facts about only these files, with nothing parsed yet."""
        return SnapshotFacts(
            rows_of(self._adds, rows), self._schema, self._partition_columns, time_zone=self._time_zone
        )

    def _constant(self, field: Field) -> ConstantColumn:
        maps = self._adds.column("partition_values")
        return ConstantColumn(partition_values(maps, field, time_zone=self._time_zone))

    def _record_count_and_tight(self) -> tuple[pa.Array, pa.Array]:
        if self.counts is None:
            self._parse({})
        assert self.counts is not None
        return self.counts

    def _parse(self, columns: Mapping[ColumnPath, MeasuredColumn]) -> None:
        parsed = parser.parse(self._adds, list(columns.values()))
        self.counts = parsed.record_count, parsed.tight
        for (path, column), stats in zip(columns.items(), parsed.columns, strict=True):
            is_text = is_string(column.type)
            self._columns[path] = ColumnStats(
                lower=stats.lower,
                upper=stats.upper,
                null_count=stats.null_count,
                record_count=parsed.record_count,
                # Each writer cuts texts at a length of its choice, so any upper bound may be a prefix.
                upper_is_prefix=pc.is_valid(stats.upper) if is_text else None,
            )


class SelectedFacts:
    """Facts about some files of a snapshot.

    A column that is parsed for the whole snapshot is taken from there. Others are parsed for these files.
    """

    def __init__(self, all_facts: SnapshotFacts, rows: Rows) -> None:
        self._all_facts = all_facts
        self._rows = rows
        self._own: SnapshotFacts | None = None

    def at(self, rows: Rows) -> SelectedFacts:
        return SelectedFacts(self._all_facts, self._rows[rows])

    @property
    def count(self) -> int:
        return len(self._rows)

    @property
    def record_count(self) -> pa.Array:
        counts = self._all_facts.counts
        return self._parsed().record_count if counts is None else self._taken(counts[0])

    @property
    def tight(self) -> pa.Array:
        counts = self._all_facts.counts
        return self._parsed().tight if counts is None else self._taken(counts[1])

    def column(self, path: ColumnPath) -> ColumnStats | ConstantColumn | None:
        if not self._all_facts.is_parsed(path):
            return self._parsed().column(path)
        facts = self._all_facts.column(path)
        return None if facts is None else facts.at(pa.array(self._rows))

    def _parsed(self) -> SnapshotFacts:
        if self._own is None:
            self._own = self._all_facts.unparsed(self._rows)
        return self._own

    def _taken(self, array: pa.Array) -> pa.Array:
        return array.take(pa.array(self._rows))


def _fields(schema: Schema, path: ColumnPath) -> list[Field]:
    """The fields along ``path``, the outermost first; empty if the schema has no such column."""
    fields: list[Field] = []
    parent: Any = schema
    for name in path:
        matches = parent.find(name, case_sensitive=True) if isinstance(parent, Struct) else []
        if not matches:
            return []
        fields.append(matches[0])
        parent = matches[0].type
    return fields
