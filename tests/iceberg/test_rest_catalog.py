"""Commits to tables of a REST catalog, whose server applies updates as pyiceberg defines them: requirements,
lost answers, dropped tables.
"""

from __future__ import annotations

import threading

import pytest

from delvec.errors import CommitConflictError, InvalidOperationError, StorageError, TableNotFoundError
from delvec.iceberg import metadata_files, rest_catalog
from delvec.iceberg import metadata_updates as updates
from delvec.iceberg.catalogs import CatalogPointer, IcebergCatalog
from delvec.iceberg.commit_requirements import requirements
from delvec.iceberg.swaps import BaseFile, Swapped, SwapUnknown, Taken
from delvec.schema import Field, Primitive, Struct
from iceberg_tables.rest_server import Fault, rest_server
from iceberg_tables.updates import SCHEMA as SCHEMA_JSON
from iceberg_tables.updates import property_of, snapshot

NAME = ("db", "orders")
SCHEMA = Struct((Field("id", Primitive("long")),))
LOST = [(status, fault) for status in (500, 502, 503, 504, None) for fault in Fault]


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(rest_catalog, "_LOOKUP_PAUSES", (0.0, 0.01))
    with rest_server(tmp_path / "lake") as server:
        yield server


@pytest.fixture
def catalog(server):
    from pyiceberg.catalog.rest import RestCatalog

    return IcebergCatalog("rest", RestCatalog("rest", uri=server.uri))


def pointer_of(catalog, name=NAME):
    return CatalogPointer(catalog, name, lambda _: {})


def create(catalog, name=NAME, **options):
    table, draft = catalog.draft_table(name, SCHEMA, lambda _: {}, **options)
    return table.storage, pointer_of(catalog, name).commit(table.storage, None, draft.opened.creation)


def created(catalog, name=NAME, **options):
    storage, outcome = create(catalog, name, **options)
    assert isinstance(outcome, Swapped), outcome
    return storage, outcome.file


def newest(catalog, storage):
    path = pointer_of(catalog).current(storage).path
    return BaseFile(path, metadata_files.read_metadata(storage, path))


def commit(catalog, storage, base, changes):
    return pointer_of(catalog).commit(storage, base, changes)


def committed(catalog, storage, base, changes):
    outcome = commit(catalog, storage, base, changes)
    assert isinstance(outcome, Swapped), outcome
    return outcome.file


@pytest.mark.parametrize("version", [2, 3])
def test_a_new_table_and_its_next_snapshot(catalog, server, version):
    server.defaults = {"owner": "the server"}
    storage, first = created(catalog, format_version=version, properties={"a": "b"})
    assert storage.root == str(server.warehouse / "db/orders")
    assert dict(first.metadata.properties) == {
        "owner": "the server",
        "a": "b",
        "write.delete.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "write.merge.mode": "merge-on-read",
    }
    second = committed(catalog, storage, first, snapshot(first.metadata, 7))
    assert second.path == newest(catalog, storage).path
    assert second.metadata.current_snapshot_id == 7
    assert second.metadata.next_row_id == (1 if version == 3 else None)


def test_the_location_that_the_user_wants(catalog, tmp_path):
    storage, first = created(catalog, place=f"{tmp_path}/elsewhere")
    assert storage.root == first.metadata.location == f"{tmp_path}/elsewhere"


def test_the_second_of_two_writers(catalog):
    storage, first = created(catalog)
    committed(catalog, storage, first, snapshot(first.metadata, 7))
    assert commit(catalog, storage, first, snapshot(first.metadata, 8)) == Taken()


def test_commits_that_do_not_meet(catalog):
    """Properties and another branch have other requirements, so the server applies both."""
    storage, first = created(catalog)
    committed(catalog, storage, first, snapshot(first.metadata, 7))
    last = committed(catalog, storage, first, property_of(1))
    assert (last.metadata.current_snapshot_id, last.metadata.properties["number"]) == (7, "1")


