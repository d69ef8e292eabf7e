"""One Spark session with the extensions of Delta and Iceberg, and the tables they write, each made once."""

from __future__ import annotations

import fcntl
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from delvec import detect
from iceberg_spark import SparkTable, catalog_settings
from jars import JarsUnavailableError, delta_jars, iceberg_jars, sqlite_jars
from shared_tables import SharedCatalog, by_path, in_rest_server, in_sqlite
from spark_tables import TABLES, Writer

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


@pytest.fixture(scope="session")
def delta_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    from pyspark.sql import SparkSession

    try:
        jars = delta_jars() + iceberg_jars() + sqlite_jars()
    except JarsUnavailableError as error:
        pytest.skip(str(error))
    builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(map(str, jars)))
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    for key, value in catalog_settings(tmp_path_factory.getbasetemp() / "iceberg").items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="session")
def written(delta_spark: object, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Writer]:
    """The table of that name, written when first asked for: once for all workers."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def find(name: str) -> Writer:
        folder = shared / "tables" / name
        folder.mkdir(parents=True, exist_ok=True)
        writer = Writer(delta_spark, folder / "a table %41")
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "written").exists():
                TABLES[name].write(writer)
                (folder / "written").touch()
        return writer

    return find


@pytest.fixture(scope="session")
def iceberg_table(
    delta_spark: object, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], SparkTable]:
    """Tables of Iceberg-Spark, by name. The session also has Delta's extensions."""
    if "iceberg" not in detect.format_names():
        pytest.skip("Iceberg tables cannot be read yet")
    return lambda name: SparkTable(delta_spark, name, tmp_path_factory.getbasetemp() / "iceberg")


@pytest.fixture(scope="session")
def shared_catalog(
    delta_spark: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], SharedCatalog]]:
    """``path``, ``sqlite`` or ``rest``: tables that delvec and Iceberg-Spark both open, there."""
    opened: dict[str, SharedCatalog] = {}
    with ExitStack() as stack:

        def find(kind: str) -> SharedCatalog:
            if kind not in opened:
                folder = tmp_path_factory.mktemp(kind)
                make = {"path": by_path, "sqlite": in_sqlite, "rest": in_rest_server}[kind]
                try:
                    opened[kind] = stack.enter_context(make(delta_spark, folder))
                except JarsUnavailableError as error:
                    pytest.skip(str(error))
            return opened[kind]

        yield find
