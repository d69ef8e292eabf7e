"""The deleted rows of a plan's files, for tests that read tables themselves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.bitmap import Bitmap
from delvec.chunked import one_chunk
from delvec.deletes.equality import EqualityDeletes, KeyColumn
from delvec.deletes.loader import DeleteLoader
from delvec.deletes.sets import DeleteSets
from delvec.plan import ScanPlan
from delvec.storage import Storage


def deleted_rows(storage: Storage, plan: ScanPlan) -> list[Bitmap]:
    """The rows of each file that are deleted by position, in the order of the plan's files."""
    return [bitmap or Bitmap() for bitmap in DeleteLoader(storage).load(DeleteSets.of(plan))]


class DeletedByValue:
    """The rows of a plan's files that equality deletes delete."""

    def __init__(self, storage: Storage, plan: ScanPlan) -> None:
        loader = DeleteLoader(storage)
        self._layers = [(layer, loader.load_keys(layer)) for layer in EqualityDeletes.of(plan).layers]

    def of(self, file: int, rows: pa.Table) -> np.ndarray:
        """Which rows of the file, by its place in the plan; ``rows`` has the columns of the table."""
        deleted = np.zeros(len(rows), dtype=bool)
        for layer, keys in self._layers:
            if layer.has_deletes[file]:
                values = [_values(rows, column) for column in layer.columns]
                scope, sequence = int(layer.scope[file]), int(layer.sequence[file])
                deleted |= keys.deleted(values, scope=scope, sequence=sequence)
        return deleted


def _values(rows: pa.Table, column: KeyColumn) -> pa.Array:
    values = one_chunk(rows.column(column.path[0]))
    for name in column.path[1:]:
        values = pc.struct_field(values, name)
    return pc.is_null(values) if column.is_null else values
