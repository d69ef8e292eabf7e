"""Tables of a real REST catalog, Iceberg's reference implementation, which Iceberg-Spark writes."""

from __future__ import annotations

import pytest

from delvec import Table, sql
from delvec.errors import StorageError, TableNotFoundError
from jars import JarsUnavailableError
from rest_catalog import rest_catalog
from scanning import collected, same

pytestmark = [pytest.mark.interop, pytest.mark.spark]


@pytest.fixture(scope="module")
def catalog(delta_spark, tmp_path_factory):
    """The name of the catalog in Spark's configuration. It is in pyiceberg's too, with a hyphen."""
    name = "rest_lake"
    settings = f"spark.sql.catalog.{name}"
    try:
        with rest_catalog(tmp_path_factory.mktemp("rest")) as uri, pytest.MonkeyPatch.context() as patch:
            delta_spark.conf.set(settings, "org.apache.iceberg.spark.SparkCatalog")
            delta_spark.conf.set(f"{settings}.type", "rest")
            delta_spark.conf.set(f"{settings}.uri", uri)
            delta_spark.conf.set(f"{settings}.cache-enabled", "false")
            patch.setenv("PYICEBERG_CATALOG__REST_LAKE__URI", uri)
            delta_spark.sql(f"CREATE NAMESPACE {name}.db")
            yield name
    except JarsUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_of_a_rest_catalog(delta_spark, catalog, version):
    spark, identifier = delta_spark, f"db.orders{version}"
    table = f"{catalog}.{identifier}"
    spark.sql(
        f"CREATE TABLE {table} (id bigint, day date) USING iceberg PARTITIONED BY (months(day)) "
        f"TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
    )
    mine = Table.open(spark, identifier, catalog="rest-lake")
    assert (mine.format_version, mine.version, mine.count()) == (version, -1, 0)
    spark.sql(f"INSERT INTO {table} SELECT id, date_add(DATE'2025-01-01', CAST(id AS INT)) FROM range(90)")
    first = mine.version
    assert mine.count() == 90
    spark.sql(f"ALTER TABLE {table} CREATE TAG start")
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH audit")
    spark.sql(f"DELETE FROM {table} WHERE id % 7 = 0")
    spark.sql(f"INSERT INTO {table}.branch_audit VALUES (1000, DATE'2026-01-01')")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN day TO placed")
    same(mine.to_df(), collected(spark.sql(f"SELECT * FROM {table}")))
    same(
        mine.to_df(where="placed < DATE'2025-02-01'"),
        [row for row in collected(mine.to_df()) if row["id"] < 31],
    )
    for ref in ("start", "audit", "main"):
        same(mine.to_df(ref=ref), collected(spark.sql(f"SELECT * FROM {table} VERSION AS OF '{ref}'")))
    same(mine.to_df(version=first), collected(spark.sql(f"SELECT * FROM {table} VERSION AS OF {first}")))
    by_name = sql(spark, f"SELECT count(*) FROM `rest-lake`.{identifier} VERSION AS OF 'audit'").collect()[0][
        0
    ]
    assert by_name == 91
    with pytest.raises(TableNotFoundError, match=r"no table db\.absent in catalog 'rest-lake'"):
        Table.open(spark, "db.absent", catalog="rest-lake")
    spark.sql(f"DROP TABLE {table} PURGE")
    with pytest.raises(TableNotFoundError, match=r"no table db\.orders"):
        mine.to_df()


def test_a_catalog_that_goes_down(delta_spark, tmp_path, monkeypatch):
    try:
        with rest_catalog(tmp_path / "warehouse") as uri:
            monkeypatch.setenv("PYICEBERG_CATALOG__GOING__URI", uri)
            with pytest.raises(TableNotFoundError):
                Table.open(delta_spark, "db.orders", catalog="going")
    except JarsUnavailableError as error:
        pytest.skip(str(error))
    with pytest.raises(StorageError, match=r"catalog 'going' did not answer as expected: ConnectionError"):
        Table.open(delta_spark, "db.orders", catalog="going")
