"""New vectors of a ``RowDelta``: the old deleted rows of a file and those that a verb has found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.deletes.loader import DeleteLoader
from delvec.deletes.sets import DeleteSets
from delvec.plan import DELETES_SCHEMA, DELETION_VECTOR, POSITION_VECTOR, ScanPlan
from delvec.storage import Storage


def new_vector(file_id: int, new_rows: Bitmap, old: Bitmap | None) -> dict[str, Any]:
    """A row of ``RowDelta.vectors``: the file's old deleted rows and ``new_rows``."""
    united = new_rows if old is None else old | new_rows
    return {
        "file_id": file_id,
        "rows": blob.encode(united),
        "cardinality": united.cardinality,
        "deleted": united.cardinality - (0 if old is None else old.cardinality),
    }


def with_new_vectors(plan: ScanPlan, vectors: pa.Table) -> ScanPlan:
    """The plan with new vectors instead of its deletes by position: one for each file, in the order of its
    files. Equality files still apply.
    """
    places = plan.files.column("location").to_pylist()
    deletes = [_delete(vector, place) for vector, place in zip(vectors.to_pylist(), places, strict=True)]
    first, index = len(plan.deletes), plan.files.schema.get_field_index("vector")
    numbers = pa.array(range(first, first + len(places)), pa.int32())
    # A vector replaces the position files of the file's group.
    return replace(
        plan,
        files=plan.files.set_column(index, "vector", numbers),
        deletes=pa.concat_tables([plan.deletes, pa.Table.from_pylist(deletes, schema=DELETES_SCHEMA)]),
    )


def load_new_vector(storage: Storage, vector: Mapping[str, Any], data_file: str) -> Bitmap:
    """All deleted rows of a row of ``RowDelta.vectors``, also if an executor has stored them."""
    if vector["rows"] is not None:
        return blob.decode(vector["rows"])
    deletes = pa.Table.from_pylist([_delete(vector, data_file)], schema=DELETES_SCHEMA)
    (bitmap,) = DeleteLoader(storage).load(DeleteSets.of_vectors(deletes))
    assert bitmap is not None
    return bitmap


def _delete(vector: Mapping[str, Any], data_file: str) -> dict[str, Any]:
    """A row of ``RowDelta.vectors`` as a row of ``ScanPlan.deletes``."""
    rows = vector["rows"]
    return {
        "kind": POSITION_VECTOR,
        "encoding": DELETION_VECTOR,
        "inline": None if rows is None else blob.bare(rows),
        "location": vector["location"],
        "offset": vector["offset"],
        "length": vector["length"] if rows is None else len(rows),
        "cardinality": vector["cardinality"],
        "referenced_file": data_file,
    }
