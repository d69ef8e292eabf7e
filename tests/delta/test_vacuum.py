"""Vacuum of Delta tables: what is needed, what is passed over, what is recorded. Logs are written by hand."""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path

import pytest

from delta_log import LogWriter, add, column, metadata, protocol, remove, vector
from delvec import z85
from delvec.delta.table import DeltaTable
from delvec.errors import InvalidOperationError, StorageError, UnsupportedFeatureError
from delvec.storage import Storage
from delvec.vacuum import VacuumResult, vacuum

HOUR_MS = 3_600_000
WEEK_HOURS = 168
VECTORS = [uuid.UUID(int=number) for number in range(9)]


class Files:
    """A table on the local disk whose log is written by hand. Its files are old unless said otherwise."""

    def __init__(self, root: Path, **create: object) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.log = LogWriter(str(root))
        self.log.create(**create)

    def put(self, *paths: str, hours: float = 1000) -> None:
        for path in paths:
            place = self.root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(b"12345")
            at = time.time() - hours * 3600
            os.utime(place, (at, at))

    def folder(self, path: str, hours: float = 1000) -> None:
        (self.root / path).mkdir(parents=True, exist_ok=True)
        at = time.time() - hours * 3600
        os.utime(self.root / path, (at, at))

    @property
    def table(self) -> DeltaTable:
        return DeltaTable.open(str(self.root))

    def vacuum(self, *arguments: float, **options: bool) -> VacuumResult:
        return vacuum(self.table, *arguments, **options)

    def files(self) -> set[str]:
        places = (p.relative_to(self.root) for p in self.root.rglob("*") if p.is_file())
        return {str(p) for p in places if p.parts[0] != "_delta_log"}

    def infos(self) -> list[dict]:
        paths = sorted((self.root / "_delta_log").glob("*.json"))
        lines = [json.loads(path.read_text().splitlines()[0]) for path in paths]
        return [line["commitInfo"] for line in lines if "commitInfo" in line]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "a table %41")


def ago(hours: float) -> int:
    return int(time.time() * 1000 - hours * HOUR_MS)


def bin_name(number: int) -> str:
    return f"deletion_vector_{VECTORS[number]}.bin"


def stored(number: int, prefix: str = "") -> dict:
    return vector(prefix + z85.encode(VECTORS[number].bytes))


def test_live_files_stay_and_others_go(files: Files) -> None:
    files.put("live.parquet", "crashed.parquet", "young.parquet", "other.txt", bin_name(0))
    files.put("young.parquet", hours=1)
    files.log.commit(add("live.parquet"))
    result = files.vacuum()
    assert files.files() == {"live.parquet", "young.parquet"}
    assert (result.files, result.bytes, result.folders) == (3, 15, 0)


def test_vectors_of_every_kind_stay(files: Files) -> None:
    """Vacuums of other engines deleted live vectors: of storage type p, and in folders of random names."""
    place = files.root.as_uri()
    files.put("a", "b", "c", bin_name(0), f"xY/{bin_name(1)}", "my vectors/v.bin", f"xY/{bin_name(2)}")
    files.put("d", f"z/w/{bin_name(3)}")
    files.log.commit(
        add("a", deletion_vector=stored(0)),
        add("b", deletion_vector=stored(1, "xY")),
        add("c", deletion_vector=vector(f"{place}/my%20vectors/v.bin", kind="p")),
        add("d", deletion_vector=stored(3, "z//./w/")),
    )
    files.vacuum()
    vectors = {bin_name(0), f"xY/{bin_name(1)}", "my vectors/v.bin", f"z/w/{bin_name(3)}"}
    assert files.files() == {"a", "b", "c", "d", *vectors}


