"""Commands on Iceberg tables in a catalog, at branches and tags, and on copied tables."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

from iceberg_tables.writer import IcebergWriter


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """Two rows; one of them deleted on main, and a row more on the branch audit."""
    from pyiceberg.catalog.sql import SqlCatalog

    table = IcebergWriter(tmp_path / "orders", pa.schema([("id", pa.int64())]), format_version=3)
    file = table.add_file([{"id": 1}, {"id": 2}])
    table.commit()
    table.set_branch("audit", table.head.id)
    table.delete_rows(file, [0])
    table.commit()
    table.append([{"id": 3}], branch="audit")
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("lake", uri=uri, warehouse=str(tmp_path))
    catalog.create_namespace("db")
    catalog.register_table("db.orders", str(table.root / f"metadata/v{table.metadata_version}.metadata.json"))
    catalog.engine.dispose()
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", uri)
    return table


def test_places(delvec, lake, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(lake.root, copy)
    first, second, third = lake.snapshots
    places = [[lake.root], ["db.orders", "--catalog", "lake"], [copy, "--relocate"]]
    for place in places:
        assert delvec("count", *place, "--json").json["rows"] == 1
        assert delvec("count", *place, "--json", "--ref", "audit").json["rows"] == 3
        shown = delvec("show", *place, "--json").json
        assert (shown["version"], shown["format"]) == (second, "iceberg")
        assert delvec("show", *place, "--json", "--ref", "audit").json["version"] == third
        assert delvec("show", *place, "--json", "--version", first).json["version"] == first
        assert len(delvec("files", *place, "--json", "--ref", "audit").json["files"]) == 2
        assert len(delvec("dv", *place, "--json").json["vectors"]) == 1
        assert not delvec("dv", *place, "--json", "--ref", "audit").json["vectors"]
        history = delvec("history", *place, "--json", "--ref", "audit").json["commits"]
        assert [commit["version"] for commit in history] == [third, second, first]
        assert delvec("verify", *place, "--json").json["version"] == second
        assert delvec("tree", *place, "--json", "--ref", "audit").code == 0


def test_mistakes(delvec, lake):
    place = ["db.orders", "--catalog"]
    assert delvec("show", "db.absent", "--catalog", "lake").code == 3
    unknown = delvec("show", *place, "other")
    assert (unknown.code, "expected a pyiceberg Catalog or the name" in unknown.err) == (2, True)
    absent = delvec("show", *place, "lake", "--ref", "x")
    assert (absent.code, "branch or tag 'x' does not exist" in absent.err) == (2, True)
    assert delvec("show", *place, "lake", "--relocate").code == 2
    assert "--ref needs a table" in delvec("dv", lake.root / "x.puffin", "--ref", "audit").err
