"""Commits to tables of a SQL catalog: races, lost answers, dropped tables, and what is refused."""

from __future__ import annotations

import gzip
import itertools
import json
import subprocess
import sys
import threading

import pytest

from delvec.errors import (
    CommitConflictError,
    InvalidOperationError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from delvec.iceberg import metadata_files
from delvec.iceberg import metadata_updates as updates
from delvec.iceberg.catalogs import CatalogPointer, IcebergCatalog
from delvec.iceberg.swaps import BaseFile, Swapped, SwapUnknown, Taken
from delvec.schema import Field, Primitive, Struct
from delvec.storage import Storage
from iceberg_tables.crashing import CrashingStore
from iceberg_tables.updates import creation, property_of, snapshot

NAME = ("db", "orders")
SCHEMA = Struct((Field("id", Primitive("long")),))


def sql_catalog(folder, **properties):
    from pyiceberg.catalog.sql import SqlCatalog

    uri = f"sqlite:///{folder}/catalog.db"
    return SqlCatalog("lake", uri=uri, warehouse=f"file://{folder}/lake", **properties)


@pytest.fixture
def catalog(tmp_path):
    catalog = sql_catalog(tmp_path)
    catalog.create_namespace("db")
    yield catalog
    catalog.engine.dispose()


def pointer_of(catalog, name=NAME):
    return CatalogPointer(IcebergCatalog("lake", catalog), name, lambda _: {})


def created(catalog, name=NAME, properties=None, version=3):
    table, draft = IcebergCatalog("lake", catalog).draft_table(
        name, SCHEMA, lambda _: {}, properties=properties, format_version=version
    )
    outcome = pointer_of(catalog, name).commit(table.storage, None, draft.opened.creation)
    assert isinstance(outcome, Swapped), outcome
    return table.storage, outcome.file


def newest(catalog, storage, name=NAME):
    path = pointer_of(catalog, name).current(storage).path
    return BaseFile(path, metadata_files.read_metadata(storage, path))


def commit(catalog, storage, base, changes):
    return pointer_of(catalog).commit(storage, base, changes)


def committed(catalog, storage, base, changes):
    outcome = commit(catalog, storage, base, changes)
    assert isinstance(outcome, Swapped), outcome
    return outcome.file


def rows(catalog):
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import select

    with catalog.engine.connect() as connection:
        table = IcebergTables.__table__
        return [dict(row._mapping) for row in connection.execute(select(table))]


def metadata_names(storage):
    return sorted(entry.path for entry in storage.list_folder("metadata"))


@pytest.mark.parametrize("version", [2, 3])
def test_a_new_table_and_its_next_file(catalog, tmp_path, version):
    storage, first = created(catalog, version=version)
    assert storage.root == f"{tmp_path}/lake/db/orders"
    assert first.metadata.location == f"file://{tmp_path}/lake/db/orders"
    second = committed(catalog, storage, first, snapshot(first.metadata, 7))
    assert [name[:15] for name in metadata_names(storage)] == ["metadata/00000-", "metadata/00001-"]
    (row,) = rows(catalog)
    assert row == {
        "catalog_name": "lake",
        "table_namespace": "db",
        "table_name": "orders",
        "metadata_location": f"file://{second.path}",
        "previous_metadata_location": f"file://{first.path}",
        "iceberg_type": "TABLE",
    }
    assert newest(catalog, storage) == second
    assert second.metadata.metadata_log[-1][1] == f"file://{first.path}"
    theirs = catalog.load_table("db.orders").metadata
    assert (theirs.format_version, theirs.current_snapshot_id) == (version, 7)


def test_pyiceberg_and_delvec_take_turns(catalog):
    storage, base = created(catalog, version=2)
    table = catalog.load_table("db.orders")
    with table.transaction() as transaction:
        transaction.set_properties(number="1")
    assert commit(catalog, storage, base, property_of(2)) == Taken()
    ours = committed(catalog, storage, newest(catalog, storage), property_of(3))
    assert ours.metadata.properties["number"] == "3"
    stale = catalog.load_table("db.orders").transaction()
    base = committed(catalog, storage, ours, property_of(4))
    stale.set_properties(other="1")
    stale.commit_transaction()  # pyiceberg commits on top, and finds delvec's commit
    properties = newest(catalog, storage).metadata.properties
    assert (properties["number"], properties["other"]) == ("4", "1")
    assert commit(catalog, storage, base, property_of(5)) == Taken()


def test_the_loser_leaves_no_file(catalog):
    storage, first = created(catalog)
    second = committed(catalog, storage, first, property_of(1))
    names = metadata_names(storage)
    assert commit(catalog, storage, first, property_of(2)) == Taken()
    assert metadata_names(storage) == names
    assert newest(catalog, storage) == second


def test_a_race_of_threads(catalog):
    storage, base = created(catalog)
    for round_ in range(10):
        outcomes, start = [], threading.Barrier(5)

        def write(number, base=base, outcomes=outcomes, start=start):
            start.wait()
            changes = snapshot(base.metadata, number)
            outcomes.append((number, commit(catalog, Storage(storage.root), base, changes)))

        threads = [threading.Thread(target=write, args=(round_ * 10 + n + 1,)) for n in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (winner,) = [number for number, outcome in outcomes if isinstance(outcome, Swapped)]
        assert [outcome for _, outcome in outcomes].count(Taken()) == 4
        base = newest(catalog, storage)
        assert base.metadata.current_snapshot_id == winner
    assert len(metadata_names(storage)) == 11


def test_a_race_to_create(catalog):
    drafts = [IcebergCatalog("lake", catalog).draft_table(NAME, SCHEMA, lambda _: {}) for _ in range(4)]
    outcomes, start = [], threading.Barrier(4)

    def write(table, draft):
        start.wait()
        outcomes.append(pointer_of(catalog).commit(table.storage, None, draft.opened.creation))

    threads = [threading.Thread(target=write, args=pair) for pair in drafts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [outcome.file for outcome in outcomes if isinstance(outcome, Swapped)]
    assert outcomes.count(Taken()) == 3
    storage = drafts[0][0].storage
    assert newest(catalog, storage) == winner
    assert len(metadata_names(storage)) == 1


_COUNTING_WRITER = """
import sys
from delvec.iceberg import metadata_files, metadata_updates
from delvec.iceberg.catalogs import CatalogPointer, IcebergCatalog
from delvec.iceberg.swaps import BaseFile, Swapped
from delvec.storage import Storage

pointer = CatalogPointer(IcebergCatalog("lake"), ("db", "orders"), lambda _: {})
storage, done = Storage(sys.argv[1]), 0
while done < int(sys.argv[2]):
    path = pointer.current(storage).path
    base = BaseFile(path, metadata_files.read_metadata(storage, path))
    number = int(base.metadata.properties.get("number", "0")) + 1
    change = metadata_updates.set_properties({"number": str(number)})
    done += isinstance(pointer.commit(storage, base, [change]), Swapped)
"""


def test_processes_count_together(catalog, tmp_path, monkeypatch):
    """Each commit adds 1 to what it read: no commit is lost."""
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/catalog.db")
    storage, _ = created(catalog)
    writers = [
        subprocess.Popen([sys.executable, "-c", _COUNTING_WRITER, storage.root, "15"]) for _ in range(2)
    ]
    assert [writer.wait(180) for writer in writers] == [0, 0]
    assert newest(catalog, storage).metadata.properties["number"] == "30"
    assert len(metadata_names(storage)) == 31


class TestLostAnswers:
    """A connection that drops: before or after the database has executed or committed the statement."""

    @pytest.fixture
    def table(self, catalog):
        return created(catalog)

    @pytest.fixture
    def broken(self, monkeypatch):
        """Breaks the next commit: ``broken(before=…, after=…)`` run around the database's commit."""
        from sqlalchemy.engine import Connection

        real = Connection.commit

        def break_next(*, before=None, after=None):
            def commit_once(connection):
                monkeypatch.setattr(Connection, "commit", real)
                if before is not None:
                    before()
                real(connection)
                if after is not None:
                    after()

            monkeypatch.setattr(Connection, "commit", commit_once)

        return break_next

    @staticmethod
    def drop():
        raise OSError("the connection was lost")

    def test_after_the_commit(self, catalog, table, broken):
        storage, first = table
        broken(after=self.drop)
        second = committed(catalog, storage, first, property_of(1))
        assert newest(catalog, storage) == second

    def test_before_the_commit(self, catalog, table, broken):
        storage, first = table
        broken(before=self.drop)
        outcome = commit(catalog, storage, first, property_of(1))
        assert outcome == SwapUnknown("the connection was lost")
        assert newest(catalog, storage) == first
        assert len(metadata_names(storage)) == 2  # the database may still commit

    def test_after_the_commit_and_others_follow(self, catalog, table, broken):
        storage, first = table

        def follow():
            file = newest(catalog, storage)
            for _ in range(3):
                file = committed(catalog, storage, file, snapshot(file.metadata, next(ids)))
            raise OSError("the connection was lost")

        ids = itertools.count(20)
        broken(after=follow)
        committed(catalog, storage, first, property_of(1))
        broken(after=follow)
        base = newest(catalog, storage)
        committed(catalog, storage, base, snapshot(base.metadata, 7))
        assert list(newest(catalog, storage).metadata.snapshots) == [20, 21, 22, 7, 23, 24, 25]

    def test_the_create(self, catalog, broken):
        broken(after=self.drop)
        storage, first = created(catalog)
        assert newest(catalog, storage) == first

    def test_the_statement_was_not_executed(self, catalog, table, monkeypatch):
        from sqlalchemy.engine import Connection

        storage, first = table
        real = Connection.execute

        def execute(connection, statement, *args, **kwargs):
            if statement.is_update:
                raise OSError("no connection")
            return real(connection, statement, *args, **kwargs)

        monkeypatch.setattr(Connection, "execute", execute)
        with pytest.raises(StorageError, match=r"'lake' did not take the commit: no connection: lake\.db\.o"):
            commit(catalog, storage, first, property_of(1))
        monkeypatch.undo()
        assert newest(catalog, storage) == first
        assert len(metadata_names(storage)) == 1

    def test_the_database_is_down_when_it_is_looked_up(self, catalog, table, broken, monkeypatch):
        from delvec.iceberg.sql_catalog import SqlCatalogTable

        storage, first = table

        def go_down():
            monkeypatch.setattr(SqlCatalogTable, "_pointer", lambda _: self.drop())
            raise OSError("timeout")

        broken(after=go_down)
        assert commit(catalog, storage, first, property_of(1)) == SwapUnknown("timeout")

    def test_the_database_is_locked_for_a_while(self, catalog, table, monkeypatch):
        from sqlalchemy.engine import Connection
        from sqlalchemy.exc import OperationalError

        storage, first = table
        real, tries = Connection.execute, []

        def execute(connection, statement, *args, **kwargs):
            if statement.is_update:
                tries.append(statement)
                if len(tries) < 3:
                    raise OperationalError("UPDATE", {}, Exception("database is locked"))
            return real(connection, statement, *args, **kwargs)

        monkeypatch.setattr(Connection, "execute", execute)
        committed(catalog, storage, first, property_of(1))
        assert len(tries) == 3

    def test_the_metadata_file_cannot_be_written(self, catalog, table):
        storage, first = table

        class Full(Storage):
            def put(self, path, _):
                raise StorageError("disk full", path=path)

        with pytest.raises(StorageError, match="disk full"):
            commit(catalog, Full(storage.root), first, property_of(1))
        assert newest(catalog, storage) == first


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_of_the_store_at_every_request(catalog, when):
    """An error and ``Taken`` mean that nothing was committed; ``Swapped``, that the commit is there."""
    properties = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    storage, base = created(catalog, properties=properties)
    base = committed(catalog, storage, base, property_of(0))
    seen = set()
    for at in itertools.count():
        store = CrashingStore(storage.root)
        store.at, store.when = at, when
        try:
            outcome = commit(catalog, store, base, snapshot(base.metadata, at + 1))
        except StorageError as error:
            outcome = error
        now = newest(catalog, storage)
        is_there = at + 1 in now.metadata.snapshots
        assert isinstance(outcome, Swapped) is is_there
        assert is_there or isinstance(outcome, StorageError)
        seen.add(is_there)
        base = now
        assert len(metadata_names(storage)) <= 3  # a file that could not be deleted may stay
        if store.calls <= at:
            break
    assert seen == {True, False}


class TestDroppedTables:
    def test_dropped(self, catalog):
        storage, first = created(catalog)
        catalog.drop_table("db.orders")
        with pytest.raises(TableNotFoundError, match=r"dropped while it was changed: lake\.db\.orders"):
            commit(catalog, storage, first, property_of(1))
        assert len(metadata_names(storage)) == 1

    def test_another_table_has_the_name(self, catalog):
        storage, first = created(catalog)
        catalog.drop_table("db.orders")
        _, other = created(catalog)
        with pytest.raises(CommitConflictError, match=r"dropped and created again.*lake\.db\.orders"):
            commit(catalog, storage, first, property_of(1))
        assert newest(catalog, storage) == other

    def test_another_table_has_the_name_just_before_the_swap(self, catalog):
        storage, first = created(catalog)

        class Slow(Storage):
            def put(self, path, data):
                catalog.drop_table("db.orders")
                created(catalog)
                super().put(path, data)

        with pytest.raises(CommitConflictError, match="dropped and created again"):
            commit(catalog, Slow(storage.root), first, property_of(1))
        assert len(metadata_names(storage)) == 2

    def test_dropped_just_before_the_swap(self, catalog):
        storage, first = created(catalog)

        class Slow(Storage):
            def put(self, path, data):
                catalog.drop_table("db.orders")
                super().put(path, data)

        with pytest.raises(TableNotFoundError, match="dropped while it was changed"):
            commit(catalog, Slow(storage.root), first, property_of(1))
        assert len(metadata_names(storage)) == 1


class TestCreation:
    def test_a_name_that_exists(self, catalog):
        created(catalog)
        with pytest.raises(InvalidOperationError, match=r"a table already exists: lake\.db\.orders"):
            created(catalog)

    def test_a_namespace_that_does_not_exist(self, catalog):
        with pytest.raises(InvalidOperationError, match="namespace absent does not exist in catalog 'lake'"):
            created(catalog, ("absent", "orders"))

    def test_a_name_without_a_namespace(self, catalog):
        with pytest.raises(InvalidOperationError, match="identifier is 'orders', expected a namespace"):
            created(catalog, ("orders",))

    def test_a_view_has_the_name(self, catalog):
        from pyiceberg.catalog.sql import IcebergTables
        from sqlalchemy import insert

        row = {**catalog._create_table_row("db", "orders", "/x"), "iceberg_type": "VIEW"}
        with catalog.engine.begin() as connection:
            connection.execute(insert(IcebergTables.__table__).values(**row))
        with pytest.raises(InvalidOperationError, match="a table already exists"):
            created(catalog)

    def test_the_location_of_the_namespace(self, catalog, tmp_path):
        catalog.create_namespace("sales", {"location": f"{tmp_path}/elsewhere"})
        storage, first = created(catalog, ("sales", "orders"))
        assert first.metadata.location == storage.root == f"{tmp_path}/elsewhere/orders"

    def test_a_nested_namespace(self, catalog, tmp_path):
        catalog.create_namespace("db.inner")
        storage, _ = created(catalog, ("db", "inner", "orders"))
        assert storage.root == f"{tmp_path}/lake/db.inner/orders"

    def test_a_catalog_without_a_warehouse(self, tmp_path):
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/other.db")
        catalog.create_namespace("db")
        with pytest.raises(InvalidOperationError, match="No default path is set"):
            created(catalog)
        catalog.engine.dispose()


def test_a_table_of_the_oldest_kind_of_catalog(tmp_path):
    """Its table of pointers has no column for views."""
    from sqlalchemy import create_engine, text

    catalog = sql_catalog(tmp_path)
    catalog.create_namespace("db")
    catalog.engine.dispose()
    engine = create_engine(f"sqlite:///{tmp_path}/catalog.db")
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type"))
    engine.dispose()
    catalog = sql_catalog(tmp_path)
    storage, first = created(catalog)
    second = committed(catalog, storage, first, property_of(1))
    assert newest(catalog, storage) == second
    catalog.engine.dispose()


class TestMetadataFiles:
    def test_another_folder(self, catalog, tmp_path):
        storage, first = created(catalog, properties={"write.metadata.path": f"{tmp_path}/m/"})
        second = committed(catalog, storage, first, property_of(1))
        assert second.path.startswith(f"{tmp_path}/m/00001-")
        assert newest(catalog, storage) == second

    def test_compression(self, catalog):
        storage, first = created(catalog, properties={"write.metadata.compression-codec": "gzip"})
        second = committed(catalog, storage, first, property_of(1))
        assert second.path.endswith(".gz.metadata.json")
        assert json.loads(gzip.decompress(storage.read(second.path)))["properties"]["number"] == "1"
        assert newest(catalog, storage) == second
        assert catalog.load_table("db.orders").properties["number"] == "1"

    def test_old_files_are_deleted(self, catalog):
        properties = {
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "2",
        }
        storage, file = created(catalog, properties=properties)
        for number in range(5):
            file = committed(catalog, storage, file, property_of(number))
        assert [name[9:15] for name in metadata_names(storage)] == ["00003-", "00004-", "00005-"]

    def test_a_registered_table_of_a_path(self, catalog, tmp_path):
        """The number goes on; the log has the old place."""
        from delvec.iceberg.pointers import FolderPointer

        storage = Storage(str(tmp_path / "t"))
        assert isinstance(FolderPointer().commit(storage, None, creation(storage.root)), Swapped)
        catalog.register_table("db.orders", f"{storage.root}/metadata/v1.metadata.json")
        second = committed(catalog, storage, newest(catalog, storage), property_of(1))
        assert second.path.startswith(f"{storage.root}/metadata/00002-")


def test_updates_that_are_refused(catalog):
    storage, first = created(catalog)
    with pytest.raises(InvalidOperationError, match="snapshot 9 does not exist"):
        commit(catalog, storage, first, [updates.remove_snapshots([9])])
    assert len(metadata_names(storage)) == 1


def test_other_catalogs_can_only_be_read(tmp_path):
    from pyiceberg.catalog.memory import InMemoryCatalog
    from pyiceberg.catalog.noop import NoopCatalog

    table = IcebergCatalog("memory", InMemoryCatalog("memory")).table(NAME)
    assert type(table).__name__ == "SqlCatalogTable"  # it is one, on a database in memory
    other = IcebergCatalog("other", NoopCatalog("other"))
    for action in (
        lambda: other.table(NAME).commit(Storage(str(tmp_path)), None, [], 0),
        lambda: other.draft_table(NAME, SCHEMA, lambda _: {}),
    ):
        with pytest.raises(UnsupportedFeatureError, match=r"'other' \(NoopCatalog\) can only be read"):
            action()
