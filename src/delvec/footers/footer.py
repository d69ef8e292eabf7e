"""Opening the footer of a data file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from delvec.errors import FormatError
from delvec.storage import Storage

ColumnNames = tuple[str, ...]
"""A column by the names that the data file has for it, outermost first."""

# What pyarrow raises for a file that is damaged or not Parquet.
_UNREADABLE = (pa.ArrowException, OSError, ValueError)

# Spark's note that dates and timestamps are in the Julian calendar, where days have other numbers.
_OLD_CALENDAR = b"org.apache.spark.legacyDateTime"
# These writers order NaN above all numbers, as Spark does. All others leave NaN out of the statistics.
_NAN_IS_LARGEST = re.compile(r"parquet-mr version 1\.(\d|1[0-7])\.")


class Footer:
    """The footer of the data file at ``location``."""

    def __init__(self, metadata: pq.FileMetaData, location: str) -> None:
        self.metadata = metadata
        self.location = location

    @property
    def record_count(self) -> int:
        """The number of rows, deleted ones included."""
        return int(self.metadata.num_rows)

    @cached_property
    def schema(self) -> pa.Schema:
        """The file's columns; a field has its Parquet id in its metadata."""
        try:
            return self.metadata.schema.to_arrow_schema()
        except _UNREADABLE as error:
            raise _unreadable(error, self.location) from None

    @cached_property
    def positions(self) -> Mapping[ColumnNames, int]:
        """The position of each leaf column; empty if two columns have the same names."""
        names = list(_leaves(self.schema))
        if len(names) != self.metadata.num_columns or len(set(names)) != len(names):
            return {}
        return {path: position for position, path in enumerate(names)}

    def verify_names(self) -> None:
        """Refuses a file in which two columns have the same names."""
        if len(self.positions) != self.metadata.num_columns:
            problem = f"its {self.metadata.num_columns} columns have ambiguous names"
            raise _unreadable(problem, self.location)

    @cached_property
    def row_groups(self) -> list[pq.RowGroupMetaData]:
        return [self.metadata.row_group(group) for group in range(self.metadata.num_row_groups)]

    @property
    def split_offsets(self) -> list[int]:
        """Where each row group starts in the file."""
        return [_start(group.column(0)) for group in self.row_groups if group.num_columns]

    def null_counts(self, position: int) -> list[int | None]:
        """The nulls of a column in each row group; None where the footer does not count them."""
        return [_null_count(group.column(position).statistics) for group in self.row_groups]

    def value_counts(self, position: int) -> list[int]:
        """The values of a column in each row group, nulls included."""
        return [group.column(position).num_values for group in self.row_groups]

    @cached_property
    def has_old_calendar(self) -> bool:
        """Whether dates and timestamps count days in the Julian calendar."""
        return _OLD_CALENDAR in (self.metadata.metadata or {})

    @cached_property
    def orders_nan(self) -> bool:
        """Whether the writer took NaN for the largest number. Others skip NaN when they compute bounds."""
        return _NAN_IS_LARGEST.match(self.metadata.created_by or "") is not None


def read_footer(storage: Storage, location: str) -> Footer:
    """The footer of the data file at ``location``."""
    with storage.open_input(location) as source:
        try:
            return Footer(pq.read_metadata(source), location)
        except _UNREADABLE as error:
            raise _unreadable(error, location) from None


def footer_rows(storage: Storage, location: str) -> int:
    """The number of rows of the data file at ``location``, deleted ones included."""
    return read_footer(storage, location).record_count


def _unreadable(problem: object, location: str) -> FormatError:
    return FormatError(f"data file is not readable as Parquet: {problem}", path=location)


def _null_count(statistics: pq.Statistics | None) -> int | None:
    return statistics.null_count if statistics is not None and statistics.has_null_count else None


def _start(chunk: pq.ColumnChunkMetaData) -> int:
    return int(chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset)


def _leaves(fields: Iterable[pa.Field], path: ColumnNames = ()) -> Iterator[ColumnNames]:
    """The names of each Parquet column, in the file's order. A name with a dot in it stays one name."""
    for field in fields:
        names, kind = (*path, field.name), field.type
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        if pa.types.is_struct(kind):
            yield from _leaves(kind, names)
        elif pa.types.is_map(kind):
            yield from _leaves([kind.key_field.with_name("key"), kind.item_field.with_name("value")], names)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            yield from _leaves([kind.value_field], names)
        else:
            yield names
