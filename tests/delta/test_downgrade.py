"""Dropping the feature ``deletionVectors``: what the log says at each step, and who can read the table."""

from __future__ import annotations

import datetime as dt
import os
import re
from pathlib import Path
from typing import Any

import pytest

from delta_writer import (
    NUMBERS,
    append,
    bodies,
    committed,
    delete_ids,
    memory_location,
    numbers,
    read_by_delta_rs,
    read_by_duckdb,
)
from delvec.delta import downgrade
from delvec.delta.features import Protocol
from delvec.delta.protocol_upgrade import lowered
from delvec.delta.table import DeltaTable
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.row_delta import Operation, RowDelta, VersionTaken
from delvec.spark.drop_vectors import drop_vectors
from vector_dropping import dropped, purge, set_properties

VECTORS = "delta.enableDeletionVectors"
PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"
RETENTION = "delta.dropFeatureTruncateHistory.retentionDuration"
DROP = "DROP FEATURE"


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """Rows 1 and 2 of 10 are deleted with a vector, then row 3."""
    made = DeltaTable.create(str(tmp_path / "a table"), NUMBERS)
    append(made, numbers(0, 10))
    delete_ids(made, [1, 2])
    delete_ids(made, [3])
    return made


def operations(table: DeltaTable) -> list[str]:
    return [row["operation"] for row in reversed(table.history().to_pylist())]


def checkpoints(table: DeltaTable) -> list[int]:
    names = [Path(entry.path).name for entry in table.storage.list_folder("_delta_log")]
    return sorted(int(name[:20]) for name in names if ".checkpoint." in name)


@pytest.mark.parametrize("with_vector", [False, True])
def test_a_writer_that_allows_vectors_again_between_the_steps(
    table: DeltaTable, monkeypatch: pytest.MonkeyPatch, *, with_vector: bool
) -> None:
    write, written = downgrade.write_checkpoint, []

    def write_then_allow(*arguments: Any, **options: Any) -> None:
        write(*arguments, **options)
        written.append(arguments)
        if len(written) == downgrade.BARRIERS:
            set_properties(table, {VECTORS: "true"})
            if with_vector:
                delete_ids(table, [5])

    monkeypatch.setattr(downgrade, "write_checkpoint", write_then_allow)
    result = dropped(table)
    snapshot = table.snapshot()
    assert result.version == snapshot.version
    assert "deletionVectors" not in snapshot.protocol.features_to_write
    assert VECTORS not in snapshot.properties


def test_the_steps_are_those_of_delta_spark(table: DeltaTable) -> None:
    result = dropped(table)
    assert operations(table)[4:] == [
        "UNSET TBLPROPERTIES",
        "OPTIMIZE",
        "Deletion Vector Tombstones",
        *["Empty Commit"] * 3,
        DROP,
    ]
    assert result.version == table.snapshot().version == 10
    assert result.reader_features == ()
    assert checkpoints(table) == [7, 8, 9, 10]
    vectors = sorted(entry.path for entry in table.storage.list() if entry.path.endswith(".bin"))
    tombstones = bodies(table.storage, 6, "remove")
    assert sorted(body["path"] for body in tombstones) == vectors
    assert all(body.keys() == {"path", "deletionTimestamp", "dataChange"} for body in tombstones)
    assert not any(body["dataChange"] for body in tombstones)
    (info,) = bodies(table.storage, 10, "commitInfo")
    assert info["operationParameters"] == {"featureName": "deletionVectors", "truncateHistory": False}
    (protocol,) = bodies(table.storage, 10, "protocol")
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (1, 7)
    assert "readerFeatures" not in protocol
    assert set(protocol["writerFeatures"]) == {"appendOnly", "invariants", "checkpointProtection"}
    assert table.snapshot().properties == {PROTECTED: "10"}
    assert dict(DeltaTable(table.storage).snapshot(3).properties) == {VECTORS: "true"}


