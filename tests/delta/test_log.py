"""Which files make up a version, and which logs are refused."""

from __future__ import annotations

import itertools
import json

import pytest

from delta_log import LogWriter, add, remove, vector
from delvec.delta.table import DeltaTable
from delvec.errors import FormatError, InvalidOperationError, TableNotFoundError
from delvec.storage import open_storage

_NUMBERS = itertools.count()


@pytest.fixture
def log() -> LogWriter:
    writer = LogWriter(open_storage(f"memory://log-{next(_NUMBERS)}/table"))
    writer.create()
    return writer


def paths(log: LogWriter, version: int | None = None) -> list[str]:
    return sorted(DeltaTable(log.storage).snapshot(version).adds.column("path").to_pylist())


def test_no_such_table() -> None:
    with pytest.raises(TableNotFoundError, match=r"no Delta table.*memory://nowhere/table/_delta_log"):
        DeltaTable.open("memory://nowhere/table").snapshot()


def test_a_log_without_commits_is_no_table(log: LogWriter) -> None:
    log.delete("00000000000000000000.json")
    log.put("notes.txt", b"?")
    with pytest.raises(TableNotFoundError):
        DeltaTable(log.storage).snapshot()


def test_a_gap_names_the_missing_version(log: LogWriter) -> None:
    for number in range(1, 5):
        log.commit(add(f"{number}.parquet"))
    log.delete("00000000000000000002.json")
    with pytest.raises(FormatError, match=r"gap: commit 2 is missing.*00000000000000000002\.json"):
        DeltaTable(log.storage).snapshot()
    assert paths(log, 1) == ["1.parquet"]


def test_a_gap_after_the_checkpoint_is_refused(log: LogWriter) -> None:
    for number in range(1, 5):
        log.commit(add(f"{number}.parquet"))
    log.classic(1)
    log.hint(1)
    log.delete("00000000000000000003.json")
    with pytest.raises(FormatError, match="commit 3 is missing"):
        DeltaTable(log.storage).snapshot()


def test_a_gap_before_the_checkpoint_does_not_matter(log: LogWriter) -> None:
    for number in range(1, 5):
        log.commit(add(f"{number}.parquet"))
    log.classic(3)
    log.delete("00000000000000000002.json")
    assert paths(log) == [f"{n}.parquet" for n in range(1, 5)]


@pytest.mark.parametrize("version", [3, 99, -1])
def test_a_version_out_of_range_names_the_range(log: LogWriter, version: int) -> None:
    log.commit(add("1.parquet"))
    log.commit(add("2.parquet"))
    with pytest.raises(InvalidOperationError, match=rf"version {version} does not exist, expected 0 to 2"):
        DeltaTable(log.storage).snapshot(version)


def test_a_version_before_the_clean_up_says_what_is_left(log: LogWriter) -> None:
    for number in range(1, 5):
        log.commit(add(f"{number}.parquet"))
    log.classic(3)
    log.hint(3)
    log.delete(*(f"{n:020d}.json" for n in range(3)))
    with pytest.raises(InvalidOperationError, match="version 1 can no longer be read, expected 3 to 4"):
        DeltaTable(log.storage).snapshot(1)


def test_both_version_and_timestamp_are_refused(log: LogWriter) -> None:
    with pytest.raises(InvalidOperationError, match="both version 0 and timestamp"):
        DeltaTable(log.storage).snapshot(0, "2025-01-01")


@pytest.mark.parametrize(
    ("verb", "actions"),
    [
        ("adds", [add("x.parquet"), add("x.parquet", deletion_vector=vector("a" * 20))]),
        (
            "adds",
            [
                add("x.parquet", deletion_vector=vector("a" * 20)),
                add("x.parquet", deletion_vector=vector("b" * 20)),
            ],
        ),
        ("removes", [remove("x.parquet"), remove("x.parquet", deletion_vector=vector("a" * 20))]),
        ("removes", [remove("x.parquet"), remove("x.parquet")]),
    ],
)
def test_a_path_twice_in_a_commit_is_refused(
    log: LogWriter, verb: str, actions: list[dict[str, object]]
) -> None:
    log.commit(add("fine.parquet"), *actions)
    with pytest.raises(FormatError, match=rf"commit 1 {verb} path 'x.parquet' twice.*0001\.json"):
        DeltaTable(log.storage).snapshot()


