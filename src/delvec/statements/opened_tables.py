"""The tables of a statement, by the names that it gives them."""

from __future__ import annotations

import datetime as dt

from pyspark.sql import SparkSession

from delvec import formats
from delvec.errors import InvalidOperationError
from delvec.name_resolver import AtPath, OnRef, Reference, Registered
from delvec.spark.types import quoted
from delvec.statements.cursor import Name
from delvec.storage import Storage
from delvec.table import Table, open_reference


class Tables:
    """The tables of one statement. Each is opened once, so that all parts of the statement use one object."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._opened: dict[str | Reference, Table] = {}

    def is_ours(self, name: Name) -> bool:
        """Whether delvec knows a table with this name; refuses a registered name that Spark knows too."""
        reference = name.reference
        if isinstance(reference, Registered):
            self.verify_unknown_to_spark(name, reference.table.location)
        if isinstance(reference, OnRef) and isinstance(reference.table, Registered):
            self.verify_unknown_to_spark(name, reference.table.table.location)
        return reference is not None

    def verify_unknown_to_spark(self, name: Name, location: str) -> None:
        if self._spark.catalog.tableExists(".".join(map(quoted, name.parts))):
            raise InvalidOperationError(
                f"{name} names two tables: the one registered at {location} and a table or view of the Spark "
                f"session; expected one (delvec.`{location}` names the first)"
            )

    def of(self, name: Name) -> Table:
        """The table with this name; TableNotFoundError if there is none."""
        reference = name.reference
        assert reference is not None, name  # the caller has checked ``is_ours``
        # delvec.`path` and delta.`path` are one table.
        key = reference.path if isinstance(reference, AtPath) else reference
        if key not in self._opened:
            self._opened[key] = open_reference(self._spark, reference)
        return self._opened[key]


def snapshot_of(
    table: Table,
    version: int | None = None,
    timestamp: dt.datetime | None = None,
    ref: str | None = None,
) -> formats.Snapshot:
    """A version of the table, as its format has it."""
    return formats.snapshot_of(table._table, version, timestamp, ref)


def storage_of(table: Table) -> Storage:
    return table._table.storage
