"""Parquet footers: what a data file tells of itself."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from delvec.errors import FormatError
from delvec.storage import Storage


def footer_rows(storage: Storage, place: str) -> int:
    """The number of rows of the data file at ``place``, deleted ones included."""
    with storage.open_input(place) as source:
        try:
            return int(pq.read_metadata(source).num_rows)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise FormatError(f"data file is not readable as Parquet: {error}", path=place) from None
