"""A damaged checkpoint is skipped, with a warning, where the commits are there; else it is the error."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable

import pytest

from delta_log import LogWriter, add, lines, metadata, parquet, protocol
from delta_writer import memory_location
from delvec.delta.table import DeltaTable
from delvec.errors import FormatError
from delvec.verify import verify_table

LAST, CHECKPOINT, OLDER = 6, 5, 2
SKIPPED = "skipped a damaged checkpoint, version 6 was read without it: "


@pytest.fixture
def log() -> LogWriter:
    """Seven versions, each with a file and a writer's mark more than the one before."""
    log = LogWriter(memory_location())
    log.create()
    for number in range(1, LAST + 1):
        log.commit(add(f"{number}.parquet"), {"txn": {"appId": "writer", "version": number}})
    return log


def name(version: int, rest: str = "parquet") -> str:
    return f"{version:020d}.checkpoint.{rest}"


def forget_commits(log: LogWriter, last: int) -> None:
    log.delete(*(f"{version:020d}.json" for version in range(last + 1)))


def stored(log: LogWriter, path: str) -> bytes:
    return log.storage.read(f"_delta_log/{path}")


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "no Parquet": lambda _: b"PAR1 not really PAR1",
    "truncated": lambda data: data[: len(data) // 2],
    "without its end": lambda data: data[:-1],
    "zeros": lambda data: bytes(len(data)),
    "a page overwritten": lambda data: data[:4] + b"\xff" * 400 + data[404:],
}


def damaged_classic(log: LogWriter, damage: str) -> str:
    log.classic(CHECKPOINT)
    log.put(name(CHECKPOINT), DAMAGE[damage](stored(log, name(CHECKPOINT))))
    return name(CHECKPOINT)


def damaged_part(log: LogWriter, damage: str) -> str:
    log.parts(CHECKPOINT, 3)
    part = name(CHECKPOINT, "0000000002.0000000003.parquet")
    log.put(part, DAMAGE[damage](stored(log, part)))
    return part


def damaged_v2(log: LogWriter, damage: str, manifest: str = "parquet") -> str:
    log.v2(CHECKPOINT, manifest=manifest)
    (path,) = [
        entry.path
        for entry in log.storage.list("_delta_log/")
        if f"{CHECKPOINT:020d}.checkpoint." in entry.path
    ]
    top = path.removeprefix("_delta_log/")
    log.put(top, DAMAGE[damage](stored(log, top)))
    return top


def damaged_v2_json(log: LogWriter, damage: str) -> str:
    return damaged_v2(log, damage, manifest="json")


def damaged_sidecar(log: LogWriter, damage: str) -> str:
    log.v2(CHECKPOINT)
    sidecar = log.storage.list("_delta_log/_sidecars/")[0].path.removeprefix("_delta_log/")
    log.put(sidecar, DAMAGE[damage](stored(log, sidecar)))
    return sidecar


def missing_sidecar(log: LogWriter, damage: str) -> str:
    sidecar = damaged_sidecar(log, damage)
    log.delete(sidecar)
    return sidecar


KINDS = [damaged_classic, damaged_part, damaged_v2, damaged_v2_json, damaged_sidecar, missing_sidecar]


def verify_whole(log: LogWriter, damaged: str, table: DeltaTable | None = None) -> None:
    """The newest version is all that the commits say, and a warning names the file."""
    with pytest.warns(UserWarning, match=SKIPPED) as caught:
        snapshot = (table or DeltaTable(log.storage)).snapshot()
    assert [damaged in str(warning.message) for warning in caught] == [True]
    assert snapshot.version == LAST
    assert sorted(snapshot.adds["path"].to_pylist()) == [f"{n}.parquet" for n in range(1, LAST + 1)]
    assert snapshot.txns == {"writer": LAST}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hint", [None, CHECKPOINT, OLDER])
def test_commits_take_the_place_of_a_checkpoint(log: LogWriter, kind: Callable, hint: int | None) -> None:
    damaged = kind(log, "truncated")
    if hint is not None:
        log.hint(hint)
    verify_whole(log, damaged)


@pytest.mark.parametrize("damage", DAMAGE)
def test_every_damage(log: LogWriter, damage: str) -> None:
    verify_whole(log, damaged_classic(log, damage))


@pytest.mark.parametrize("kind", KINDS)
def test_an_older_checkpoint_takes_its_place(log: LogWriter, kind: Callable) -> None:
    damaged = kind(log, "truncated")
    log.classic(OLDER)
    forget_commits(log, OLDER)
    log.hint(CHECKPOINT)
    table = DeltaTable(log.storage)
    verify_whole(log, damaged, table)
    assert table.snapshot().state.checkpoint.version == OLDER


