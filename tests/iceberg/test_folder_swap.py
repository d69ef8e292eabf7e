"""Commits of metadata to a table at a path: races, lost answers, old files, and what is refused."""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
import subprocess
import sys
import threading
import uuid

import pytest

from delvec.errors import CommitConflictError, InvalidOperationError, StorageError, TableNotFoundError
from delvec.iceberg import metadata_files
from delvec.iceberg import metadata_updates as updates
from delvec.iceberg.pointers import FilePointer, FolderPointer
from delvec.iceberg.swaps import BaseFile, Swapped, SwapUnknown, Taken
from delvec.storage import Storage
from iceberg_tables.crashing import CrashingStore
from iceberg_tables.updates import creation, property_of, snapshot
from s3server import BUCKET, s3_server_or_skip


def newest(storage):
    path = metadata_files.find_newest(storage).path
    return BaseFile(path, metadata_files.read_metadata(storage, path))


def created(root, properties=None, storage=None):
    storage = storage or Storage(str(root))
    outcome = FolderPointer().commit(storage, None, creation(root, properties))
    assert isinstance(outcome, Swapped)
    return storage, outcome.file


def commit(storage, base, changes, clock=None):
    pointer = FolderPointer() if clock is None else FolderPointer(clock)
    return pointer.commit(storage, base, changes)


def committed(storage, base, changes):
    outcome = commit(storage, base, changes)
    assert isinstance(outcome, Swapped), outcome
    return outcome.file


def files(root):
    return sorted(path.name for path in (root / "metadata").iterdir())


def test_a_new_table_and_its_next_file(tmp_path):
    from pyiceberg.table import StaticTable

    storage, first = created(tmp_path / "t")
    second = committed(storage, first, snapshot(first.metadata, 7))
    assert files(tmp_path / "t") == ["v1.metadata.json", "v2.metadata.json", "version-hint.text"]
    assert (tmp_path / "t/metadata/version-hint.text").read_text() == "2"
    assert newest(storage) == second
    log = [(first.metadata.last_updated_ms, f"{tmp_path}/t/metadata/v1.metadata.json")]
    assert list(second.metadata.metadata_log) == log
    theirs = StaticTable.from_metadata(str(tmp_path / "t"))
    assert theirs.metadata.current_snapshot_id == 7
    assert theirs.metadata.format_version == 3


def test_a_table_exists_already(tmp_path):
    storage, first = created(tmp_path / "t")
    committed(storage, first, property_of(1))
    assert commit(storage, None, creation(tmp_path / "t")) == Taken()
    (tmp_path / "t/metadata/v1.metadata.json").unlink()
    assert commit(storage, None, creation(tmp_path / "t")) == Taken()
    assert "v1.metadata.json" not in files(tmp_path / "t")


def test_the_second_of_two_writers(tmp_path):
    storage, first = created(tmp_path / "t")
    committed(storage, first, property_of(1))
    assert commit(storage, first, property_of(2)) == Taken()
    assert newest(storage).metadata.properties["number"] == "1"


@pytest.fixture(params=["local", "memory", "s3"])
def place(request, tmp_path, tmp_path_factory):
    """The root of a new table, and the options of its store."""
    if request.param == "local":
        yield str(tmp_path / "t"), {}
    elif request.param == "memory":
        yield f"memory://{tmp_path.name}/t", {}
    else:
        with s3_server_or_skip(tmp_path_factory.mktemp("s3") / "server") as server:
            yield f"s3://{BUCKET}/t", server.options


