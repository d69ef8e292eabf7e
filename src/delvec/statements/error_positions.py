"""Spark's syntax errors in a part of a statement, with their position in the whole statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import ParseException, PySparkException
from pyspark.sql import SparkSession

from delvec.errors import InvalidOperationError
from delvec.statements.cursor import Span
from delvec.statements.lexer import syntax_error

_PLACE = re.compile(r"\(line (\d+), pos(?:ition)? (\d+)\)")
_CODE = re.compile(r"^\s*\[[A-Z_.0-9]+\]\s*")

Around = tuple[str, str]
"""Text before and after a part of a statement, so that Spark can parse the part as a statement."""

EXPRESSION: Around = ("SELECT (", ")")
COLUMNS: Around = ("CREATE TABLE x (", ") USING parquet")
QUERY: Around = ("", "")


@contextmanager
def pointed_at(spark: SparkSession, *spans: Span, around: Around = EXPRESSION) -> Iterator[None]:
    """If the body fails and one of these spans has a syntax error, raise that error with its position."""
    try:
        yield
    except (InvalidOperationError, PySparkException):
        for span in spans:
            _verify_syntax(spark, span, around)
        raise


def _verify_syntax(spark: SparkSession, span: Span, around: Around) -> None:
    """Refuse text that Spark cannot parse. EXPLAIN only parses and plans; planning errors are ignored."""
    explains = around == QUERY and span.tokens[0].word == "EXPLAIN"
    before = around[0] if explains else f"EXPLAIN {around[0]}"
    try:
        spark.sql(before + span.text + around[1])
    except ParseException as error:
        raise _located(error, span, len(before)) from None
    except PySparkException:
        return


def _located(error: ParseException, span: Span, shift: int) -> InvalidOperationError:
    message = str(error)
    problem = " ".join(_CODE.sub("", message.split("SQLSTATE", 1)[0]).split())
    place = _PLACE.search(message)
    if place is None:
        return InvalidOperationError(f"{span.text!r} cannot be parsed: {problem}")
    line, column = int(place[1]), int(place[2])
    starts = [0, *(line_end.end() for line_end in re.finditer("\n", span.text))]
    offset = span.start + starts[min(line, len(starts)) - 1] + column - (shift if line == 1 else 0)
    if offset >= span.end:
        return syntax_error(span.source, span.end, "found nothing more, expected the rest of the statement")
    return syntax_error(span.source, max(offset, span.start), problem)
