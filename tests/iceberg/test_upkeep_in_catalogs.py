"""Vacuum, restore, branches and upgrades of tables in catalogs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

from connector_rows import connector_rows
from delvec import formats, name_resolver
from delvec.errors import UnsupportedFeatureError
from delvec.ref_changes import NewRef
from delvec.restore import restore
from delvec.vacuum import vacuum
from iceberg_tables import IcebergWriter
from iceberg_tables.rest_server import rest_server

COLUMNS = pa.schema([("id", pa.int64())])
DAY_MS = 86_400_000


@pytest.fixture
def writer(tmp_path):
    """Snapshots of a week ago: 0; 0, 1; 2."""
    writer = IcebergWriter(tmp_path / "warehouse/db/orders", COLUMNS, numbered=True, format_version=2)
    writer.last_updated = int(time.time() * 1000) - 7 * DAY_MS
    writer.append([{"id": 0}])
    writer.append([{"id": 1}])
    for entry in writer.head.entries():
        writer.remove_file(entry.file)
    writer.append([{"id": 2}])
    return writer


@pytest.fixture
def sql_catalog(tmp_path, writer):
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    catalog.register_table("db.orders", str(newest_file(writer)))
    yield catalog
    catalog.engine.dispose()


@pytest.fixture(params=["sql", "rest"])
def catalog(request, tmp_path, writer):
    if request.param == "sql":
        yield request.getfixturevalue("sql_catalog")
        return
    from pyiceberg.catalog.rest import RestCatalog

    with rest_server(tmp_path / "warehouse") as server:
        file = newest_file(writer)
        server.tables["db", "orders"] = (str(file), json.loads(file.read_bytes()))
        yield RestCatalog("rest", uri=server.uri)


def newest_file(writer):
    return sorted((writer.root / "metadata").glob("*.metadata.json"))[-1]


@pytest.fixture
def table(catalog):
    return name_resolver.open_table(name_resolver.in_catalog(catalog, "db.orders"), lambda _: {})


def loaded(catalog):
    """The table as pyiceberg sees it."""
    return catalog.load_table("db.orders")


def test_all_of_it(catalog, writer, table):
    first, second, third = writer.snapshots
    table.create_ref(NewRef("start", "tag", first))
    assert {name: ref.snapshot_id for name, ref in loaded(catalog).metadata.refs.items()} == \
        {"main": third, "start": first}  # fmt: skip
    assert restore(table, version=second).version == second
    assert loaded(catalog).current_snapshot().snapshot_id == second
    rows = loaded(catalog).scan().to_arrow().to_pylist()
    assert sorted(row["id"] for row in rows) == [0, 1]
    # A metadata file that the catalog never had.
    leftover = writer.root / "metadata/00009-3e5c6f3a-8a6c-4a4e-9d0a-0a1b2c3d4e5f.metadata.json"
    leftover.write_bytes(newest_file(writer).read_bytes())
    logged = {Path(entry.metadata_file) for entry in loaded(catalog).metadata.metadata_log}
    for path in writer.root.glob("metadata/*.metadata.json"):
        os.utime(path, (1, 1))
    data = {path.name for path in writer.root.glob("data/*")}
    result = vacuum(table)
    # The snapshot of no ref is too old to be kept.
    assert (result.expired_versions, result.version) == (1, second)
    assert result.metrics["numDeletedDataFiles"] == 1
    assert logged < set(writer.root.glob("metadata/*.metadata.json"))
    assert not leftover.exists()
    assert {snapshot.snapshot_id for snapshot in loaded(catalog).metadata.snapshots} == {first, second}
    assert len(data - {path.name for path in writer.root.glob("data/*")}) == 1
    newest = loaded(catalog).metadata_location.removeprefix("file://")
    assert sorted(row["id"] for row in connector_rows(newest)) == [0, 1]
    table.drop_ref("start")
    if type(catalog).__name__ == "SqlCatalog":  # pyiceberg's own upgrade, in the server, fails
        formats.upgrade(table, 3)
        assert table.snapshot().format_version == 3
    assert vacuum(table).expired_versions == 1
    assert set(table.snapshot().metadata.snapshots) == {second}


def test_a_catalog_that_is_only_read(sql_catalog, writer, monkeypatch):
    from pyiceberg.catalog import Catalog

    class Glue(Catalog):
        """Passes each question on."""

        def __init__(self):
            self.name = "glue"

        def __getattribute__(self, name):
            own = ("name", "__class__", "__dict__")
            return object.__getattribute__(self, name) if name in own else getattr(sql_catalog, name)

    monkeypatch.setattr(Glue, "__abstractmethods__", frozenset())
    found = name_resolver.open_table(name_resolver.in_catalog(Glue(), "db.orders"), lambda _: {})
    (writer.root / "data/orphan.parquet").write_bytes(b"x")
    os.utime(writer.root / "data/orphan.parquet", (1, 1))
    for call in (
        lambda: vacuum(found),
        lambda: vacuum(found, dry_run=True),
        lambda: vacuum(found, 24 * 365),
        lambda: found.create_ref(NewRef("b")),
        lambda: restore(found, version=next(iter(writer.snapshots))),
    ):
        with pytest.raises(UnsupportedFeatureError, match="can only be read, expected a SqlCatalog"):
            call()
    assert (writer.root / "data/orphan.parquet").exists()
