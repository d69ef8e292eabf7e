"""Rows of Arrow tables and columns that consist of several chunks. `rows_of` does not concatenate them.

Arrow's own ``take`` concatenates a chunked column first. For a few rows of a million, that takes longer than
the rest of planning.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

Rows = np.ndarray[tuple[int], np.dtype[np.int64]]
Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


def rows_of(table: pa.Table, rows: Rows) -> pa.Table:
    """The rows of ``table`` at the ascending indices ``rows``."""
    batches = table.to_batches()
    starts = np.cumsum([0] + [len(batch) for batch in batches])
    bounds = np.searchsorted(rows, starts)
    pieces = [
        batch.take(pa.array(rows[first:last] - start))
        for batch, start, first, last in zip(batches, starts, bounds, bounds[1:], strict=False)
        if first < last
    ]
    return pa.Table.from_batches(pieces, schema=table.schema)


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array, without a copy if it has one chunk."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
