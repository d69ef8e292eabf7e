"""The builder that ``Table.merge`` returns: add clauses one by one, then call ``execute``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, overload

from pyspark.sql import Column

from delvec.spark.dry_run import Preview
from delvec.spark.merge_clauses import (
    DELETE,
    INSERT,
    MATCHED,
    NOT_MATCHED,
    NOT_MATCHED_BY_SOURCE,
    UPDATE,
    Clause,
)
from delvec.spark.set_clause import Assignments, verified
from delvec.spark.target import OperationResult

Run = Callable[[tuple[Clause, ...], bool], OperationResult]
"""Runs a merge with these clauses; if the second argument is true, as a dry run."""


class MergeBuilder:
    """A MERGE under construction. For each row, the first clause that applies decides what happens to the
    row. Clauses apply in the order in which they are added.
    """

    def __init__(self, run: Run, clauses: tuple[Clause, ...] = ()) -> None:
        self._run = run
        self._clauses = clauses

    def when_matched_update(
        self,
        set: Assignments,  # noqa: A002 - the word of SQL
        condition: str | Column | None = None,
    ) -> MergeBuilder:
        return self._with(Clause(MATCHED, UPDATE, condition, verified(set, "set")))

    def when_matched_update_all(self, condition: str | Column | None = None) -> MergeBuilder:
        return self._with(Clause(MATCHED, UPDATE, condition))

    def when_matched_delete(self, condition: str | Column | None = None) -> MergeBuilder:
        return self._with(Clause(MATCHED, DELETE, condition))

    def when_not_matched_insert(
        self, values: Assignments, condition: str | Column | None = None
    ) -> MergeBuilder:
        return self._with(Clause(NOT_MATCHED, INSERT, condition, verified(values, "values")))

    def when_not_matched_insert_all(self, condition: str | Column | None = None) -> MergeBuilder:
        return self._with(Clause(NOT_MATCHED, INSERT, condition))

    def when_not_matched_by_source_update(
        self,
        set: Assignments,  # noqa: A002
        condition: str | Column | None = None,
    ) -> MergeBuilder:
        return self._with(Clause(NOT_MATCHED_BY_SOURCE, UPDATE, condition, verified(set, "set")))

    def when_not_matched_by_source_delete(self, condition: str | Column | None = None) -> MergeBuilder:
        return self._with(Clause(NOT_MATCHED_BY_SOURCE, DELETE, condition))

    @overload
    def execute(self, *, dry_run: Literal[True]) -> Preview: ...

    @overload
    def execute(self, *, dry_run: bool = False) -> OperationResult: ...

    def execute(self, *, dry_run: bool = False) -> OperationResult:
        """Run the merge. ``dry_run``: change nothing, and return what would happen to each file."""
        return self._run(self._clauses, dry_run)

    def __repr__(self) -> str:
        clauses = ", ".join(map(str, self._clauses)) or "no clause"
        return f"<merge, not executed: call .execute() ({clauses})>"

    def _with(self, clause: Clause) -> MergeBuilder:
        return MergeBuilder(self._run, (*self._clauses, clause))
