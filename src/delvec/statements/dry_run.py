"""Dry runs of statements: what a statement would do."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.dry_run import Preview
from delvec.statements import run_dml, run_insert
from delvec.statements.lexer import tokenize
from delvec.statements.opened_tables import Tables
from delvec.statements.parameters import Arguments, Parameters
from delvec.statements.parser import parse
from delvec.statements.run_query import Frames
from delvec.statements.statement import Delete, Insert, Merge, Statement, Update


def preview_statement(spark: SparkSession, text: str, args: Arguments | None = None) -> Preview | None:
    """The dry run of a statement; None if it has none (see ``preview``)."""
    tables = Tables(spark)
    statement = parse(text, tables.is_ours)
    return preview(Frames(spark, tables, Parameters(text, tokenize(text), args)), statement)


def explain(frames: Frames, statement: Delete | Update | Merge | Insert) -> DataFrame:
    """A row for each file that the statement would change, and how.

    INSERT INTO changes no file: Spark explains its query.
    """
    dry_run = preview(frames, statement)
    if dry_run is not None:
        schema = from_arrow_schema(dry_run.files.schema)  # Connect cannot infer it without rows
        return frame_of_table(frames.spark, dry_run.files, schema)
    assert isinstance(statement, Insert)
    return frames.of(statement.query, before="EXPLAIN ")


def preview(frames: Frames, statement: Statement) -> Preview | None:
    """The dry run; None if the statement does not delete or update rows of a delvec table."""
    match statement:
        case Delete():
            result = run_dml.delete(frames, statement, dry_run=True)
        case Update():
            result = run_dml.update(frames, statement, dry_run=True)
        case Merge():
            result = run_dml.merge(frames, statement, dry_run=True)
        case Insert() if statement.overwrite or statement.where is not None:
            result = run_insert.insert(frames, statement, dry_run=True)
        case _:
            return None
    assert isinstance(result, Preview)
    return result