def test_a_race_of_threads(place):
    root, options = place
    storage, base = created(root, storage=Storage(root, options))
    rounds = 12
    for _ in range(rounds):
        outcomes, start = [], threading.Barrier(6)

        def write(number, base=base, outcomes=outcomes, start=start):
            start.wait()
            mine = Storage(root, options)
            outcomes.append((number, commit(mine, base, snapshot(base.metadata, number))))

        first_id = len(base.metadata.snapshots) * 100 + 1
        threads = [threading.Thread(target=write, args=(first_id + n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners = [number for number, outcome in outcomes if isinstance(outcome, Swapped)]
        assert len(winners) == 1
        assert [outcome for _, outcome in outcomes].count(Taken()) == 5
        base = newest(storage)
        assert base.metadata.current_snapshot_id == winners[0]
    assert len(base.metadata.snapshots) == rounds


def test_a_race_to_create(tmp_path):
    for round_ in range(10):
        root = tmp_path / str(round_)
        outcomes, start = [], threading.Barrier(4)

        def write(number, root=root, outcomes=outcomes, start=start):
            codec = {"write.metadata.compression-codec": "gzip"} if number % 2 else {}
            start.wait()
            outcomes.append(commit(Storage(str(root)), None, creation(root, codec)))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (winner,) = [outcome.file for outcome in outcomes if isinstance(outcome, Swapped)]
        assert newest(Storage(str(root))) == winner


_COUNTING_WRITER = """
import sys
from delvec.iceberg import metadata_files, metadata_updates
from delvec.iceberg.pointers import FolderPointer
from delvec.iceberg.swaps import BaseFile, Swapped
from delvec.storage import Storage

storage, done = Storage(sys.argv[1]), 0
while done < int(sys.argv[2]):
    path = metadata_files.find_newest(storage).path
    base = BaseFile(path, metadata_files.read_metadata(storage, path))
    number = int(base.metadata.properties.get("number", "0")) + 1
    change = metadata_updates.set_properties({"number": str(number), "writer": sys.argv[3]})
    done += isinstance(FolderPointer().commit(storage, base, [change]), Swapped)
"""


@pytest.mark.parametrize("properties", [{}, {"write.metadata.compression-codec": "gzip"}])
def test_processes_count_together(tmp_path, properties):
    """Each commit adds 1 to what it read: no commit is lost."""
    storage, _ = created(tmp_path / "t", properties)
    writers = [
        subprocess.Popen([sys.executable, "-c", _COUNTING_WRITER, storage.root, "20", str(number)])
        for number in range(2)
    ]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    assert newest(storage).metadata.properties["number"] == "40"


class FailingStore(Storage):
    """A store whose next put-if-absent behaves as told."""

    behaviour = None

    def put_if_absent(self, path, data):
        behaviour, self.behaviour = self.behaviour, None
        return super().put_if_absent(path, data) if behaviour is None else behaviour(path, data)

    def store(self, path, data):
        return Storage.put_if_absent(self, path, data)


class TestLostAnswers:
    @pytest.fixture
    def table(self, tmp_path):
        return created(tmp_path / "t", storage=FailingStore(str(tmp_path / "t")))

    def test_the_store_failed_after_writing(self, table):
        storage, first = table

        def write_and_fail(path, data):
            storage.store(path, data)
            raise StorageError("timeout", path=path)

        storage.behaviour = write_and_fail
        committed(storage, first, property_of(1))

    def test_the_store_says_that_its_own_file_exists(self, table):
        storage, first = table
        storage.behaviour = lambda path, data: not storage.store(path, data)
        committed(storage, first, property_of(1))

    def test_the_store_failed_and_another_writer_was_first(self, table):
        storage, first = table

        def lose_and_fail(path, data):
            committed(Storage(storage.root), first, property_of(2))
            raise StorageError("timeout", path=path)

        storage.behaviour = lose_and_fail
        assert commit(storage, first, property_of(1)) == Taken()

    def test_the_store_failed_and_shows_nothing(self, table):
        storage, first = table

        def fail(path, data):
            raise StorageError("timeout", path=path)

        storage.behaviour = fail
        assert commit(storage, first, property_of(1)) == SwapUnknown("timeout: metadata/v2.metadata.json")
        assert newest(storage) == first

    def test_the_hint_cannot_be_written(self, table, monkeypatch):
        storage, first = table

        def fail(_, path, data):
            raise StorageError("timeout", path=path)

        monkeypatch.setattr(FailingStore, "put", fail)
        second = committed(storage, first, property_of(1))
        assert newest(storage) == second


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("cleans_up", [True, False])
def test_a_crash_of_the_store_at_every_request(tmp_path, when, cleans_up):
    """An error and ``Taken`` mean that nothing was committed; ``Swapped``, that the commit is there."""
    properties = {
        "write.metadata.delete-after-commit.enabled": str(cleans_up).lower(),
        "write.metadata.previous-versions-max": "1",
    }
    seen = set()
    for at in itertools.count():
        for creates in (False, True):
            root = tmp_path / f"{at}{creates}"
            base = None if creates else committed(*created(root, properties), property_of(0))
            changes = creation(root, properties) if creates else snapshot(base.metadata, 7)
            store = CrashingStore(str(root))
            store.calls, store.at, store.when = 0, at, when
            try:
                outcome = commit(store, base, changes)
            except StorageError as error:
                outcome = error
            store.at = None
            try:
                is_there = creates or 7 in newest(store).metadata.snapshots
                newest(store)
            except TableNotFoundError:
                is_there = False
            seen.add((type(outcome), is_there))
            if isinstance(outcome, Swapped):
                assert is_there
            elif not isinstance(outcome, SwapUnknown):
                assert not is_there, outcome
        if store.calls < at:
            break
    assert {(Swapped, True), (SwapUnknown, when == "after") if cleans_up else (Swapped, True)} <= seen


class TestDroppedTables:
    def test_dropped(self, tmp_path):
        storage, first = created(tmp_path / "t")
        shutil.rmtree(tmp_path / "t")
        with pytest.raises(TableNotFoundError, match="dropped while it was changed"):
            commit(storage, first, property_of(1))
        assert not (tmp_path / "t").exists()

    @pytest.mark.parametrize("later", [0, 1, 2])
    def test_another_table_has_the_place(self, tmp_path, later):
        """The new table has as many files as the old one, one less, or one more."""
        storage, first = created(tmp_path / "t")
        base = committed(storage, first, property_of(0))
        shutil.rmtree(tmp_path / "t")
        _, file = created(tmp_path / "t")
        for number in range(later):
            file = committed(storage, file, property_of(number))
        with pytest.raises(CommitConflictError, match=r"dropped and created again.*expected"):
            commit(storage, base, property_of(1))
        assert newest(storage) == file


class TestOldFiles:
    @pytest.fixture
    def table(self, tmp_path):
        return created(
            tmp_path / "t",
            {
                "write.metadata.delete-after-commit.enabled": "true",
                "write.metadata.previous-versions-max": "2",
            },
        )

    def test_they_are_deleted(self, table, tmp_path):
        storage, file = table
        for number in range(5):
            file = committed(storage, file, property_of(number))
        assert files(tmp_path / "t") == [
            *(f"v{number}.metadata.json" for number in (4, 5, 6)),
            "version-hint.text",
        ]

    def test_they_stay_by_default(self, tmp_path):
        storage, file = created(tmp_path / "t", {"write.metadata.previous-versions-max": "1"})
        for number in range(3):
            file = committed(storage, file, property_of(number))
        assert len(file.metadata.metadata_log) == 1
        assert len(files(tmp_path / "t")) == 5

    def test_files_elsewhere_stay(self, table, tmp_path):
        """A table that was registered from another place has that place's files in its log."""
        storage, file = table
        (tmp_path / "old").mkdir()
        elsewhere = tmp_path / "old/v1.metadata.json"
        elsewhere.write_text("{}")
        path = tmp_path / "t/metadata/v1.metadata.json"
        document = json.loads(path.read_text())
        document["metadata-log"] = [{"timestamp-ms": 1, "metadata-file": str(elsewhere)}]
        path.write_text(json.dumps(document))
        file = newest(storage)
        for number in range(4):
            file = committed(storage, file, property_of(number))
        assert elsewhere.exists()

    def test_a_writer_that_slept_finds_a_free_name(self, table):
        """The file after its base was written and deleted while it slept: nothing is committed there."""
        storage, base = table
        file = base
        for number in range(5):
            file = committed(storage, file, property_of(number))
        assert commit(storage, base, property_of(7)) == Taken()
        assert newest(storage) == file

    def test_a_writer_that_sleeps_just_before_it_writes(self, table, tmp_path):
        storage, base = table
        slow = FailingStore(storage.root)

        def sleep_and_write(path, data):
            file = base
            for number in range(5):
                file = committed(storage, file, property_of(number))
            return slow.store(path, data)

        slow.behaviour = sleep_and_write
        assert commit(slow, base, property_of(7)) == Taken()
        assert newest(storage).metadata.properties["number"] == "4"
        assert "v2.metadata.json" not in files(tmp_path / "t")

    def test_others_commit_on_top_and_delete_the_base(self, table):
        storage, base = table
        slow = FailingStore(storage.root)

        def write_and_sleep(path, data):
            assert slow.store(path, data)
            file = newest(storage)
            for number in range(2):
                file = committed(storage, file, [updates.set_properties({"more": str(number)})])
            return True

        slow.behaviour = write_and_sleep
        committed(slow, base, snapshot(base.metadata, 7))
        assert newest(storage).metadata.properties["more"] == "1"


class TestCompression:
    def test_the_name_is_that_of_the_base_s_properties(self, tmp_path):
        storage, first = created(tmp_path / "t")
        second = committed(
            storage, first, [updates.set_properties({"write.metadata.compression-codec": "gzip"})]
        )
        third = committed(storage, second, property_of(1))
        assert files(tmp_path / "t") == [
            "v1.metadata.json",
            "v2.metadata.json",
            "v3.gz.metadata.json",
            "version-hint.text",
        ]
        data = (tmp_path / "t/metadata/v3.gz.metadata.json").read_bytes()
        assert json.loads(gzip.decompress(data))["properties"]["number"] == "1"
        assert newest(storage) == third
        fourth = committed(storage, third, property_of(2))
        assert newest(storage) == fourth

    def test_an_unknown_codec(self, tmp_path):
        storage, first = created(tmp_path / "t", {"write.metadata.compression-codec": "zstd"})
        with pytest.raises(InvalidOperationError, match="compression-codec is 'zstd'"):
            commit(storage, first, property_of(1))


class TestRefused:
    def test_a_table_of_a_catalog(self, tmp_path):
        storage, first = created(tmp_path / "t")
        name = f"00001-{uuid.uuid4()}.metadata.json"
        (tmp_path / "t/metadata/v1.metadata.json").rename(tmp_path / "t/metadata" / name)
        with pytest.raises(InvalidOperationError, match="through its catalog"):
            commit(storage, BaseFile(f"metadata/{name}", first.metadata), property_of(1))

    def test_a_table_of_one_file(self, tmp_path):
        storage, first = created(tmp_path / "t")
        with pytest.raises(InvalidOperationError, match="opened by one of its metadata files"):
            FilePointer(first.path).commit(storage, first, property_of(1))

    def test_a_copied_table(self, tmp_path):
        created(tmp_path / "t")
        shutil.copytree(tmp_path / "t", tmp_path / "copy")
        copy = Storage(str(tmp_path / "copy"))
        with pytest.raises(InvalidOperationError, match="a copied table can only be read"):
            commit(copy, newest(copy), property_of(1))

    def test_a_move_of_the_table(self, tmp_path):
        storage, first = created(tmp_path / "t")
        with pytest.raises(InvalidOperationError, match="recorded location"):
            commit(storage, first, [updates.set_location(str(tmp_path / "elsewhere"))])

    def test_metadata_in_another_folder(self, tmp_path):
        storage, first = created(tmp_path / "t")
        with pytest.raises(InvalidOperationError, match=r"write\.metadata\.path is '/m'"):
            commit(storage, first, [updates.set_properties({"write.metadata.path": "/m"})])
