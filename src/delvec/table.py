"""``Table``: one object with the same verbs for every format. Each verb delegates to `delvec.spark`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack, overload

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from delvec import detect, formats, name_resolver
from delvec.browse import metadata_tree
from delvec.conflicts import Rerun
from delvec.errors import DelvecError, InvalidOperationError, UnsupportedFeatureError
from delvec.metadata_tree import DEFAULT_LIMIT, MetadataTree
from delvec.partition_by import partition_fields
from delvec.ref_changes import BRANCH, IfExists, NewRef, RefRetention, verify_kind
from delvec.row_delta import Isolation, Txn, Verb
from delvec.schema import Schema, Struct
from delvec.spark import add_columns, append, read
from delvec.spark.append import STATIC
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.changes import changes
from delvec.spark.commit_and_rerun import Rows, run
from delvec.spark.compaction import Compaction, CompactionResult
from delvec.spark.convert import PartitionColumns, convert, plan_conversion
from delvec.spark.count import count_rows
from delvec.spark.delete import delete
from delvec.spark.delete_keys import delete_keys
from delvec.spark.delete_rewrite import VECTORS, DeleteRewrite, DeletesRewritten
from delvec.spark.drop_vectors import VectorsDropped, drop_vectors
from delvec.spark.dry_run import (
    Preview,
    preview_delete,
    preview_merge,
    preview_overwrite,
    preview_update,
)
from delvec.spark.error_translation import translated_errors
from delvec.spark.key_columns import KeyFields, key_fields
from delvec.spark.key_preview import preview_delete_keys, preview_upsert
from delvec.spark.last_rows import OrderBy
from delvec.spark.merge import merge
from delvec.spark.merge_builder import MergeBuilder
from delvec.spark.merge_clauses import Clause
from delvec.spark.merge_request import Merge
from delvec.spark.merge_source import MergeSource
from delvec.spark.notebook import column_list, html_pairs
from delvec.spark.optimize import optimize
from delvec.spark.progress import tell
from delvec.spark.python_rows import frame_of
from delvec.spark.restore import RestoreResult, restore
from delvec.spark.rewrite_deletes import rewrite_deletes
from delvec.spark.session import (
    session_storage_options,
    sql_settings,
    verify_credentials,
    verify_running,
)
from delvec.spark.set_clause import Assignments
from delvec.spark.target import OperationResult, Target
from delvec.spark.text_lengths import as_created
from delvec.spark.types import logical, schema_from
from delvec.spark.update import update
from delvec.spark.upsert import upsert
from delvec.spark.version_times import bound, instant_of, version_number
from delvec.vacuum import VacuumResult, vacuum
from delvec.verify import Report, verify_table

_TARGET = "target"

Condition = str | Column | None


class _Level(TypedDict, total=False):
    isolation: str | None


class _LevelAndAlias(_Level, total=False):
    alias: str | None


class Table:
    """A table, used from a Spark session. ``Table.open`` and ``Table.create`` make one. It always shows the
    newest version.
    """

    def __init__(self, spark: SparkSession, table: formats.Table) -> None:
        self._spark = spark
        self._table = table

    @classmethod
    def open(  # noqa: PLR0917 - the public interface fixes names and positions
        cls,
        spark: SparkSession,
        location_or_identifier: str,
        catalog: object | None = None,
        ref: str | None = None,
        relocate: bool = False,  # noqa: FBT001, FBT002 - the public interface fixes the name and the position
        storage_options: Mapping[str, str] | None = None,
    ) -> Table:
        """The table at a location, or with an identifier such as ``db.orders`` in a ``catalog``. Detects the
        format.

        ``ref``: the table at a branch or tag. ``relocate``: the table was copied, and its files are taken
        from where it is now. ``storage_options`` default to the session's ``spark.hadoop.fs.*`` and the
        environment.
        """
        verify_running(spark)
        reference = name_resolver.reference_to(location_or_identifier, catalog=catalog, relocate=relocate)
        return open_reference(spark, reference, storage_options, ref=ref)

    @classmethod
    def create(  # noqa: PLR0917 - the public interface fixes names and positions
        cls,
        spark: SparkSession,
        location: str,
        df_or_schema: Any,
        format: str | None = None,  # noqa: A002 - the public interface fixes the name
        format_version: int | None = None,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        catalog: object | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Table:
        """Create a table, with the rows of a DataFrame (or of anything that ``append`` accepts), or without
        rows (from a schema or its DDL text).

        With a ``catalog`` the location is an identifier such as ``db.orders``, and the catalog chooses where
        the table is. ``format`` is by default that of the catalog's tables, without a catalog ``delta``.
        Refused if the table exists. Deletion vectors are on unless ``properties`` switch them off.
        """
        verify_running(spark)
        reference = name_resolver.reference_to(location, catalog=catalog)
        return create_table(
            spark,
            reference,
            df_or_schema,
            table_format=name_resolver.created_format(format, reference),
            partition_by=[partition_by] if isinstance(partition_by, str) else list(partition_by),
            properties=properties,
            format_version=format_version,
            storage_options=storage_options,
        )

    @classmethod
    def convert(  # noqa: PLR0917 - the public interface fixes names and positions
        cls,
        spark: SparkSession,
        location: str,
        partition_by: PartitionColumns = (),
        format: str = detect.DEFAULT_FORMAT,  # noqa: A002 - the public interface fixes the name
        properties: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
        *,
        statistics: bool = True,
    ) -> Table:
        """Make a table of a folder of Parquet files, which stay where they are.

        ``partition_by``: the columns whose values are in the names of folders, with their types
        (``"day DATE, region STRING"``); a name alone is a string. Deletion vectors are on, as in ``create``.
        ``statistics`` false: only rows are counted, no values are recorded to skip files by.
        """
        verify_running(spark)
        options = session_storage_options(spark, location, storage_options)
        table = detect.table_of_files(location, format, options)
        with translated_errors():
            convert(plan_conversion(spark, table, partition_by, properties, statistics=statistics))
        return cls(spark, table)

    @property
    def format_table(self) -> formats.Table:
        """The table as its format has it, which needs no Spark session."""
        return self._table

    @property
    def format(self) -> str:
        return self._table.format

    @property
    def format_version(self) -> int | None:
        """The version of the table's format; None if the format has no such number."""
        return self._table.snapshot().format_version

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
        except DelvecError:  # repr must not fail
            return base + ")"
        return f"{base}, version={snapshot.version}, columns={column_list(snapshot.schema)!r})"

    def _repr_html_(self) -> str:
        try:
            snapshot = self._table.snapshot()
        except DelvecError as error:
            return html_pairs("delvec table", [("location", self.location), ("error", error)])
        facts = [
            ("location", self.location),
            ("format", self.format),
            ("version", snapshot.version),
            ("columns", column_list(snapshot.schema)),
        ]
        if snapshot.spec.fields:
            facts.append(("partitioned by", ", ".join(map(str, snapshot.spec.fields))))
        return html_pairs("delvec table", facts)

    def to_df(
        self,
        version: int | None = None,
        timestamp: dt.datetime | str | None = None,
        ref: str | None = None,
        where: Condition = None,
        columns: Sequence[str] | str | None = None,
    ) -> DataFrame:
        """The live rows for which ``where`` is true.

        Files that cannot contain such a row are not opened. The DataFrame stays at its version. ``timestamp``
        selects the version that was the newest at this time. A datetime without a zone is in Python's local
        time, a text without a zone in the session's time zone. ``ref`` selects a branch or tag.
        """
        snapshot = self._at(version, timestamp, ref)
        self._verify_credentials()
        is_newest = version is None and timestamp is None and ref is None
        newest = None if is_newest else self._table.snapshot().version
        return read.rows(self._spark, snapshot, self._table.storage, where, columns, newest=newest)

    def count(
        self,
        where: Condition = None,
        *,
        version: int | None = None,
        timestamp: dt.datetime | str | None = None,
        ref: str | None = None,
    ) -> int:
        """The number of live rows for which ``where`` is true, from the metadata where that decides. Only the
        other files are read.
        """
        snapshot = self._at(version, timestamp, ref)
        self._verify_credentials()
        return count_rows(self._spark, snapshot, self._table.storage, where)

    def append(
        self,
        df: Any,
        merge_schema: bool = False,  # noqa: FBT001, FBT002 - the public interface fixes name and position
        app_id: str | None = None,
        app_version: int | None = None,
    ) -> OperationResult:
        """Append the rows of ``df``, matching columns by name. It is a Spark, pandas or polars DataFrame, an
        Arrow table, or a list of dicts, Rows or tuples.

        ``df`` may also be a function that returns the rows; it is called again if the append must run again.
        ``merge_schema`` adds columns that the table lacks. ``app_id`` and ``app_version`` make a writer
        idempotent: a version that it has already written, or a smaller one, changes nothing.
        """
        if (app_id is None) != (app_version is None):
            raise InvalidOperationError(
                f"app_id is {app_id!r} and app_version {app_version!r}, expected both or none"
            )
        txn = None if app_id is None or app_version is None else Txn(app_id, app_version)
        rows = self._rows(df)
        return self._change(
            Verb.APPEND, lambda target: append.append(target, rows, merge_schema=merge_schema, txn=txn)
        )

    @overload
    def overwrite(self, df: Any, where: Condition = None, partitions: str = STATIC, *, dry_run: Literal[True],
                  **options: Unpack[_Level]) -> Preview: ...  # fmt: skip
    @overload
    def overwrite(self, df: Any, where: Condition = None, partitions: str = STATIC, *, dry_run: bool = False,
                  **options: Unpack[_Level]) -> OperationResult: ...  # fmt: skip
    def overwrite(
        self,
        df: Any,
        where: Condition = None,
        partitions: str = STATIC,
        *,
        isolation: str | None = None,
        dry_run: bool = False,
    ) -> OperationResult:
        """Replace all rows by the rows of ``df``; or those for which ``where`` is true; or, with
        ``partitions="dynamic"``, those in the partitions for which ``df`` has rows.

        A new row for which ``where`` is not true is refused. ``df`` may also be a function that returns the
        rows.
        """
        verb, rows = preview_overwrite if dry_run else append.overwrite, self._rows(df)
        return self._change(
            Verb.REPLACE,
            lambda target: verb(target, rows, where=where, partitions=partitions),
            isolation=isolation,
        )

    @overload
    def delete(
        self, where: Condition = None, *, dry_run: Literal[True], **options: Unpack[_LevelAndAlias]
    ) -> Preview: ...
    @overload
    def delete(
        self, where: Condition = None, *, dry_run: bool = False, **options: Unpack[_LevelAndAlias]
    ) -> OperationResult: ...
    def delete(
        self,
        where: Condition = None,
        *,
        isolation: str | None = None,
        alias: str | None = None,
        dry_run: bool = False,
    ) -> OperationResult:
        """Delete the rows for which ``where`` is true; all rows without it.

        On tables that ask for it, the keys in a condition over literals are stored and no row is read: then
        the number of deleted rows is None (`delvec.spark.condition_keys`).

        ``isolation``, in all verbs: ``serializable``, ``write-serializable`` or ``snapshot``; by default the
        table's. ``alias``: the name of this table in subqueries of the condition, by default ``target``
        (unless a column has that name). ``dry_run``, in all verbs: change nothing, and return what would
        happen to each file (a ``Preview``).
        """
        verb = preview_delete if dry_run else delete
        return self._change(
            Verb.DELETE,
            lambda target: verb(target, where),
            isolation=isolation,
            alias=alias,
            default_alias=_TARGET,
        )

    @overload
    def update(self, set: Assignments, where: Condition = None, *, dry_run: Literal[True],
               **options: Unpack[_LevelAndAlias]) -> Preview: ...  # fmt: skip
    @overload
    def update(self, set: Assignments, where: Condition = None, *, dry_run: bool = False,
               **options: Unpack[_LevelAndAlias]) -> OperationResult: ...  # fmt: skip
    def update(
        self,
        set: Assignments,  # noqa: A002 - the word of SQL
        where: Condition = None,
        *,
        isolation: str | None = None,
        alias: str | None = None,
        dry_run: bool = False,
    ) -> OperationResult:
        """Set columns to new values in the rows for which ``where`` is true; in all rows without it."""
        verb = preview_update if dry_run else update
        return self._change(
            Verb.UPDATE,
            lambda target: verb(target, set, where),
            isolation=isolation,
            alias=alias,
            default_alias=_TARGET,
        )

    def merge(
        self,
        source_df: Any,
        on: str | Column,
        source_alias: str = "source",
        target_alias: str = _TARGET,
        merge_schema: bool = False,  # noqa: FBT001, FBT002 - the public interface fixes name and position
        *,
        isolation: str | None = None,
    ) -> MergeBuilder:
        """Merge the rows of ``source_df`` into the table: add clauses to the builder, then execute it.

        The rows are computed once. A function that returns them is called for each run of the statement.
        """

        def execute(clauses: tuple[Clause, ...], dry_run: bool) -> OperationResult:  # noqa: FBT001
            source = MergeSource(self._rows(source_df))

            def verb(target: Target) -> OperationResult | Rerun:
                request = Merge(source.frame(), on, source_alias, target_alias, clauses, merge_schema)
                return (preview_merge if dry_run else merge)(target, request, source)

            return self._change(Verb.MERGE, verb, isolation=isolation)

        return MergeBuilder(execute)

    @overload
    def delete_keys(self, keys_df: Any, on: str | Sequence[str], *, dry_run: Literal[True],
                    **options: Unpack[_Level]) -> Preview: ...  # fmt: skip
    @overload
    def delete_keys(self, keys_df: Any, on: str | Sequence[str], *, dry_run: bool = False,
                    **options: Unpack[_Level]) -> OperationResult: ...  # fmt: skip
    def delete_keys(
        self,
        keys_df: Any,
        on: str | Sequence[str],
        *,
        isolation: str | None = None,
        dry_run: bool = False,
    ) -> OperationResult:
        """Delete the rows that have one of these keys in the columns ``on``. Null equals null.

        ``keys_df`` is anything that ``append`` accepts; tuples have the columns ``on``, and other columns are
        ignored. Tables with deletes by key are not read: then the number of deleted rows is None.
        """
        fields = self._key_fields(on)
        keys = MergeSource(self._rows(keys_df, Struct(fields)))
        verb = preview_delete_keys if dry_run else delete_keys
        return self._change(Verb.DELETE_KEYS, lambda target: verb(target, keys, on), isolation=isolation)

    @overload
    def upsert(self, df: Any, on: str | Sequence[str], order_by: OrderBy = None, *, dry_run: Literal[True],
               **options: Unpack[_Level]) -> Preview: ...  # fmt: skip
    @overload
    def upsert(self, df: Any, on: str | Sequence[str], order_by: OrderBy = None, *, dry_run: bool = False,
               **options: Unpack[_Level]) -> OperationResult: ...  # fmt: skip
    def upsert(
        self,
        df: Any,
        on: str | Sequence[str],
        order_by: OrderBy = None,
        *,
        isolation: str | None = None,
        dry_run: bool = False,
    ) -> OperationResult:
        """Replace all rows that have the key (the columns ``on``) of a row of ``df`` by the rows of ``df``.

        Of several new rows with one key the last by ``order_by`` is taken: columns of ``df``, which the table
        need not have. Without it, and if two of them are the last, they are refused. Null equals null.
        """
        self._key_fields(on)
        rows = MergeSource(self._rows(df))
        verb = preview_upsert if dry_run else upsert
        return self._change(Verb.UPSERT, lambda target: verb(target, rows, on, order_by), isolation=isolation)

    def _key_fields(self, on: str | Sequence[str]) -> KeyFields:
        verify_running(self._spark)
        case_sensitive = sql_settings(self._spark).case_sensitive
        return key_fields(self._table.snapshot().schema, on, case_sensitive=case_sensitive)

    def optimize(
        self,
        where: Condition = None,
        target_file_size: int | None = None,
        max_deleted_rows_ratio: float = 0.05,
        zorder_by: Sequence[str] | str | None = None,
        bytes_per_commit: int | None = None,
        *,
        dry_run: bool = False,
    ) -> CompactionResult:
        """Combine small files of a partition into files of ``target_file_size`` bytes, and rewrite files of
        which a larger share of rows is deleted than ``max_deleted_rows_ratio``. No row changes.

        ``where`` selects partitions. ``zorder_by`` sorts the rows of all selected files by these columns.
        ``bytes_per_commit`` commits after so many bytes, so that a failure does not lose all work.
        """
        columns = (zorder_by,) if isinstance(zorder_by, str) else tuple(zorder_by or ())
        compaction = Compaction(where, target_file_size, max_deleted_rows_ratio, columns, bytes_per_commit)
        return self._compact(compaction, dry_run=dry_run)

    def purge(self, where: Condition = None, *, dry_run: bool = False) -> CompactionResult:
        """Rewrite every file that has deleted rows, without these rows. ``where`` selects partitions."""
        return self._compact(Compaction(where, purge=True), dry_run=dry_run)

    def _compact(self, compaction: Compaction, *, dry_run: bool) -> CompactionResult:
        verify_running(self._spark)
        with translated_errors():
            return optimize(
                lambda number: Target.of(self._spark, self._table, Verb.COMPACT, run=number),
                compaction,
                dry_run=dry_run,
            )

    def rewrite_deletes(
        self,
        to: str = VECTORS,
        where: Condition = None,
        encoding: str | None = None,
        *,
        dry_run: bool = False,
    ) -> DeletesRewritten:
        """Store deletes in another form, in one commit. No row changes.

        ``to``: ``deletion-vector`` makes position vectors of position-delete files and of all equality
        deletes; ``position-deletes`` makes position-delete files of equality deletes, in format versions
        without vectors; ``equality-vector`` makes vectors of keys of equality-delete files, without reading
        data. ``where`` selects partitions: a delete that also applies to others stays. ``encoding``:
        ``deletion-vector`` makes vectors also of keys that are far apart.
        """
        rewrite = DeleteRewrite(to, where, encoding)
        rewrite.verify()
        result = self._change(
            Verb.REWRITE_DELETES, lambda target: rewrite_deletes(target, rewrite, dry_run=dry_run)
        )
        assert isinstance(result, DeletesRewritten)
        return result

    def set_properties(self, properties: Mapping[str, str | None]) -> OperationResult:
        """Set properties of the table; None removes a property."""
        return self._change(Verb.ALTER, lambda target: append.set_properties(target, properties))

    def add_columns(self, columns: StructType | str) -> OperationResult:
        """Add columns at the end (a schema, or its DDL text); they are null in the existing rows.

        If a column is a struct that the table has already, its new fields are added to that struct.
        """
        schema = as_created(self._spark, schema_from(columns))
        return self._change(Verb.ALTER, lambda target: add_columns.add_columns(target, schema))

    def restore(
        self,
        version: int | None = None,
        timestamp: dt.datetime | str | None = None,
        *,
        dry_run: bool = False,
    ) -> RestoreResult:
        """Give the table the state of an older version: its rows, and, if the format restores them,
        its columns and properties.

        The version is chosen by its number, or by a time as in ``to_df``. Nothing is committed if the table
        has this state already; refused if files of that version are gone.
        """
        verify_running(self._spark)
        at = None if timestamp is None else instant_of(self._spark, timestamp)
        return restore(self._table, version_number(version), at, dry_run=dry_run)

    def vacuum(
        self,
        retain_hours: float | None = None,
        dry_run: bool = False,  # noqa: FBT001, FBT002 - the public interface fixes name and position
        force: bool = False,  # noqa: FBT001, FBT002
    ) -> VacuumResult:
        """Delete the files that no version within the last ``retain_hours`` (by default the table's
        retention) needs. A shorter time than the table's needs ``force``.

        Older versions of a format that keeps them until they expire are removed from the metadata first.
        """
        return vacuum(self._table, retain_hours, dry_run=dry_run, force=force, report=tell)

    def checkpoint(self) -> int:
        """Write a summary of the newest version's metadata, for faster readers. Returns the version."""
        if not isinstance(self._table, formats.Checkpointed):
            raise UnsupportedFeatureError(
                f"{self.format} tables have no checkpoints: {self.location}", feature="checkpoint"
            )
        return self._table.checkpoint()

    def generate_manifest(self) -> None:
        """Write symlink manifests: lists of the live files, for readers that do not read the metadata.

        Refused if a file has deleted rows.
        """
        if not isinstance(self._table, formats.WithManifests):
            raise UnsupportedFeatureError(
                f"{self.format} tables have no manifests for other readers: {self.location}",
                feature="generate_manifest",
            )
        self._table.generate_manifest()

    def drop_deletion_vectors(self, *, truncate_history: bool = False) -> VectorsDropped:
        """Make the table one that readers without deletion vectors read: rewrites the files that have one.

        Older versions keep theirs. ``truncate_history`` removes these versions; as they must be kept for a
        day, it is refused at first, and the error says when to call it again.
        """
        verify_running(self._spark)
        return drop_vectors(self._table, self.set_properties, self.purge, truncate_history=truncate_history)

    def create_ref(
        self,
        name: str,
        kind: str = BRANCH,
        version: int | None = None,
        *,
        if_exists: IfExists | str = IfExists.REFUSE,
        retention: RefRetention = RefRetention(),  # noqa: B008 - it is immutable
    ) -> None:
        """Make a branch or a tag (``kind``), by default at the newest version.

        Statements on ``Table.open(…, ref=name)`` commit to the branch. ``if_exists``: ``refuse``, ``keep`` or
        ``replace``. ``retention``: how long the ref and its versions are kept; by default as the table's
        properties say.
        """
        new = NewRef(name, kind, version_number(version), IfExists.of(if_exists), retention)
        formats.with_refs(self._table, name).create_ref(new)

    def drop_ref(self, name: str, kind: str | None = None, *, if_exists: bool = False) -> None:
        """Drop a branch or a tag. Its versions stay until a vacuum removes them. ``kind``: refuse one of the
        other kind.
        """
        if kind is not None:
            verify_kind(kind)
        formats.with_refs(self._table, name).drop_ref(name, kind, if_exists=if_exists)

    def upgrade(self, format_version: int) -> None:
        """Give the table a later version of its format. No file is written again. There is no way back."""
        formats.upgrade(self._table, format_version)

    def export(self, format_version: int = 3, location: str | None = None) -> str:
        """Describe the newest version by metadata that every engine reads, for the same data files. Returns
        the location, by default beside the table.

        Only tables whose own metadata other engines cannot read need it: Iceberg tables of version 4. The
        export does not see later commits, and a vacuum of this table can delete files that it names.
        """
        if not isinstance(self._table, formats.Exportable):
            raise UnsupportedFeatureError(
                f"{self.format} tables need no export, every engine reads them: {self.location}",
                feature="export",
            )
        return self._table.export(location, format_version=format_version)

    def files(self) -> DataFrame:
        """The live data files: location, size, rows, deleted rows, partition values."""
        verify_running(self._spark)
        plan = self._table.snapshot().plan(time_zone=sql_settings(self._spark).time_zone)
        return read.files(self._spark, plan)

    def tree(
        self,
        version: int | None = None,
        timestamp: dt.datetime | str | None = None,
        *,
        limit: int = DEFAULT_LIMIT,
    ) -> MetadataTree:
        """How a version is stored: its metadata files, their data files, the deletes of these. Print it, or
        use ``document()``. ``limit``: how many children of each node are shown; 0 shows all.
        """
        return metadata_tree(self._table, self._at(version, timestamp), limit=limit)

    def verify(self, version: int | None = None, timestamp: dt.datetime | str | None = None) -> Report:
        """Check every file and delete of a version against the metadata. Problems are returned as findings,
        not raised.
        """
        verify_running(self._spark)
        at = None if timestamp is None else instant_of(self._spark, timestamp)
        return verify_table(self._table, version=version_number(version), timestamp=at)

    def history(self, limit: int | None = None) -> DataFrame:
        """The commits, newest first."""
        verify_running(self._spark)
        return frame_of_table(self._spark, self._table.history(limit))

    def changes(
        self,
        from_version: int | None = None,
        to_version: int | None = None,
        *,
        from_timestamp: dt.datetime | str | None = None,
        to_timestamp: dt.datetime | str | None = None,
    ) -> DataFrame:
        """The rows that commits inserted, deleted and updated, from a version or time to another, both
        included; by default to the newest. The table must have a change feed in all these versions.

        Columns: the table's, ``_change_type`` (insert, delete, update_preimage, update_postimage),
        ``_commit_version``, ``_commit_timestamp``.
        """
        verify_running(self._spark)
        first = bound(self._spark, "from", from_version, from_timestamp)
        if first is None:
            raise InvalidOperationError("changes have no start, expected from_version or from_timestamp")
        last = bound(self._spark, "to", to_version, to_timestamp)
        return changes(self._spark, self._table, first, last)

    def register(self, name: str) -> None:
        """Give the table a name for ``delvec.sql``."""
        if not name or not name.replace("_", "a").isalnum():
            raise InvalidOperationError(f"name is {name!r}, expected letters, digits and _")
        name_resolver.register(name, self._table)

    def _at(
        self, version: int | None, timestamp: dt.datetime | str | None, ref: str | None = None
    ) -> formats.Snapshot:
        """The version with this number, of this time, or at this branch or tag; by default the newest."""
        verify_running(self._spark)
        at = None if timestamp is None else instant_of(self._spark, timestamp)
        return formats.snapshot_of(self._table, version_number(version), at, ref)

    def _verify_credentials(self) -> None:
        """Refuse to read rows if only delvec has the credentials of the store."""
        if isinstance(self._table, formats.WithCredentials):
            verify_credentials(self._spark, self._table.credentials, self.location)

    def _rows(self, df: Any, schema: Schema | None = None) -> Rows:
        """The rows that a verb gets, as a DataFrame, or as a function that returns one. ``schema``: the
        columns of rows without names, by default the table's.
        """
        verify_running(self._spark)
        if isinstance(df, DataFrame):
            return df
        schema = schema or self._table.snapshot().schema
        if callable(df):
            return lambda: frame_of(self._spark, df(), schema)
        return frame_of(self._spark, df, schema)

    def _change(
        self,
        verb: Verb,
        statement: Callable[[Target], OperationResult | Rerun],
        *,
        isolation: str | None = None,
        alias: str | None = None,
        default_alias: str | None = None,
    ) -> OperationResult:
        """Run the statement on the newest version, and again after a conflict with another writer."""
        verify_running(self._spark)
        level = None if isolation is None else Isolation.of(isolation)

        def target(number: int) -> Target:
            return Target.of(
                self._spark,
                self._table,
                verb,
                run=number,
                level=level,
                alias=alias,
                default_alias=default_alias,
            )

        with translated_errors():
            return run(target, statement)


