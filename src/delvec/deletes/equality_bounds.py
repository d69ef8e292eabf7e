"""Equality deletes and the bounds of data files: which keys and which files cannot meet.

A file whose bounds contain no key of its scope loses no row, and gets a plain scan. A key outside the bounds
of all files deletes nothing, and need not be sent to executors. Only columns of numbers, dates and times are
compared: their values are integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Mask, Rows, one_chunk
from delvec.deletes.equality import EqualityLayer, KeyColumn
from delvec.deletes.equality_set import SCOPE, EqualityDeleteSet, key_names
from delvec.file_facts import ColumnStats, FileFacts
from delvec.schema import DataType, Primitive, arrow_type

MOST_SCOPES = 1000
"""Scopes are compared one by one. With more of them, files are not compared."""

_INTEGERS = ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz")
_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of each file; the smallest and the largest number where they are not known."""

    lower: Rows
    upper: Rows
    may_be_null: Mask


def narrowed(
    layer: EqualityLayer, keys: EqualityDeleteSet, facts: FileFacts
) -> tuple[EqualityLayer, EqualityDeleteSet]:
    """The layer without data files that lose no row, and the keys without those that delete no row."""
    for name, column in zip(key_names(layer.columns), layer.columns, strict=True):
        bounds = bounds_of_files(facts, column)
        if bounds is not None and layer.has_deletes.any():
            values, is_null = _integers(one_chunk(keys.keys.column(name)))
            layer = layer.without(_unaffected(layer, keys, bounds, values, is_null))
            keys = keys.at(_within(layer, bounds, values) | is_null)
    return layer, keys


def is_integer(data_type: DataType) -> bool:
    """Whether values of the type are integers, in Arrow and in Parquet."""
    return isinstance(data_type, Primitive) and data_type.name in _INTEGERS


def bounds_of_files(facts: FileFacts, column: KeyColumn) -> Bounds | None:
    """The bounds of the column; None if they are not recorded, or are no integers."""
    stats = facts.column(column.path) if is_integer(column.type) else None
    if not isinstance(stats, ColumnStats):
        return None
    if {stats.lower.type, stats.upper.type} != {arrow_type(column.type)}:
        return None
    lower, lower_unknown = _integers(one_chunk(stats.lower))
    upper, upper_unknown = _integers(one_chunk(stats.upper))
    nulls = pc.fill_null(stats.null_count, 1).to_numpy(zero_copy_only=False)
    return Bounds(np.where(lower_unknown, _FIRST, lower), np.where(upper_unknown, _LAST, upper), nulls != 0)


def _integers(values: pa.Array) -> tuple[Rows, Mask]:
    """The values as integers, 0 for null, and which of them are null."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    numbers = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return numbers, pc.is_null(values).to_numpy(zero_copy_only=False)


def _unaffected(
    layer: EqualityLayer, keys: EqualityDeleteSet, bounds: Bounds, values: Rows, is_null: Mask
) -> Mask:
    """The data files whose bounds contain no key of their scope."""
    unaffected = np.zeros(len(layer.scope), dtype=bool)
    key_scopes = keys.keys.column(SCOPE).to_numpy()
    scopes = np.unique(layer.scope[layer.has_deletes])
    for scope in scopes if len(scopes) <= MOST_SCOPES else ():
        files, of_scope = np.flatnonzero(layer.scope == scope), key_scopes == scope
        ordered = np.sort(values[of_scope & ~is_null])
        first = np.searchsorted(ordered, bounds.lower[files], side="left")
        last = np.searchsorted(ordered, bounds.upper[files], side="right")
        has_null = bool((of_scope & is_null).any())
        unaffected[files] = (first >= last) & ~(has_null & bounds.may_be_null[files])
    return unaffected


def _within(layer: EqualityLayer, bounds: Bounds, values: Rows) -> Mask:
    """The keys within the bounds of all files together."""
    files = layer.has_deletes
    if not files.any():
        return np.zeros(len(values), dtype=bool)
    within: Mask = (values >= bounds.lower[files].min()) & (values <= bounds.upper[files].max())
    return within
