"""Removing rows: from the rows found to vectors set and files removed, or to files written again.

A file that is left with no row is removed. Any other gets a vector: its old one and the rows found. Where the
rules allow no vectors, or more of a file's rows are deleted than their ``rewrite_share``, the file is removed
and its remaining rows are written anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.deletes.applied import verify_applied
from delvec.deletes.loader import load_vectors
from delvec.errors import FormatError
from delvec.plan import DELETES_SCHEMA, DELETION_VECTOR, POSITION_VECTOR, ScanPlan
from delvec.row_delta import VECTORS_SCHEMA, DeleteForm, WriteRules
from delvec.spark.file_paths import file_path, location_of, numbers, shown_alike
from delvec.spark.find_rows import FoundRows, find_few_rows, find_rows, row_bits, united
from delvec.spark.new_rows import conformed
from delvec.spark.scan import place_columns
from delvec.spark.store_on_executors import bits_size, store_vectors
from delvec.spark.target import Target
from delvec.spark.write_rows import NOTHING_WRITTEN, WrittenFiles, write_rows

DRIVER_BYTES = 64 << 20
"""What the driver takes of found rows, as bits: 4 KiB for each 32,768 rows of the files looked at."""

FEW_ROWS = 1 << 25
"""Of files that have no more rows than this together, the driver takes each row found as a number: 256 MiB of
them, where all rows are found.
"""

FEW_REPEATED_ROWS = 1 << 16
"""The same, where a row may be found many times."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What becomes of the files in which rows were found.

    ``written`` are the rows that stay of ``rewritten``, those of ``removed`` that had rows left.
    """

    removed: pa.Array
    vectors: pa.Table
    written: WrittenFiles = NOTHING_WRITTEN
    rewritten: pa.Array = field(default_factory=lambda: pa.array([], pa.int64()))


def find(
    target: Target,
    plan: ScanPlan,
    frame: DataFrame,
    places: tuple[str, str],
    flag: Column | None = None,
    *,
    repeated: bool = False,
) -> FoundRows:
    """The rows of the plan's files that the frame's columns ``places`` name: the file's path, and the row.

    Beyond ``DRIVER_BYTES`` of bits, at most, executors unite and store the vectors. ``repeated``: the frame
    may have a row many times.
    """
    if has_few_rows(plan, repeated=repeated):
        paths = _paths_by_number(frame, plan)
        if paths is not None:
            return find_few_rows(frame, *places, paths, flag)
    store = target.rules.store_vectors
    if store is None or bits_size(plan) <= DRIVER_BYTES:
        return find_rows(frame, *places, flag)
    stored = store_vectors(row_bits(frame, *places, flag), plan, target.storage, store)
    counts, flagged = (sum(stored.column(name).to_pylist()) for name in ("count", "flagged"))
    return FoundRows({}, counts, flagged, stored)


def has_few_rows(plan: ScanPlan, *, repeated: bool = False) -> bool:
    """Whether the files have so few rows that each row found goes to the driver, without a shuffle."""
    rows = plan.files.column("record_count")
    few = min(FEW_ROWS, FEW_REPEATED_ROWS) if repeated else FEW_ROWS
    return not rows.null_count and (pc.sum(rows).as_py() or 0) <= few


def _paths_by_number(frame: DataFrame, plan: ScanPlan) -> dict[int, str] | None:
    """The paths of the plan's files by their numbers; None where these are not known to be the frame's."""
    paths = list(map(file_path, plan.files.column("location").to_pylist()))
    found = dict(zip(numbers(paths).tolist(), paths, strict=True))
    return found if len(found) == len(paths) and shown_alike(frame, paths) else None


def remove_rows(target: Target, plan: ScanPlan, found: FoundRows) -> Removal:
    """The removal of the rows ``found`` in files of ``plan``."""
    verify_applied(plan)
    if not found.count:
        return Removal(pa.array([], pa.int64()), VECTORS_SCHEMA.empty_table())
    touched, vectors = (
        _stored(plan, found.stored) if found.stored is not None else _united(target, plan, found)
    )
    emptied, again = decide(target.rules, touched, vectors.column("cardinality"))
    leaving = emptied | again
    removed = vectors.column("file_id").filter(pa.array(leaving)).combine_chunks()
    written = NOTHING_WRITTEN
    if again.any():
        written = _written_again(target, touched.at(np.flatnonzero(again)), vectors.filter(pa.array(again)))
    rewritten = vectors.column("file_id").filter(pa.array(again)).combine_chunks()
    return Removal(removed, vectors.filter(pa.array(~leaving)), written, rewritten)


def decide(
    rules: WriteRules, plan: ScanPlan, deleted: pa.ChunkedArray
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which of the plan's files are left with no row, and which are to be written again; the others get a
    vector. ``deleted`` is the number of each file's rows that will be deleted, old deletes included.
    """
    records = pc.fill_null(plan.files.column("record_count"), -1)
    emptied = pc.equal(deleted, records).to_numpy()
    return emptied, ~emptied & _to_write_again(rules, _deleted_shares(plan, deleted))


