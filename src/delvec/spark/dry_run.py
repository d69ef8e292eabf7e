"""Dry runs: what a statement would do to each file. Writes nothing.

DELETE, UPDATE    one scan of the columns that the condition needs counts the rows of each file; files whose
                  rows all match, as metadata proves, are not read
DELETE by keys    only the keys are counted; no file is read
OVERWRITE, MERGE  the new rows are computed, checked and counted, but not kept

`remove_rows.decide` decides what happens to a file, as for the statements themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from delvec.deletes.sets import DeleteSets
from delvec.errors import FormatError
from delvec.footers.footer import footer_rows
from delvec.operation_metrics import stored_key_metrics
from delvec.plan import MATCH_ALL, ScanPlan
from delvec.row_delta import Request, RowCounts
from delvec.spark import append
from delvec.spark.commit_and_rerun import Rows, source_frame
from delvec.spark.computed_columns import new_rows
from delvec.spark.condition_keys import keys_to_delete
from delvec.spark.delete import delete_request
from delvec.spark.file_paths import location_of
from delvec.spark.merge import prepared
from delvec.spark.merge_request import Merge, merge_request
from delvec.spark.merge_run import MergeCounts
from delvec.spark.merge_source import MergeSource
from delvec.spark.notebook import html_pairs, html_rows
from delvec.spark.partition_folders import same_partitions
from delvec.spark.partition_values import partition_texts, typed_values, with_hashes
from delvec.spark.progress import ROWS_FOUND, tell
from delvec.spark.remove_rows import decide
from delvec.spark.row_checks import checked
from delvec.spark.scan import place_columns
from delvec.spark.set_clause import Assignments, new_column, resolve
from delvec.spark.target import OperationResult, Target, split_by_match
from delvec.spark.types import quoted
from delvec.spark.update import update_request
from delvec.storage import Storage, in_parallel

_SHOWN = ["location", "rows", "deleted", "matching", "outcome"]
_FILES_SHOWN = 20
_NONE = np.array([], np.int64)
_NOT_COUNTED = RowCounts()

REMOVED = "removed"
NEW_VECTOR = "new-vector"
GROWN_VECTOR = "grown-vector"
REWRITTEN = "rewritten"
KEYS = "keys"
OUTCOMES = (REMOVED, NEW_VECTOR, GROWN_VECTOR, REWRITTEN, KEYS)

TOUCHED_SCHEMA = pa.schema(
    [
        pa.field("location", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("rows", pa.int64()),
        pa.field("deleted", pa.int64()),
        pa.field("matching", pa.int64()),
        pa.field("outcome", pa.string(), nullable=False),
    ]
)
"""Columns of ``Preview.files``.

rows       physical rows, deleted ones included; null if they are not recorded and the file was not read
deleted    rows that are deleted already; null if they are not recorded and the file was not read
matching   live rows that the operation would delete or update; null if the file was not read and its rows are
           not recorded
outcome    ``removed``: no row remains, so the file is removed from the table; ``new-vector``: the file gets
           its first vector; ``grown-vector``: a larger vector replaces the file's vector; ``rewritten``: the
           file is removed, and its remaining rows are written to a new file; ``keys``: the file does not
           change, and rows of it that have one of the stored keys are deleted
"""


@dataclass(frozen=True, slots=True)
class Preview(OperationResult):
    """What an operation would do to version ``version`` of a table. ``metrics``: the counts of rows that it
    would report, without those that only the operation itself can know.

    files          the files that it would change
    read           how many files the preview had to read
    skipped        how many files cannot hold a matching row
    change_files   whether it would also write change files
    keys           how many keys it would store; None: it would find rows, and store no keys
    """

    location: str
    operation: str
    where: str | None
    files: pa.Table
    read: int
    skipped: int
    change_files: bool
    keys: int | None = None

    @property
    def matching(self) -> int | None:
        """The rows that would be deleted or updated; None if a file's count is not known."""
        return _sum_known(self.files.column("matching"))

    @property
    def copied(self) -> int | None:
        """The rows that would be copied to new files without a change."""
        return copied_rows(self.files)

    def count(self, outcome: str) -> int:
        return _count(self.files, outcome)

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={value}" for name, value in self.metrics.items())
        effect = f"change {_number_of(len(self.files), 'file')} ({self.outcomes})"
        if self.keys is not None:
            effect = (
                f"store {_number_of(self.keys, 'key')}; {_number_of(len(self.files), 'file')} may lose rows"
            )
        return (
            f"<dry run: {self.operation} of version {self.version} would {effect}; "
            f"{counts or 'row counts are not recorded'}; nothing was changed>"
        )

    def _repr_html_(self) -> str:
        title = f"dry run: {self.operation} of version {self.version}; nothing was changed"
        pairs = [("files", self.outcomes), *self.metrics.items()]
        files = self.files.select(_SHOWN).slice(0, _FILES_SHOWN)
        more = len(self.files) - len(files)
        return (
            html_pairs(title, pairs)
            + html_rows(_SHOWN, zip(*(column.to_pylist() for column in files.columns), strict=True))
            + (f"<p>{more} more files</p>" if more else "")
        )

    @property
    def outcomes(self) -> str:
        """How many files would have each outcome."""
        if self.keys is not None:
            return f"{_number_of(self.keys, 'key')} stored, {self.count(KEYS)} may lose rows"
        return (
            f"{self.count(REMOVED)} removed, {self.count(NEW_VECTOR)} new vectors, "
            f"{self.count(GROWN_VECTOR)} vectors grown, {self.count(REWRITTEN)} rewritten"
        )


