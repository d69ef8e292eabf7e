"""OPTIMIZE and PURGE: the live rows of small files, and of files with deleted rows, move to new files.

The files are grouped once, by metadata alone (`compaction_groups`). Each part of the groups is a commit of
its own, on the version that is then the newest. If another writer changes a file meanwhile, the group of that
file is dropped, and the rest is committed (`conflicts.kept_groups`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.compaction_groups import (
    CompactionGroups,
    Numbers,
    by_partition,
    groups_at,
    small_and_deleted,
    with_deletes,
)
from delvec.conflicts import Rerun
from delvec.errors import InvalidOperationError
from delvec.row_delta import (
    FileGroups,
    Isolation,
    Read,
    Request,
    RowCounts,
    RowDelta,
    Verb,
    all_files,
    no_added_files,
)
from delvec.spark.commit_and_rerun import StatementProbe, run, settle
from delvec.spark.compaction import Compaction, CompactionResult, FileSizes
from delvec.spark.copied_rows import copied_rows
from delvec.spark.partition_condition import files_of_partitions
from delvec.spark.target import OperationResult, Target, live_rows
from delvec.spark.write_groups import write_groups
from delvec.spark.zorder import Curve, CurveColumn, curve_columns

NewestTarget = Callable[[int], Target]
"""The newest version of the table, for the given run of a statement."""


def optimize(newest: NewestTarget, compaction: Compaction, *, dry_run: bool = False) -> CompactionResult:
    """Compact the table: one commit, or several if ``bytes_per_commit`` says so."""
    compaction.verify()
    target = newest(1)
    request, selection = compaction.request, _selected(target, compaction)
    if dry_run:
        size = compaction.target_file_size or target.rules.compacted_file_size
        return _preview(target, request, selection, size)
    if not selection.groups.count:
        return _result(target, request, selection, [])
    if selection.clustered_by:
        warnings.warn(
            "the files are compacted without clustering: delvec does not cluster rows by "
            f"{', '.join(selection.clustered_by)}: {target.table.location}",
            UserWarning,
            stacklevel=4,
        )
    rewrite = _Rewrite(newest, target, compaction, selection.columns)
    return _result(target, request, selection, list(rewrite.parts(selection.groups)))


@dataclass(frozen=True, slots=True)
class _Selection:
    """The files to rewrite.

    considered     how many files match the condition
    columns        the columns to sort by
    """

    groups: CompactionGroups
    considered: int
    columns: tuple[CurveColumn, ...]
    clustered_by: tuple[str, ...]


def _selected(target: Target, compaction: Compaction) -> _Selection:
    rules = target.rules
    if rules.clustered_by and compaction.zorder_by:
        raise InvalidOperationError(
            f"zorder_by is {', '.join(compaction.zorder_by)}, expected none: the table is clustered by "
            f"{', '.join(rules.clustered_by)}: {target.table.location}"
        )
    columns = curve_columns(rules, compaction.zorder_by, case_sensitive=target.settings.case_sensitive)
    plan = files_of_partitions(target, compaction.where)
    size = compaction.target_file_size or rules.compacted_file_size
    if compaction.purge:
        groups = with_deletes(plan, target_size=size)
    elif columns:
        groups = by_partition(plan)
    else:
        ratio = compaction.max_deleted_rows_ratio
        groups = small_and_deleted(plan, target_size=size, max_deleted_ratio=ratio)
    return _Selection(groups, len(plan.files), columns, rules.clustered_by)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a compaction that was committed, or of which nothing was left to commit.

    groups   the groups that were rewritten
    kept     the numbers of those that were committed
    added    the new files
    """

    result: OperationResult
    groups: CompactionGroups
    kept: Numbers
    added: pa.Table

    @property
    def committed(self) -> CompactionGroups:
        return self.groups.at(np.flatnonzero(np.isin(self.groups.numbers, self.kept)))


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """A compaction that runs: the files were grouped in version ``first``."""

    newest: NewestTarget
    first: Target
    compaction: Compaction
    columns: tuple[CurveColumn, ...]

    def parts(self, groups: CompactionGroups) -> Iterator[_Part]:
        """Rewrite and commit the groups, part by part. An error says what was committed before it."""
        versions: list[int] = []
        for number, batch in enumerate(groups.batches(self.compaction.bytes_per_commit)):
            try:
                part = self._part(batch, is_first=not number)
            except BaseException as error:
                if versions:
                    error.add_note(f"committed before it: version {', '.join(map(str, versions))}")
                raise
            if len(part.kept):  # else the version is another writer's
                versions.append(part.result.version)
            yield part

    def _part(self, batch: CompactionGroups, *, is_first: bool) -> _Part:
        names = self.first.snapshot.names(one_chunk(batch.plan.files.column("file_id")))
        parts: list[_Part] = []

        def statement(target: Target) -> OperationResult | Rerun:
            groups = batch if target is self.first else _at(target, names, batch.numbers)
            part = self._rewritten(target, groups)
            if isinstance(part, Rerun):
                return part
            parts.append(part)
            return part.result

        def at(number: int) -> Target:
            return self.first if is_first and number == 1 else self.newest(number)

        run(at, statement)
        return parts[-1]

    def _rewritten(self, target: Target, groups: CompactionGroups) -> _Part | Rerun:
        if not groups.count:
            unchanged = target.unchanged(self.compaction.request, RowCounts())
            return _Part(unchanged, groups, groups.numbers, no_added_files())
        settled = settle(target, self._delta(target, groups), StatementProbe(target))
        if isinstance(settled, Rerun):
            return settled
        assert settled.delta.groups is not None
        result = OperationResult(settled.version, settled.metrics, counts=settled.delta.counts)
        kept = np.unique(settled.delta.groups.removed.to_numpy())
        return _Part(result, groups, kept, settled.delta.added)

    def _delta(self, target: Target, groups: CompactionGroups) -> RowDelta:
        """Write the new files."""
        request, read = self.compaction.request, np.flatnonzero(~groups.emptied)
        added, numbers = no_added_files(), np.array([], np.int64)
        if len(read):
            size = self.compaction.target_file_size or target.rules.compacted_file_size
            curve, with_rows = None, groups.at(read)
            if self.columns:
                rows = live_rows(with_rows.plan)
                curve = Curve.of(copied_rows(target, with_rows.plan), self.columns, rows=rows)
            written = write_groups(target, with_rows, curve=curve, file_size=size)
            added = written.files
            numbers = np.unique(groups.numbers[read])[np.array(written.numbers, np.int64)]
        ids = one_chunk(groups.plan.files.column("file_id"))
        return RowDelta(
            base=groups.plan.base,
            request=request,
            read=Read(request.condition, isolation=Isolation.SNAPSHOT),
            verb=Verb.COMPACT,
            added=added,
            removed=ids,
            rewritten=ids.take(pa.array(read)),
            data_change=False,
            lineage=bool(target.lineage),
            groups=FileGroups(pa.array(groups.numbers), pa.array(numbers)),
            data_sequence=pc.max(groups.plan.files.column("data_sequence")).as_py(),
        )