def _deleted_shares(plan: ScanPlan, deleted: pa.ChunkedArray) -> NDArray[np.float64]:
    """The share of each file's rows that will be deleted; 0 where their number is not known."""
    records = pc.fill_null(plan.files.column("record_count"), 0).to_numpy()
    shares = np.zeros(len(records))
    np.divide(deleted.to_numpy(), records, out=shares, where=records > 0)
    return shares


def _to_write_again(rules: WriteRules, deleted: NDArray[np.float64]) -> NDArray[np.bool_]:
    rewrites = rules.deletes is DeleteForm.REWRITE
    if not rewrites and rules.rewrite_share is not None:
        return deleted > rules.rewrite_share
    return np.full(len(deleted), rewrites)


def _stored(plan: ScanPlan, stored: pa.Table) -> tuple[ScanPlan, pa.Table]:
    """The plan of the files whose vectors executors have stored, and these in the same order."""
    at = np.flatnonzero(pc.is_in(plan.files.column("file_id"), stored.column("file_id")).to_numpy())
    touched = plan.at(at)
    rows = pc.index_in(touched.files.column("file_id"), stored.column("file_id"))
    columns = {name: stored.column(name) for name in stored.column_names if name in VECTORS_SCHEMA.names}
    columns["rows"] = pa.nulls(len(stored), pa.binary())
    return touched, pa.table(columns).select(VECTORS_SCHEMA.names).cast(VECTORS_SCHEMA).take(rows)


def _united(target: Target, plan: ScanPlan, found: FoundRows) -> tuple[ScanPlan, pa.Table]:
    """The plan of the files in which rows were found, and their new vectors in the same order."""
    touched, bitmaps = _touched(plan, found.files)
    old = _old_vectors(target, touched)
    ids = touched.files.column("file_id").to_pylist()
    rows = [_vector(*parts) for parts in zip(ids, bitmaps, old, strict=True)]
    return touched, pa.Table.from_pylist(rows, schema=VECTORS_SCHEMA)


def _touched(plan: ScanPlan, found: Mapping[str, Bitmap]) -> tuple[ScanPlan, list[Bitmap]]:
    """The plan of the files in which rows were found, and these rows in the same order."""
    by_location = {location_of(path): rows for path, rows in found.items()}
    places = plan.files.column("location")
    at = np.flatnonzero(pc.is_in(places, pa.array(list(by_location))).to_numpy())
    touched = plan.at(at)
    names = touched.files.column("location").to_pylist()
    if len(names) != len(by_location):
        unknown = sorted(set(by_location) - set(names))
        raise FormatError("a scan found rows in a file that is not in its plan", path=unknown[0])
    return touched, [by_location[name] for name in names]


def _old_vectors(target: Target, plan: ScanPlan) -> list[Bitmap | None]:
    vectors = plan.files.column("vector").to_pylist()
    loaded = load_vectors(target.storage, plan.deletes, [row for row in vectors if row is not None])
    return [None if row is None else loaded[row] for row in vectors]


def _vector(file_id: int, found: Bitmap, old: Bitmap | None) -> dict[str, object]:
    vector, deleted = united(found, old)
    return {
        "file_id": file_id,
        "rows": blob.encode(vector),
        "cardinality": vector.cardinality,
        "deleted": deleted,
    }


def _written_again(target: Target, plan: ScanPlan, vectors: pa.Table) -> WrittenFiles:
    """The rows of the plan's files that ``vectors`` leave, in new files."""
    deletes = pa.Table.from_pylist(
        [
            {
                "kind": POSITION_VECTOR,
                "encoding": DELETION_VECTOR,
                "inline": None if row["rows"] is None else blob.bare(row["rows"]),
                "location": row["location"],
                "offset": row["offset"],
                "length": row["length"] if row["rows"] is None else len(row["rows"]),
                "cardinality": row["cardinality"],
                "referenced_file": place,
                "identity": str(number),
            }
            for number, (row, place) in enumerate(
                zip(vectors.to_pylist(), plan.files.column("location").to_pylist(), strict=True)
            )
        ],
        schema=DELETES_SCHEMA,
    )
    index = plan.files.schema.get_field_index("vector")
    files = plan.files.set_column(index, "vector", pa.array(range(len(plan.files)), pa.int32()))
    left = replace(plan, files=files, deletes=deletes)
    frame = target.scan_located(left) if target.lineage else target.scan(left)
    frame = frame.drop(*place_columns(target.schema))
    rows = conformed(frame, target.rules.schema, beside=target.lineage)
    left_shares = 1 - _deleted_shares(plan, vectors.column("cardinality"))
    size = int(plan.files.column("size").to_numpy() @ left_shares)
    return write_rows(rows, target.storage, target.rules, size=size, extra=target.lineage)
