"""Statements whose plans shuffle nothing run without Spark's adaptive execution.

There is nothing to adapt in a scan, a condition and a broadcast. But Spark would plan each of their stages
again, and run a job of its own for what is kept in the cache: a fifth of the time of a small statement.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext

from pyspark.sql import Column, SparkSession

from delvec.spark.session import settings

_QUERY = re.compile(r"\b(select|from|table|values|with)\b", re.IGNORECASE)


def has_query(expression: str | Column | None) -> bool:
    """Whether the text may hold a query, which Spark may join by a shuffle; a Column is not looked into."""
    return expression is not None and (not isinstance(expression, str) or bool(_QUERY.search(expression)))


def not_adaptive(spark: SparkSession, *, when: bool) -> AbstractContextManager[None]:
    """Plans made inside are not adaptive, where ``when`` says so."""
    return settings(spark, spark__sql__adaptive__enabled="false") if when else nullcontext()
