"""Which files a compaction takes, and which of them together."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from delvec.compaction_groups import (
    by_partition,
    groups_at,
    live_rows_of,
    small_and_deleted,
    with_deletes,
)


class Plan(SimpleNamespace):
    """What a plan has of its files."""

    def at(self, rows: Any) -> Plan:
        return Plan(
            files=self.files.take(pa.array(rows)), deleted_rows=self.deleted_rows.take(pa.array(rows))
        )


def plan(sizes, deleted=None, records=100, partitions=None):
    count = len(sizes)
    values = pa.array(partitions if partitions is not None else [None] * count, pa.string())
    files = pa.table(
        {
            "file_id": np.arange(count),
            "size": pa.array(sizes, pa.int64()),
            "record_count": pa.array(records if isinstance(records, list) else [records] * count, pa.int64()),
            "spec_id": pa.array([0] * count, pa.int32()),
            "partition": pa.StructArray.from_arrays([values], names=["p"]),
        }
    )
    counts = pa.chunked_array([pa.array(deleted if deleted is not None else [0] * count, pa.int64())])
    return Plan(files=files, deleted_rows=counts)


def members(groups):
    """The ids of the files of each group."""
    ids = groups.plan.files.column("file_id").to_numpy()
    return sorted(sorted(ids[rows].tolist()) for rows in groups.members())


def small(table, size=100, ratio=0.05):
    return members(small_and_deleted(table, target_size=size, max_deleted_ratio=ratio))


def test_small_files_are_put_together_until_the_next_does_not_fit():
    assert small(plan([10, 20, 30])) == [[0, 1, 2]]
    assert small(plan([60, 50, 40, 55])) == [[1, 2]]
    assert small(plan([50, 50, 50, 50])) == [[0, 1], [2, 3]]
    assert small(plan([99, 99])) == []
    assert small(plan([100, 10])) == []
    assert small(plan([])) == []


def test_files_of_several_partitions_stay_apart():
    assert small(plan([10] * 5, partitions=["a", "b", "a", None, None])) == [[0, 2], [3, 4]]


def test_files_with_many_deleted_rows_are_taken_whatever_their_size():
    table = plan([1000, 1000, 10], deleted=[6, 5, 0])
    assert small(table) == [[0]]
    assert small(table, ratio=0.04) == [[0], [1]]
    assert small(plan([10], deleted=[5])) == []
    assert small(plan([10], deleted=[6])) == [[0]]


def test_the_size_of_live_rows_counts():
    assert small(plan([150, 40], deleted=[60, 0])) == [[0, 1]]
    assert small(plan([150, 41], deleted=[60, 0])) == [[0]]


def test_files_without_live_rows_are_groups_of_their_own():
    groups = small_and_deleted(plan([10, 10, 10], deleted=[100, 0, 0]), target_size=100, max_deleted_ratio=1)
    assert members(groups) == [[0], [1, 2]]
    assert groups.emptied.tolist() == [True, False, False]
    assert live_rows_of(groups, groups.plan.files.column("record_count")).tolist() == [200, 0]


def test_counts_that_are_not_recorded():
    table = plan([1000, 1000, 1000], deleted=[1, None, 0], records=[None, 100, None])
    assert small(table) == [[0], [1]]
    groups = small_and_deleted(table, target_size=100, max_deleted_ratio=0.05)
    assert live_rows_of(groups, pa.array([30, 100])).tolist() == [29, -1]


def test_purge_takes_the_files_with_deleted_rows():
    table = plan([10, 10, 500, 10], deleted=[1, 0, 1, None])
    assert members(with_deletes(table, target_size=100)) == [[0, 3], [2]]


def test_all_files_of_a_partition():
    table = plan([1000, 10, 2000], partitions=["a", "b", "a"])
    assert members(by_partition(table)) == [[0, 2], [1]]
    assert by_partition(table).partitions == 2


def test_batches_have_whole_groups():
    groups = small_and_deleted(plan([50] * 6), target_size=100, max_deleted_ratio=0)
    assert [members(batch) for batch in groups.batches(None)] == [[[0, 1], [2, 3], [4, 5]]]
    assert [len(members(batch)) for batch in groups.batches(1)] == [1, 1, 1]
    assert [len(members(batch)) for batch in groups.batches(200)] == [2, 1]
    assert [group for batch in groups.batches(200) for group in members(batch)] == members(groups)


def test_groups_of_another_version():
    groups = groups_at(plan([10, 10], deleted=[0, 100]), np.array([0, 1]))
    assert groups.emptied.tolist() == [False, True]


@pytest.mark.parametrize(("count", "partitions"), [(1_000_000, 1000), (100_000, 25_000)])
def test_a_million_files(count, partitions):
    names = (np.arange(count) % partitions).astype(str)
    table = plan(np.arange(count) % 1000 + 1, partitions=pa.array(names))
    started = time.monotonic()
    groups = small_and_deleted(table, target_size=100_000, max_deleted_ratio=0.05)
    assert time.monotonic() - started < 20
    assert len(groups.numbers) > 0.99 * count  # a partition may end with one file alone
    assert groups.sizes().max() <= 100_000