def _at(target: Target, names: pa.Array, numbers: Numbers) -> CompactionGroups:
    """The groups in another version of the table. A group is left out if a file of it is gone."""
    ids = target.snapshot.file_ids(names)
    gone = np.unique(numbers[ids.is_null().to_numpy(zero_copy_only=False)])
    kept = ~np.isin(numbers, gone)
    live, numbers = ids.filter(pa.array(kept)).to_numpy(), numbers[kept]
    order = np.argsort(live)
    dense = np.unique(numbers[order], return_inverse=True)[1].astype(np.int64)
    return groups_at(target.plan(None, among=pa.array(live[order], pa.int64())), dense)


def _result(
    target: Target, request: Request, selection: _Selection, parts: Sequence[_Part]
) -> CompactionResult:
    """What all parts did together."""
    groups = [part.committed for part in parts]
    versions = tuple(part.result.version for part in parts if len(part.kept))
    unchanged = target.unchanged(request, RowCounts())
    metrics = [_known(part.result.metrics) for part in parts] or [_known(unchanged.metrics)]
    return CompactionResult(
        parts[-1].result.version if parts else unchanged.version,
        metrics[0] if len(metrics) == 1 else target.table.total_metrics(metrics),
        versions=versions,
        added=FileSizes.of(all_files(*(part.added for part in parts)).column("size"))
        if parts
        else FileSizes(),
        dropped=selection.groups.count - sum(part.count for part in groups),
        **_totals(selection, groups),
    )


def _known(metrics: Mapping[str, int | None]) -> dict[str, int]:
    """The metrics without those that cannot be known."""
    return {name: count for name, count in metrics.items() if count is not None}


def _preview(target: Target, request: Request, selection: _Selection, file_size: int) -> CompactionResult:
    """What the compaction would do. The sizes of the new files are estimated from the share of live rows."""
    groups = selection.groups
    sizes = groups.at(np.flatnonzero(~groups.emptied)).sizes()
    if request.zorder_by:
        counts = np.maximum(1, sizes // file_size)
        sizes = np.repeat(sizes // counts, counts)
    unchanged = target.unchanged(request, RowCounts())
    columns = {"group": pa.array(groups.numbers), "deleted": groups.plan.deleted_rows}
    files = groups.plan.files.select(["location", "size"])
    for name, column in columns.items():
        files = files.append_column(name, column)
    return CompactionResult(
        unchanged.version,
        unchanged.metrics,
        added=FileSizes.of(pa.array(sizes)),
        dry_run=True,
        files=files,
        **_totals(selection, [groups]),
    )


def _totals(selection: _Selection, parts: Sequence[CompactionGroups]) -> dict[str, Any]:
    deleted = [part.plan.deleted_rows for part in parts]
    return {
        "removed": sum((FileSizes.of(part.plan.files.column("size")) for part in parts), FileSizes()),
        "deleted_rows": sum(pc.sum(counts).as_py() or 0 for counts in deleted),
        "vectors": sum(int(np.count_nonzero(pc.fill_null(counts, -1).to_numpy())) for counts in deleted),
        "groups": sum(part.count for part in parts),
        "partitions": selection.groups.partitions,
        "considered": selection.considered,
        "clustered_by": selection.clustered_by,
    }
