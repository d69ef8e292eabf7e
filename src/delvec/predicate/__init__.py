"""Conditions for pruning: which files may hold a matching row, and which hold only such rows."""

from delvec.predicate.condition import Condition, Matches, parse
from delvec.predicate.settings import SPARK_DEFAULTS, SqlSettings

__all__ = ["SPARK_DEFAULTS", "Condition", "Matches", "SqlSettings", "parse"]
