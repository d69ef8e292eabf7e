"""Runs REWRITE DELETES. The result has a row with the counts of ``DeletesRewritten``."""

from __future__ import annotations

from pyspark.sql import DataFrame

from delvec.errors import InvalidOperationError
from delvec.spark.delete_rewrite import VECTORS, DeletesRewritten
from delvec.statements.constants import text_of
from delvec.statements.cursor import Span
from delvec.statements.error_positions import pointed_at
from delvec.statements.lexer import Kind
from delvec.statements.run_query import Frames
from delvec.statements.statement import RewriteDeletes

_SCHEMA = (
    "version bigint, num_files bigint, num_rows bigint, num_keys bigint, num_removed_deletes bigint, "
    "num_kept_deletes bigint, removed map<string,bigint>, refused map<string,bigint>"
)


def rewrite_deletes(frames: Frames, statement: RewriteDeletes) -> DataFrame:
    table = frames.tables.of(statement.table)
    to, encoding = (_text(frames, span) for span in (statement.to, statement.encoding))
    where = None if statement.where is None else frames.parameters.text(statement.where)
    spans = () if statement.where is None else (statement.where,)
    with pointed_at(frames.spark, *spans):
        result = table.rewrite_deletes(to or VECTORS, where, encoding, dry_run=statement.dry_run)
    return frames.spark.createDataFrame([_row(result)], _SCHEMA)


def _row(result: DeletesRewritten) -> tuple[object, ...]:
    counts = (result.version, result.files, result.rows, result.keys, sum(result.removed.values()))
    return (*counts, result.kept, dict(result.removed), dict(result.refused))


def _text(frames: Frames, span: Span | None) -> str | None:
    """The value of a string or of a marker."""
    if span is None:
        return None
    (token,) = span.tokens
    if token.kind is not Kind.MARKER:
        return text_of(frames.spark, token)
    value = frames.parameters.value(token)
    if not isinstance(value, str):
        raise InvalidOperationError(f"parameter {token.text} is {value!r}, expected a string")
    return value