def preview_delete(target: Target, where: str | Column | None) -> Preview:
    """What ``delete`` with this condition would do."""
    target.verify_removable()
    plan = _planned(target, where)
    if where is not None:
        _, rest = split_by_match(plan)
        keys = keys_to_delete(target, plan, rest)
        if keys is not None:
            return preview_keys(target, plan, delete_request(where), len(keys.rows))
    files, files_read = _deleted_files(target, plan, where)
    counts = RowCounts(deleted=_sum_known(files.column("matching")), copied=copied_rows(files))
    result = preview_of(target, delete_request(where), plan, files=files, counts=counts, read=files_read)
    # DELETE writes change files only if it copies rows.
    return result if result.count(REWRITTEN) else replace(result, change_files=False)


def preview_keys(
    target: Target, plan: ScanPlan, request: Request, keys: int, *, counts: RowCounts = _NOT_COUNTED
) -> Preview:
    """A preview of storing so many keys, which may delete rows of the plan's files."""
    outcomes = np.full(len(plan.files), KEYS)
    unknown = pa.chunked_array([pa.nulls(len(plan.files), pa.int64())])
    files = _files(plan, plan.files.column("record_count"), plan.deleted_rows, unknown, outcomes)
    result = preview_of(target, request, plan, files=files, counts=counts, read=0)
    metrics = {**result.metrics, **stored_key_metrics(keys)}
    return replace(result, keys=keys, metrics=metrics, change_files=False)


def preview_update(target: Target, assignments: Assignments, where: str | Column | None) -> Preview:
    """What ``update`` with these assignments would do. The new values are not computed."""
    target.verify_removable()
    _verify_assignments(target, assignments)
    plan = _planned(target, where)
    counted = pc.is_valid(_live_counts(plan)).to_numpy()
    if where is not None:
        counted &= plan.files.column("match").to_numpy(zero_copy_only=False) == MATCH_ALL
    counted_files, rest = _with_live_rows(plan.at(np.flatnonzero(counted))), plan.at(np.flatnonzero(~counted))
    changed, matching = _count_matching(target, rest, where)
    parts = [(counted_files, _live_counts(counted_files)), (changed, matching)]
    files = pa.concat_tables([with_outcomes(target, part, rows) for part, rows in parts])
    counts = RowCounts(updated=_sum_known(files.column("matching")), copied=copied_rows(files))
    return preview_of(target, update_request(where), plan, files=files, counts=counts, read=len(rest.files))


def preview_overwrite(target: Target, rows: Rows, *, where: str | Column | None, partitions: str) -> Preview:
    """What ``overwrite`` would do. The new rows are computed once, and checked."""
    target.verify_removable()
    append.verify_mode(where, partitions)
    if where is not None:
        return _preview_overwrite_where(target, rows, where)
    request = append.overwrite_request(target, where, partitions)
    frame = new_rows(source_frame(rows), target.rules)
    plan = target.plan(None)
    count, values = evaluated(target, frame, with_partitions=request.dynamic)
    if request.dynamic:
        plan = plan.at(same_partitions(plan, target.rules.spec, values))
    files = _removed_files(plan)
    counts = RowCounts(inserted=count, deleted=_sum_known(files.column("matching")))
    result = preview_of(target, request, plan, files=files, counts=counts, read=0)
    return replace(result, change_files=False)


