"""Two writers of one version: who commits on top, who must give way, and what a store's failure means."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from delta_writer import (
    NUMBERS,
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
from delvec.delta.table import DeltaTable
from delvec.errors import StorageError
from delvec.plan import Base
from delvec.row_delta import Conflict, MetadataChange, Read, RowDelta, Txn, Unknown
from delvec.schema import Field, Primitive, Struct
from delvec.storage import Storage


def table_of(*ranges: tuple[int, int], **more: Any) -> DeltaTable:
    table = DeltaTable.create(memory_location(), NUMBERS, **more)
    committed(append(table, *(numbers(first, last) for first, last in ranges)))
    return table


def vector_files(table: DeltaTable) -> int:
    return sum(entry.path.endswith(".bin") for entry in table.storage.list())


def test_deletes_on_different_files_both_commit() -> None:
    table = table_of((0, 10), (10, 20))
    old = table.snapshot()
    committed(table.commit(old, delete_delta(old, positions_of(old, [3]))))
    mine = delete_delta(old, positions_of(old, [13]), read=Read("id = 13", files=pa.array([1], pa.int64())))
    assert committed(DeltaTable.open(table.location).commit(old, mine)).version == 3
    assert bodies(table.storage, 3, "commitInfo")[0]["readVersion"] == 1
    assert table.snapshot().plan().deletes.num_rows == 2


def test_deletes_on_one_file_conflict() -> None:
    """Else one file would have two live vectors."""
    table = table_of((0, 10))
    old = table.snapshot()
    committed(table.commit(old, delete_delta(old, {0: [3]})))
    outcome = table.commit(old, delete_delta(old, {0: [4]}))
    assert isinstance(outcome, Conflict)
    assert (outcome.version, outcome.operation) == (2, "DELETE")
    assert "changes too" in outcome.reason
    assert table.snapshot().version == 2
    assert len(table.snapshot().adds) == 1
    assert vector_files(table) == 1, "the loser's vectors are orphans"


def test_a_file_that_was_only_read_and_is_gone_conflicts() -> None:
    table = table_of((0, 10), (10, 20))
    old = table.snapshot()
    committed(table.commit(old, RowDelta(Base(1), "DELETE", {}, Read(), removed=pa.array([1], pa.int64()))))
    mine = delete_delta(old, {0: [1]}, read=Read("id > 0", files=pa.array([0, 1], pa.int64())))
    outcome = table.commit(old, mine)
    assert isinstance(outcome, Conflict)
    assert outcome.reason.endswith("which this operation read")


@pytest.mark.parametrize(
    ("condition", "conflicts"),
    [("id = 3", False), ("id > 40", True), ("id % 2 = 1", True), ("t.id = s.id", True), (None, True)],
)
def test_rows_that_came_meanwhile(condition: str | None, *, conflicts: bool) -> None:
    """By statistics where they decide, else they are taken to match."""
    table = table_of((0, 10))
    old = table.snapshot()
    committed(append(table, numbers(40, 50)))
    mine = delete_delta(old, {0: [3]}, read=Read(condition, files=pa.array([0], pa.int64())))
    outcome = table.commit(old, mine)
    assert isinstance(outcome, Conflict) == conflicts
    if conflicts:
        assert "it added rows" in outcome.reason


def test_moments_depend_on_a_time_zone_that_nobody_tells() -> None:
    schema = Struct((Field("id", Primitive("long")), Field("at", Primitive("timestamp"))))
    table = DeltaTable.create(memory_location(), schema)

    def day(number: int) -> pa.Table:
        at = pa.array([dt.datetime(2025, 1, number, tzinfo=dt.UTC)], pa.timestamp("us", tz="UTC"))
        return pa.table({"id": pa.array([number], pa.int64()), "at": at})

    committed(append(table, day(1), day(2)))
    old = table.snapshot()
    committed(append(table, day(20)))
    mine = delete_delta(old, {0: [0]}, read=Read("at < timestamp '2025-01-03 00:00:00'"))
    assert isinstance(table.commit(old, mine), Conflict)


def test_an_append_stands_on_top_of_anything_but_metadata() -> None:
    table = table_of((0, 10))
    old = table.snapshot()
    committed(delete(table, {0: [3]}))
    committed(append(table, numbers(20, 30)))
    assert committed(table.commit(old, append_delta(old, numbers(30, 40)))).version == 4
    change = MetadataChange(properties={"owner": "me"})
    newest = table.snapshot()
    properties = RowDelta(Base(4), "SET TBLPROPERTIES", {}, Read(blind=True), metadata=change)
    committed(table.commit(newest, properties))
    outcome = table.commit(newest, append_delta(newest, numbers(40, 50)))
    assert isinstance(outcome, Conflict)
    assert "columns or properties" in outcome.reason
    upgrade = MetadataChange(properties={"delta.enableChangeDataFeed": "true"})
    newest = table.snapshot()
    committed(table.commit(newest, RowDelta(Base(5), "SET TBLPROPERTIES", {}, Read(), metadata=upgrade)))
    outcome = table.commit(newest, append_delta(newest, numbers(40, 50)))
    assert isinstance(outcome, Conflict)
    assert "protocol" in outcome.reason


def test_a_compaction_of_a_touched_file_conflicts_and_of_others_does_not() -> None:
    table = table_of((0, 10), (10, 20))
    old = table.snapshot()
    again = append_delta(old, numbers(10, 20))
    compaction = RowDelta(
        Base(1),
        "OPTIMIZE",
        {},
        Read("id > 9"),
        added=again.added,
        removed=pa.array([1], pa.int64()),
        data_change=False,
    )
    committed(table.commit(old, compaction))
    assert isinstance(table.commit(old, delete_delta(old, {1: [1]}, read=Read("id = 11"))), Conflict)
    committed(table.commit(old, delete_delta(old, {0: [1]}, read=Read("id = 1"))))


def test_the_same_application_conflicts() -> None:
    table = table_of((0, 10))
    old = table.snapshot()
    committed(append(table, numbers(10, 11), txn=Txn("stream", 1)))
    outcome = table.commit(old, append_delta(old, numbers(10, 11), txn=Txn("stream", 1)))
    assert isinstance(outcome, Conflict)
    assert "same application 'stream'" in outcome.reason
    committed(table.commit(old, append_delta(old, numbers(10, 11), txn=Txn("other", 1))))


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
    assert committed(append(table, numbers(0, 3))).version == 2
    assert len(actions(storage, 2)) == 2


def test_races_without_end() -> None:
    table, storage = failing_table()

    def always_first(storage: Failing, path: str, _: bytes) -> bool:
        other = DeltaTable.open(storage.root)
        committed(append(other, numbers(0, 1)))
        return False

    storage.behaviour = always_first
    outcome = append(table, numbers(0, 3))
    assert outcome == Conflict(20, "WRITE", "others came first 20 times in a row")