def test_one_key_added_and_removed_in_a_commit_is_refused(log: LogWriter) -> None:
    log.commit(add("x.parquet"), remove("x.parquet"))
    with pytest.raises(FormatError, match=r"adds and removes path 'x\.parquet' with one vector"):
        DeltaTable(log.storage).snapshot()


def test_a_new_vector_beside_the_removal_of_the_old_is_legal(log: LogWriter) -> None:
    log.commit(add("x.parquet"))
    log.commit(remove("x.parquet"), add("x.parquet", deletion_vector=vector("a" * 20)))
    snapshot = DeltaTable(log.storage).snapshot()
    assert snapshot.adds.column("dv_path").to_pylist() == ["a" * 20]
    assert snapshot.tombstones().column("dv_path").to_pylist() == [None]


def test_a_removal_without_the_old_vector_leaves_the_file(log: LogWriter) -> None:
    """The key is (path, vector): a writer that forgets the vector removes nothing."""
    log.commit(add("x.parquet", deletion_vector=vector("a" * 20)))
    log.commit(remove("x.parquet"))
    assert paths(log) == ["x.parquet"]


def test_a_compaction_reaching_beyond_the_version_is_not_used(log: LogWriter) -> None:
    for number in range(1, 5):
        log.commit(add(f"{number}.parquet"))
    log.compact(1, 4)
    assert paths(log, 2) == ["1.parquet", "2.parquet"]
    log.delete("00000000000000000002.json")  # now only the compaction has it
    assert paths(log, 4) == [f"{n}.parquet" for n in range(1, 5)]


def test_a_compaction_that_states_a_key_twice_is_refused(log: LogWriter) -> None:
    log.commit(add("1.parquet"))
    log.commit(add("2.parquet"))
    twice = json.dumps(add("1.parquet")).encode() + b"\n"
    log.put("00000000000000000001.00000000000000000002.compacted.json", twice + twice)
    with pytest.raises(FormatError, match=r"compaction .* adds '1\.parquet' twice"):
        DeltaTable(log.storage).snapshot()


@pytest.mark.parametrize(
    "hint", [b"", b"[]", b"{", b'{"version": "x"}', b'{"version": 77}', b'{"version": -3}']
)
def test_a_wrong_hint_is_only_a_hint(log: LogWriter, hint: bytes) -> None:
    log.commit(add("1.parquet"))
    log.classic(1)
    log.put("_last_checkpoint", hint)
    assert paths(log) == ["1.parquet"]


def test_an_update_reads_only_the_new_commits(log: LogWriter) -> None:
    for number in range(1, 30):
        log.commit(add(f"{number}.parquet"))
    log.classic(20)
    log.hint(20)
    table = DeltaTable(log.storage)
    assert table.snapshot().version == 29
    log.commit(add("30.parquet"))
    log.storage.requests.clear()
    assert table.snapshot().version == 30
    assert log.storage.requests == {"list": 1, "read": 1}
    log.storage.requests.clear()
    assert table.snapshot().version == 30
    assert log.storage.requests == {"list": 1}


def test_another_table_in_the_old_ones_place_is_noticed(log: LogWriter) -> None:
    log.commit(add("1.parquet"))
    table = DeltaTable(log.storage)
    assert table.snapshot().version == 1
    log.delete("00000000000000000000.json", "00000000000000000001.json")
    again = LogWriter(log.storage)
    again.create()
    again.commit(add("another.parquet"), add("one.parquet"))
    assert sorted(table.snapshot().adds.column("path").to_pylist()) == ["another.parquet", "one.parquet"]


def test_a_sidecar_outside_its_folder_is_refused(log: LogWriter) -> None:
    log.commit(add("1.parquet"))
    manifest = json.dumps({"sidecar": {"path": "../../x.parquet", "sizeInBytes": 1, "modificationTime": 0}})
    log.put("00000000000000000001.checkpoint.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json", manifest.encode())
    with pytest.raises(FormatError, match=r"\.\./\.\./x\.parquet"):
        DeltaTable(log.storage).snapshot()
