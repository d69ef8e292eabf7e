"""Tables by the names that statements give them."""

from __future__ import annotations

import datetime as dt

from pyspark.sql import SparkSession

from delvec import formats
from delvec.errors import InvalidOperationError
from delvec.spark.types import quoted
from delvec.statements.cursor import Name
from delvec.statements.parse_ddl import is_path
from delvec.table import Table, registered_table


class Tables:
    """The tables of one statement, each opened once: all of it sees the same object."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._opened: dict[str, Table] = {}

    def is_ours(self, name: Name) -> bool:
        """Whether the name is a path's, or was given to a table; refuses one that Spark knows as well."""
        if is_path(name):
            return True
        if len(name.parts) != 1:
            return False
        known = registered_table(name.parts[0], self._spark)
        if known is None:
            return False
        self.verify_unknown_to_spark(name, known.location)
        return True

    def verify_unknown_to_spark(self, name: Name, location: str) -> None:
        if self._spark.catalog.tableExists(quoted(name.parts[0])):
            raise InvalidOperationError(
                f"{name} names two tables: the one registered at {location} and a table or view of the Spark "
                f"session; expected one (delvec.`{location}` names the first)"
            )

    def of(self, name: Name) -> Table:
        """The table; TableNotFoundError where nothing is at the path."""
        key = name.parts[-1] if is_path(name) else name.parts[0].lower()
        if key not in self._opened:
            known = None if is_path(name) else registered_table(key, self._spark)
            self._opened[key] = Table.open(self._spark, name.parts[-1]) if known is None else known
        return self._opened[key]


def snapshot_of(
    table: Table, version: int | None = None, timestamp: dt.datetime | None = None
) -> formats.Snapshot:
    """What the format tells of a version of the table."""
    return table._table.snapshot(version, timestamp)
