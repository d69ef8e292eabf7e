"""Two writers of one version: who commits on top, who must give way, and what a store's failure means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
import pytest

from deleted_rows import deleted_rows
from delta_writer import (
    NUMBERS,
    Blind,
    actions,
    append,
    append_delta,
    bodies,
    committed,
    delete,
    delete_delta,
    memory_location,
    numbers,
    positions_of,
)
from delvec import conflicts
from delvec.commit_retries import MAX_COMMIT_ATTEMPTS
from delvec.conflicts import Settled
from delvec.delta.snapshot import Snapshot
from delvec.delta.table import DeltaTable
from delvec.errors import CommitConflictError, FormatError, StorageError, UnsupportedFeatureError
from delvec.footers.statistics import measure
from delvec.plan import Base, ScanPlan
from delvec.row_delta import (
    MetadataChange,
    Operation,
    Read,
    Request,
    RowDelta,
    Txn,
    Unknown,
    Verb,
    VersionTaken,
    Won,
    with_statistics,
)
from delvec.storage import Storage


def table_of(*ranges: tuple[int, int], **more: Any) -> DeltaTable:
    table = DeltaTable.create(memory_location(), NUMBERS, **more)
    committed(append(table, *(numbers(first, last) for first, last in ranges)))
    return table


def vector_files(table: DeltaTable) -> int:
    return sum(entry.path.endswith(".bin") for entry in table.storage.list())


def settled(table: DeltaTable, old: Snapshot, delta: RowDelta) -> Settled:
    found = conflicts.commit(table, old, delta, Blind(), pause=lambda _: None)
    assert isinstance(found, Settled), found
    return found


def test_one_version_has_one_winner() -> None:
    table = table_of((0, 10))
    old = table.snapshot()
    committed(table.commit(old, delete_delta(old, {0: [3]})))
    lost = table.commit(old, delete_delta(old, {0: [4]}))
    assert isinstance(lost, VersionTaken)
    assert lost.version == 2
    assert len(table.snapshot().adds) == 1
    assert vector_files(table) == 1, "the loser's vectors are orphans"


def test_files_that_are_measured_are_not_read_by_commits() -> None:
    table = table_of((0, 10))
    old = table.snapshot()
    committed(append(table, numbers(10, 20)))
    delta = append_delta(old, numbers(20, 25))
    places = delta.added.column("location").to_pylist()
    statistics = measure(table.storage, places, old.rules(Verb.APPEND).measured)
    delta = replace(delta, added=with_statistics(delta.added, statistics))
    table.storage.delete(places)  # reading the footer again would fail
    assert isinstance(table.commit(old, delta), VersionTaken)
    newest = table.snapshot()
    committed(table.commit(newest, replace(delta, base=Base(newest.version))))
    assert bodies(table.storage, 3, "add")[0]["stats"] == (
        '{"numRecords":5,"minValues":{"id":20,"name":"n20"},"maxValues":{"id":24,"name":"n24"},'
        '"nullCount":{"id":0,"name":0},"tightBounds":true}'
    )


def test_deletes_on_different_files_both_commit() -> None:
    table = table_of((0, 10), (10, 20))
    old = table.snapshot()
    committed(table.commit(old, delete_delta(old, positions_of(old, [3]))))
    mine = delete_delta(old, positions_of(old, [13]))
    assert settled(DeltaTable.open(table.location), old, mine).version == 3
    assert bodies(table.storage, 3, "commitInfo")[0]["readVersion"] == 2
    assert table.snapshot().plan().deletes.num_rows == 2


def test_deletes_on_one_file_are_united() -> None:
    table = table_of((0, 10))
    old = table.snapshot()
    committed(table.commit(old, delete_delta(old, {0: [3]})))
    assert settled(table, old, delete_delta(old, {0: [4]})).delta.execution.united_files == 1
    snapshot = table.snapshot()
    (vector,) = deleted_rows(table.storage, snapshot.plan())
    assert list(vector) == [3, 4]
    (removed,) = bodies(table.storage, 3, "remove")
    (before,) = bodies(table.storage, 2, "add")
    assert removed["deletionVector"] == before["deletionVector"], "a remove carries the winner's vector"


def test_a_winner_with_deletes_that_are_not_applied_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of((0, 10))
    old = table.snapshot()
    mine = delete_delta(old, {0: [4]})
    committed(table.commit(old, delete_delta(old, {0: [3]})))
    planned = Snapshot.plan

    def plan(self: Snapshot, *given: Any, **named: Any) -> ScanPlan:
        found = planned(self, *given, **named)
        group = pa.array([0] * len(found.files), pa.int32())
        at = found.files.schema.get_field_index("delete_group")
        return replace(found, files=found.files.set_column(at, "delete_group", group), delete_groups=((0,),))

    monkeypatch.setattr(Snapshot, "plan", plan)
    with pytest.raises(UnsupportedFeatureError, match="a group of deletes of the kind 'position-vector'"):
        settled(table, old, mine)


def won(table: DeltaTable, since: int = 1) -> Won:
    (found,) = table.won(table.snapshot(since), table.snapshot())
    return found


def test_an_append_as_a_winner() -> None:
    table = table_of((0, 10))
    committed(append(table, numbers(10, 20), txn=Txn("stream", 1)))
    found = won(table)
    assert (found.verb, found.blind, found.changed) == (Verb.APPEND, True, None)
    assert found.app_ids == {"stream"}
    assert found.added.to_pylist() == table.snapshot().adds.column("path").to_pylist()[1:]
    assert not len(found.removed)
    assert not len(found.vectors)


def test_a_delete_as_a_winner() -> None:
    table = table_of((0, 10), (10, 20))
    paths = table.snapshot().adds.column("path").to_pylist()
    mine = delete_delta(table.snapshot(), {0: [3]}, removed=pa.array([1], pa.int64()))
    committed(table.commit(table.snapshot(), mine))
    found = won(table)
    assert (found.verb, found.blind) == (Verb.DELETE, False)
    assert (found.vectors.to_pylist(), found.removed.to_pylist()) == ([paths[0]], [paths[1]])
    assert not len(found.added)
    assert not len(found.rearranged)


def test_rows_that_came_back_are_new_rows() -> None:
    """A RESTORE gives a file its older, smaller vector."""
    table = table_of((0, 10))
    committed(delete(table, {0: [1, 2]}))
    add, info = bodies(table.storage, 2, "add")[0], bodies(table.storage, 2, "commitInfo")[0]
    smaller = bodies(table.storage, 1, "add")[0]
    gone = {"path": add["path"], "dataChange": True, "deletionVector": add["deletionVector"]}
    lines = [{"commitInfo": info | {"operation": "RESTORE"}}, {"remove": gone}, {"add": smaller}]
    data = b"\n".join(orjson.dumps(line) for line in lines)
    assert table.storage.put_if_absent("_delta_log/00000000000000000003.json", data)
    found = won(table, 2)
    assert (found.operation, found.added.to_pylist()) == ("RESTORE", [add["path"]])
    assert not len(found.vectors)


def compaction(old: Snapshot) -> RowDelta:
    return RowDelta(
        Base(old.version),
        Request(Operation.COMPACT),
        Read("id > 9"),
        Verb.COMPACT,
        added=append_delta(old, numbers(10, 20)).added,
        removed=pa.array([1], pa.int64()),
        data_change=False,
    )


def test_a_compaction_as_a_winner() -> None:
    table = table_of((0, 10), (10, 20))
    old = table.snapshot()
    committed(table.commit(old, compaction(old)))
    found = won(table)
    assert found.verb == Verb.COMPACT
    assert found.rearranged.to_pylist() == found.removed.to_pylist() == [old.adds.column("path")[1].as_py()]
    assert not len(found.added)


@pytest.mark.parametrize(
    ("properties", "changed"),
    [
        ({"owner": "me"}, "the table's columns or properties"),
        ({"delta.enableChangeDataFeed": "true"}, "the protocol"),
    ],
)
def test_a_change_of_metadata_as_a_winner(properties: dict[str, str], changed: str) -> None:
    table = table_of((0, 10))
    change = MetadataChange(properties=properties)
    delta = RowDelta(
        Base(1), Request(Operation.SET_PROPERTIES), Read(blind=True), Verb.ALTER, metadata=change
    )
    committed(table.commit(table.snapshot(), delta))
    assert (won(table).verb, won(table).changed) == (Verb.ALTER, changed)


def test_a_winner_that_the_log_no_longer_has() -> None:
    table = table_of((0, 10))
    old = table.snapshot()
    committed(append(table, numbers(10, 20)))
    newest = table.snapshot()
    table.storage.delete(["_delta_log/00000000000000000002.json"])
    (found,) = table.won(old, newest)
    assert (found.verb, found.changed) == (Verb.ALTER, "what is no longer in the log")


def test_a_version_that_is_there_and_not_listed() -> None:
    table = table_of((0, 10))
    with pytest.raises(FormatError, match="version 2 exists but is not in the listing"):
        table.won(table.snapshot(), table.snapshot())


class Failing(Storage):
    """A store whose next puts of commits behave as told."""

    behaviour: Callable[[Failing, str, bytes], bool] | None = None
    unreadable = False

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self.behaviour is not None:
            return self.behaviour(self, path, data)
        return super().put_if_absent(path, data)

    def read(self, path: str) -> bytes:
        if self.unreadable:
            raise StorageError("cannot read: no", path=path)
        return super().read(path)


def failing_table() -> tuple[DeltaTable, Failing]:
    location = DeltaTable.create(memory_location(), NUMBERS).location
    storage = Failing(location)
    return DeltaTable(storage), storage


def written_and_denied(storage: Failing, path: str, data: bytes) -> bool:
    Storage.put_if_absent(storage, path, data)
    storage.behaviour = None
    return False


def written_and_failed(storage: Failing, path: str, data: bytes) -> bool:
    Storage.put_if_absent(storage, path, data)
    storage.behaviour = None
    raise StorageError("cannot put: timeout", path=path)


def failed(storage: Failing, path: str, _: bytes) -> bool:
    storage.behaviour = None
    raise StorageError("cannot put: timeout", path=path)


def failed_and_dead(storage: Failing, path: str, data: bytes) -> bool:
    Storage.put_if_absent(storage, path, data)
    storage.unreadable = True
    raise StorageError("cannot put: timeout", path=path)


def another_first(storage: Failing, path: str, data: bytes) -> bool:
    storage.behaviour = None
    other = DeltaTable.open(storage.root)
    committed(append(other, numbers(50, 60)))
    return Storage.put_if_absent(storage, path, data)


@pytest.mark.parametrize("behaviour", [written_and_denied, written_and_failed])
def test_a_commit_that_was_written_all_the_same(behaviour: Callable[..., bool]) -> None:
    table, storage = failing_table()
    storage.behaviour = behaviour
    assert committed(append(table, numbers(0, 3))).version == 1
    assert table.snapshot().version == 1


def test_a_store_that_failed_and_wrote_nothing() -> None:
    table, storage = failing_table()
    storage.behaviour = failed
    with pytest.raises(StorageError, match="timeout"):
        append(table, numbers(0, 3))
    assert table.snapshot().version == 0


def test_a_store_that_does_not_answer_any_more() -> None:
    table, storage = failing_table()
    storage.behaviour = failed_and_dead
    outcome = append(table, numbers(0, 3))
    assert outcome == Unknown(1, outcome.reason)
    assert "timeout" in outcome.reason


def test_a_race_lost_between_reading_and_writing() -> None:
    table, storage = failing_table()
    storage.behaviour = another_first
    old = table.snapshot()
    assert settled(table, old, append_delta(old, numbers(0, 3))).version == 2
    assert len(actions(storage, 2)) == 2


def test_races_without_end() -> None:
    table, storage = failing_table()

    def always_first(storage: Failing, path: str, _: bytes) -> bool:
        other = DeltaTable.open(storage.root)
        committed(append(other, numbers(0, 1)))
        return False

    storage.behaviour = always_first
    old = table.snapshot()
    with pytest.raises(
        CommitConflictError, match=f"other writers committed first {MAX_COMMIT_ATTEMPTS} times in a row"
    ):
        settled(table, old, append_delta(old, numbers(0, 3)))


def test_an_outcome_that_nobody_knows_is_never_tried_again() -> None:
    table, storage = failing_table()
    old = table.snapshot()
    delta = append_delta(old, numbers(0, 3))
    storage.behaviour = failed_and_dead
    with pytest.raises(StorageError, match=r"cannot tell whether version 1 was committed: .*timeout"):
        settled(table, old, delta)
    storage.unreadable = False
    storage.behaviour = None
    assert table.snapshot().version == 1, "it was, once"
