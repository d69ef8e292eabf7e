"""``Table``: one object with one set of verbs, whatever the format. Each verb delegates."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, Literal, overload

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from delvec import detect, formats, predicate
from delvec.errors import DelvecError, InvalidOperationError, StorageError, UnsupportedFeatureError
from delvec.partition_spec import identity_fields
from delvec.plan import ScanPlan
from delvec.row_delta import Isolation, Txn
from delvec.schema import Schema
from delvec.spark import add_columns, append
from delvec.spark.append import STATIC
from delvec.spark.commit_and_rerun import Rows, run
from delvec.spark.delete import delete
from delvec.spark.dry_run import (
    Preview,
    preview_delete,
    preview_merge,
    preview_overwrite,
    preview_update,
)
from delvec.spark.merge import Merge, merge
from delvec.spark.merge_builder import MergeBuilder
from delvec.spark.merge_clauses import Clause
from delvec.spark.merge_source import MergeSource
from delvec.spark.notebook import html_pairs
from delvec.spark.python_rows import frame_of
from delvec.spark.scan import scan
from delvec.spark.session import session_storage_options, sql_settings, verify_running
from delvec.spark.set_clause import Assignments
from delvec.spark.target import OperationResult, Target, translated
from delvec.spark.text_lengths import as_created
from delvec.spark.types import (
    as_nullable,
    from_spark,
    logical,
    parse_ddl,
    quoted,
    spark_type,
    verify_spark_type,
)
from delvec.spark.update import update
from delvec.spark.version_times import instant_of

_TARGET = "target"
_COLUMNS_SHOWN = 20
_CANCELLED = ("SPARK_JOB_CANCELLED", "OPERATION_CANCELED", "cancelled because SparkContext was shut down")
_FILE_COLUMNS = ["location", "size", "record_count", "partition"]
_STORE_EXCEPTIONS = ("java.io.", "java.nio.file.", "org.apache.hadoop.fs.")
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
        verify_running(spark)
        if catalog is not None:
            raise UnsupportedFeatureError("tables in a catalog cannot be opened yet", feature="catalog")
        if relocate:
            raise UnsupportedFeatureError("relocated tables cannot be opened yet", feature="relocate")
        table = detect.open_table(location, session_storage_options(spark, location, storage_options))
        table.snapshot()
        return cls(spark, table)

    @classmethod
    def create(  # noqa: PLR0917 - the names are fixed, so are their places
        cls,
        spark: SparkSession,
        location: str,
        df_or_schema: Any,
        format: str = "delta",  # noqa: A002 - the name is fixed
        format_version: int | None = None,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        catalog: object | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Table:
        """A new table, with the rows of a DataFrame (or of what ``append`` takes) or without any (a schema,
        or its DDL text).

        Refused where a table is. Deletion vectors are on unless ``properties`` say otherwise.
        """
        verify_running(spark)
        if catalog is not None:
            raise UnsupportedFeatureError("tables in a catalog cannot be created yet", feature="catalog")
        if format_version is not None:
            raise InvalidOperationError(f"format_version is {format_version}, expected none for {format}")
        table = detect.new_table(location, format, session_storage_options(spark, location, storage_options))
        given = df_or_schema
        frame = None if isinstance(given, StructType | str) else frame_of(spark, given, None)
        schema = as_created(spark, _schema(given if frame is None else frame))
        by = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        draft = table.draft(schema, partition_by=identity_fields(schema, by), properties=properties)
        target = Target(spark, table, draft, draft.rules(), sql_settings(spark))
        _run(lambda: append.create(target, frame))
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
        base = f"Table({self.location!r}, format={self.format!r}"
        try:
            snapshot = self._table.snapshot()
        except DelvecError:  # shown all the same
            return base + ")"
        return f"{base}, version={snapshot.version}, columns={_listed(snapshot.schema)!r})"

    def _repr_html_(self) -> str:
        try:
            snapshot = self._table.snapshot()
        except DelvecError as error:
            return html_pairs("delvec table", [("location", self.location), ("error", error)])
        facts = [
            ("location", self.location),
            ("format", self.format),
            ("version", snapshot.version),
            ("columns", _listed(snapshot.schema)),
        ]
        if snapshot.spec.fields:
            facts.append(("partitioned by", ", ".join(map(str, snapshot.spec.fields))))
        return html_pairs("delvec table", facts)

    def to_df(
        self,
        version: int | None = None,
        timestamp: dt.datetime | str | None = None,
        where: str | Column | None = None,
        columns: Sequence[str] | str | None = None,
    ) -> DataFrame:
        """The rows, deleted ones left out, for which ``where`` is true.

        Files that cannot hold such a row are not opened. The DataFrame stays at its version. ``timestamp``:
        the version that was the newest at this time. A datetime without a zone is in Python's local time, a
        text without a zone in the session's time zone.
        """
        verify_running(self._spark)
        at = None if timestamp is None else instant_of(self._spark, timestamp)
        snapshot = self._table.snapshot(_number(version), at)
        names = [columns] if isinstance(columns, str) else columns
        chosen = None if names is None else _chosen(names, snapshot, self._spark)
        plan, problem = self._plan(snapshot, where if isinstance(where, str) else None)
        frame = scan(self._spark, plan, self._table.storage)
        if where is not None:
            frame = _filtered(frame, where, problem)
        return frame if chosen is None else frame.select(*chosen)

    def append(
        self,
        df: Any,
        merge_schema: bool = False,  # noqa: FBT001, FBT002 - the name is fixed, so is its place
        app_id: str | None = None,
        app_version: int | None = None,
    ) -> OperationResult:
        """Add the rows of ``df``, its columns by their names. It is a DataFrame of Spark, pandas or polars,
        an Arrow table, or a list of dicts, Rows or tuples.

        ``df`` may also be a function that makes the rows: it is called again where the append must run again.
        ``merge_schema`` adds columns that the table lacks. ``app_id`` and ``app_version`` make a writer
        idempotent: a version that it has written before, or a smaller one, changes nothing.
        """
        if (app_id is None) != (app_version is None):
            raise InvalidOperationError(
                f"app_id is {app_id!r} and app_version {app_version!r}, expected both or none"
            )
        txn = None if app_id is None or app_version is None else Txn(app_id, app_version)
        rows = self._rows(df)
        return self._change(lambda target: append.append(target, rows, merge_schema=merge_schema, txn=txn))

    @overload
    def overwrite(
        self,
        df: Any,
        where: str | Column | None = None,
        partitions: str = STATIC,
        *,
        isolation: str | None = None,
        dry_run: Literal[True],
    ) -> Preview: ...

    @overload
    def overwrite(
        self,
        df: Any,
        where: str | Column | None = None,
        partitions: str = STATIC,
        *,
        isolation: str | None = None,
        dry_run: bool = False,
    ) -> OperationResult: ...

    def overwrite(
        self,
        df: Any,
        where: str | Column | None = None,
        partitions: str = STATIC,
        *,
        isolation: str | None = None,
        dry_run: bool = False,
    ) -> OperationResult:
        """Put the rows of ``df`` in the place of all rows, of those for which ``where`` is true, or
        (``partitions="dynamic"``) of those in the partitions that ``df`` has rows for.

        A new row outside of ``where`` is refused. ``df`` may also be a function that makes the rows.
        """
        verb, rows = preview_overwrite if dry_run else append.overwrite, self._rows(df)
        return self._change(
            lambda target: verb(target, rows, where=where, partitions=partitions), isolation=isolation
        )

    @overload
    def delete(
        self,
        where: str | Column | None = None,
        *,
        isolation: str | None = None,
        alias: str | None = None,
        dry_run: Literal[True],
    ) -> Preview: ...

    @overload
    def delete(
        self,
        where: str | Column | None = None,
        *,
        isolation: str | None = None,
        alias: str | None = None,
        dry_run: bool = False,
    ) -> OperationResult: ...

    def delete(
        self,
        where: str | Column | None = None,
        *,
        isolation: str | None = None,
        alias: str | None = None,
        dry_run: bool = False,
    ) -> OperationResult:
        """Remove the rows for which ``where`` is true; all rows without it.

        ``isolation``, here and elsewhere: ``serializable``, ``write-serializable`` or ``snapshot``; what the
        table says by default. ``alias``: what subqueries in the condition call this table, ``target`` by
        default (unless a column has that name). ``dry_run``, here and elsewhere: change nothing, and return
        what would happen to each file (a ``Preview``).
        """
        verb = preview_delete if dry_run else delete
        return self._change(
            lambda target: verb(target, where),
            new_rows=False,
            isolation=isolation,
            alias=alias,
            default_alias=_TARGET,
        )

    @overload
    def update(
        self,
        set: Assignments,
        where: str | Column | None = None,
        *,
        isolation: str | None = None,
        alias: str | None = None,
        dry_run: Literal[True],
    ) -> Preview: ...

    @overload
    def update(
        self,
        set: Assignments,
        where: str | Column | None = None,
        *,
        isolation: str | None = None,
        alias: str | None = None,
        dry_run: bool = False,
    ) -> OperationResult: ...

    def update(
        self,
        set: Assignments,  # noqa: A002 - the word of SQL
        where: str | Column | None = None,
        *,
        isolation: str | None = None,
        alias: str | None = None,
        dry_run: bool = False,
    ) -> OperationResult:
        """Give columns new values in the rows for which ``where`` is true; in all rows without it."""
        verb = preview_update if dry_run else update
        return self._change(
            lambda target: verb(target, set, where), isolation=isolation, alias=alias, default_alias=_TARGET
        )

    def merge(
        self,
        source_df: Any,
        on: str | Column,
        source_alias: str = "source",
        target_alias: str = _TARGET,
        merge_schema: bool = False,  # noqa: FBT001, FBT002
        *,
        isolation: str | None = None,
    ) -> MergeBuilder:
        """Change the table by the rows of ``source_df``: add clauses to what this gives, then execute it.

        The rows are computed once. A function that makes them is called for each run of the statement.
        """

        def execute(clauses: tuple[Clause, ...], dry_run: bool) -> OperationResult:  # noqa: FBT001
            source = MergeSource(self._rows(source_df))

            def verb(target: Target) -> OperationResult:
                request = Merge(source.frame(), on, source_alias, target_alias, clauses, merge_schema)
                return (preview_merge if dry_run else merge)(target, request, source)

            return self._change(verb, isolation=isolation)

        return MergeBuilder(execute)

    def set_properties(self, properties: Mapping[str, str | None]) -> OperationResult:
        """Set properties of the table; None unsets one."""
        return self._change(lambda target: append.set_properties(target, properties), new_rows=False)

    def add_columns(self, columns: StructType | str) -> OperationResult:
        """Add columns after the others (a schema, or its DDL text): null in the rows that are there.

        Fields of a struct that the table has already are added to it.
        """
        given = as_created(self._spark, _schema(columns))
        return self._change(lambda target: add_columns.add_columns(target, given))

    def files(self) -> DataFrame:
        """The live data files: where, size, rows, deleted rows, partition values."""
        verify_running(self._spark)
        plan = self._table.snapshot().plan(time_zone=sql_settings(self._spark).time_zone)
        deleted = plan.deletes.column("cardinality").take(plan.files.column("vector")).fill_null(0)
        files = plan.files.select(_FILE_COLUMNS).add_column(3, "deleted_count", deleted)
        if not any(spec.fields for spec in plan.specs.values()):
            files = files.drop_columns(["partition"])  # Spark has no struct without fields
        # Else a time without a zone would be taken for one in the session's zone.
        schema = from_arrow_schema(files.schema, prefer_timestamp_ntz=True)
        return self._spark.createDataFrame(files, schema)

    def history(self, limit: int | None = None) -> DataFrame:
        """The commits, newest first."""
        verify_running(self._spark)
        return self._spark.createDataFrame(self._table.history(limit))

    def register(self, name: str) -> None:
        """Give the table a name for ``delvec.sql``."""
        if not name or not name.replace("_", "a").isalnum():
            raise InvalidOperationError(f"name is {name!r}, expected letters, digits and _")
        _registered[name.lower()] = self

    def _rows(self, given: Any) -> Rows:
        """The rows that a verb is given, as a DataFrame, or as a function that makes one."""
        verify_running(self._spark)
        if isinstance(given, DataFrame):
            return given
        schema = self._table.snapshot().schema
        if callable(given):
            return lambda: frame_of(self._spark, given(), schema)
        return frame_of(self._spark, given, schema)

    def _change(
        self,
        verb: Callable[[Target], OperationResult],
        *,
        new_rows: bool = True,
        isolation: str | None = None,
        alias: str | None = None,
        default_alias: str | None = None,
    ) -> OperationResult:
        """Run the verb on the newest version; again where another writer came first and mattered."""
        verify_running(self._spark)
        level = _level(isolation)

        def target(number: int) -> Target:
            return Target.of(
                self._spark,
                self._table,
                new_rows=new_rows,
                run=number,
                level=level,
                alias=alias,
                default_alias=default_alias,
            )

        return _run(lambda: run(target, verb))

    def _plan(
        self, snapshot: formats.Snapshot, where: str | None
    ) -> tuple[ScanPlan, InvalidOperationError | None]:
        """The plan. If delvec cannot read the condition, a plan without it, and the error."""
        settings = sql_settings(self._spark)
        condition, problem = None, None
        try:
            condition = None if where is None else predicate.parse(where, snapshot.schema, settings)
        except InvalidOperationError as error:
            problem = error
        return snapshot.plan(condition, time_zone=settings.time_zone), problem


def _listed(schema: Schema) -> str:
    """The first columns with their types."""
    shown = [f"{field.name} {spark_type(field.type).simpleString()}" for field in schema]
    more = [f"… ({len(shown)} columns)"] if len(shown) > _COLUMNS_SHOWN else []
    return ", ".join(shown[:_COLUMNS_SHOWN] + more)


def _number(version: object) -> int | None:
    if version is None:
        return None
    if isinstance(version, bool) or not isinstance(version, Integral):  # of numpy too
        raise InvalidOperationError(f"version is {version!r}, expected a whole number")
    return int(version)


def _level(given: str | None) -> Isolation | None:
    if given is None:
        return None
    known = {level.replace("-", ""): level for level in Isolation}
    found = known.get(given.lower().replace("-", "").removesuffix("isolation"))
    if found is None:
        raise InvalidOperationError(f"isolation is {given!r}, expected one of {', '.join(Isolation)}")
    return found


def registered_table(name: str, spark: SparkSession) -> Table | None:
    """The table that ``Table.register`` gave the name to, seen from the session."""
    known = _registered.get(name.lower())
    return None if known is None else Table(spark, known._table)


def unregister(name: str) -> None:
    """Forget the name that ``Table.register`` gave."""
    _registered.pop(name.lower(), None)


def _run(verb: Callable[[], OperationResult]) -> OperationResult:
    try:
        return verb()
    except PySparkException as error:
        _verify_not_cancelled(error)
        ours = translated(error)
        if ours is error:
            raise
        raise ours from None
    except Exception as error:
        _verify_not_cancelled(error)
        refused = _refusal(error)
        if refused is None:
            raise
        raise refused from error


def _verify_not_cancelled(error: Exception) -> None:
    if any(condition in str(error) for condition in _CANCELLED):
        raise DelvecError("the Spark job was cancelled: the table is as it was") from error


def _refusal(error: Exception) -> StorageError | None:
    """What a store answered Spark, which has no exception of its own for it."""
    java = getattr(error, "java_exception", None)  # of py4j, which a Connect client need not have
    if java is None or not str(java.getClass().getName()).startswith(_STORE_EXCEPTIONS):
        return None
    return StorageError(f"Spark could not read or write: {java.toString()}")


def _schema(given: DataFrame | StructType | str) -> Schema:
    if isinstance(given, StructType):
        return from_spark(given)
    if isinstance(given, str):
        try:
            return from_spark(parse_ddl(given))
        except PySparkException as error:
            raise InvalidOperationError(f"schema {given!r} is invalid: {error}") from None
    if isinstance(given, DataFrame):
        # That these rows have no null says nothing of later ones.
        return as_nullable(from_spark(given.schema))
    raise InvalidOperationError(
        f"rows or schema are {type(given).__name__}, expected a DataFrame or a schema"
    )


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
    case_sensitive = sql_settings(spark).case_sensitive
    for name in columns:
        found = snapshot.schema.find(name, case_sensitive=case_sensitive)
        if len(found) != 1:
            known = ", ".join(field.name for field in snapshot.schema)
            raise InvalidOperationError(f"unknown column {name!r} in columns, expected some of {known}")
        verify_spark_type(found[0])
    return [quoted(name) for name in columns]
