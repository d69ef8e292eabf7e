"""Facts about files that conditions are judged by: Arrow arrays with one value per file.

Formats provide them for data files (from their metadata), the connector for row groups (from footers). A null
means "not known". Facts are about the *live* rows of a file or about a superset of them: a bound holds for
every live row, a count may include deleted rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

ColumnPath = tuple[str, ...]
"""A column by its logical names, outermost first: ``("address", "city")``."""


@dataclass(frozen=True, slots=True)
class HashedColumn:
    """A number that is the same for all values of a column in a file, as files of a bucket have it.

    numbers    one per file; null where it is not known
    number_of  the number of a value, which dates and timestamps give as days and microseconds since 1970;
               None if it cannot be computed
    """

    numbers: pa.Array
    number_of: Callable[[Any], int | None]

    def at(self, rows: pa.Array) -> HashedColumn:
        """The facts about some of the files, by index."""
        return HashedColumn(self.numbers.take(rows), self.number_of)


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Bounds and counts of one column.

    lower, upper      of the column's Arrow type; no live value that is neither null nor NaN lies outside
    upper_is_prefix   the upper bound was cut: values that start with it are inside too
    record_count      rows, deleted ones included
    null_count, nan_count   rows with a null and with a NaN. They may or may not include deleted rows, so only
                            0 and ``record_count`` have a meaning.
    hashed            numbers that all values of the column in a file share
    """

    lower: pa.Array
    upper: pa.Array
    null_count: pa.Array
    record_count: pa.Array
    upper_is_prefix: pa.Array | None = None
    nan_count: pa.Array | None = None
    hashed: tuple[HashedColumn, ...] = ()

    def at(self, rows: pa.Array) -> ColumnStats:
        """The facts about some of the files, by index."""
        return ColumnStats(
            self.lower.take(rows),
            self.upper.take(rows),
            self.null_count.take(rows),
            self.record_count.take(rows),
            None if self.upper_is_prefix is None else self.upper_is_prefix.take(rows),
            None if self.nan_count is None else self.nan_count.take(rows),
            tuple(column.at(rows) for column in self.hashed),
        )


@dataclass(frozen=True, slots=True)
class ConstantColumn:
    """A column with the same value in all rows of a file, such as a partition column.

    A null is the value NULL. Where ``known`` is false the value is not known.
    """

    values: pa.Array
    known: pa.Array | None = None

    def at(self, rows: pa.Array) -> ConstantColumn:
        """The facts about some of the files, by index."""
        return ConstantColumn(self.values.take(rows), None if self.known is None else self.known.take(rows))


class FileFacts(Protocol):
    """Facts about ``count`` files. A column's facts may be computed when they are first needed."""

    @property
    def count(self) -> int: ...

    @property
    def record_count(self) -> pa.Array:
        """Physical rows of each file, int64, null where not recorded."""
        ...

    @property
    def tight(self) -> pa.Array:
        """Whether a live row has the bound as its value, for each file; boolean."""
        ...

    def column(self, path: ColumnPath) -> ColumnStats | ConstantColumn | None:
        """The facts about the column; None if there are none."""
        ...


class SelectableFacts(FileFacts, Protocol):
    """Facts that can be narrowed to some of the files."""

    def at(self, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> SelectableFacts:
        """The facts about some of the files, by ascending index."""
        ...
