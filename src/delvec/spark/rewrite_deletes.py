"""Rewriting deletes: position files and deletes by value become deletes by position of single data files.

    selected    the data files to which such deletes apply; with a condition, those of its partitions
    found       their rows that are deleted by value: one scan
    new         for each selected file its old deleted rows and the rows found
    removed     the deletes that apply to no other data file, and those that apply to none

No row changes. A delete that also applies to a data file that was not selected stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.bitmap import Bitmap
from delvec.chunked import Mask
from delvec.conflicts import Rerun
from delvec.deletes.deletes_of_files import applied_deletes
from delvec.deletes.equality import EqualityDeletes
from delvec.deletes.sets import DeleteSets
from delvec.errors import UnsupportedFeatureError
from delvec.formats import DeletesListed
from delvec.plan import POSITION_FILE, POSITION_VECTOR, ScanPlan
from delvec.row_delta import (
    REMOVED_DELETES_SCHEMA,
    VECTORS_SCHEMA,
    DeleteForm,
    Isolation,
    Read,
    RowCounts,
    RowDelta,
    Verb,
)
from delvec.spark.commit_and_rerun import StatementProbe, settle
from delvec.spark.delete_rewrite import (
    KEY_VECTORS,
    POSITIONS,
    VECTORS,
    DeleteRewrite,
    DeletesRewritten,
    kind_counts,
)
from delvec.spark.file_paths import file_path, location_of
from delvec.spark.find_rows import find
from delvec.spark.partition_condition import is_selected
from delvec.spark.remove_rows import united_vectors
from delvec.spark.rewrite_to_key_vectors import rewrite_to_key_vectors
from delvec.spark.row_bitmaps import FoundRows
from delvec.spark.scan import place_columns, places_deleted_by_value
from delvec.spark.scan_part import united
from delvec.spark.target import Target


def rewrite_deletes(
    target: Target, rewrite: DeleteRewrite, *, dry_run: bool = False
) -> DeletesRewritten | Rerun:
    """Rewrite deletes to vectors or position files of single data files, or to vectors of keys, in one
    commit.
    """
    if rewrite.to == KEY_VECTORS:
        return rewrite_to_key_vectors(target, rewrite, dry_run=dry_run)
    _verify_form(target, rewrite.to)
    selection = _selected(target, rewrite)
    if dry_run or not selection.changes_anything:
        return _result(target, rewrite, selection, dry_run=dry_run)
    vectors = _new_vectors(target, selection)
    delta = RowDelta(
        base=selection.plan.base,
        request=rewrite.request,
        read=Read(rewrite.request.condition, isolation=Isolation.SNAPSHOT),
        verb=Verb.REWRITE_DELETES,
        vectors=vectors,
        removed_deletes=selection.removed.select(REMOVED_DELETES_SCHEMA.names),
        data_change=False,
    )
    settled = settle(target, delta, StatementProbe(target))
    if isinstance(settled, Rerun):
        return settled
    result = _result(target, rewrite, selection)
    rows = selection.rows_stored(vectors)
    return replace(result, version=settled.version, metrics=settled.metrics, rows=rows)


def _verify_form(target: Target, to: str) -> None:
    """Refuse what the table's format cannot store."""
    rules, place = target.rules, target.table.location
    version = target.snapshot.format_version
    if to == VECTORS and rules.deletes is DeleteForm.POSITION_FILE:
        since = rules.vectors_since
        raise UnsupportedFeatureError(
            f"to is {to!r}, but the table's format version is {version}, expected {since} or more: call "
            f"upgrade({since}) first, or use to={POSITIONS!r}: {place}",
            feature=f"vectors in format version {version}",
        )
    if to == POSITIONS and rules.deletes is not DeleteForm.POSITION_FILE:
        raise UnsupportedFeatureError(
            f"to is {to!r}, but {target.table.format} tables of this version store deletes by position as "
            f"vectors: use to={VECTORS!r}: {place}",
            feature=POSITIONS,
        )


@dataclass(frozen=True, slots=True)
class _Selection:
    """What to rewrite.

    plan           the selected data files
    has_positions, has_values   which of them have position files, and deletes by value
    removed, kept  the deletes to remove, and others of the forms to rewrite: rows of ``ScanPlan.deletes``
    """

    plan: ScanPlan
    has_positions: Mask
    has_values: Mask
    removed: pa.Table
    kept: pa.Table

    @property
    def changes_anything(self) -> bool:
        return len(self.plan.files) > 0 or len(self.removed) > 0

    def rows_stored(self, vectors: pa.Table) -> int:
        """The deleted rows in new vectors that were in no vector before."""
        files = self.plan.files
        has_new = pc.is_in(files.column("file_id"), value_set=vectors.column("file_id").combine_chunks())
        old = self.plan.deletes.take(files.column("vector").filter(has_new).drop_null())
        new, before = (pc.sum(table.column("cardinality")).as_py() or 0 for table in (vectors, old))
        return int(new - before)


