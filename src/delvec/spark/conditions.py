"""Conditions and expressions that users give: looked at by Spark before anything else happens.

Spark has no public question "is this deterministic, and free of aggregates and windows?". But the condition
of a join must be exactly that, and be boolean; so each one is analysed as one. A join's condition takes no
correlated scalar subquery, though; where there is one, the condition is analysed inside of an aggregate,
which asks the same of it. No job runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delvec.errors import InvalidOperationError
from delvec.spark.session import kept_frame

_NOT_DETERMINISTIC = (
    "INVALID_NON_DETERMINISTIC_EXPRESSIONS",
    "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION",
)
_SCALAR_SUBQUERY = "UNSUPPORTED_CORRELATED_SCALAR_SUBQUERY"


def expression(given: str | Column) -> Column:
    if isinstance(given, str):
        return F.expr(given)
    if isinstance(given, Column):
        return given
    raise InvalidOperationError(f"expression is {given!r}, expected a Spark SQL string or a Column")


def verify_condition(frame: DataFrame, given: str | Column, what: str) -> None:
    """Refuse what is no deterministic condition on the rows of ``frame``; ``what`` names it in the error."""
    try:
        problem = _problem(frame, expression(given))
    except PySparkException as error:  # text that does not parse
        problem = error
    if problem is not None:
        raise InvalidOperationError(f"{what} {_shown(given)} is invalid: {reason_of(problem)}")


def verify_expressions(frame: DataFrame, given: Mapping[str, str | Column]) -> None:
    """Refuse what is no value computed from one row of ``frame``; the keys name the values in the error."""
    if _no_value(frame, list(given.values())) is None:  # all at once: an analysis takes milliseconds
        return
    for what, value in given.items():
        problem = _no_value(frame, [value])
        if problem is not None and not any(name in str(problem) for name in _NOT_DETERMINISTIC):
            raise InvalidOperationError(f"{what} {_shown(value)} is invalid: {reason_of(problem)}")


def _no_value(frame: DataFrame, given: Sequence[str | Column]) -> PySparkException | None:
    """Why not each of these is a deterministic value."""
    try:
        return _problem(frame, F.struct(*map(expression, given)).isNull())
    except PySparkException as error:  # text that does not parse
        return error


def _problem(frame: DataFrame, condition: Column) -> PySparkException | None:
    joined = _refused(lambda: frame.join(kept_frame(frame.sparkSession), condition, "left_semi"))
    if joined is None or _SCALAR_SUBQUERY not in str(joined):
        return joined
    return _refused(lambda: frame.agg(F.first(F.when(condition, F.lit(1)))))


def _refused(made: Callable[[], DataFrame]) -> PySparkException | None:
    """Why Spark cannot analyse the frame."""
    try:
        _ = made().schema
    except AnalysisException as error:
        return error
    return None


def _shown(given: str | Column) -> str:
    return repr(given) if isinstance(given, str) else str(given)


def reason_of(error: PySparkException) -> str:
    """Spark's message without its code, its place in a text of ours, and the plan."""
    return " ".join(str(error).split("SQLSTATE", 1)[0].split()).rstrip(". ")