def test_a_tombstone_keeps_its_file_and_its_old_vector(files: Files) -> None:
    files.put("a", "b", "c", bin_name(0), bin_name(1), f"p1/{bin_name(2)}", bin_name(3))
    files.log.commit(add("a", deletion_vector=stored(0)), add("b", deletion_vector=stored(2, "p1")), add("c"))
    files.log.commit(
        remove("a", deletion_vector=stored(0), timestamp=ago(WEEK_HOURS - 1)),
        add("a", deletion_vector=stored(1)),
        remove("b", deletion_vector=stored(2, "p1"), timestamp=ago(WEEK_HOURS - 1)),
        remove("c", timestamp=ago(WEEK_HOURS - 1)),
    )
    files.vacuum()
    assert files.files() == {"a", "b", "c", bin_name(0), bin_name(1), f"p1/{bin_name(2)}"}
    files.vacuum(1, force=True)
    assert files.files() == {"a", bin_name(1)}


def test_an_expired_tombstone_keeps_nothing(files: Files) -> None:
    files.put("a", "b", "live", bin_name(0), bin_name(1))
    no_time = remove("b", deletion_vector=stored(1))
    del no_time["remove"]["deletionTimestamp"]
    files.log.commit(add("a", deletion_vector=stored(0)), add("b", deletion_vector=stored(1)), add("live"))
    files.log.commit(remove("a", deletion_vector=stored(0), timestamp=ago(WEEK_HOURS + 1)), no_time)
    files.vacuum()
    assert files.files() == {"live"}


def test_a_tombstone_that_a_checkpoint_dropped_keeps_its_file(files: Files) -> None:
    """The table's retention was shorter when the checkpoint was written."""
    files.put("a", "b", "c")
    files.log.commit(metadata(properties={"delta.deletedFileRetentionDuration": "interval 1 hour"}))
    files.log.commit(add("a"), add("b"), add("c"))
    files.log.commit(remove("a", timestamp=ago(5)), remove("b", timestamp=ago(30)))
    files.table.checkpoint()
    files.log.commit(metadata())
    assert len(files.table.snapshot().tombstones()) == 0
    files.vacuum(24, force=True)
    assert files.files() == {"a", "c"}


