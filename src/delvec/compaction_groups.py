"""Which files a compaction rewrites, and which of them together.

A group is files of one partition whose live rows fit into one file of the target size. All is computed on
columns: a table can have a million files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from delvec.chunked import Mask, Rows, one_chunk
from delvec.plan import ScanPlan, share_of_rows

Numbers = NDArray[np.int64]

NO_GROUP = -1


@dataclass(frozen=True, slots=True)
class CompactionGroups:
    """The files of a compaction.

    plan       the files, in the order of their ids
    numbers    the group of each file: 0, 1, …
    live       the estimated size of each file's live rows, in bytes
    emptied    whether a file has no live row. Such a file is a group of its own, and it is not read
    """

    plan: ScanPlan
    numbers: Numbers
    live: Numbers
    emptied: Mask

    @property
    def count(self) -> int:
        return int(self.numbers.max(initial=NO_GROUP)) + 1

    def sizes(self) -> Numbers:
        """The estimated size of the live rows of each group, in bytes."""
        return np.bincount(self.numbers, self.live, self.count).astype(np.int64)

    def at(self, rows: Rows) -> CompactionGroups:
        """Some of the files, by their ascending rows in ``plan.files``. Their groups are numbered anew."""
        numbers = np.unique(self.numbers[rows], return_inverse=True)[1].astype(np.int64)
        return CompactionGroups(self.plan.at(rows), numbers, self.live[rows], self.emptied[rows])

    def members(self) -> list[Rows]:
        """For each group the rows of its files in ``plan.files``, ascending."""
        if not self.count:
            return []
        order = np.argsort(self.numbers, kind="stable")
        return np.split(order, np.searchsorted(self.numbers[order], np.arange(1, self.count)))

    def batches(self, size: int | None) -> Iterator[CompactionGroups]:
        """Parts whose files have at most ``size`` bytes, or are one group. None: one part."""
        if size is None:
            yield self
            return
        yield from (part for part, _ in self.parts(self.plan.files.column("size").to_numpy(), size))

    def parts(self, weights: Numbers, limit: int) -> Iterator[tuple[CompactionGroups, Numbers]]:
        """Groups whose files have a weight of at most ``limit`` together, or one group, and their numbers."""
        stops = np.cumsum(np.bincount(self.numbers, weights, self.count)).astype(np.int64)
        first = 0
        while first < self.count:
            before = stops[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(stops, before + limit, side="right")))
            rows = np.flatnonzero((self.numbers >= first) & (self.numbers < last))
            yield self.at(rows), np.arange(first, last)
            first = last

    @property
    def partitions(self) -> int:
        """How many partitions the files are in."""
        return len(np.unique(_partition_codes(self.plan.files))) if len(self.plan.files) else 0


def small_and_deleted(plan: ScanPlan, *, target_size: int, max_deleted_ratio: float) -> CompactionGroups:
    """The files that are smaller than ``target_size``, and those of which a larger share of rows is deleted
    than ``max_deleted_ratio``. One small file alone is left as it is, unless too many rows are deleted.
    """
    needed = _shares_above(plan, max_deleted_ratio) | _emptied(plan)
    small = plan.files.column("size").to_numpy() < target_size
    return _grouped(plan, small | needed, needed, target_size)


def with_deletes(plan: ScanPlan, *, target_size: int) -> CompactionGroups:
    """The files that have deleted rows."""
    deleted = pc.fill_null(plan.deleted_rows, -1).to_numpy() != 0
    return _grouped(plan, deleted, deleted, target_size)


def by_partition(plan: ScanPlan) -> CompactionGroups:
    """All files: a group for each partition, whatever its size."""
    every = np.ones(len(plan.files), bool)
    return _grouped(plan, every, every, None)


def groups_at(plan: ScanPlan, numbers: Numbers) -> CompactionGroups:
    """These files in the groups ``numbers``, as they are in this plan."""
    return CompactionGroups(plan, numbers, _live_sizes(plan), _emptied(plan))


def live_rows_of(groups: CompactionGroups, record_counts: pa.Array | pa.ChunkedArray) -> Numbers:
    """The number of live rows of each group; -1 if it is not known how many rows of a file are deleted.

    ``record_counts``: the physical rows of each file.
    """
    rows = pc.fill_null(pc.subtract(record_counts, groups.plan.deleted_rows), -1).to_numpy()
    totals = np.bincount(groups.numbers, np.maximum(rows, 0), groups.count).astype(np.int64)
    totals[groups.numbers[rows < 0]] = -1
    return totals


def _grouped(plan: ScanPlan, chosen: Mask, needed: Mask, target_size: int | None) -> CompactionGroups:
    """The ``chosen`` files in groups. A group of one file that is not ``needed`` is dropped."""
    live, emptied = _live_sizes(plan), _emptied(plan)
    numbers = np.full(len(live), NO_GROUP, np.int64)
    read = np.flatnonzero(chosen & ~emptied)
    numbers[read] = _filled(_partition_codes(plan.files)[read], live[read], target_size)
    counts = np.bincount(numbers[read], minlength=1)
    numbers[read[(counts[numbers[read]] == 1) & ~needed[read]]] = NO_GROUP
    without_rows = np.flatnonzero(chosen & emptied)
    numbers[without_rows] = len(counts) + np.arange(len(without_rows))
    groups = CompactionGroups(plan, numbers, live, emptied)
    return groups.at(np.flatnonzero(numbers != NO_GROUP))


def _filled(partitions: Numbers, sizes: Numbers, target_size: int | None) -> Numbers:
    """The number of each file's group. Groups are filled with the files of a partition, small ones first,
    until the next one does not fit.
    """
    if target_size is None:
        return np.unique(partitions, return_inverse=True)[1].astype(np.int64)
    order = np.lexsort((sizes, partitions))
    partitions = partitions[order]
    sums: list[int] = np.concatenate([[0], np.cumsum(sizes[order])]).tolist()
    ends: list[int] = np.searchsorted(partitions, partitions, side="right").tolist()
    starts = []
    start = 0
    while start < len(order):
        starts.append(start)
        fitting = bisect_right(sums, sums[start] + target_size, start) - 1
        start = max(start + 1, min(fitting, ends[start]))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.searchsorted(np.array(starts, np.int64), np.arange(len(order)), side="right") - 1
    return numbers


def _partition_codes(files: pa.Table) -> Numbers:
    """A number for each file, the same for files of one partition."""
    codes: Numbers = files.column("spec_id").to_numpy().astype(np.int64)
    partition = one_chunk(files.column("partition"))
    for number in range(partition.type.num_fields):
        values = partition.field(number).dictionary_encode(null_encoding="encode").indices.to_numpy()
        pairs = codes * (int(values.max(initial=0)) + 1) + values
        codes = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    return codes


def _live_sizes(plan: ScanPlan) -> Numbers:
    """The size of each file's live rows, by their share of its rows; its whole size if that is not known."""
    sizes = plan.files.column("size").to_numpy()
    live: Numbers = np.ceil(sizes * (1 - _deleted_shares(plan))).astype(np.int64)
    return live


def _deleted_shares(plan: ScanPlan) -> NDArray[np.float64]:
    """The share of each file's rows that is deleted; 0 if it is not known."""
    return share_of_rows(plan.files, pc.fill_null(plan.deleted_rows, 0))


def _shares_above(plan: ScanPlan, ratio: float) -> Mask:
    """Whether a larger share of a file's rows is deleted. True if the share is not known and may be above 0:
    the new file has its counts.
    """
    deleted = pc.fill_null(plan.deleted_rows, -1).to_numpy()
    uncounted = (deleted < 0) | ((deleted > 0) & plan.files.column("record_count").is_null().to_numpy())
    return np.asarray(uncounted | (_deleted_shares(plan) > ratio))


def _emptied(plan: ScanPlan) -> Mask:
    is_empty = pc.equal(plan.files.column("record_count"), plan.deleted_rows)
    return np.asarray(pc.fill_null(is_empty, False).to_numpy())  # noqa: FBT003
