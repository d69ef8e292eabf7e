"""Rows of Arrow tables that come in many chunks, without joining the chunks first.

Arrow's own ``take`` concatenates a chunked column before it looks at an index, which for a few rows
of a million costs more than all the rest of a plan.
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
    taken = [
        batch.take(pa.array(rows[first:last] - start))
        for batch, start, first, last in zip(batches, starts, bounds, bounds[1:], strict=False)
        if first < last
    ]
    return pa.Table.from_batches(taken, schema=table.schema)