def create_table(
    spark: SparkSession,
    reference: name_resolver.Reference,
    df_or_schema: Any,
    *,
    table_format: str,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    format_version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    place: str | None = None,
) -> Table:
    """Create the table that a name was resolved to. ``place``: its location, if a catalog is not to choose
    it.
    """
    is_schema = isinstance(df_or_schema, StructType | str)
    frame = None if is_schema else frame_of(spark, df_or_schema, None)
    schema = as_created(spark, schema_from(df_or_schema if frame is None else frame))
    inner, draft = name_resolver.draft_table(
        reference,
        table_format,
        schema,
        lambda location: session_storage_options(spark, location, storage_options),
        partition_by=partition_fields(schema, partition_by),
        properties=properties,
        format_version=format_version,
        place=place,
    )
    table = Table(spark, inner)
    if frame is not None:
        table._verify_credentials()
    target = Target.of(spark, inner, Verb.APPEND, snapshot=draft)
    with translated_errors():
        run(lambda _: target, lambda at: append.create(at, frame))
    return table


def open_reference(
    spark: SparkSession,
    reference: name_resolver.Reference,
    storage_options: Mapping[str, str] | None = None,
    *,
    ref: str | None = None,
) -> Table:
    """The table that a name was resolved to, at a branch or tag; TableNotFoundError if there is none."""
    table = name_resolver.open_table(
        reference, lambda location: session_storage_options(spark, location, storage_options)
    )
    table = formats.on_ref(table, ref)
    if not isinstance(reference, name_resolver.Registered):
        table.snapshot()  # refuse a table that cannot be read when it is opened
    return Table(spark, table)