def test_each_commit_is_read_once(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.put("a")
    for number in range(9):
        files.log.commit(add(f"f{number}"))
    files.table.checkpoint()
    table = files.table
    table.snapshot()
    read, paths = table.storage.read, []

    def recorded(path: str) -> bytes:
        paths.append(path)
        return read(path)

    monkeypatch.setattr(table.storage, "read", recorded)
    vacuum(table)
    assert [paths.count(f"_delta_log/{version:020d}.json") for version in range(10)] == [1] * 10


def test_the_tombstone_of_a_vector_file_keeps_it(files: Files) -> None:
    """Dropping the feature writes tombstones for vector files, by their paths."""
    files.put(f"x%41 y/{bin_name(0)}", bin_name(1), "live")
    files.log.commit(add("live"))
    files.log.commit(
        remove(f"x%2541%20y/{bin_name(0)}", timestamp=ago(1)), remove(bin_name(1), timestamp=ago(500))
    )
    files.vacuum()
    assert files.files() == {f"x%41 y/{bin_name(0)}", "live"}


def test_paths_are_decoded_once(files: Files) -> None:
    files.put("p=a b/x%20y.parquet", "p=a b/x y.parquet", "p=a%2Fb/ä.parquet", "q.parquet", "r")
    files.log.commit(
        add("p=a%20b/x%2520y.parquet"), add("p=a%252Fb/ä.parquet"), add(f"{files.root.as_uri()}/q.parquet")
    )
    assert files.root.as_uri().endswith("a%20table%20%2541")
    files.vacuum()
    assert files.files() == {"p=a b/x%20y.parquet", "p=a%2Fb/ä.parquet", "q.parquet"}


def test_a_file_outside_protects_its_name_inside(tmp_path: Path) -> None:
    """The log has the path of a link to the table: the files are the same."""
    files = Files(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files.put("a.parquet", "b.parquet")
    files.log.commit(add(f"{(tmp_path / 'link').as_uri()}/a.parquet"))
    files.vacuum()
    assert files.files() == {"a.parquet"}


def test_files_elsewhere_are_never_deleted(tmp_path: Path) -> None:
    source = Files(tmp_path / "source")
    source.put("a", "b")
    clone = Files(tmp_path / "clone")
    clone.put("c")
    clone.log.commit(add(f"{source.root.as_uri()}/a"), add("c"))
    clone.log.commit(remove(f"{source.root.as_uri()}/a"))
    (clone.root / "linked").symlink_to(source.root)
    clone.vacuum(0, force=True)
    assert source.files() == {"a", "b"}
    assert "c" in clone.files()


def test_hidden_names_are_passed_over(files: Files) -> None:
    hidden = {"_hidden/x", ".hidden/x", "_x", ".x", "a/_b/x", "_p/x", "p=1/_temporary/x"}
    files.log.commit(metadata(column("id", "long"), column("_p", "long"), partition_by=["_p"]), protocol())
    files.put(
        *hidden, "_change_data/cdc.parquet", "_change_data/_p=1/cdc.parquet", "_p=1/x", "_delta_index/x"
    )
    files.vacuum()
    assert files.files() == hidden


def test_leftovers_of_writers_that_crashed(files: Files) -> None:
    staged = f".{uuid.uuid4().hex}.staged"
    names = ("_temporary/0/x.parquet", "part-0.parquet", ".part-0.parquet.crc")
    files.put(*(f"_delvec_staging/1/{name}" for name in names), f"p=1/{staged}")
    files.put("_delvec_staging/2/part-1.parquet", staged, hours=1)
    for folder in ("_temporary/0", "_temporary", "."):
        files.folder(f"_delvec_staging/1/{folder}")
    files.vacuum()
    assert files.files() == {"_delvec_staging/2/part-1.parquet", staged}
    assert not (files.root / "_delvec_staging/1").exists()


def test_another_table_below_is_left_alone(files: Files) -> None:
    inner = {"other/part.parquet", "other/p=1/part.parquet"}
    files.put(*inner, "mine/part.parquet", "others/x")
    files.put("other/_delta_log/00000000000000000000.json")
    files.vacuum()
    assert files.files() == {*inner, "other/_delta_log/00000000000000000000.json"}


def test_empty_folders_and_checksums_go(files: Files) -> None:
    files.put("p=1/a.parquet", "p=1/.a.parquet.crc", "p=2/b.parquet", "p=2/.b.parquet.crc", "old/x")
    files.put("p=3/young", hours=1)
    files.log.commit(add("p=2/b.parquet"))
    files.folder("p=4")
    files.folder("p=5", hours=1)
    files.folder("_hidden/empty")
    result = files.vacuum()
    assert files.files() == {"p=2/b.parquet", "p=2/.b.parquet.crc", "p=3/young"}
    assert not (files.root / "p=4").exists()
    assert (files.root / "p=5").exists()
    assert (files.root / "_hidden/empty").exists()
    assert (result.files, result.folders) == (2, 1)


def test_both_ends_are_in_the_history(files: Files) -> None:
    files.put("gone", "p/live")
    files.log.commit(add("p/live"))
    result = files.vacuum()
    start, end = files.infos()[-2:]
    assert (start["operation"], end["operation"]) == ("VACUUM START", "VACUUM END")
    assert start["operationParameters"] == {
        "retentionCheckEnabled": True,
        "defaultRetentionMillis": WEEK_HOURS * HOUR_MS,
    }
    assert start["operationMetrics"] == {"numFilesToDelete": "1", "sizeOfDataToDelete": "5"}
    assert end["operationParameters"] == {"status": "COMPLETED"}
    assert end["operationMetrics"] == {"numDeletedFiles": "1", "numVacuumedDirectories": "2"}
    assert start["isolationLevel"] == end["isolationLevel"] == "SnapshotIsolation"
    assert start["isBlindAppend"] is end["isBlindAppend"] is True
    assert result.version == files.table.snapshot().version == 3
    files.vacuum(0, force=True)
    assert files.infos()[-2]["operationParameters"] == {
        "retentionCheckEnabled": False,
        "defaultRetentionMillis": WEEK_HOURS * HOUR_MS,
        "specifiedRetentionMillis": 0,
    }
    history = files.table.history(1).to_pylist()[0]
    assert (history["operation"], history["parameters"]) == ("VACUUM END", [("status", "COMPLETED")])


def test_a_dry_run_changes_nothing(files: Files) -> None:
    files.put("a", "b b", "live")
    files.folder("empty")
    files.log.commit(add("live"))
    before = files.files()
    result = files.vacuum(dry_run=True)
    assert (result.files, result.bytes, result.folders, result.version) == (2, 10, 1, 1)
    assert sorted(result.paths) == [f"{files.root}/{name}" for name in ("a", "b b", "empty")]
    assert files.files() == before
    assert files.table.snapshot().version == 1


def test_a_dry_run_leaves_folders_of_staging_that_stay(files: Files) -> None:
    files.put("_delvec_staging/1/x/a.parquet", "_delvec_staging/2/x/a.parquet")
    files.put("_delvec_staging/1/young.parquet", hours=1)
    for folder in ("1/x", "1", "2/x", "2"):
        files.folder(f"_delvec_staging/{folder}")
    dry = files.vacuum(dry_run=True)
    assert (dry.files, dry.folders) == (2, 3)
    done = files.vacuum()
    assert (done.files, done.folders) == (2, 3)
    start, end = (info["operationMetrics"] for info in files.infos()[-2:])
    assert (start["numFilesToDelete"], end["numDeletedFiles"]) == ("5", "5")
    assert files.files() == {"_delvec_staging/1/young.parquet"}


def test_a_link_inside_protects_the_file_of_the_same_name(files: Files) -> None:
    files.put("real/x.parquet", "real/y.parquet")
    (files.root / "link").symlink_to("real")
    files.log.commit(add("link/x.parquet"))
    files.vacuum()
    assert files.files() == {"real/x.parquet"}
    assert (files.root / "link").is_symlink()


def test_a_dry_run_lists_a_thousand(files: Files) -> None:
    files.put(*(f"f{number}" for number in range(1200)))
    files.folder("empty")
    result = files.vacuum(dry_run=True)
    assert (result.files, len(result.paths)) == (1200, 1000)


@pytest.mark.parametrize("hours", [-1, float("nan"), float("inf"), "7", True, 1e14, 1e305, 10**400])
def test_bad_hours(files: Files, hours: object) -> None:
    with pytest.raises(InvalidOperationError, match=r"retain_hours is .*, expected a number of hours"):
        files.vacuum(hours, force=True)


def test_less_than_the_tables_retention_needs_force(files: Files) -> None:
    files.put("a")
    expected = r"retain_hours is 1, expected at least 168 \(delta.deletedFileRetentionDuration\)"
    with pytest.raises(InvalidOperationError, match=expected):
        files.vacuum(1)
    assert files.files() == {"a"}
    assert files.vacuum(1, force=True).files == 1


def test_the_tables_own_retention(tmp_path: Path) -> None:
    files = Files(tmp_path, properties={"delta.deletedFileRetentionDuration": "interval 2 days"})
    files.put("a", hours=49)
    files.put("b", hours=47)
    files.vacuum()
    assert files.files() == {"b"}
    files.vacuum(1_000_000)
    assert files.files() == {"b"}
    files.log.commit(metadata(properties={"delta.deletedFileRetentionDuration": "a while"}))
    with pytest.raises(Exception, match="is 'a while', expected an interval"):
        files.vacuum()


def test_a_longer_retention_than_the_tables_reads_the_commits(files: Files) -> None:
    """The checkpoint has dropped the tombstone, but the commit is younger than the retention."""
    files.put("a", "live")
    files.log.commit(add("a"), add("live"))
    files.log.commit(remove("a", timestamp=ago(WEEK_HOURS * 2)))
    files.table.checkpoint()
    assert files.vacuum(WEEK_HOURS * 3, dry_run=True).files == 0
    assert files.vacuum(dry_run=True).files == 1


@pytest.mark.parametrize("features", [("deletionVectors", "vacuumProtocolCheck"), ("deletionVectors",)])
def test_an_unknown_writer_feature_refuses(files: Files, features: tuple[str, ...]) -> None:
    files.put("a")
    known = protocol(features=features)
    files.log.commit(known)
    assert files.vacuum(dry_run=True).files == 1
    known["protocol"]["writerFeatures"] += ["futureFiles"]
    files.log.commit(known)
    for dry_run in (True, False):
        with pytest.raises(UnsupportedFeatureError, match="writer feature futureFiles"):
            files.vacuum(dry_run=dry_run)
    assert files.files() == {"a"}


def test_a_file_that_comes_back_meanwhile_stays(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """A RESTORE that commits between the plan and the deletion."""
    files.put("a", "b", bin_name(0))
    files.log.commit(add("a", deletion_vector=stored(0)), add("b"))
    files.log.commit(remove("a", deletion_vector=stored(0)), remove("b"))
    table = files.table
    protected = table.protected

    def restored_after(cutoff_ms: int, **since: int) -> object:
        answer = protected(cutoff_ms, **since)
        if files.table.snapshot().version == 2:
            files.log.commit(add("a", deletion_vector=stored(0)))
        return answer

    monkeypatch.setattr(table, "protected", restored_after)
    assert vacuum(table).files == 1
    assert files.files() == {"a", bin_name(0)}


def test_a_file_that_is_committed_while_listing_stays(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.put("a")
    table = files.table
    table.snapshot()
    walk = table.storage.walk

    def committed_after(enter: object) -> object:
        tables = list(walk(enter))
        files.log.commit(add("a"))
        return iter(tables)

    monkeypatch.setattr(table.storage, "walk", committed_after)
    assert vacuum(table, dry_run=True).files == 0


def test_a_failure_is_recorded(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.put("a")

    def fail(paths: object) -> None:
        raise StorageError("cannot delete: no")

    table = files.table
    monkeypatch.setattr(table.storage, "delete", fail)
    with pytest.raises(StorageError, match="cannot delete"):
        vacuum(table)
    end = files.infos()[-1]
    assert (end["operation"], end["operationParameters"]) == ("VACUUM END", {"status": "FAILED"})
    assert end["operationMetrics"] == {}


def test_other_writers_may_commit_in_between(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.put("a")
    table = files.table
    commit, taken = table.commit, []

    def late(snapshot: object, delta: object) -> object:
        if len(taken) < 3:
            taken.append(files.log.commit(add(f"new{len(taken)}")))
        return commit(snapshot, delta)

    monkeypatch.setattr(table, "commit", late)
    assert vacuum(table).files == 1
    assert taken == [1, 2, 3]
    assert [info["operation"] for info in files.infos()] == ["VACUUM START", "VACUUM END"]


def test_on_an_object_store() -> None:
    storage = Storage("memory://vacuum/table")
    log = LogWriter(storage)
    log.create()
    for path in ("live", "a/gone", "a/_b/hidden", "other/x", "other/_delta_log/0.json", f"xy/{bin_name(0)}"):
        storage.put(path, b"1")
    log.commit(add("live", deletion_vector=stored(0, "xy")))
    time.sleep(0.01)
    result = vacuum(DeltaTable(storage), 0, force=True)
    assert (result.files, result.bytes, result.folders) == (1, 1, 0)
    left = {entry.path for entry in storage.list() if not entry.path.startswith("_delta_log")}
    assert left == {"live", "a/_b/hidden", "other/x", "other/_delta_log/0.json", f"xy/{bin_name(0)}"}


def test_progress(files: Files) -> None:
    files.put("a", "b")
    files.put("c", hours=1)
    told: list[tuple[str, int]] = []
    vacuum(files.table, report=lambda *what: told.append(what))
    assert ("files deleted", 2) in told
    assert sum(count for kind, count in told if kind == "files listed") == 3
