"""``Table``: one object with one set of verbs, whatever the format. Each verb delegates."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from delvec import detect, formats
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.plan import ScanPlan
from delvec.spark.scan import scan
from delvec.spark.session import session_facts, session_storage_options
from delvec.spark.types import logical

_FILE_COLUMNS = ["location", "size", "record_count", "partition"]
_registered: dict[str, Table] = {}


class Table:
    """A table seen from a Spark session. Made by ``Table.open``; always at its newest version."""

    def __init__(self, spark: SparkSession, table: formats.Table) -> None:
        self._spark = spark
        self._table = table

    @classmethod
    def open(
        cls,
        spark: SparkSession,
        location: str,
        catalog: object | None = None,
        relocate: bool = False,  # noqa: FBT001, FBT002 - the name is fixed, so is its place
        storage_options: Mapping[str, str] | None = None,
    ) -> Table:
        """The table at ``location``, whose format is detected.

        ``storage_options`` default to the session's ``spark.hadoop.fs.*`` and the environment.
        """
        if catalog is not None:
            raise UnsupportedFeatureError("tables in a catalog cannot be opened yet", feature="catalog")
        if relocate:
            raise UnsupportedFeatureError("relocated tables cannot be opened yet", feature="relocate")
        table = detect.open_table(location, session_storage_options(spark, storage_options))
        table.snapshot()
        return cls(spark, table)

    @property
    def format(self) -> str:
        return self._table.format

    @property
    def location(self) -> str:
        return self._table.location

    @property
    def version(self) -> int:
        return self._table.snapshot().version

    @property
    def schema(self) -> StructType:
        return logical(self._table.snapshot().schema)

    @property
    def properties(self) -> Mapping[str, str]:
        return dict(self._table.snapshot().properties)

    def __repr__(self) -> str:
        return f"Table({self.location!r}, format={self.format!r})"

    def to_df(
        self,
        version: int | None = None,
        timestamp: dt.datetime | str | None = None,
        where: str | Column | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """The rows, deleted ones left out, for which ``where`` is true.

        Files that cannot hold such a row are not opened. The DataFrame stays at its version.
        """
        snapshot = self._table.snapshot(version, timestamp)
        chosen = None if columns is None else _chosen(columns, snapshot, self._spark)
        plan, problem = self._plan(snapshot, where if isinstance(where, str) else None)
        frame = scan(self._spark, plan, self._table.storage)
        if where is not None:
            frame = _filtered(frame, where, problem)
        return frame if chosen is None else frame.select(*chosen)

    def files(self) -> DataFrame:
        """The live data files: where, size, rows, deleted rows, partition values."""
        plan = self._table.snapshot().plan(time_zone=session_facts(self._spark).time_zone)
        deleted = plan.deletes.column("cardinality").take(plan.files.column("vector")).fill_null(0)
        files = plan.files.select(_FILE_COLUMNS).add_column(3, "deleted_count", deleted)
        if not any(spec.fields for spec in plan.specs.values()):
            files = files.drop_columns(["partition"])  # Spark has no struct without fields
        return self._spark.createDataFrame(files)

    def history(self, limit: int | None = None) -> DataFrame:
        """The commits, newest first."""
        return self._spark.createDataFrame(self._table.history(limit))

    def register(self, name: str) -> None:
        """Give the table a name for ``delvec.sql``."""
        if not name or not name.replace("_", "a").isalnum():
            raise InvalidOperationError(f"name is {name!r}, expected letters, digits and _")
        _registered[name.lower()] = self

    def _plan(
        self, snapshot: formats.Snapshot, where: str | None
    ) -> tuple[ScanPlan, InvalidOperationError | None]:
        """The plan; where delvec cannot read the condition, a plan without it, and why."""
        facts = session_facts(self._spark)

        def plan(condition: str | None) -> ScanPlan:
            return snapshot.plan(
                condition, case_sensitive=facts.case_sensitive, time_zone=facts.time_zone, ansi=facts.ansi
            )

        try:
            return plan(where), None
        except InvalidOperationError as error:
            return plan(None), error


def _filtered(frame: DataFrame, where: str | Column, problem: InvalidOperationError | None) -> DataFrame:
    """Spark has the last word on a condition that delvec did not understand."""
    if problem is None:
        return frame.where(where)
    try:
        filtered = frame.where(where)
        _ = filtered.schema
    except PySparkException:
        raise problem from None
    return filtered


def _chosen(columns: Sequence[str], snapshot: formats.Snapshot, spark: SparkSession) -> list[str]:
    case_sensitive = session_facts(spark).case_sensitive
    for name in columns:
        if len(snapshot.schema.find(name, case_sensitive=case_sensitive)) != 1:
            known = ", ".join(field.name for field in snapshot.schema)
            raise InvalidOperationError(f"unknown column {name!r} in columns, expected some of {known}")
    return ["`" + name.replace("`", "``") + "`" for name in columns]