def test_all_readers_see_the_rows_and_older_versions(table: DeltaTable) -> None:
    dropped(table)
    for read in (read_by_delta_rs, read_by_duckdb):
        assert sorted(row["id"] for row in read(table.location)) == [0, *range(4, 10)]
    assert sorted(row["id"] for row in read_by_delta_rs(table.location, 2)) == [0, *range(3, 10)]


def test_a_table_without_the_feature_stays_as_it_is(table: DeltaTable) -> None:
    dropped(table)
    assert dropped(table).version == table.snapshot().version == 10
    without = DeltaTable.create(memory_location(), NUMBERS, properties={VECTORS: "false"})
    assert dropped(without).version == 0


def test_vectors_can_be_enabled_again(table: DeltaTable) -> None:
    dropped(table)
    set_properties(table, {VECTORS: "true"})
    delete_ids(table, [5])
    snapshot = table.snapshot()
    assert snapshot.protocol.min_reader_version == 3
    assert "checkpointProtection" in snapshot.protocol.writer_features
    assert snapshot.properties[PROTECTED] == "10"
    assert sorted(row["id"] for row in read_by_delta_rs(table.location)) == [0, 4, 6, 7, 8, 9]


def test_what_was_done_before_is_not_done_again(table: DeltaTable) -> None:
    """A first call that stopped after the tombstones: the second writes only what is missing."""
    set_properties(table, {VECTORS: None})
    purge(table)
    base, delta = next(downgrade.removal_steps(table, truncate_history=False))
    committed(table.commit(base, delta))
    dropped(table)
    assert operations(table)[4:] == [
        "UNSET TBLPROPERTIES",
        "OPTIMIZE",
        "Deletion Vector Tombstones",
        *["Empty Commit"] * 3,
        DROP,
    ]


def test_a_file_with_a_vector_keeps_the_protocol(table: DeltaTable) -> None:
    snapshot = table.snapshot()
    delta = downgrade._dropping_delta(snapshot, truncate_history=False)
    with pytest.raises(InvalidOperationError, match="has a vector, expected none"):
        table.commit(snapshot, delta)
    assert table.snapshot().version == 3


