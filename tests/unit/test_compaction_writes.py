"""Compactions that fail: lost rows are noticed, jobs stop, and files do not stay. Without Spark."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delvec.compaction_groups import CompactionGroups
from delvec.errors import FormatError
from delvec.spark import optimize, write_groups
from delvec.spark.compaction import Compaction
from delvec.spark.write_groups import WrittenGroups
from delvec.storage import open_storage


def new_file(name: str, rows: int = 1) -> pa.Table:
    return pa.table({"location": [name], "record_count": [rows]})


@pytest.mark.parametrize(("rows", "found"), [(14, None), (13, 13)])
def test_rows_of_files_without_a_recorded_count_are_counted(
    tmp_path: Any, rows: int, found: int | None
) -> None:
    places = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    for place in places:
        pq.write_table(pa.table({"id": range(10)}), place)
    files = pa.table({"location": places, "record_count": pa.array([None, 10], pa.int64())})
    plan: Any = SimpleNamespace(files=files, deleted_rows=pa.chunked_array([[6, 0]]))
    groups = CompactionGroups(plan, np.zeros(2, np.int64), np.ones(2, np.int64), np.zeros(2, bool))
    written = WrittenGroups(new_file("new", rows), [0])
    if found is None:
        write_groups._verify_rows(open_storage(str(tmp_path)), groups, written)
        return
    with pytest.raises(FormatError, match=f"14 live rows .* found {found}"):
        write_groups._verify_rows(open_storage(str(tmp_path)), groups, written)


class Jobs:
    """Jobs that write a file each. Two run at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, failing: int | None = None) -> None:
        monkeypatch.setattr(write_groups, "MAX_JOBS", 2)
        monkeypatch.setattr(write_groups, "inheritable_thread_target", lambda _: lambda function: function)
        self.failing, self.files = failing, set[str]()
        self.started: list[int] = []
        self.may_end = threading.Event()
        self.target: Any = SimpleNamespace(spark=None, storage=self)

    def write(self, number: int) -> WrittenGroups:
        self.started.append(number)
        if number == self.failing:
            raise FormatError("the disk is full")
        if number:
            assert self.may_end.wait(10)
        self.files.add(str(number))
        return WrittenGroups(new_file(str(number)), [number])

    def delete(self, names: list[str]) -> None:
        self.files -= set(names)

    def run(self) -> Any:
        return write_groups._concurrently(self.target, self.write, range(50))


def test_an_interrupted_compaction_starts_no_further_job(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, as_completed = Jobs(monkeypatch), write_groups.as_completed

    def interrupted(futures: Any) -> Any:
        yield next(as_completed(futures))
        threading.Timer(0.2, jobs.may_end.set).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(write_groups, "as_completed", interrupted)
    parts = jobs.run()
    assert next(parts).numbers == [0]
    with pytest.raises(KeyboardInterrupt):
        next(parts)
    assert len(jobs.started) <= 3
    assert jobs.files == {"0"}, "the caller has this one, and deletes it"


def test_a_caller_that_stops_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs(monkeypatch)
    parts = jobs.run()
    next(parts)
    jobs.may_end.set()
    parts.close()
    assert jobs.files == {"0"}
    count = len(jobs.started)
    time.sleep(0.05)
    assert len(jobs.started) == count


@pytest.mark.timeout(20)
def test_a_failed_job_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs(monkeypatch, failing=1)
    threading.Timer(0.2, jobs.may_end.set).start()
    taken = set()

    def take_all() -> None:
        for part in jobs.run():
            taken.update(map(str, part.numbers))

    with pytest.raises(FormatError, match="disk is full"):
        take_all()
    assert len(jobs.started) < 50
    assert jobs.files == taken


def test_a_note_names_the_versions_that_were_committed_and_no_other() -> None:
    kept = iter([[0], [], [0]])

    class Rewrite(optimize._Rewrite):
        def _part(self, batch: Any, *, is_first: bool) -> Any:
            del batch
            firsts.append(is_first)
            numbers = next(kept, None)
            if numbers is None:
                raise FormatError("the disk is full")
            return SimpleNamespace(result=SimpleNamespace(version=len(firsts)), kept=numbers)

    firsts: list[bool] = []
    groups: Any = SimpleNamespace(batches=lambda _: range(4))
    unused: Any = None
    with pytest.raises(FormatError) as raised:
        list(Rewrite(unused, unused, Compaction(), ()).parts(groups))
    assert raised.value.__notes__ == ["committed before it: version 1, 3"]
    assert firsts == [True, False, False, False]
