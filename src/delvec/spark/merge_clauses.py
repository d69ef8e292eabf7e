"""The clauses of a MERGE: the rows that each applies to, and its action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from delvec.errors import InvalidOperationError
from delvec.spark.conditions import expression
from delvec.spark.set_clause import Assignments

MATCHED, NOT_MATCHED, NOT_MATCHED_BY_SOURCE = "matched", "not matched", "not matched by source"
UPDATE, DELETE, INSERT = "update", "delete", "insert"


@dataclass(frozen=True, slots=True)
class Clause:
    """``values``: the expressions for assigned columns; None: each column gets the source's column of its
    name.
    """

    kind: str
    action: str
    condition: str | Column | None = None
    values: Assignments | None = None

    def __str__(self) -> str:
        return f"when {self.kind} {self.action}"


def verify_clauses(clauses: Sequence[Clause]) -> None:
    if not clauses:
        raise InvalidOperationError("merge has no clause, expected at least one when_… before execute()")
    for number, clause in enumerate(clauses):
        later = [other for other in clauses[number + 1 :] if other.kind == clause.kind]
        if clause.condition is None and later:
            raise InvalidOperationError(
                f"clause {str(clause)!r} has no condition, so {str(later[0])!r} after it never applies, "
                "expected a condition on every clause of a kind except the last"
            )


def may_repeat(clauses: Sequence[Clause]) -> bool:
    """Whether several source rows may match one target row: only if all of them can do no more than delete
    it.
    """
    matched = [clause for clause in clauses if clause.kind == MATCHED]
    return len(matched) == 1 and matched[0].action == DELETE and matched[0].condition is None


def number_of(clauses: Sequence[tuple[int, Clause]], applies: Mapping[str, str]) -> Column:
    """The number of the first clause that applies to a row, or null.

    ``applies`` has for each kind of clause the condition that a row is of this kind. Spark has analysed each
    condition as a complete expression, so conditions can be parts of one text. A text takes a few calls into
    the JVM, where Columns take dozens.
    """
    conditions = [clause.condition for _, clause in clauses]
    if all(condition is None or isinstance(condition, str) for condition in conditions):
        cases = [f"WHEN {_holds(clause, applies[clause.kind])} THEN {number}" for number, clause in clauses]
        return F.expr(f"CASE {' '.join(cases)} ELSE CAST(NULL AS INT) END" if cases else "CAST(NULL AS INT)")
    clause_number = F.expr("CAST(NULL AS INT)")
    for number, clause in reversed(clauses):
        holds = F.expr(applies[clause.kind])
        if clause.condition is not None:
            holds = holds & expression(clause.condition)
        clause_number = F.when(holds, F.lit(number)).otherwise(clause_number)
    return clause_number


def _holds(clause: Clause, applies: str) -> str:
    # A comment at the end of a condition ends with its line.
    return applies if clause.condition is None else f"{applies} AND ({clause.condition}\n)"
