"""Commits of metadata beside Iceberg's own library: its REST server applies the updates, and its JDBC catalog
and delvec's SQL catalog share a database.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from delvec.iceberg import metadata_files, rest_catalog
from delvec.iceberg import metadata_updates as updates
from delvec.iceberg.catalogs import CatalogPointer, IcebergCatalog
from delvec.iceberg.metadata import parse_metadata
from delvec.iceberg.swaps import BaseFile, Swapped, Taken
from delvec.iceberg.updated_metadata import apply_updates
from delvec.partition_spec import PartitionField
from delvec.schema import Array, Field, Primitive, Struct
from delvec.transforms import parse_transform
from iceberg_tables.updates import property_of, snapshot
from jars import JarsUnavailableError
from rest_catalog import rest_catalog as java_server

pytestmark = pytest.mark.interop

SCHEMA = Struct((Field("id", Primitive("long"), nullable=False), Field("tags", Array(Primitive("string")))))
BUCKETS = PartitionField("id_bucket", ("id",), parse_transform("bucket[4]"), Primitive("integer"))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    warehouse = tmp_path_factory.mktemp("rest")
    try:
        with java_server(warehouse) as uri:
            from pyiceberg.catalog.rest import RestCatalog

            RestCatalog("rest", uri=uri).create_namespace("db")
            yield uri, warehouse
    except JarsUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def catalog(server):
    from pyiceberg.catalog.rest import RestCatalog

    return IcebergCatalog("rest", RestCatalog("rest", uri=server[0]))


@pytest.fixture
def name(request):
    return "db", "".join(letter if letter.isalnum() else "_" for letter in request.node.name).lower()


def pointer_of(catalog, name):
    return CatalogPointer(catalog, name, lambda _: {})


def created(catalog, name, **options):
    table, draft = catalog.draft_table(name, SCHEMA, lambda _: {}, **options)
    outcome = pointer_of(catalog, name).commit(table.storage, None, draft.opened.creation)
    assert isinstance(outcome, Swapped), outcome
    return table.storage, outcome.file


def newest(catalog, storage, name):
    path = pointer_of(catalog, name).current(storage).path
    return BaseFile(path, metadata_files.read_metadata(storage, path))


def committed(catalog, storage, name, base, changes):
    outcome = pointer_of(catalog, name).commit(storage, base, changes)
    assert isinstance(outcome, Swapped), outcome
    return outcome.file


@pytest.mark.parametrize("version", [2, 3])
def test_a_new_table(catalog, name, version):
    options = {"partition_by": [BUCKETS], "properties": {"owner": "us"}, "format_version": version}
    storage, first = created(catalog, name, **options)
    metadata = newest(catalog, storage, name).metadata
    assert metadata == first.metadata
    assert metadata.format_version == version
    assert metadata.raw["partition-specs"][0]["fields"] == [
        {"name": "id_bucket", "transform": "bucket[4]", "source-id": 1, "field-id": 1000}
    ]
    assert metadata.properties["owner"] == "us"
    assert metadata.properties["write.merge.mode"] == "merge-on-read"


def random_changes(rng, metadata, number):
    ids, schema = list(metadata.snapshots), metadata.raw["schemas"][-1]
    refs = [ref for ref in metadata.refs if ref != "main"]
    heads = {ref.snapshot_id for ref in metadata.refs.values()}
    free = [found for found in ids if found not in heads]
    column = {"id": metadata.last_column_id + 1, "name": f"c{number}", "required": False, "type": "int"}
    wider = {**schema, "schema-id": len(metadata.schemas), "fields": [*schema["fields"], column]}
    field = {"source-id": 1, "field-id": 1001 + number, "name": f"p{number}"}
    spec = {"spec-id": len(metadata.specs), "fields": [{**field, "transform": f"bucket[{number + 5}]"}]}
    choices = [
        lambda: snapshot(metadata, 1000 + number, rng.choice(["main", "main", "b1"])),
        lambda: [updates.set_properties({f"k{rng.randrange(3)}": str(number)})],
        lambda: [updates.add_schema(wider, metadata.last_column_id + 1), updates.set_current_schema()],
        lambda: [updates.add_spec(spec), updates.set_default_spec()],
    ]
    if ids:
        choices.append(lambda: [updates.set_snapshot_ref(f"t{number}", rng.choice(ids), kind="tag")])
    others = [found for found in ids if found != metadata.current_snapshot_id]
    if others:  # the server makes no commit of a change that changes nothing
        choices.append(lambda: [updates.set_snapshot_ref("main", rng.choice(others))])
    if refs:
        choices.append(lambda: [updates.remove_snapshot_ref(rng.choice(refs))])
    if free:
        choices.append(lambda: [updates.remove_snapshots(rng.sample(free, min(2, len(free))))])
    return rng.choice(choices)()


def comparable(members):
    """Without what the server's clock decides, and without empty members."""
    found = json.loads(json.dumps(members))
    found.pop("last-updated-ms")
    found["metadata-log"] = len(found["metadata-log"])
    for entry in found["snapshot-log"]:
        entry.pop("timestamp-ms")
    found["snapshots"] = sorted(found["snapshots"], key=lambda item: item["snapshot-id"])
    return {key: value for key, value in found.items() if value not in (None, [], {}, -1)}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_random_updates_as_the_server_applies_them(catalog, name, version, seed):
    rng = random.Random(seed)
    storage, base = created(catalog, name, format_version=version)
    for number in range(20):
        changes = random_changes(rng, base.metadata, number)
        expected = apply_updates(base.metadata, changes, now_ms=0, file=base.path)
        base = committed(catalog, storage, name, base, changes)
        theirs = newest(catalog, storage, name).metadata
        assert comparable(theirs.raw) == comparable(expected), changes
        assert parse_metadata(json.dumps(expected).encode(), "ours").snapshots == theirs.snapshots


