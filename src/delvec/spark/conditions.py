"""Checks of the conditions and expressions that users pass. Spark analyses them before anything else happens.

Spark has no public function that says whether an expression is deterministic and has no aggregates or
windows. But the condition of a join must be boolean and have exactly these properties, so each condition is
analysed as the condition of a join. A join does not support correlated scalar subqueries; a condition with
one is analysed inside of an aggregate, which has the same requirements. No job runs.
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


def expression(value: str | Column) -> Column:
    if isinstance(value, str):
        return F.expr(value)
    if isinstance(value, Column):
        return value
    raise InvalidOperationError(f"expression is {value!r}, expected a Spark SQL string or a Column")


def verify_condition(frame: DataFrame, condition: str | Column, what: str) -> None:
    """Refuse anything but a deterministic condition on the rows of ``frame``; ``what`` names it in the
    error.
    """
    try:
        problem = _problem(frame, expression(condition))
    except PySparkException as error:  # the text cannot be parsed
        problem = error
    if problem is not None:
        raise InvalidOperationError(f"{what} {_text(condition)} is invalid: {reason_of(problem)}")


def verify_expressions(frame: DataFrame, expressions: Mapping[str, str | Column]) -> None:
    """Refuse anything but values computed from one row of ``frame``; the keys name them in the error."""
    # Analyse all of them at once, because an analysis takes milliseconds.
    if _value_problem(frame, list(expressions.values())) is None:
        return
    for what, value in expressions.items():
        problem = _value_problem(frame, [value])
        if problem is not None and not any(name in str(problem) for name in _NOT_DETERMINISTIC):
            raise InvalidOperationError(f"{what} {_text(value)} is invalid: {reason_of(problem)}")


def _value_problem(frame: DataFrame, values: Sequence[str | Column]) -> PySparkException | None:
    """Why one of these is not a deterministic value; None if all are."""
    try:
        return _problem(frame, F.struct(*map(expression, values)).isNull())
    except PySparkException as error:  # the text cannot be parsed
        return error


def _problem(frame: DataFrame, condition: Column) -> PySparkException | None:
    """Why Spark refuses the condition; None if it does not."""
    problem = _analysis_error(lambda: frame.join(kept_frame(frame.sparkSession), condition, "left_semi"))
    if problem is None or _SCALAR_SUBQUERY not in str(problem):
        return problem
    return _analysis_error(lambda: frame.agg(F.first(F.when(condition, F.lit(1)))))


def _analysis_error(build: Callable[[], DataFrame]) -> PySparkException | None:
    try:
        _ = build().schema
    except AnalysisException as error:
        return error
    return None


def _text(value: str | Column) -> str:
    return repr(value) if isinstance(value, str) else str(value)


def reason_of(error: PySparkException) -> str:
    """Spark's message without its SQLSTATE, the position in the text, and the plan."""
    return " ".join(str(error).split("SQLSTATE", 1)[0].split()).rstrip(". ")
