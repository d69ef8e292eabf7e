"""Runs statements without a shuffle without Spark's adaptive execution.

A scan, a condition and a broadcast have nothing to adapt. But with adaptive execution Spark would plan each
of their stages again and run a separate job for cached data, which is a fifth of the time of a small
statement.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext

from pyspark.sql import Column, SparkSession

from delvec.spark.session import settings

_QUERY = re.compile(r"\b(select|from|table|values|with)\b", re.IGNORECASE)


def has_query(expression: str | Column | None) -> bool:
    """Whether it may contain a query, which Spark may join with a shuffle. A Column always counts as one."""
    return expression is not None and (not isinstance(expression, str) or bool(_QUERY.search(expression)))


def not_adaptive(spark: SparkSession, *, when: bool) -> AbstractContextManager[None]:
    """If ``when`` is true, plans inside the context are not adaptive."""
    return settings(spark, spark__sql__adaptive__enabled="false") if when else nullcontext()
