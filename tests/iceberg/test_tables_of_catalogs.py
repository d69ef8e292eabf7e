"""Tables of a SQLite catalog in Spark: created, changed and dropped, with Table and with SQL."""

from __future__ import annotations

import pytest

from delvec.errors import (
    CommitConflictError,
    InvalidOperationError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from scanning import collected

pytestmark = pytest.mark.spark

DDL = "id BIGINT, region STRING, at TIMESTAMP"


@pytest.fixture
def catalog(tmp_path, monkeypatch):
    from pyiceberg.catalog.sql import SqlCatalog

    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    for name, value in properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name.upper()}", value)
    catalog = SqlCatalog("lake", **properties)
    catalog.create_namespace("db")
    yield catalog
    catalog.engine.dispose()


@pytest.fixture
def run(spark):
    from delvec import sql

    return lambda text: collected(sql(spark, text))


def ids(table):
    return sorted(row["id"] for row in collected(table.to_df()))


def test_a_table_with_rows(spark, catalog, tmp_path):
    from delvec import Table

    rows = spark.createDataFrame([(1, "eu", None), (2, "us", None)], DDL)
    table = Table.create(spark, "db.orders", rows, format="iceberg", catalog=catalog, partition_by=["region"])
    assert (table.format, table.format_version) == ("iceberg", 3)
    assert table.location == f"{tmp_path}/lake/db/orders"
    assert ids(table) == [1, 2]
    table.append(spark.createDataFrame([(3, "eu", None)], DDL))
    table.delete("id = 1")
    assert ids(Table.open(spark, "db.orders", catalog="lake")) == [2, 3]
    theirs = catalog.load_table("db.orders")
    assert len(theirs.metadata.snapshots) == 3
    assert theirs.metadata.location == f"file://{tmp_path}/lake/db/orders"
    assert sorted(theirs.scan().to_arrow()["id"].to_pylist()) == [2, 3]


def test_a_table_of_version_2_without_rows(spark, catalog):
    from delvec import Table

    table = Table.create(spark, "db.orders", DDL, format="iceberg", format_version=2, catalog="lake")
    assert (table.format_version, ids(table)) == (2, [])
    table.append([{"id": 1, "region": "eu", "at": None}])
    theirs = catalog.load_table("db.orders")
    with theirs.transaction() as transaction:
        transaction.set_properties(owner="them")
    table.append([{"id": 2, "region": "eu", "at": None}])
    assert ids(table) == [1, 2]
    assert table.properties["owner"] == "them"
    assert theirs.refresh().scan().to_arrow().num_rows == 2


def test_sql(run, catalog):
    run("CREATE TABLE lake.db.orders (id BIGINT, region STRING) USING iceberg PARTITIONED BY (region)")
    run("INSERT INTO lake.db.orders VALUES (1, 'eu'), (2, 'us')")
    run("UPDATE lake.db.orders SET region = 'uk' WHERE id = 1")
    assert sorted(run("SELECT id, region FROM lake.db.orders"), key=str) == [
        {"id": 1, "region": "uk"},
        {"id": 2, "region": "us"},
    ]
    run("CREATE TABLE IF NOT EXISTS lake.db.orders (id BIGINT)")
    with pytest.raises(InvalidOperationError, match=r"a table already exists: lake\.db\.orders"):
        run("CREATE TABLE lake.db.orders (id BIGINT)")
    files = list(catalog.load_table("db.orders").metadata.snapshots)
    assert files
    run("DROP TABLE lake.db.orders")
    assert not catalog.table_exists("db.orders")
    run("DROP TABLE IF EXISTS lake.db.orders")
    with pytest.raises(TableNotFoundError, match=r"no table db\.orders in catalog 'lake'"):
        run("DROP TABLE lake.db.orders")


def test_create_as_select_with_a_location(run, catalog, tmp_path):
    run(
        f"CREATE TABLE IF NOT EXISTS lake.db.copy LOCATION '{tmp_path}/elsewhere' "
        "TBLPROPERTIES ('format-version' = '2', 'owner' = 'us') AS SELECT 7L AS id"
    )
    theirs = catalog.load_table("db.copy")
    assert (theirs.metadata.location, theirs.metadata.format_version) == (f"{tmp_path}/elsewhere", 2)
    assert theirs.properties["owner"] == "us"
    assert theirs.scan().to_arrow()["id"].to_pylist() == [7]


def test_a_name_that_is_taken_while_rows_are_written(spark, catalog):
    """The rows are written before the table exists. Whoever commits first has the name."""
    from delvec import Table

    first = spark.createDataFrame([(1,)], "id BIGINT")

    from delvec.iceberg import catalogs

    real = catalogs.CatalogPointer.commit

    def commit(pointer, storage, base, updates):
        catalogs.CatalogPointer.commit = real
        Table.create(spark, "db.orders", spark.range(5, 6), format="iceberg", catalog=catalog)
        return real(pointer, storage, base, updates)

    catalogs.CatalogPointer.commit = commit
    try:
        with pytest.raises(CommitConflictError, match="another table was created there"):
            Table.create(spark, "db.orders", first, format="iceberg", catalog=catalog)
    finally:
        catalogs.CatalogPointer.commit = real
    assert ids(Table.open(spark, "db.orders", catalog=catalog)) == [5]


def test_a_table_that_is_dropped_and_created_under_a_writer(spark, catalog):
    from delvec import Table

    table = Table.create(spark, "db.orders", spark.range(3), format="iceberg", catalog=catalog)
    real = table._table.commit

    def commit(snapshot, delta):
        table._table.commit = real
        catalog.drop_table("db.orders")
        Table.create(spark, "db.orders", spark.range(7, 9), format="iceberg", catalog=catalog)
        return real(snapshot, delta)

    table._table.commit = commit
    with pytest.raises(CommitConflictError, match="dropped and created again"):
        table.append(spark.range(100, 101))
    assert ids(Table.open(spark, "db.orders", catalog=catalog)) == [7, 8]


def test_other_formats(spark, run, catalog):
    from delvec import Table

    with pytest.raises(InvalidOperationError, match="format is 'delta', expected 'iceberg'"):
        Table.create(spark, "db.orders", DDL, format="delta", catalog=catalog)
    with pytest.raises(InvalidOperationError, match="format is 'delta', expected 'iceberg'"):
        run("CREATE TABLE lake.db.orders (id BIGINT) USING delta")


def test_a_namespace_that_does_not_exist(run, catalog):
    with pytest.raises(InvalidOperationError, match="namespace absent does not exist in catalog 'lake'"):
        run("CREATE TABLE lake.absent.orders (id BIGINT)")
    assert catalog.list_namespaces() == [("db",)]


@pytest.mark.usefixtures("catalog")
@pytest.mark.parametrize(
    ("statement", "feature"),
    [
        ("CREATE OR REPLACE TABLE lake.db.t (id BIGINT)", "REPLACE TABLE"),
        ("DROP TABLE lake.db.t PURGE", "DROP TABLE … PURGE"),
    ],
)
def test_statements_that_are_refused(run, statement, feature):
    with pytest.raises(UnsupportedFeatureError) as caught:
        run(statement)
    assert caught.value.feature == feature