def test_a_race_of_threads(catalog):
    storage, base = created(catalog)
    for round_ in range(5):
        outcomes, start = [], threading.Barrier(4)

        def write(number, base=base, outcomes=outcomes, start=start):
            start.wait()
            outcomes.append((number, commit(catalog, storage, base, snapshot(base.metadata, number))))

        threads = [threading.Thread(target=write, args=(round_ * 10 + n + 1,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (winner,) = [number for number, outcome in outcomes if isinstance(outcome, Swapped)]
        assert [outcome for _, outcome in outcomes].count(Taken()) == 3
        base = newest(catalog, storage)
        assert base.metadata.current_snapshot_id == winner


def test_a_race_to_create(catalog):
    first = catalog.draft_table(NAME, SCHEMA, lambda _: {})
    second = catalog.draft_table(NAME, SCHEMA, lambda _: {})
    for (table, draft), kind in ((first, Swapped), (second, Taken)):
        outcome = pointer_of(catalog).commit(table.storage, None, draft.opened.creation)
        assert isinstance(outcome, kind)


class TestLostAnswers:
    """Of commits that the server has made, or has not; each is sent once."""

    @pytest.mark.parametrize(("status", "fault"), LOST)
    def test_a_snapshot(self, catalog, server, status, fault):
        storage, first = created(catalog)
        server.faults, server.commits = [(fault, status)], 0
        outcome = commit(catalog, storage, first, snapshot(first.metadata, 7))
        assert server.commits == 1
        if fault is Fault.AFTER:
            assert isinstance(outcome, Swapped)
            assert outcome.file.path == newest(catalog, storage).path
        else:
            assert isinstance(outcome, SwapUnknown)
            assert "rest.db.orders does not show the commit" in outcome.reason

    @pytest.mark.parametrize(("status", "fault"), LOST)
    def test_a_create(self, catalog, server, status, fault):
        server.faults = [(fault, status)]
        _, outcome = create(catalog)
        assert server.commits == 1
        assert isinstance(outcome, Swapped if fault is Fault.AFTER else SwapUnknown)

    @pytest.mark.parametrize("fault", list(Fault))
    def test_metadata_alone(self, catalog, server, fault):
        storage, first = created(catalog)
        first = committed(catalog, storage, first, snapshot(first.metadata, 7))
        first = committed(catalog, storage, first, snapshot(first.metadata, 8))
        wider = {**SCHEMA_JSON, "schema-id": 1}
        wider["fields"] = [*wider["fields"], {"id": 2, "name": "b", "required": False, "type": "int"}]
        for changes in (
            property_of(1),
            [updates.add_schema(wider, 2), updates.set_current_schema()],
            [updates.remove_properties(["write.delete.mode"])],
            [updates.set_snapshot_ref("t", 7, kind="tag")],
            [updates.set_snapshot_ref("main", 7)],
            [updates.remove_snapshot_ref("t")],
            [updates.remove_snapshots([8])],
        ):
            server.faults = [(fault, 503)]
            outcome = commit(catalog, storage, first, changes)
            if fault is Fault.AFTER:
                assert isinstance(outcome, Swapped), changes
                first = outcome.file
            else:
                assert isinstance(outcome, SwapUnknown), changes
                first = committed(catalog, storage, first, changes)

    def test_another_writer_came_next(self, catalog, server):
        storage, first = created(catalog)

        def follow():
            file = newest(catalog, storage)
            committed(catalog, storage, file, snapshot(file.metadata, 8))

        server.faults, server.after_commit = [(Fault.AFTER, 503)], follow
        outcome = commit(catalog, storage, first, snapshot(first.metadata, 7))
        assert isinstance(outcome, Swapped)
        assert list(outcome.file.metadata.snapshots) == [7, 8]

    def test_another_writer_was_first(self, catalog, server):
        storage, first = created(catalog)
        server.before_commit = lambda: committed(catalog, storage, first, snapshot(first.metadata, 8))
        server.faults = [(Fault.AFTER, None), (Fault.BEFORE, 504)]
        # The hook's commit takes the first fault: its answer is lost too, and it finds itself.
        assert commit(catalog, storage, first, snapshot(first.metadata, 7)) == Taken()

    def test_another_table_was_created_first(self, catalog, server):
        table, draft = catalog.draft_table(NAME, SCHEMA, lambda _: {})
        created(catalog)
        server.faults = [(Fault.BEFORE, 504)]
        assert pointer_of(catalog).commit(table.storage, None, draft.opened.creation) == Taken()

    def test_a_proxy_sends_the_commit_twice(self, catalog, server):
        """The second one is refused, because the first one was made."""
        storage, first = created(catalog)
        server.faults = [(Fault.AFTER, 409)]
        committed(catalog, storage, first, snapshot(first.metadata, 7))

    def test_the_server_does_not_come_back(self, catalog, server):
        storage, first = created(catalog)

        def go_down():
            server.down = True

        server.faults, server.after_commit = [(Fault.AFTER, 503)], go_down
        outcome = commit(catalog, storage, first, snapshot(first.metadata, 7))
        assert isinstance(outcome, SwapUnknown)
        assert outcome.reason.startswith("status 503: try later")

    def test_no_connection_is_made(self, catalog, server, monkeypatch):
        storage, first = created(catalog)
        session = catalog._loaded()._session
        monkeypatch.setattr(catalog._loaded(), "uri", "http://127.0.0.1:1")
        with pytest.raises(StorageError, match="catalog 'rest' did not answer"):
            commit(catalog, storage, first, property_of(1))
        assert session is catalog._loaded()._session
        assert server.commits == 1


class TestRefusals:
    @pytest.mark.parametrize("status", [403, 429, 419])
    def test_the_server_refuses(self, catalog, server, status):
        storage, first = created(catalog)
        server.faults = [(Fault.BEFORE, status)] * 2
        with pytest.raises(
            StorageError, match=f"refused the request with {status}: try later: rest.db.orders"
        ):
            commit(catalog, storage, first, property_of(1))

    def test_an_expired_token(self, catalog, server):
        storage, first = created(catalog)
        server.faults = [(Fault.BEFORE, 401)]
        committed(catalog, storage, first, property_of(1))

    def test_a_request_that_the_server_does_not_understand(self, catalog, server):
        storage, first = created(catalog)
        server.faults = [(Fault.BEFORE, 400)]
        with pytest.raises(InvalidOperationError, match="refused the request with 400"):
            commit(catalog, storage, first, property_of(1))

    def test_a_server_that_refuses_stale_updates_with_400(self, catalog, server):
        storage, first = created(catalog)
        committed(catalog, storage, first, snapshot(first.metadata, 7))
        server.faults = [(Fault.BEFORE, 400)]
        assert commit(catalog, storage, first, snapshot(first.metadata, 8)) == Taken()

    def test_updates_that_no_table_allows_are_not_sent(self, catalog, server):
        storage, first = created(catalog)
        server.commits = 0
        with pytest.raises(InvalidOperationError, match="snapshot 9 does not exist"):
            commit(catalog, storage, first, [updates.remove_snapshots([9])])
        assert server.commits == 0

    def test_a_name_that_exists(self, catalog):
        created(catalog)
        with pytest.raises(InvalidOperationError, match=r"a table already exists: rest\.db\.orders"):
            created(catalog)

    def test_a_namespace_that_does_not_exist(self, catalog):
        with pytest.raises(InvalidOperationError, match="namespace absent does not exist in catalog 'rest'"):
            created(catalog, ("absent", "orders"))

    def test_a_namespace_that_is_dropped_before_the_commit(self, catalog, server):
        table, draft = catalog.draft_table(NAME, SCHEMA, lambda _: {})
        server.namespaces.clear()
        with pytest.raises(InvalidOperationError, match="namespace db does not exist"):
            pointer_of(catalog).commit(table.storage, None, draft.opened.creation)


class TestDroppedTables:
    def test_dropped(self, catalog):
        storage, first = created(catalog)
        catalog.drop_table(NAME)
        with pytest.raises(TableNotFoundError, match=r"dropped while it was changed: rest\.db\.orders"):
            commit(catalog, storage, first, property_of(1))

    def test_another_table_has_the_name(self, catalog):
        storage, first = created(catalog)
        catalog.drop_table(NAME)
        created(catalog)
        with pytest.raises(CommitConflictError, match=r"dropped and created again.*rest\.db\.orders"):
            commit(catalog, storage, first, snapshot(first.metadata, 7))

    def test_drop_a_name_that_is_not_there(self, catalog):
        with pytest.raises(TableNotFoundError, match=r"no table db\.orders in catalog 'rest'"):
            catalog.drop_table(NAME)


def test_requirements(catalog):
    _, first = created(catalog)
    base = first.metadata
    assert requirements(None, []) == [{"type": "assert-create"}]
    uuid_unchanged = {"type": "assert-table-uuid", "uuid": base.table_uuid}
    assert requirements(base, property_of(1)) == [uuid_unchanged]
    assert requirements(base, snapshot(base, 7)) == [
        uuid_unchanged,
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
    ]
    changes = [
        updates.add_schema(SCHEMA_JSON, 1),
        updates.set_current_schema(),
        updates.add_spec({"spec-id": 1, "fields": []}),
        updates.set_default_spec(),
        updates.set_default_sort_order(0),
        updates.remove_schemas([3]),
        updates.remove_partition_specs([3]),
    ]
    assert [each["type"] for each in requirements(base, changes)] == [
        "assert-table-uuid",
        "assert-last-assigned-field-id",
        "assert-current-schema-id",
        "assert-last-assigned-partition-id",
        "assert-default-spec-id",
        "assert-default-sort-order-id",
    ]
