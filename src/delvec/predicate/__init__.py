"""Conditions for pruning: which files may hold a matching row, and which hold only such rows."""

from delvec.predicate.condition import Condition, Matches, parse

__all__ = ["Condition", "Matches", "parse"]
