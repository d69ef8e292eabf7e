"""Removing rows: the rows found become new vectors, removed files or rewritten files.

A file without remaining rows is removed. Any other file gets a new vector: its old deleted rows and the rows
found. If the rules allow no vectors, or if more of a file's rows are deleted than ``rewrite_share`` allows,
the file is removed and its remaining rows are written to new files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from delvec.bitmap import Bitmap
from delvec.deletes.new_vectors import new_vector, with_new_vectors
from delvec.deletes.sets import DeleteSets
from delvec.deletes.supported_kinds import verify_applied
from delvec.errors import FormatError
from delvec.plan import ScanPlan, share_of_rows
from delvec.row_delta import VECTORS_SCHEMA, DeleteForm, WriteRules
from delvec.spark.copied_rows import copied_rows
from delvec.spark.file_paths import location_of
from delvec.spark.row_bitmaps import FoundRows
from delvec.spark.target import Target
from delvec.spark.write_rows import NOTHING_WRITTEN, WrittenFiles, write_rows


@dataclass(frozen=True, slots=True)
class Removal:
    """The changes of the files in which rows were found.

    removed     ids of files that are removed
    vectors     new vectors, as in ``RowDelta.vectors``
    written     new files with the remaining rows of ``rewritten``
    rewritten   those of ``removed`` that had remaining rows
    """

    removed: pa.Array
    vectors: pa.Table
    written: WrittenFiles = NOTHING_WRITTEN
    rewritten: pa.Array = field(default_factory=lambda: pa.array([], pa.int64()))


def remove_rows(target: Target, plan: ScanPlan, rows_found: FoundRows) -> Removal:
    """The changes that remove the rows ``rows_found`` from the files of ``plan``."""
    verify_applied(plan)
    if not rows_found.count:
        return Removal(pa.array([], pa.int64()), VECTORS_SCHEMA.empty_table())
    changed, vectors = united_vectors(target, plan, rows_found)
    emptied, rewrite = decide(target.rules, changed, vectors.column("cardinality"))
    is_removed = emptied | rewrite
    removed = vectors.column("file_id").filter(pa.array(is_removed)).combine_chunks()
    written = NOTHING_WRITTEN
    if rewrite.any():
        written = _rewrite(target, changed.at(np.flatnonzero(rewrite)), vectors.filter(pa.array(rewrite)))
    rewritten = vectors.column("file_id").filter(pa.array(rewrite)).combine_chunks()
    return Removal(removed, vectors.filter(pa.array(~is_removed)), written, rewritten)


def united_vectors(target: Target, plan: ScanPlan, rows_found: FoundRows) -> tuple[ScanPlan, pa.Table]:
    """The plan of the files in which rows were found, and their new vectors in the same order: the rows that
    were deleted by position before, and the rows found.
    """
    if rows_found.stored is not None:
        return _stored(plan, rows_found.stored)
    return _united(target, plan, rows_found)


def decide(
    rules: WriteRules, plan: ScanPlan, deleted: pa.ChunkedArray
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which of the plan's files have no remaining row, and which are rewritten; the others get a vector.

    ``deleted`` is the number of each file's deleted rows afterwards, old ones included.
    """
    records = pc.fill_null(plan.files.column("record_count"), -1)
    emptied = pc.equal(deleted, records).to_numpy()
    return emptied, ~emptied & _to_rewrite(rules, share_of_rows(plan.files, deleted))


def _to_rewrite(rules: WriteRules, deleted: NDArray[np.float64]) -> NDArray[np.bool_]:
    rewrites = rules.deletes is DeleteForm.REWRITE
    if not rewrites and rules.rewrite_share is not None:
        return deleted > rules.rewrite_share
    return np.full(len(deleted), rewrites)


def _stored(plan: ScanPlan, stored: pa.Table) -> tuple[ScanPlan, pa.Table]:
    """The plan of the files whose new vectors executors have stored, and these vectors in the same order."""
    at = np.flatnonzero(pc.is_in(plan.files.column("file_id"), stored.column("file_id")).to_numpy())
    changed = plan.at(at)
    rows = pc.index_in(changed.files.column("file_id"), stored.column("file_id"))
    columns = {name: stored.column(name) for name in stored.column_names if name in VECTORS_SCHEMA.names}
    columns["rows"] = pa.nulls(len(stored), pa.binary())
    return changed, pa.table(columns).select(VECTORS_SCHEMA.names).cast(VECTORS_SCHEMA).take(rows)


def _united(target: Target, plan: ScanPlan, rows_found: FoundRows) -> tuple[ScanPlan, pa.Table]:
    """The plan of the files in which rows were found, and their new vectors in the same order."""
    changed, bitmaps = _with_bitmaps(plan, rows_found.files)
    old = target.deletes.load(DeleteSets.of(changed))
    ids = changed.files.column("file_id").to_pylist()
    rows = [new_vector(*parts) for parts in zip(ids, bitmaps, old, strict=True)]
    return changed, pa.Table.from_pylist(rows, schema=VECTORS_SCHEMA)


def _with_bitmaps(plan: ScanPlan, bitmaps: Mapping[str, Bitmap]) -> tuple[ScanPlan, list[Bitmap]]:
    """The plan of the files in which rows were found, and these rows in the same order."""
    by_location = {location_of(path): rows for path, rows in bitmaps.items()}
    places = plan.files.column("location")
    at = np.flatnonzero(pc.is_in(places, pa.array(list(by_location))).to_numpy())
    changed = plan.at(at)
    names = changed.files.column("location").to_pylist()
    if len(names) != len(by_location):
        unknown = sorted(set(by_location) - set(names))
        raise FormatError("a scan found rows in a file that is not in its plan", path=unknown[0])
    return changed, [by_location[name] for name in names]


def _rewrite(target: Target, plan: ScanPlan, vectors: pa.Table) -> WrittenFiles:
    """Write the rows of the plan's files that are not in ``vectors`` to new files."""
    rows = copied_rows(target, with_new_vectors(plan, vectors))
    remaining_shares = 1 - share_of_rows(plan.files, vectors.column("cardinality"))
    size = int(plan.files.column("size").to_numpy() @ remaining_shares)
    return write_rows(rows, target.storage, target.rules, size=size, extra=target.lineage)
