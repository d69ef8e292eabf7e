"""What a statement would do, without doing it."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from delvec.spark.preview import Preview
from delvec.statements import changing, inserting
from delvec.statements.frames import Frames
from delvec.statements.lexer import tokenize
from delvec.statements.parameters import Arguments, Parameters
from delvec.statements.parser import parse
from delvec.statements.tables import Tables
from delvec.statements.tree import Delete, Insert, Merge, Statement, Update


def preview_statement(spark: SparkSession, text: str, args: Arguments | None = None) -> Preview | None:
    """The dry run of the statement; None where it has none (see ``preview``)."""
    tables = Tables(spark)
    statement = parse(text, tables.is_ours)
    return preview(Frames(spark, tables, Parameters(text, tokenize(text), args)), statement)


def explain(frames: Frames, statement: Delete | Update | Merge | Insert) -> DataFrame:
    """A row for each file that the statement would change, with what becomes of it.

    INSERT INTO changes no file: Spark explains its query.
    """
    found = preview(frames, statement)
    if found is not None:
        schema = from_arrow_schema(found.files.schema)  # which Connect does not infer without a row
        return frames.spark.createDataFrame(found.files, schema)
    assert isinstance(statement, Insert)
    return frames.of(statement.query, before="EXPLAIN ")


def preview(frames: Frames, statement: Statement) -> Preview | None:
    """None where the statement removes and changes no rows of a table of delvec."""
    match statement:
        case Delete():
            result = changing.delete(frames, statement, dry_run=True)
        case Update():
            result = changing.update(frames, statement, dry_run=True)
        case Merge():
            result = changing.merge(frames, statement, dry_run=True)
        case Insert() if statement.overwrite or statement.where is not None:
            result = inserting.insert(frames, statement, dry_run=True)
        case _:
            return None
    assert isinstance(result, Preview)
    return result