def test_another_writer_that_enables_vectors_meanwhile(
    table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, others, outcomes = DeltaTable.commit, iter([{VECTORS: "true", "owner": "me"}]), []

    def interrupted(self: DeltaTable, snapshot: Any, delta: RowDelta) -> Any:
        if delta.request.operation is Operation.DROP_VECTORS and (change := next(others, None)):
            set_properties(table, change)
        outcomes.append(commit(self, snapshot, delta))
        return outcomes[-1]

    monkeypatch.setattr(DeltaTable, "commit", interrupted)
    dropped(table)
    assert sum(isinstance(outcome, VersionTaken) for outcome in outcomes) == 1
    newest = table.snapshot()
    assert newest.protocol.min_reader_version == 1
    assert newest.properties == {PROTECTED: str(newest.version), "owner": "me"}
    assert operations(table).count("UNSET TBLPROPERTIES") == 2


def test_rows_that_others_add_meanwhile_are_kept(table: DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, others = DeltaTable.commit, iter(range(100, 110))

    def interrupted(self: DeltaTable, snapshot: Any, delta: RowDelta) -> Any:
        ours = delta.request.operation in (
            Operation.DROP_VECTORS,
            Operation.EMPTY,
            Operation.KEEP_VECTOR_FILES,
        )
        if ours and delta.execution.attempts == 1:
            number = next(others)
            append(table, numbers(number, number + 1))
        return commit(self, snapshot, delta)

    monkeypatch.setattr(DeltaTable, "commit", interrupted)
    dropped(table)
    newest = table.snapshot()
    assert newest.properties == {PROTECTED: str(newest.version)}
    assert newest.protocol.min_reader_version == 1
    rows = sorted(row["id"] for row in read_by_delta_rs(table.location))
    assert rows == [0, *range(4, 10), *range(100, 100 + len(rows) - 7)]
    assert len(checkpoints(table)) >= 4


def later(table: DeltaTable, **ago: int) -> None:
    """All files of the log become older."""
    moved = dt.timedelta(**ago).total_seconds()
    for file in (Path(table.location) / "_delta_log").iterdir():
        if file.is_file():
            at = file.stat().st_mtime - moved
            os.utime(file, (at, at))


def test_history_is_truncated_after_a_day(table: DeltaTable) -> None:
    with pytest.raises(InvalidOperationError, match="up to version 5 and is kept for 1 day") as info:
        dropped(table, truncate_history=True)
    (at,) = re.findall(r"run this again after (.{16}) UTC", str(info.value))
    due = dt.datetime.fromisoformat(at + "+00:00") - dt.datetime.now(dt.UTC)
    assert dt.timedelta(hours=23, minutes=50) < due < dt.timedelta(hours=24, minutes=2)
    assert table.snapshot().version == 7
    assert table.snapshot().protocol.min_reader_version == 3
    assert operations(table)[-1] == "Empty Commit"
    later(table, hours=20)
    with pytest.raises(InvalidOperationError, match="up to version 5"):
        dropped(table, truncate_history=True)
    assert table.snapshot().version == 7, "the checkpoint is there already"
    later(table, hours=5)
    result = dropped(table, truncate_history=True)
    assert result.version == 8
    (protocol,) = bodies(table.storage, 8, "protocol")
    assert protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
    (log_info,) = bodies(table.storage, 8, "commitInfo")
    assert log_info["operationParameters"] == {"featureName": "deletionVectors", "truncateHistory": True}
    assert dict(table.snapshot().properties) == {}
    with pytest.raises(InvalidOperationError, match="version 3 can no longer be read"):
        DeltaTable(table.storage).snapshot(3)
    for read in (read_by_delta_rs, read_by_duckdb):
        assert sorted(row["id"] for row in read(table.location)) == [0, *range(4, 10)]


def test_the_time_to_wait_is_a_property(table: DeltaTable) -> None:
    set_properties(table, {RETENTION: "interval 2 hours"})
    with pytest.raises(InvalidOperationError, match=f"kept for 2:00:00 .{RETENTION}."):
        dropped(table, truncate_history=True)
    later(table, hours=3)
    assert dropped(table, truncate_history=True).reader_features == ()


def test_a_format_without_vectors_refuses() -> None:
    class Other:
        format = "other"
        location = "/x"

    with pytest.raises(UnsupportedFeatureError, match=r"dropping deletion vectors .* for other tables: /x"):
        drop_vectors(Other(), lambda _: None, lambda: None, truncate_history=False)  # type: ignore[arg-type]


def protocol(reader: int, writer: int, readers: str = "", writers: str = "") -> Protocol:
    return Protocol(reader, writer, frozenset(readers.split()), frozenset(writers.split()))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (protocol(3, 7, "dv", "dv"), protocol(1, 1)),
        (protocol(3, 7, "dv", "dv appendOnly invariants"), protocol(1, 2)),
        (protocol(3, 7, "dv", "dv appendOnly"), protocol(1, 7, "", "appendOnly")),
        (protocol(3, 7, "dv", "dv rowTracking"), protocol(1, 7, "", "rowTracking")),
        (protocol(3, 7, "dv columnMapping", "dv columnMapping"), protocol(2, 7, "", "columnMapping")),
        (
            protocol(3, 7, "dv timestampNtz columnMapping", "dv timestampNtz columnMapping"),
            protocol(3, 7, "timestampNtz columnMapping", "timestampNtz columnMapping"),
        ),
        (
            protocol(
                3,
                7,
                "dv columnMapping",
                "dv columnMapping appendOnly invariants checkConstraints changeDataFeed generatedColumns",
            ),
            protocol(2, 5),
        ),
    ],
)
def test_the_lowest_protocol_that_says_the_same(before: Protocol, after: Protocol) -> None:
    assert lowered(before, "dv") == after


def test_a_protected_history_lists_the_features() -> None:
    before = protocol(3, 7, "dv", "dv appendOnly invariants")
    after = lowered(before, "dv", ["checkpointProtection"])
    assert after == protocol(1, 7, "", "appendOnly invariants checkpointProtection")
