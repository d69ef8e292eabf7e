"""Which rows a scan of changes keeps, and what it says of them: the values between a scan and its callers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from delvec.chunked import Rows
from delvec.spark.vector_words import Words


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The rows that a scan keeps, instead of the live ones.

    rows      words for a filter; or chunks to join: the key, the words, and further columns
    columns   further columns of all rows, if ``rows`` are words
    """

    rows: Words | DataFrame
    columns: tuple[Column, ...] = ()


Keeps = Callable[[pa.Table, Rows, bool], KeptRows | None]
"""The rows to keep of some data files (rows of ``ScanPlan.files``), given the number of each. The flag says
whether words are possible. None: no row of these files.
"""


@dataclass(frozen=True, slots=True)
class FurtherColumns:
    """Columns of a scan after those of the table, by the names that they get.

    row         the position of the row in its file; the plan must have values of constants by file
    deleted_by  the sequence of the first delete by value that deletes the row (`first_deletes`). If it is
                asked for, no row is left out because a delete by value applies to it
    """

    row: str | None = None
    deleted_by: str | None = None


NO_COLUMNS = FurtherColumns()
