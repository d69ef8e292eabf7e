"""History, commit times, and time travel by timestamp."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest

from delta_log import LogWriter, add, column, metadata, protocol
from delvec.delta.table import DeltaTable
from delvec.errors import FormatError, InvalidOperationError
from delvec.storage import open_storage

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def table_with_times(folder: Path, *hours: int) -> DeltaTable:
    """A table whose commit files were modified at these hours after ``START``."""
    log = LogWriter(open_storage(str(folder)))
    log.create()
    for number in range(1, len(hours)):
        log.commit(
            {"commitInfo": {"operation": "WRITE", "readVersion": number - 1}}, add(f"{number}.parquet")
        )
    for number, hour in enumerate(hours):
        at = (START + hour * HOUR).timestamp()
        os.utime(folder / "_delta_log" / f"{number:020d}.json", (at, at))
    return DeltaTable.open(str(folder))


@pytest.mark.parametrize(
    ("hours", "version"), [(0, 0), (0.5, 0), (1, 1), (1.99, 1), (2, 2), (3.5, 3), (4, 4)]
)
def test_the_newest_version_at_a_time(tmp_path: Path, hours: float, version: int) -> None:
    table = table_with_times(tmp_path, 0, 1, 2, 3, 4)
    assert table.snapshot(timestamp=START + hours * HOUR).version == version
    assert table.snapshot(timestamp=(START + hours * HOUR).isoformat()).version == version


def test_a_time_without_a_zone_is_utc(tmp_path: Path) -> None:
    table = table_with_times(tmp_path, 0, 1, 2)
    assert table.snapshot(timestamp="2024-01-01T01:30:00").version == 1
    assert table.snapshot(timestamp="2024-01-01T02:30:00+01:00").version == 1


@pytest.mark.parametrize(
    ("hours", "where"), [(-1, "before the first"), (1_000_000, "in the future, after the last")]
)
def test_a_time_out_of_range_names_the_range(tmp_path: Path, hours: int, where: str) -> None:
    table = table_with_times(tmp_path, 0, 1, 2)
    with pytest.raises(
        InvalidOperationError, match=rf"is {where} commit, expected 2024-01-01T00:00:00.*version 2"
    ):
        table.snapshot(timestamp=START + hours * HOUR)


def test_a_time_after_the_last_commit_means_the_newest_version(tmp_path: Path) -> None:
    table = table_with_times(tmp_path, 0, 1, 2)
    assert table.snapshot(timestamp=START + 3 * HOUR).version == 2
    assert table.snapshot(timestamp=dt.datetime.now(dt.UTC)).version == 2
    with pytest.raises(InvalidOperationError, match="in the future"):
        table.snapshot(timestamp=dt.datetime.now(dt.UTC) + HOUR)


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOperationError, match="timestamp is 'noon', expected ISO 8601"):
        table_with_times(tmp_path, 0).snapshot(timestamp="noon")


def test_file_times_that_do_not_ascend_are_moved_forward(tmp_path: Path) -> None:
    table = table_with_times(tmp_path, 0, 5, 3, 3, 6)
    times = [row["timestamp"] for row in table.history().to_pylist()][::-1]
    millisecond = dt.timedelta(milliseconds=1)
    five = START + 5 * HOUR
    assert times == [START, five, five + millisecond, five + 2 * millisecond, START + 6 * HOUR]


def test_history_is_newest_first_and_limited(tmp_path: Path) -> None:
    table = table_with_times(tmp_path, 0, 1, 2, 3)
    rows = table.history(limit=2).to_pylist()
    assert [(row["version"], row["operation"], row["read_version"]) for row in rows] == [
        (3, "WRITE", 2),
        (2, "WRITE", 1),
    ]
    (first,) = table.history().to_pylist()[-1:]
    assert (first["version"], first["operation"]) == (0, None)


def with_stated_times(folder: Path, since: int | None) -> DeltaTable:
    properties = {"delta.enableInCommitTimestamps": "true"}
    if since is not None:
        properties["delta.inCommitTimestampEnablementVersion"] = str(since)
    log = LogWriter(open_storage(str(folder)))
    start = int(START.timestamp() * 1000)
    for number in range(5):
        actions = [{"commitInfo": {"inCommitTimestamp": start + number * 3_600_000, "operation": "WRITE"}}]
        if number == 0:
            actions.append(protocol())
        if number == (since or 0):
            actions.append(metadata(column("id", "long"), properties=properties))
        elif number == 0:
            actions.append(metadata(column("id", "long")))
        log.commit(*actions)
    for number in range(5):  # as if copied: the files' own times say nothing, but for those before
        at = (START - HOUR + number * dt.timedelta(minutes=1)).timestamp()
        os.utime(folder / "_delta_log" / f"{number:020d}.json", (at, at))
    return DeltaTable.open(str(folder))


def test_stated_times_since_creation(tmp_path: Path) -> None:
    table = with_stated_times(tmp_path, None)
    assert [row["timestamp"] for row in table.history().to_pylist()] == [
        START + n * HOUR for n in (4, 3, 2, 1, 0)
    ]
    assert table.snapshot(timestamp=START + 2.5 * HOUR).version == 2


def test_stated_times_from_the_version_that_enabled_them(tmp_path: Path) -> None:
    table = with_stated_times(tmp_path, 2)
    times = [row["timestamp"] for row in table.history().to_pylist()][::-1]
    minute = dt.timedelta(minutes=1)
    assert times == [START - HOUR, START - HOUR + minute, *(START + n * HOUR for n in (2, 3, 4))]
    assert table.snapshot(timestamp=START).version == 1
    assert table.snapshot(timestamp=START + 3 * HOUR).version == 3


def test_a_commit_that_does_not_state_its_time_is_named(tmp_path: Path) -> None:
    log = LogWriter(open_storage(str(tmp_path)))
    log.commit(protocol(), metadata(properties={"delta.enableInCommitTimestamps": "true"}))
    with pytest.raises(
        FormatError, match=r"commit 0 has inCommitTimestamp None, expected a number.*0000\.json"
    ):
        DeltaTable.open(str(tmp_path)).history()


def test_parameters_that_are_not_texts_are_shown_as_json(tmp_path: Path) -> None:
    log = LogWriter(open_storage(str(tmp_path)))
    log.create()
    info = {"operation": "X", "operationParameters": {"a": [1], "b": None, "c": "t"}, "operationMetrics": 5}
    log.commit({"commitInfo": info})
    row = DeltaTable.open(str(tmp_path)).history(limit=1).to_pylist()[0]
    assert dict(row["parameters"]) == {"a": "[1]", "b": None, "c": "t"}
    assert row["metrics"] is None