def test_an_upgrade(catalog, name):
    storage, base = created(catalog, name, format_version=2)
    base = committed(catalog, storage, name, base, snapshot(base.metadata, 7))
    base = committed(catalog, storage, name, base, [updates.upgrade_format_version(3)])
    assert (base.metadata.format_version, base.metadata.next_row_id) == (3, 0)
    base = committed(catalog, storage, name, base, snapshot(base.metadata, 8))
    assert base.metadata.next_row_id == 1


def test_a_race_with_iceberg_s_jdbc_catalog(server, catalog, name):
    """The server's tables are rows of a database. delvec changes them there while the server does."""
    from pyiceberg.catalog.sql import SqlCatalog

    _, warehouse = server
    shared = SqlCatalog("rest", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=str(warehouse))
    by_sql = IcebergCatalog("rest", shared)
    storage, base = created(by_sql, name)
    assert newest(catalog, storage, name) == base
    winners = []
    for round_ in range(12):
        outcomes, start = [], threading.Barrier(2)

        def write(which, number, base=base, outcomes=outcomes, start=start):
            start.wait()
            changes = snapshot(base.metadata, number)
            outcomes.append((number, pointer_of(which, name).commit(storage, base, changes)))

        ids = [round_ * 10 + 1, round_ * 10 + 2]
        threads = [
            threading.Thread(target=write, args=pair) for pair in zip((catalog, by_sql), ids, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (winner,) = [number for number, outcome in outcomes if isinstance(outcome, Swapped)]
        assert [outcome for _, outcome in outcomes].count(Taken()) == 1
        base = newest(catalog, storage, name)
        assert base == newest(by_sql, storage, name)
        winners.append(winner)
        assert list(base.metadata.snapshots) == winners
    shared.engine.dispose()


class Proxy(ThreadingHTTPServer):
    """Passes requests on to a server. The answer to a commit may be lost on its way back."""

    daemon_threads = True

    def __init__(self, uri):
        super().__init__(("127.0.0.1", 0), _Passing)
        self.target = urlsplit(uri).netloc
        self.lose = []
        self.commits = 0


class _Passing(BaseHTTPRequestHandler):
    server: Proxy

    def do_POST(self):
        connection = http.client.HTTPConnection(self.server.target)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {key: value for key, value in self.headers.items() if key.lower() != "host"}
        connection.request(self.command, self.path, body, headers)
        response = connection.getresponse()
        data = response.read()
        if self.command == "POST" and self.server.lose:
            self.server.commits += 1
            status = self.server.lose.pop()
            if status is None:
                self.connection.close()
                return
            data = b"lost"
            self.send_response(status)
        else:
            self.send_response(response.status)
        self.send_header("Content-Type", response.headers.get("Content-Type", "application/json"))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_DELETE = do_HEAD = do_POST  # noqa: N815 - the names are those of the standard library

    def log_message(self, *_):
        """Nothing on stderr."""


@pytest.mark.parametrize("status", [503, 504, None])
def test_lost_answers(server, name, status, monkeypatch):
    """The server commits, and a proxy loses the answer."""
    from pyiceberg.catalog.rest import RestCatalog

    monkeypatch.setattr(rest_catalog, "_LOOKUP_PAUSES", (0.0, 0.1))
    proxy = Proxy(server[0])
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        uri = f"http://127.0.0.1:{proxy.server_address[1]}"
        catalog = IcebergCatalog("rest", RestCatalog("rest", uri=uri))
        storage, base = created(catalog, name)
        for changes in (snapshot(base.metadata, 7), property_of(1)):
            proxy.lose = [status]
            base = committed(catalog, storage, name, base, changes)
        assert proxy.commits == 2
        metadata = newest(catalog, storage, name).metadata
        assert (list(metadata.snapshots), metadata.properties["number"]) == ([7], "1")
        assert len(list(Path(storage.root, "metadata").glob("*.metadata.json"))) == 3
    finally:
        proxy.shutdown()
        proxy.server_close()