def _selected(target: Target, rewrite: DeleteRewrite) -> _Selection:
    plan = target.plan(None)
    has_positions, has_values = _with_position_files(plan), EqualityDeletes.of(plan).has_deletes
    selected = has_values | has_positions if rewrite.to == VECTORS else has_values
    selected &= is_selected(target, plan, rewrite.where)
    rows = np.flatnonzero(selected)
    removed, kept = _deletes_without_files(target, plan, plan.at(np.flatnonzero(~selected)))
    return _Selection(plan.at(rows), has_positions[rows], has_values[rows], removed, kept)


def _with_position_files(plan: ScanPlan) -> Mask:
    """For each file whether a position file may apply to it."""
    sets = DeleteSets.of(plan)
    kinds = pc.equal(sets.deletes.column("kind"), POSITION_FILE).to_numpy()
    has_files = np.zeros(len(plan.files), np.bool_)
    has_files[sets.file[kinds[sets.delete]]] = True
    return has_files


def _deletes_without_files(target: Target, plan: ScanPlan, others: ScanPlan) -> tuple[pa.Table, pa.Table]:
    """The deletes that apply to none of ``others``, the files that are not selected, and those that do.

    Vectors of data files stay, except those whose data file is gone: a commit replaces a file's vector.
    """
    live = target.snapshot.live_deletes() if isinstance(target.snapshot, DeletesListed) else plan.deletes
    is_vector = pc.equal(live.column("kind"), POSITION_VECTOR).to_numpy()
    used = _places(plan.deletes.filter(pa.array(applied_deletes(plan))))
    still_used = _places(plan.deletes.filter(pa.array(applied_deletes(others))))
    places = list(_places(live))
    in_use = np.fromiter((place in used for place in places), np.bool_, len(places))
    is_needed = np.fromiter((place in still_used for place in places), np.bool_, len(places))
    stays = np.where(is_vector, in_use, is_needed)
    removed = live.filter(pa.array(~stays))
    return removed, live.filter(pa.array(stays & ~is_vector))


def _places(deletes: pa.Table) -> dict[tuple[str, int | None], None]:
    """Where the deletes are stored."""
    return dict.fromkeys(zip(*(deletes.column(n).to_pylist() for n in ("location", "offset")), strict=True))


def _new_vectors(target: Target, selection: _Selection) -> pa.Table:
    """The new vectors, as ``RowDelta.vectors``. A file without deleted rows, or whose vector stays the same,
    has none.
    """
    plan, found = selection.plan, FoundRows({}, 0)
    by_value = plan.at(np.flatnonzero(selection.has_values))
    if len(by_value.files):
        frames = places_deleted_by_value(target.spark, by_value, target.storage, target.deletes)
        if frames:  # else no key can be in a file, by their bounds
            found = find(target, by_value, united(frames), place_columns(target.schema))
    tables = []
    if found.stored is not None:
        tables.append(united_vectors(target, by_value, found)[1])
        found = FoundRows({}, 0)
    bitmaps = dict(found.files)
    known = {location_of(path) for path in bitmaps}
    known.update(_locations(plan, tables))
    positions = plan.at(np.flatnonzero(selection.has_positions)).files.column("location").to_pylist()
    bitmaps |= {file_path(place): Bitmap() for place in positions if place not in known}
    if bitmaps:
        tables.append(united_vectors(target, plan, FoundRows(bitmaps, found.count))[1])
    return _changed(pa.concat_tables(tables or [VECTORS_SCHEMA.empty_table()]), selection)


def _locations(plan: ScanPlan, vectors: list[pa.Table]) -> list[str]:
    """The data files of new vectors."""
    ids = [file_id for table in vectors for file_id in table.column("file_id").to_pylist()]
    chosen = pc.is_in(plan.files.column("file_id"), value_set=pa.array(ids, pa.int64()))
    places: list[str] = plan.files.column("location").filter(chosen).to_pylist()
    return places


def _changed(vectors: pa.Table, selection: _Selection) -> pa.Table:
    """Those of the vectors that have rows, and that replace other deletes than an equal vector."""
    files = selection.plan.files
    with_positions = files.column("file_id").filter(pa.array(selection.has_positions)).combine_chunks()
    replaces = pc.or_(
        pc.greater(vectors.column("deleted"), 0),
        pc.is_in(vectors.column("file_id"), value_set=with_positions),
    )
    return vectors.filter(pc.and_(replaces, pc.greater(vectors.column("cardinality"), 0)))


def _result(
    target: Target, rewrite: DeleteRewrite, selection: _Selection, *, dry_run: bool = False
) -> DeletesRewritten:
    """The result of a rewrite that commits nothing."""
    unchanged = target.unchanged(rewrite.request, RowCounts())
    return DeletesRewritten(
        unchanged.version,
        unchanged.metrics,
        to=rewrite.to,
        files=len(selection.plan.files),
        removed=kind_counts(selection.removed),
        kept=len(selection.kept),
        dry_run=dry_run,
    )
