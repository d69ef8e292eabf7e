"""What metadata knows about the columns of many files: one Arrow array per fact, one row per file.

A null in any of these arrays means "not known". All facts are about the *live* rows of a file, or
about a superset of them: a bound holds for every live row, a count may include deleted rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

ColumnPath = tuple[str, ...]
"""A column by its logical names, outermost first: ``("address", "city")``."""


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Bounds and counts of one column.

    ``lower`` and ``upper`` have the column's Arrow type; no live value that is neither null nor NaN
    lies outside them. Where ``upper_is_prefix`` is true the upper bound was cut: values that start
    with it are inside too. ``null_count`` and ``nan_count`` count physical rows where the bounds
    are wide, live ones where they are tight: they mean something only at 0 and at ``record_count``,
    the physical number of rows.
    """

    lower: pa.Array
    upper: pa.Array
    null_count: pa.Array
    record_count: pa.Array
    upper_is_prefix: pa.Array | None = None
    nan_count: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class ConstantColumn:
    """A column that holds one value in all rows of a file, such as a partition column.

    A null is the value NULL, not an unknown one, except where ``known`` is false.
    """

    values: pa.Array
    known: pa.Array | None = None


class FileFacts(Protocol):
    """Facts about ``count`` files, by column; made when asked for."""

    @property
    def count(self) -> int: ...

    @property
    def record_count(self) -> pa.Array:
        """Physical rows of each file, int64, null where not recorded."""
        ...

    @property
    def tight(self) -> pa.Array:
        """Whether each file's bounds are met by a live row, boolean."""
        ...

    def column(self, path: ColumnPath) -> ColumnStats | ConstantColumn | None:
        """What is known of the column; None where nothing is."""
        ...


class SelectableFacts(FileFacts, Protocol):
    """Facts of which some files' can be taken."""

    def at(self, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> SelectableFacts:
        """The facts about some of the files, by ascending index."""
        ...