def test_another_checkpoint_of_the_version_takes_its_place(log: LogWriter) -> None:
    damaged = damaged_v2(log, "empty")
    log.classic(CHECKPOINT)
    forget_commits(log, CHECKPOINT)
    verify_whole(log, damaged)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hinted", [True, False])
def test_without_the_commits_the_damaged_file_is_named(log: LogWriter, kind: Callable, hinted: bool) -> None:
    damaged = kind(log, "empty")
    forget_commits(log, 0)
    if hinted:
        log.hint(CHECKPOINT)
    with pytest.raises(FormatError, match="checkpoint") as caught:
        DeltaTable(log.storage).snapshot()
    assert caught.value.path.endswith(damaged)


def test_the_log_never_seems_to_end_earlier(log: LogWriter) -> None:
    """The newest version is known by its damaged checkpoint alone: an older version is no answer."""
    log.classic(LAST)
    log.put(name(LAST), b"")
    log.delete(f"{LAST:020d}.json")
    with pytest.raises(FormatError, match=name(LAST)):
        DeltaTable(log.storage).snapshot()


def test_a_missing_part_is_named_where_it_is_needed(log: LogWriter) -> None:
    log.parts(CHECKPOINT, 3)
    part = name(CHECKPOINT, "0000000002.0000000003.parquet")
    log.delete(part)
    assert DeltaTable(log.storage).snapshot().version == LAST
    forget_commits(log, CHECKPOINT)
    with pytest.raises(FormatError, match="part of a checkpoint is missing") as caught:
        DeltaTable(log.storage).snapshot()
    assert caught.value.path.endswith(part)


def test_older_versions_are_read_past_a_damaged_checkpoint(log: LogWriter) -> None:
    damaged_classic(log, "empty")
    log.hint(CHECKPOINT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert DeltaTable(log.storage).snapshot(CHECKPOINT - 1).version == CHECKPOINT - 1
    with pytest.warns(UserWarning, match=name(CHECKPOINT)):
        assert len(DeltaTable(log.storage).snapshot(CHECKPOINT).adds) == CHECKPOINT


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        (parquet([]), "has no protocol action"),
        (parquet([protocol()]), "has no metaData action"),
        (parquet([metadata()]), "has no protocol action"),
    ],
)
def test_a_checkpoint_that_reads_and_is_nonsense_is_no_damage(
    log: LogWriter, checkpoint: bytes, message: str
) -> None:
    log.put(name(CHECKPOINT), checkpoint)
    with pytest.raises(FormatError, match=message):
        DeltaTable(log.storage).snapshot()


def test_a_json_checkpoint_that_reads_and_is_nonsense_is_no_damage(log: LogWriter) -> None:
    top = name(CHECKPOINT, "3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json")
    log.put(top, lines([{"protocol": {"minReaderVersion": "x"}}]))
    with pytest.raises(FormatError, match=top):
        DeltaTable(log.storage).snapshot()


def test_a_store_that_fails_is_no_damage(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    from delvec.errors import StorageError

    def fail(path: str) -> None:
        raise StorageError("cannot read: 503", path=path)

    log.classic(CHECKPOINT)
    monkeypatch.setattr(log.storage, "open_input", fail)
    with pytest.raises(StorageError, match="503"):
        DeltaTable(log.storage).snapshot()


def test_verify_names_it(log: LogWriter) -> None:
    damaged = damaged_classic(log, "truncated")
    with pytest.warns(UserWarning, match=SKIPPED):
        report = verify_table(DeltaTable(log.storage))
    found = [(f.severity, f.check) for f in report.findings if f.path.endswith(damaged)]
    assert found == [("error", "metadata")]
    assert report.version == LAST


@pytest.mark.parametrize("hint", [b"", b"{", json.dumps({"version": 5}).encode()[:-1], b"\xff\xfe"])
def test_a_damaged_hint(log: LogWriter, hint: bytes) -> None:
    log.classic(CHECKPOINT)
    log.put("_last_checkpoint", hint)
    assert len(DeltaTable(log.storage).snapshot().adds) == LAST


def test_it_is_told_once_and_the_table_goes_on(log: LogWriter) -> None:
    damaged = damaged_classic(log, "empty")
    table = DeltaTable(log.storage)
    verify_whole(log, damaged, table)
    log.commit(add("7.parquet"))
    snapshot = table.snapshot()
    assert (snapshot.version, len(snapshot.adds)) == (7, 7)
    assert [error.path.endswith(damaged) for error in snapshot.passed_over] == [True]
    assert len(snapshot.tombstones()) == 0
