"""Expired files of the log: which go after a checkpoint, which stay, and what can still be read."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import pytest

from delta_log import LogWriter, add, metadata, protocol
from delvec.delta.log_cleanup import clean_up_log, remove_expired
from delvec.delta.snapshot import Snapshot
from delvec.delta.table import DeltaTable
from delvec.errors import FormatError, InvalidOperationError, StorageError, UnsupportedFeatureError
from delvec.row_delta import (
    Committed,
    MetadataChange,
    Operation,
    Read,
    Request,
    RowDelta,
    Verb,
    VersionTaken,
)

DAY = 86_400
V2 = ("deletionVectors", "v2Checkpoint")


class Log:
    """A log on the local disk, one commit a day: the newest is of today."""

    def __init__(self, root: Path, days: int = 60, **create: object) -> None:
        self.writer = LogWriter(str(root))
        self.folder = root / "_delta_log"
        self.writer.create(**create)
        for version in range(1, days + 1):
            self.writer.commit(add(f"f{version}"))
        for version in range(days + 1):
            self.age(f"{version:020d}.json", days - version)

    def age(self, name: str, days: float) -> None:
        at = time.time() - days * DAY - 60
        os.utime(self.folder / name, (at, at))

    @property
    def table(self) -> DeltaTable:
        return DeltaTable.open(str(self.folder.parent))

    def clean(self) -> None:
        clean_up_log(self.writer.storage, self.table.snapshot(), now_ms=int(time.time() * 1000))

    def names(self) -> list[str]:
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file())

    def commits(self) -> list[int]:
        return [int(name[:20]) for name in self.names() if len(name) == 25 and name.endswith(".json")]


def test_from_the_last_checkpoint_before_the_cutoff_on(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for version in (10, 20, 40):
        log.writer.classic(version)
    log.writer.put(f"{15:020d}.crc", b"{}")
    log.writer.put(f"{25:020d}.crc", b"{}")
    log.writer.compact(11, 13)
    log.writer.compact(20, 22)
    log.writer.compact(21, 23)
    log.clean()
    # Version 29 or 30 was the newest 30 days before midnight: the checkpoint of 20 must stay.
    assert log.commits() == list(range(20, 61))
    others = [name for name in log.names() if not name.endswith(".json") or "compacted" in name]
    assert others == [
        f"{20:020d}.checkpoint.parquet",
        f"{21:020d}.{23:020d}.compacted.json",
        f"{25:020d}.crc",
        f"{40:020d}.checkpoint.parquet",
    ]
    for version in (20, 29, 45, 60):
        assert len(log.table.snapshot(version).adds) == version
    with pytest.raises(InvalidOperationError, match=r"version 19 can no longer be read, expected 20 to 60"):
        log.table.snapshot(19)


@pytest.mark.parametrize("checkpoints", [(), (40,), (60,)])
def test_without_an_old_checkpoint_all_stays(tmp_path: Path, checkpoints: tuple[int, ...]) -> None:
    log = Log(tmp_path)
    for version in checkpoints:
        log.writer.classic(version)
    log.clean()
    assert log.commits() == list(range(61))


def test_an_incomplete_checkpoint_does_not_count(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.writer.parts(10, 2)
    log.writer.parts(20, 3)
    log.writer.delete(f"{20:020d}.checkpoint.{2:010d}.{3:010d}.parquet")
    log.clean()
    assert log.commits() == list(range(10, 61))


def test_a_damaged_checkpoint_keeps_the_commits(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.writer.classic(60)
    log.writer.hint(60)
    snapshot = log.table.snapshot()
    log.writer.put(f"{20:020d}.checkpoint.parquet", b"damaged")
    before = log.names()
    with pytest.raises(FormatError, match=f"{20:020d}.checkpoint.parquet"):
        clean_up_log(log.writer.storage, snapshot, now_ms=int(time.time() * 1000))
    assert log.names() == before


@pytest.mark.parametrize(
    ("properties", "first"),
    [
        ({"delta.enableExpiredLogCleanup": "false"}, 0),
        ({"delta.enableExpiredLogCleanup": "true"}, 20),
        ({"delta.logRetentionDuration": "interval 45 days"}, 10),
        ({"delta.logRetentionDuration": "interval 1 day"}, 40),
    ],
)
def test_properties(tmp_path: Path, properties: dict[str, str], first: int) -> None:
    log = Log(tmp_path, properties=properties)
    for version in (10, 20, 40):
        log.writer.classic(version)
    log.clean()
    assert log.commits()[0] == first


def test_days_are_whole(tmp_path: Path) -> None:
    """A commit of the day of the cutoff is as young as one of the day after."""
    log = Log(tmp_path, days=3, properties={"delta.logRetentionDuration": "interval 1 day"})
    log.writer.classic(2)
    midnight = time.time() // DAY * DAY
    for version, at in ((1, midnight - 2 * DAY), (2, midnight - DAY + 5), (3, midnight)):
        os.utime(log.folder / f"{version:020d}.json", (at, at))
    log.clean()
    assert log.commits() == [0, 1, 2, 3]


def test_the_times_that_commits_state(tmp_path: Path) -> None:
    log = Log(tmp_path, days=4, features=("deletionVectors", "inCommitTimestamp"))
    log.writer.commits[0][0]["protocol"]["readerFeatures"].remove("inCommitTimestamp")
    now = int(time.time() * 1000)
    for version in range(5):
        days = 100 - version if version < 4 else 0
        info = {"commitInfo": {"inCommitTimestamp": now - days * DAY * 1000}}
        actions = [info, *log.writer.commits[version]]
        if version == 0:
            actions[2] = metadata(properties={"delta.enableInCommitTimestamps": "true"})
        log.writer.commits[version] = actions
        log.writer.put(f"{version:020d}.json", b"\n".join(map(_line, actions)))
    log.writer.classic(2)
    log.clean()
    assert log.commits() == [2, 3, 4]


def _line(action: object) -> bytes:
    import json

    return json.dumps(action).encode()


@pytest.mark.parametrize(("before", "first"), [(15, 20), (20, 20), (21, 0), (45, 0), ("x", 0), ("", 0)])
def test_protected_versions_go_together_or_not_at_all(tmp_path: Path, before: int | str, first: int) -> None:
    log = Log(
        tmp_path,
        features=("deletionVectors", "checkpointProtection"),
        properties={"delta.requireCheckpointProtectionBeforeVersion": str(before)},
    )
    log.writer.commits[0][0]["protocol"]["readerFeatures"].remove("checkpointProtection")
    log.writer.put(f"{0:020d}.json", b"\n".join(map(_line, log.writer.commits[0])))
    log.age(f"{0:020d}.json", 60)
    log.writer.classic(20)
    log.clean()
    assert log.commits()[0] == first


def test_sidecars_of_the_last_day_stay(tmp_path: Path) -> None:
    """They may belong to a checkpoint that is being written, however short the retention is."""
    log = Log(tmp_path, features=V2)
    for version in (10, 20, 60):
        log.writer.v2(version)
    for name, hours in (("young", 23), ("old", 25)):
        log.writer.put(f"_sidecars/{name}.parquet", b"1")
        log.age(f"_sidecars/{name}.parquet", hours / 24)
    now = int(time.time() * 1000)
    remove_expired(log.writer.storage, log.table.snapshot(), now, now_ms=now)
    assert "_sidecars/young.parquet" in log.names()
    assert "_sidecars/old.parquet" not in log.names()


def test_sidecars_that_nothing_names(tmp_path: Path) -> None:
    log = Log(tmp_path, features=V2)
    log.writer.v2(10)
    log.writer.v2(20)
    log.writer.v2(40, manifest="parquet")
    log.writer.put("_sidecars/old.parquet", b"1")
    sidecars = [name for name in log.names() if name.startswith("_sidecars/")]
    for name in sidecars:
        log.age(name, 60)
    log.writer.put("_sidecars/young.parquet", b"1")
    log.clean()
    left = [name for name in log.names() if name.startswith("_sidecars/")]
    assert len(sidecars) == 7
    assert len(left) == 5
    assert "_sidecars/young.parquet" in left
    assert "_sidecars/old.parquet" not in left
    assert len(log.table.snapshot(20).adds) == 20
    assert len(log.table.snapshot(41).adds) == 41


def test_after_a_checkpoint_on_request(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.writer.classic(20)
    table = log.table
    assert table.checkpoint() == 60
    assert log.commits() == list(range(20, 61))
    assert f"{60:020d}.checkpoint.parquet" in log.names()
    assert table.checkpoint() == 60
    assert table.snapshot().version == 60


def test_an_empty_table_gets_a_checkpoint(tmp_path: Path) -> None:
    log = Log(tmp_path, days=0)
    assert log.table.checkpoint() == 0
    log.writer.delete(f"{0:020d}.json")
    assert len(log.table.snapshot().adds) == 0


def test_a_failure_is_only_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(tmp_path)
    log.writer.classic(20)
    table = log.table

    def fail(paths: object) -> None:
        raise StorageError("cannot delete: no")

    monkeypatch.setattr(table.storage, "delete", fail)
    with caplog.at_level(logging.WARNING):
        assert table.checkpoint() == 60
    assert "expired log files were not removed" in caplog.text
    assert log.commits() == list(range(61))


def set_property(table: DeltaTable, base: Snapshot, value: str) -> object:
    properties = {"delvec.test": value}
    request = Request(Operation.SET_PROPERTIES, properties=properties)
    change = MetadataChange(properties=properties)
    return table.commit(base, RowDelta(base.base, request, Read(blind=True), Verb.ALTER, metadata=change))


def test_a_version_that_was_cleaned_up_is_not_committed_again(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.writer.classic(20)
    log.writer.classic(40)
    table = log.table
    stale = table.snapshot(5)
    log.clean()
    assert 6 not in log.commits()
    assert set_property(table, stale, "lost") == VersionTaken(6)
    assert 6 not in log.commits()
    assert set_property(table, table.snapshot(), "kept") == Committed(61)


def test_commits_of_the_last_hour_stay_whatever_the_retention(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.writer.classic(40)
    now = int(time.time() * 1000)
    for version in range(39, 61):
        log.age(f"{version:020d}.json", 1 / 48)
    remove_expired(log.writer.storage, log.table.snapshot(), now, now_ms=now)
    assert log.commits() == list(range(61))
    for version in range(39, 50):
        log.age(f"{version:020d}.json", 1 / 12)
    remove_expired(log.writer.storage, log.table.snapshot(), now, now_ms=now)
    assert log.commits() == list(range(40, 61))


def test_a_table_opened_before_a_clean_up_still_has_its_tombstones(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.writer.classic(20)
    table = log.table
    assert table.snapshot().state.checkpoint is not None
    log.writer.classic(25)
    log.clean()
    assert not any(name.startswith(f"{20:020d}.checkpoint") for name in log.names())
    assert table.snapshot().tombstones().num_rows == log.table.snapshot().tombstones().num_rows
    assert table.checkpoint() == 60


def test_no_checkpoint_of_a_table_with_a_feature_that_delvec_does_not_know(tmp_path: Path) -> None:
    log = Log(tmp_path)
    unknown = protocol()
    unknown["protocol"]["writerFeatures"].append("futureThing")
    log.writer.commit(unknown)
    with pytest.raises(UnsupportedFeatureError, match="futureThing"):
        log.table.checkpoint()
    assert not any("checkpoint" in name for name in log.names())
