"""Statistics of new data files, read from their footers: Arrow columns with one row per file.

    record_count    rows of the file
    split_offsets   where each row group starts in the file
    stats           a struct that has the measured columns under their names in the file, nested as they are
                    there. Each is a struct of ``ColumnStatistics``.

A null means "not known". A statistic that the footer does not state beyond doubt is left out, because readers
skip files by it. Bounds are exact; a format shortens or rounds them as its metadata requires.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from delvec.footers.bounds import file_bounds, read_bounds, typed_array
from delvec.footers.footer import ColumnNames, Footer, read_footer
from delvec.schema import Array, DataType, Map, Primitive, Struct
from delvec.storage import Storage, in_parallel

RECORD_COUNT, SPLIT_OFFSETS, STATS = "record_count", "split_offsets", "stats"
SPLIT_OFFSETS_TYPE = pa.list_(pa.int64())


@dataclass(frozen=True, slots=True)
class MeasuredColumn:
    """A column that files have statistics of: its names in the data files, and its type in the table."""

    path: ColumnNames
    type: DataType


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one column, one value per file.

    lower, upper       of the column's Arrow type; no value that is neither null nor NaN lies outside
    upper_covers_nan   no NaN lies above ``upper``, in the order in which NaN is the largest number
    null_count         rows in which the column is null
    value_count        values, nulls included; unknown for arrays and maps
    """

    lower: pa.Array
    upper: pa.Array
    upper_covers_nan: pa.Array
    null_count: pa.Array
    value_count: pa.Array


def measure(storage: Storage, locations: Sequence[str], columns: Sequence[MeasuredColumn]) -> pa.Table:
    """The statistics of the data files at ``locations``, in their order.

    The table has no column ``stats`` if ``columns`` is empty.
    """

    def read(location: str) -> _FileValues:
        return _FileValues.of(read_footer(storage, location), columns)

    files = in_parallel(read, locations)
    table = pa.table(
        {
            RECORD_COUNT: pa.array([file.record_count for file in files], pa.int64()),
            SPLIT_OFFSETS: pa.array([file.split_offsets for file in files], SPLIT_OFFSETS_TYPE),
        }
    )
    if not columns:
        return table
    tree: dict[str, Any] = {}
    for position, column in enumerate(columns):
        _put(tree, column.path, _statistics([file.columns[position] for file in files], column.type))
    return table.append_column(STATS, _struct(tree))


def column_statistics(files: pa.Table, path: ColumnNames) -> ColumnStatistics | None:
    """The statistics of the column in ``files``, which `measure` made; None if it was not measured."""
    if STATS not in files.column_names:
        return None
    array = files.column(STATS).combine_chunks()
    for name in path:
        index = array.type.get_field_index(name) if pa.types.is_struct(array.type) else -1
        if index < 0:
            return None
        array = array.field(index)
    if not _is_statistics(array.type):
        return None  # a struct that contains measured columns
    return ColumnStatistics(*(array.field(name) for name in ColumnStatistics.__slots__))


def _is_statistics(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and [field.name for field in kind] == list(ColumnStatistics.__slots__)


@dataclass(frozen=True, slots=True)
class _ColumnValues:
    """Statistics of one column in one file."""

    lower: Any
    upper: Any
    upper_covers_nan: bool
    null_count: int | None
    value_count: int | None


@dataclass(frozen=True, slots=True)
class _FileValues:
    record_count: int
    split_offsets: list[int]
    columns: list[_ColumnValues]

    @classmethod
    def of(cls, footer: Footer, columns: Sequence[MeasuredColumn]) -> _FileValues:
        footer.verify_names()
        return cls(footer.record_count, footer.split_offsets, [_values(footer, column) for column in columns])


def _values(footer: Footer, column: MeasuredColumn) -> _ColumnValues:
    if column.path not in footer.positions or isinstance(column.type, Array | Map):
        nulls = _nulls_of_nested(footer, column)
        return _ColumnValues(None, None, upper_covers_nan=False, null_count=nulls, value_count=None)
    position = footer.positions[column.path]
    null_counts, value_counts = footer.null_counts(position), footer.value_counts(position)
    bounds = read_bounds(footer, position, column.type)
    has_values = [nulls != values for nulls, values in zip(null_counts, value_counts, strict=True)]
    lower, upper = file_bounds(bounds, has_values)
    return _ColumnValues(lower, upper, bounds.covers_nan, _total(null_counts), sum(value_counts))


def _nulls_of_nested(footer: Footer, column: MeasuredColumn) -> int | None:
    """The rows in which a column without values of its own in the file is null."""
    leaves = {n: position for n, position in footer.positions.items() if n[: len(column.path)] == column.path}
    if not leaves:
        return footer.record_count  # a column that was not written is null
    if column.type == Primitive("variant"):
        metadata = leaves.get((*column.path, "metadata"))  # a variant that is not null has it
        return None if metadata is None else _total(footer.null_counts(metadata))
    if isinstance(column.type, Array | Map):
        # The footer also counts empty collections and null elements, so only 0 is certain.
        return 0 if any(_total(footer.null_counts(leaf)) == 0 for leaf in leaves.values()) else None
    return None


def _total(counts: Sequence[int | None]) -> int | None:
    recorded = [count for count in counts if count is not None]
    return sum(recorded) if len(recorded) == len(counts) else None


def _statistics(values: Sequence[_ColumnValues], data_type: DataType) -> pa.StructArray:
    arrays = {
        "lower": _bounds([value.lower for value in values], data_type),
        "upper": _bounds([value.upper for value in values], data_type),
        "upper_covers_nan": pa.array([value.upper_covers_nan for value in values], pa.bool_()),
        "null_count": pa.array([value.null_count for value in values], pa.int64()),
        "value_count": pa.array([value.value_count for value in values], pa.int64()),
    }
    return pa.StructArray.from_arrays(list(arrays.values()), names=list(arrays))


def _bounds(values: Sequence[Any], data_type: DataType) -> pa.Array:
    """Arrays, maps, structs and variants have no bounds."""
    if isinstance(data_type, Array | Map | Struct) or data_type == Primitive("variant"):
        return pa.nulls(len(values))
    return typed_array(values, data_type)


def _put(tree: dict[str, Any], path: ColumnNames, statistics: pa.StructArray) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = statistics


def _struct(tree: Mapping[str, Any]) -> pa.StructArray:
    arrays = [_struct(part) if isinstance(part, dict) else part for part in tree.values()]
    return pa.StructArray.from_arrays(arrays, names=list(tree))
