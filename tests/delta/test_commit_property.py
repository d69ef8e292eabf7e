"""Random appends, deletes and races, against a set of ids."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from delta_log import key_of, replay
from delta_writer import (
    NUMBERS,
    Blind,
    actions,
    append_delta,
    committed,
    delete_delta,
    numbers,
    positions_of,
    read_by_delta_rs,
    read_by_duckdb,
)
from delvec import conflicts
from delvec.conflicts import Settled
from delvec.delta.file_keys import file_keys
from delvec.delta.table import DeltaTable
from delvec.row_delta import RowCounts
from rows import read_rows

HIGHEST = 60

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(1, 6), min_size=1, max_size=3)),
        st.tuples(st.just("delete"), st.sets(st.integers(0, HIGHEST), min_size=1, max_size=20)),
        st.tuples(
            st.just("race"),
            st.tuples(
                st.sets(st.integers(0, HIGHEST), min_size=1, max_size=4),
                st.sets(st.integers(0, HIGHEST), min_size=1, max_size=4),
            ),
        ),
    ),
    min_size=1,
    max_size=8,
)
options = st.fixed_dictionaries(
    {"delta.checkpointInterval": st.sampled_from(["1", "3", "100"])},
    optional={
        "delta.enableRowTracking": st.just("true"),
        "delta.enableInCommitTimestamps": st.just("true"),
        "delta.checkpointPolicy": st.just("v2"),
        "delta.randomizeFilePrefixes": st.just("true"),
    },
)


class Run:
    """The table and the ids that are live in it."""

    def __init__(self, path: str, properties: dict[str, str]) -> None:
        self.table = DeltaTable.create(path, NUMBERS, properties=properties)
        self.live: set[int] = set()
        self.next = 0

    def append(self, sizes: list[int]) -> None:
        tables = []
        for size in sizes:
            tables.append(numbers(self.next, self.next + size))
            self.live |= set(range(self.next, self.next + size))
            self.next += size
        snapshot = self.table.snapshot()
        committed(self.table.commit(snapshot, append_delta(snapshot, *tables)))

    def delete(self, gone: set[int]) -> None:
        snapshot = self.table.snapshot()
        if found := positions_of(snapshot, gone & self.live):
            committed(self.table.commit(snapshot, delete_delta(snapshot, found)))
            self.live -= gone

    def race(self, both: tuple[set[int], set[int]]) -> None:
        """Two deletes of one version: both count, and no row twice."""
        snapshot = self.table.snapshot()
        first, second = (positions_of(snapshot, gone & self.live) for gone in both)
        if not first or not second:
            return
        before = set(self.live)
        committed(self.table.commit(snapshot, delete_delta(snapshot, first)))
        self.live -= both[0]
        late = delete_delta(snapshot, second)
        late = replace(late, counts=RowCounts(deleted=len(both[1] & before)))
        found = conflicts.commit(DeltaTable.open(self.table.location), snapshot, late, Blind())
        assert isinstance(found, Settled)
        assert found.metrics["numDeletedRows"] == len(both[1] & self.live)
        self.live -= both[1]


@given(steps=steps, properties=options)
@settings(max_examples=25, deadline=None)
def test_the_table_is_what_was_done_to_it(steps: list[tuple[str, Any]], properties: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Run(f"{folder}/t", properties)
        for verb, argument in steps:
            getattr(run, verb)(argument)
            fresh = DeltaTable.open(run.table.location).snapshot()
            assert {row["id"] for row in read_rows(fresh.plan(), fresh.storage)} == run.live
        commits = [
            [{name: body} for name, body in actions(run.table.storage, v)] for v in range(fresh.version + 1)
        ]
        replayed = replay(commits).adds
        assert {key_of(body)[0] for body in replayed.values()} == set(fresh.adds.column("path").to_pylist())
        assert len(replayed) == len(set(file_keys(fresh.adds).to_pylist())) == len(fresh.adds)
        assert {row["id"] for row in read_by_delta_rs(f"{folder}/t")} == run.live
        assert {row["id"] for row in read_by_duckdb(f"{folder}/t")} == run.live
