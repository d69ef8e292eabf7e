"""Which table a name means: registered names, paths, and tables of catalogs."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from delvec import detect, name_resolver
from delvec.errors import InvalidOperationError, TableNotFoundError
from delvec.name_resolver import AtPath, InCatalog, OnRef, Registered
from iceberg_tables import IcebergWriter


class Lake:
    """A catalog that has one table, ``db.orders``."""

    def __init__(self, location):
        self.location = location

    def open_table(self, identifier, options_for):
        if tuple(identifier) != ("db", "orders"):
            raise TableNotFoundError(f"no table {'.'.join(identifier)} in the catalog")
        return detect.open_table(self.location, options_for(self.location))


@pytest.fixture
def orders(tmp_path):
    return detect.write_sample_table(str(tmp_path / "orders"))


def plain(name):
    parts = name.split(".")
    return parts, [False] * len(parts)


def no_options(location):
    del location
    return {}


@pytest.mark.parametrize(
    ("provider", "expected"),
    [("delvec", None), ("DELVEC", None), ("delta", "delta"), ("Delta", "delta"), ("iceberg", "iceberg")],
)
def test_paths(provider, expected):
    assert name_resolver.resolve([provider, "/lake/a.b"], [False, True]) == AtPath("/lake/a.b", expected)


@pytest.mark.parametrize(
    ("parts", "quoted"),
    [
        (["delta", "orders"], [False, False]),  # a table in a schema of that name
        (["parquet", "/lake"], [False, True]),
        (["a", "delta", "/lake"], [False, False, True]),
    ],
)
def test_names_that_belong_to_spark(parts, quoted):
    assert name_resolver.resolve(parts, quoted) is None
    assert not name_resolver.is_path(parts, quoted)


def test_registered_names(orders):
    assert name_resolver.resolve(*plain("orders_of_the_resolver")) is None
    name_resolver.register("Some_Orders", orders)
    try:
        assert name_resolver.resolve(*plain("some_ORDERS")) == Registered(orders)
        assert name_resolver.open_table(Registered(orders), no_options) is orders
    finally:
        name_resolver.unregister("SOME_orders")
    assert name_resolver.registered("orders_of_the_resolver") is None


def test_a_path_must_have_the_format_that_its_name_says(orders, monkeypatch):
    assert name_resolver.open_table(AtPath(orders.location, "delta"), no_options).format == "delta"
    assert name_resolver.open_table(AtPath(orders.location), no_options).format == "delta"
    with pytest.raises(InvalidOperationError, match="the table has the format delta, expected other"):
        name_resolver.open_table(AtPath(orders.location, "other"), no_options)


def test_names_of_more_parts_are_looked_up_in_catalogs(orders, monkeypatch):
    lake = Lake(orders.location)
    assert name_resolver.resolve(*plain("lake.db.orders")) is None
    monkeypatch.setattr(detect, "find_catalog", {"lake": lake}.get)
    reference = name_resolver.resolve(*plain("lake.db.orders"))
    assert reference == InCatalog(lake, ("db", "orders"))
    assert name_resolver.open_table(reference, no_options).location == orders.location
    assert name_resolver.resolve(*plain("spark_catalog.db.orders")) is None
    with pytest.raises(TableNotFoundError, match=r"no table db\.nothing"):
        name_resolver.open_table(name_resolver.resolve(*plain("lake.db.nothing")), no_options)


def test_catalog_objects(orders):
    lake = Lake(orders.location)
    assert name_resolver.in_catalog(lake, "db.orders") == InCatalog(lake, ("db", "orders"))
    for unknown in ("lake", object()):
        with pytest.raises(InvalidOperationError, match="expected a pyiceberg Catalog or the name of"):
            name_resolver.in_catalog(unknown, "db.orders")


def test_a_new_format_needs_one_entry(tmp_path, monkeypatch):
    """What the engine, SQL and the command line know of formats is one table."""
    own = replace(detect.FORMATS["delta"], title="Own", metadata="_own", is_at=lambda s: s.exists("_own/1"))
    monkeypatch.setitem(detect.FORMATS, "own", own)
    assert name_resolver.providers() == ("delvec", "delta", "iceberg", "own")
    assert name_resolver.resolve(["own", "/lake"], [False, True]) == AtPath("/lake", "own")
    (tmp_path / "_own").mkdir()
    (tmp_path / "_own" / "1").write_bytes(b"")
    assert detect.find_format(detect.open_storage(str(tmp_path))) == "own"
    with pytest.raises(InvalidOperationError, match="format is 'x', expected delta or iceberg or own"):
        detect.new_table(str(tmp_path / "new"), "x")
    with pytest.raises(TableNotFoundError, match="expected _delta_log/ or metadata/ or _own/"):
        detect.open_table(str(tmp_path / "_own"))


@pytest.mark.parametrize(("provider", "created"), [(None, "delta"), ("delvec", "delta"), ("delta", "delta")])
def test_the_format_of_a_new_table(provider, created):
    assert name_resolver.created_format(provider) == created


# --- branches and tags -----------------------------------------------------------------------------


@pytest.fixture
def branched(tmp_path):
    """An Iceberg table with the branch ``audit`` and the tag ``start``."""
    writer = IcebergWriter(tmp_path / "branched", pa.schema([("id", pa.int64())]))
    first = writer.append([{"id": 1}])
    writer.set_tag("start", first)
    writer.set_branch("audit", first)
    second = writer.append([{"id": 2}], branch="audit")
    writer.append([{"id": 3}])
    return writer, first, second


def version_of(reference):
    return name_resolver.open_table(reference, no_options).snapshot().version


def test_names_of_branches_and_tags(branched):
    writer, first, second = branched
    path = str(writer.root)
    name_resolver.register("shop_t", detect.open_table(path))
    try:
        names = [(["shop_t"], [False]), (["delvec", path], [False, True]), (["iceberg", path], [False, True])]
        for parts, quoted in names:
            for ref, kind, version in (("audit", "branch", second), ("start", "tag", first)):
                found = name_resolver.resolve([*parts, f"{kind}_{ref}"], [*quoted, False])
                assert isinstance(found, OnRef)
                assert (found.ref, found.kind) == (ref, kind)
                assert version_of(found) == version
        for name, problem in (
            ("tag_audit", "'audit' is a branch, expected a tag"),
            ("branch_start", "'start' is a tag, expected a branch"),
            ("branch_other", "'other' does not exist, expected one of audit, main, start"),
        ):
            with pytest.raises(InvalidOperationError, match=problem):
                version_of(name_resolver.resolve(["shop_t", name], [False, False]))
        assert name_resolver.resolve(["shop_t", "audit"], [False, False]) is None
        assert name_resolver.resolve(["other_t", "branch_audit"], [False, False]) is None
        assert name_resolver.resolve(["shop_t", "branch_"], [False, False]) is None
    finally:
        name_resolver.unregister("shop_t")


def test_a_format_without_branches(orders):
    name = name_resolver.resolve(["delta", orders.location, "branch_b"], [False, True, False])
    with pytest.raises(InvalidOperationError, match="ref is 'b', but delta tables have no branches"):
        name_resolver.open_table(name, no_options)


def test_branches_of_tables_in_catalogs(branched):
    writer, _, second = branched
    lake = Lake(str(writer.root))
    assert version_of(InCatalog(lake, ("db", "orders", "branch_audit"))) == second
    with pytest.raises(InvalidOperationError, match="'x' does not exist"):
        version_of(InCatalog(lake, ("db", "orders", "branch_x")))
    for identifier in (("db", "branch_audit"), ("db", "other", "branch_audit"), ("db", "orders", "audit")):
        with pytest.raises(TableNotFoundError, match=f"no table {'.'.join(identifier)} in the catalog"):
            version_of(InCatalog(lake, identifier))