def _preview_overwrite_where(target: Target, rows: Rows, where: str | Column) -> Preview:
    plan = target.plan_verified(where)
    count, _ = evaluated(target, append.rows_within(target, source_frame(rows), where))
    files, files_read = _deleted_files(target, plan, where)
    deleted = _sum_known(files.column("matching"))
    counts = RowCounts(inserted=count, deleted=deleted, copied=copied_rows(files))
    request = append.overwrite_request(target, where, append.STATIC)
    result = preview_of(target, request, plan, files=files, counts=counts, read=files_read)
    return result if result.count(REWRITTEN) else replace(result, change_files=False)


def preview_merge(target: Target, request: Merge, rows: MergeSource) -> Preview:
    """What a merge would do. The new rows are computed and checked."""
    run = prepared(target, request, rows)
    merged: MergeCounts = run.counts(lambda frame: evaluated(run.target, frame)[0])
    changed_files, changed = with_counts(merged.plan, merged.files)
    files = with_outcomes(target, changed_files, changed)
    counts = replace(merged.rows, copied=copied_rows(files))
    result = preview_of(
        target, merge_request(request), merged.plan, files=files, counts=counts, read=len(merged.plan.files)
    )
    return replace(result, change_files=target.rules.change_files and bool(changed or counts.new))


def evaluated(
    target: Target, frame: DataFrame, *, with_partitions: bool = False
) -> tuple[int, pa.ChunkedArray]:
    """Compute and check all rows without keeping them. Returns their number and their partitions (as in
    ``RowDelta.added``).
    """
    texts = partition_texts(target.rules) if with_partitions else []
    aggregates = [
        F.count(F.lit(1)).alias("rows"),
        F.to_json(F.collect_set(F.array(*texts))).alias("partitions"),
    ]
    rows = checked(frame, target.rules)
    if with_partitions:
        rows = with_hashes(rows, target.rules)
    observed = _observed(rows, aggregates if with_partitions else aggregates[:1])
    partitions = json.loads(observed.get("partitions") or "[]")
    return int(observed["rows"]), pa.chunked_array([typed_values(target.rules.spec, partitions)])


def _observed(frame: DataFrame, aggregates: list[Column]) -> Mapping[str, Any]:
    observation = Observation()
    frame.observe(observation, *aggregates).write.format("noop").mode("overwrite").save()
    # Spark observes nothing if it finds out early that there are no rows.
    return observation.get or frame.agg(*aggregates).collect()[0].asDict()


def _deleted_files(target: Target, plan: ScanPlan, where: str | Column | None) -> tuple[pa.Table, int]:
    """The files with rows that would be deleted, and how many files were read to find them."""
    full_matches, rest = (plan, plan.at(_NONE)) if where is None else split_by_match(plan)
    changed, matching = _count_matching(target, rest, where)
    files = pa.concat_tables([_removed_files(full_matches), with_outcomes(target, changed, matching)])
    return files, len(rest.files)


def _removed_files(plan: ScanPlan) -> pa.Table:
    """All files of the plan, as removed files."""
    outcomes = np.full(len(plan.files), REMOVED)
    return _files(plan, plan.files.column("record_count"), plan.deleted_rows, _live_counts(plan), outcomes)


def preview_of(
    target: Target,
    request: Request,
    plan: ScanPlan,
    *,
    files: pa.Table,
    counts: RowCounts,
    read: int,
) -> Preview:
    return Preview(
        version=target.snapshot.version,
        metrics=target.table.metrics(request, counts),
        counts=counts,
        location=target.table.location,
        operation=target.table.operation_name(request),
        where=request.condition,
        files=files,
        read=read,
        skipped=plan.skipped,
        change_files=target.rules.change_files and bool(len(files)),
    )


def _planned(target: Target, where: str | Column | None) -> ScanPlan:
    return target.plan(None) if where is None else target.plan_verified(where)


def _verify_assignments(target: Target, assignments: Assignments) -> None:
    """Refuse the assignments that ``update`` refuses before it reads a row."""
    case_sensitive = target.settings.case_sensitive
    targets = resolve(assignments, target.schema, target.empty(), "set", case_sensitive=case_sensitive)
    for field in target.schema:
        new_column(field, targets, F.col(quoted(field.name)))


def _count_matching(
    target: Target, plan: ScanPlan, where: str | Column | None
) -> tuple[ScanPlan, pa.ChunkedArray]:
    """The plan of the files that hold matching rows, and how many each file holds."""
    if not len(plan.files):
        return plan, pa.chunked_array([], pa.int64())
    path, _ = place_columns(target.schema)
    return with_counts(
        plan, target.matching(plan, where).groupBy(F.col(path)).agg(F.count(F.lit(1))).toArrow()
    )


