"""Loading position vectors: many of them, with few requests.

The rows of ``ScanPlan.deletes`` say where each vector is. Vectors that share a file are read
together, files side by side, and every vector is checked against what the metadata says of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from delvec.bitmap import Bitmap
from delvec.deletes.examine import examine_vectors
from delvec.plan import ScanPlan
from delvec.storage import Storage


def load_vectors(storage: Storage, deletes: pa.Table, rows: Sequence[int] | None = None) -> dict[int, Bitmap]:
    """The vectors at ``rows`` of ``deletes`` (all by default), by row.

    The first one that cannot be trusted is raised: a file whose vector is not known has no known rows.
    """
    chosen = deletes if rows is None else deletes.take(pa.array(rows, pa.int64()))
    loaded = {}
    for found in examine_vectors(storage, chosen):
        if found.bitmap is None:
            assert found.error is not None
            raise found.error
        loaded[found.row if rows is None else rows[found.row]] = found.bitmap
    return loaded


def vectors_by_file(storage: Storage, plan: ScanPlan) -> dict[int, Bitmap]:
    """The deleted rows of each file of the plan, by file id."""
    rows = plan.files.column("vector").to_pylist()
    loaded = load_vectors(storage, plan.deletes, [row for row in rows if row is not None])
    return {
        file_id: Bitmap() if row is None else loaded[row]
        for file_id, row in zip(plan.files.column("file_id").to_pylist(), rows, strict=True)
    }
