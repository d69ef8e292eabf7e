"""Runs statements that maintain a table, with the verbs of ``Table``."""

from __future__ import annotations

import re
from decimal import Decimal

from pyspark.sql import DataFrame

from delvec.errors import InvalidOperationError
from delvec.spark.file_paths import hadoop_path
from delvec.statements.cursor import Span
from delvec.statements.lexer import Kind
from delvec.statements.run_query import Frames
from delvec.statements.statement import Convert, GenerateManifest, Vacuum
from delvec.table import Table

RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
"""Delta-Spark's setting. If it is false, VACUUM may keep files for less time than the table says."""

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def vacuum(frames: Frames, statement: Vacuum) -> DataFrame:
    """The table's location; of a dry run the files and folders that would be deleted, at most 1,000."""
    hours = None if statement.hours is None else _hours(frames, statement.hours)
    force = str(frames.spark.conf.get(RETENTION_CHECK, "true")).strip().lower() == "false"
    result = frames.tables.of(statement.table).vacuum(hours, dry_run=statement.dry_run, force=force)
    paths = result.paths if statement.dry_run else (result.location,)
    return frames.spark.createDataFrame([(hadoop_path(path),) for path in paths], "path string")


def convert(frames: Frames, statement: Convert) -> None:
    columns = "" if statement.partition_by is None else statement.partition_by.text
    Table.convert(
        frames.spark,
        statement.table.parts[1],
        columns,
        format=statement.format,
        statistics=statement.statistics,
    )


def generate_manifest(frames: Frames, statement: GenerateManifest) -> None:
    frames.tables.of(statement.table).generate_manifest()


def _hours(frames: Frames, span: Span) -> float:
    """One number, or one marker whose value is a number. An expression is refused, not calculated."""
    token, *others = span.tokens
    given: object = span.text
    if not others and token.kind is Kind.MARKER:
        given = frames.parameters.value(token)
    elif not others and _NUMBER.fullmatch(token.text):
        given = float(token.text)
    if isinstance(given, Decimal) and given.is_finite():
        given = float(given)
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise InvalidOperationError(f"RETAIN is {given!r}, expected a number of hours")
    return given
