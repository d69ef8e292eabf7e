"""Tables that delvec and Iceberg-Spark both have open: by path, in a SQLite catalog or in a REST catalog."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delvec.location import normalize
from iceberg_spark import CATALOG
from iceberg_tables.readers import newest_metadata, read_by_duckdb, read_by_pyiceberg
from jars import JarsUnavailableError
from rest_catalog import rest_catalog
from scanning import collected

Row = dict[str, Any]


@dataclass(frozen=True)
class SharedCatalog:
    """name: the catalog in Spark. mine: the same catalog in pyiceberg; None: delvec opens tables by path."""

    spark: Any
    name: str
    warehouse: Path
    mine: Any = None

    def table(self, name: str) -> SharedTable:
        return SharedTable(self, name)


@dataclass(frozen=True)
class SharedTable:
    catalog: SharedCatalog
    name: str

    @property
    def spark(self) -> Any:
        return self.catalog.spark

    @property
    def full_name(self) -> str:
        return f"{self.catalog.name}.db.{self.name}"

    def create(self, ddl: Any, format_version: int, **options: Any) -> None:
        """An empty table, made by delvec."""
        from delvec.table import Table

        place, catalog = self._place
        Table.create(
            self.spark,
            place,
            ddl,
            format="iceberg",
            format_version=format_version,
            catalog=catalog,
            **options,
        )

    def open(self) -> Any:
        from delvec.table import Table

        place, catalog = self._place
        return Table.open(self.spark, place, catalog=catalog)

    @property
    def _place(self) -> tuple[str, Any]:
        if self.catalog.mine is None:
            return f"{self.catalog.warehouse}/db/{self.name}", None
        return f"db.{self.name}", self.catalog.mine

    def sql(self, text: str) -> Any:
        """A statement of Iceberg-Spark; ``{t}`` is the table."""
        return self.spark.sql(text.replace("{t}", self.full_name))

    def call(self, procedure: str, **given: str) -> Any:
        """A procedure of Iceberg-Spark, with arguments as SQL."""
        texts = ", ".join(
            f"{name} => {value}" for name, value in ({"table": f"'db.{self.name}'"} | given).items()
        )
        return self.spark.sql(f"CALL {self.catalog.name}.system.{procedure}({texts})")

    def metadata_file(self) -> str:
        if self.catalog.mine is None:
            return newest_metadata(self._place[0])
        return normalize(self.catalog.mine.load_table(f"db.{self.name}").metadata_location)

    def metadata(self) -> dict[str, Any]:
        members: dict[str, Any] = json.loads(Path(self.metadata_file()).read_bytes())
        return members

    # What each engine reads

    def read_by_all(self, columns: tuple[str, ...] = ()) -> Mapping[str, list[Row]]:
        """The rows by engine; ``columns``: hidden ones that delvec, Iceberg-Spark and DuckDB show too."""
        file, wanted = self.metadata_file(), ", ".join(("*", *columns))
        mine = self.open()
        names = [*mine.schema.names, *columns] if columns else None
        return {
            "delvec": collected(mine.to_df(columns=names)),
            "Iceberg-Spark": collected(self.sql(f"SELECT {wanted} FROM {{t}}")),
            "DuckDB": read_by_duckdb(file, columns=wanted),
        }

    def read_by_pyiceberg(self) -> list[Row]:
        return read_by_pyiceberg(self.metadata_file())


@contextmanager
def by_path(spark: Any, folder: Path) -> Iterator[SharedCatalog]:
    """The Hadoop catalog, whose tables are those of the paths below its warehouse."""
    del folder
    warehouse = Path(normalize(spark.conf.get(f"spark.sql.catalog.{CATALOG}.warehouse")))
    yield SharedCatalog(spark, CATALOG, warehouse)


@contextmanager
def in_sqlite(spark: Any, folder: Path) -> Iterator[SharedCatalog]:
    """Iceberg's JDBC catalog and pyiceberg's SqlCatalog of one name on one SQLite file."""
    from pyiceberg.catalog.sql import SqlCatalog

    name, file = "sqlite_lake", folder / "catalog.db"
    try:
        spark._jvm.org.sqlite.JDBC()  # it makes itself known to JDBC
    except TypeError:
        raise JarsUnavailableError("SQLite's JDBC driver cannot be fetched: Maven is absent") from None
    mine = SqlCatalog(name, uri=f"sqlite:///{file}", warehouse=f"file://{folder}/lake")
    mine.create_namespace("db")
    given = {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{file}?busy_timeout=30000",
        "warehouse": f"{folder}/lake",
        "jdbc.schema-version": "V1",
    }
    _configure(spark, name, given)
    yield SharedCatalog(spark, name, folder / "lake", mine)
    mine.engine.dispose()


@contextmanager
def in_rest_server(spark: Any, folder: Path) -> Iterator[SharedCatalog]:
    """A server of Iceberg's reference implementation."""
    from pyiceberg.catalog.rest import RestCatalog

    name = "rest_shared"
    with rest_catalog(folder) as uri:
        mine = RestCatalog(name, uri=uri)
        mine.create_namespace("db")
        _configure(spark, name, {"type": "rest", "uri": uri})
        yield SharedCatalog(spark, name, folder, mine)


def _configure(spark: Any, name: str, given: Mapping[str, str]) -> None:
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    for key, value in ({"cache-enabled": "false"} | dict(given)).items():
        spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
