"""Runs statements: delvec runs those on its tables, Spark all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import pyarrow as pa
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.session import verify_running
from delvec.statements import (
    count_query,
    dry_run,
    run_compaction,
    run_ddl,
    run_dml,
    run_drop_feature,
    run_insert,
    run_maintenance,
    run_refs,
    run_restore,
    run_rewrite_deletes,
    run_show,
    unsupported,
    views,
)
from delvec.statements.cursor import Cursor
from delvec.statements.lexer import tokenize
from delvec.statements.opened_tables import Tables
from delvec.statements.parameters import Arguments, Parameters
from delvec.statements.parser import parse
from delvec.statements.run_query import Frames
from delvec.statements.statement import (
    AddColumns,
    Convert,
    Create,
    CreateRef,
    CreateView,
    Delete,
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    DropFeature,
    DropRef,
    DropTable,
    Explain,
    GenerateManifest,
    Insert,
    Merge,
    MultiInsert,
    Optimize,
    Other,
    Purge,
    Query,
    Restore,
    RewriteDeletes,
    SetProperties,
    ShowColumns,
    ShowProperties,
    Statement,
    Truncate,
    UnsetProperties,
    Update,
    Vacuum,
)
from delvec.statements.table_references import relations

Definition = (
    Create
    | Convert
    | GenerateManifest
    | SetProperties
    | UnsetProperties
    | AddColumns
    | Truncate
    | DropTable
    | DropFeature
    | CreateRef
    | DropRef
    | CreateView
)

_AFFECTED, _UPDATED = "num_affected_rows", "num_updated_rows"
_DELETED, _INSERTED = "num_deleted_rows", "num_inserted_rows"


def sql(spark: SparkSession, text: str, args: Arguments | None = None) -> DataFrame:
    """Run one SQL statement in Spark's syntax. It may use delvec's tables.

    Their names are delvec.`path`, delta.`path`, or a name given with ``Table.register``. ``args`` are the
    values of the markers ``:name`` (a dict) or ``?`` (a list). delvec runs statements on its tables; Spark
    runs queries over delvec's scans; ``spark.sql`` runs any other statement unchanged.

    Returns a DataFrame: the rows of a query, the counts of a change (one row), no rows for a definition.
    """
    verify_running(spark)
    tables = Tables(spark)
    statement = parse(text, tables.is_ours)
    if _is_for_spark(statement, tables):
        return _run_by_spark(spark, text, args)
    frames = Frames(spark, tables, Parameters(text, tokenize(text), args))
    match statement:
        case Query(query):
            count = count_query.counted(frames, query)
            return frames.of(query) if count is None else count
        case DescribeHistory():
            return run_show.history(frames, statement)
        case DescribeDetail():
            return run_show.detail(frames, statement)
        case DescribeTable():
            return run_show.table(frames, statement)
        case ShowColumns():
            return run_show.columns(frames, statement)
        case ShowProperties():
            return run_show.table_properties(frames, statement)
        case Optimize() | Purge() | RewriteDeletes() | Vacuum() | Restore():
            return _maintain(frames, statement)
        case Explain(change):
            return dry_run.explain(frames, change)
        case Delete() | Update() | Merge() | Insert() | MultiInsert():
            return _counts(spark, _change(frames, statement))
        case Other():
            raise AssertionError(text)
    _define(frames, statement)
    return spark.createDataFrame([], StructType([]))


def _run_by_spark(spark: SparkSession, text: str, args: Arguments | None) -> DataFrame:
    try:
        return spark.sql(text) if args is None else spark.sql(text, args=args)  # type: ignore[arg-type]
    except ParseException:
        # It may be one of Delta Lake's own statements, which Spark without its jar cannot parse.
        cursor = Cursor(text, tokenize(text))
        unsupported.verify_table_known(cursor)
        missing = unsupported.missing_at(cursor)
        if missing is None:
            raise
        raise unsupported.unsupported(missing) from None


def _is_for_spark(statement: Statement, tables: Tables) -> bool:
    """Whether it uses no table of delvec."""
    match statement:
        case Other():
            return True
        case Query(query) | CreateView(query=query):
            return not any(tables.is_ours(relation.name) for relation in relations(query))
    return False


def _maintain(frames: Frames, statement: Optimize | Purge | RewriteDeletes | Vacuum | Restore) -> DataFrame:
    match statement:
        case Optimize():
            return run_compaction.optimize(frames, statement)
        case Purge():
            return run_compaction.purge(frames, statement)
        case RewriteDeletes():
            return run_rewrite_deletes.rewrite_deletes(frames, statement)
        case Vacuum():
            return run_maintenance.vacuum(frames, statement)
        case Restore():
            return _counts(frames.spark, run_restore.restore(frames, statement))


def _define(frames: Frames, statement: Definition) -> None:
    """Run a statement that returns no rows."""
    match statement:
        case Create():
            run_ddl.create(frames, statement)
        case SetProperties():
            run_ddl.set_properties(frames, statement)
        case UnsetProperties():
            run_ddl.unset_properties(frames, statement)
        case AddColumns():
            run_ddl.add_columns(frames, statement)
        case Convert():
            run_maintenance.convert(frames, statement)
        case GenerateManifest():
            run_maintenance.generate_manifest(frames, statement)
        case Truncate(table):
            frames.tables.of(table).delete()
        case DropTable():
            run_ddl.drop(statement)
        case DropFeature():
            run_drop_feature.drop_feature(frames, statement)
        case CreateRef() | DropRef():
            run_refs.change_refs(frames, statement)
        case CreateView():
            views.run(frames, statement)
        case _:
            assert_never(statement)


def _change(frames: Frames, statement: Statement) -> Mapping[str, int | None]:
    """The counts, under Delta-Spark's names."""
    match statement:
        case Delete():
            return {_AFFECTED: run_dml.delete(frames, statement).counts.deleted}
        case Update():
            return {_AFFECTED: run_dml.update(frames, statement).counts.updated}
        case Insert():
            inserted = run_insert.insert(frames, statement).counts.inserted
            return {_AFFECTED: inserted, _INSERTED: inserted}
        case MultiInsert():
            results = run_insert.insert_all(frames, statement)
            inserted = sum(result.counts.inserted or 0 for result in results)
            return {_AFFECTED: inserted, _INSERTED: inserted}
    assert isinstance(statement, Merge)
    rows = run_dml.merge(frames, statement).counts
    counts = {_UPDATED: rows.updated, _DELETED: rows.deleted, _INSERTED: rows.inserted}
    return {_AFFECTED: sum(count or 0 for count in counts.values())} | counts


def _counts(spark: SparkSession, counts: Mapping[str, Any]) -> DataFrame:
    columns = {name: pa.array([count], pa.int64()) for name, count in counts.items()}
    return frame_of_table(spark, pa.table(columns))