def with_counts(plan: ScanPlan, counted: pa.Table) -> tuple[ScanPlan, pa.ChunkedArray]:
    """The plan of the files in ``counted``, and the count of each. ``counted`` has Spark's path of a file."""
    places = pa.array([location_of(shown_path) for shown_path in counted.column(0).to_pylist()], pa.string())
    _verify_planned(plan, places)
    at = pc.index_in(plan.files.column("location"), places)
    tell(ROWS_FOUND, pc.sum(counted.column(1)).as_py() or 0)
    return plan.at(np.flatnonzero(pc.is_valid(at).to_numpy())), counted.column(1).take(at.drop_null())


def _verify_planned(plan: ScanPlan, places: pa.Array) -> None:
    unknown = places.filter(pc.invert(pc.is_in(places, plan.files.column("location").combine_chunks())))
    if len(unknown):
        raise FormatError("a scan found rows in a file that is not in its plan", path=unknown[0].as_py())


def with_outcomes(target: Target, plan: ScanPlan, matching: pa.ChunkedArray) -> pa.Table:
    """The plan's files, which all hold matching rows, each with its outcome."""
    sets = DeleteSets.of(plan)
    deleted, rows = _counted_deletes(target, plan, sets), _counted(target.storage, plan)
    deleted_after = pc.add(deleted, matching)
    emptied, rewrite = decide(target.rules, plan, deleted_after)
    emptied |= pc.equal(deleted_after, rows).to_numpy()  # the row count of some files is only in their footer
    outcomes = np.select([emptied, rewrite, sets.has_deletes], [REMOVED, REWRITTEN, GROWN_VECTOR], NEW_VECTOR)
    return _files(plan, rows, deleted, matching, outcomes)


def _counted_deletes(target: Target, plan: ScanPlan, sets: DeleteSets) -> pa.ChunkedArray:
    """The deleted rows of each file; loaded if a count is not recorded."""
    recorded = plan.deleted_rows
    if not recorded.null_count:
        return recorded
    counts = [0 if bitmap is None else bitmap.cardinality for bitmap in target.deletes.load(sets)]
    return pa.chunked_array([counts], pa.int64())


def _counted(storage: Storage, plan: ScanPlan) -> pa.ChunkedArray:
    """The physical rows of each file, from its footer if they are not recorded."""
    recorded = plan.files.column("record_count")
    unknown = pc.is_null(recorded)
    places = plan.files.column("location").filter(unknown).to_pylist()
    if not places:
        return recorded
    rows = pa.array(in_parallel(lambda place: footer_rows(storage, place), places), pa.int64())
    return pa.chunked_array(
        [pc.replace_with_mask(recorded.combine_chunks(), unknown.combine_chunks(), rows)], pa.int64()
    )


def _files(
    plan: ScanPlan,
    rows: pa.ChunkedArray,
    deleted: pa.ChunkedArray,
    matching: pa.ChunkedArray,
    outcomes: NDArray[np.str_],
) -> pa.Table:
    """The plan's files in the columns of ``TOUCHED_SCHEMA``."""
    places, sizes = (plan.files.column(name) for name in ("location", "size"))
    outcome = pa.array(outcomes.tolist(), pa.string())
    return pa.table([places, sizes, rows, deleted, matching, outcome], schema=TOUCHED_SCHEMA)


def _with_live_rows(plan: ScanPlan) -> ScanPlan:
    """The plan of the files that hold a live row."""
    return plan.at(np.flatnonzero(pc.greater(_live_counts(plan), 0).to_numpy()))


def _live_counts(plan: ScanPlan) -> pa.ChunkedArray:
    """The number of live rows of each file; null if it is not recorded."""
    return pc.subtract(plan.files.column("record_count"), plan.deleted_rows)


def _sum_known(counts: pa.ChunkedArray) -> int | None:
    return None if counts.null_count else int(pc.sum(counts).as_py() or 0)


def copied_rows(files: pa.Table) -> int | None:
    rewritten = files.filter(pc.equal(files.column("outcome"), REWRITTEN))
    deleted = pc.add(rewritten.column("deleted"), rewritten.column("matching"))
    return _sum_known(pc.subtract(rewritten.column("rows"), deleted))


def _number_of(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _count(files: pa.Table, outcome: str) -> int:
    return int(pc.sum(pc.equal(files.column("outcome"), outcome)).as_py() or 0)
