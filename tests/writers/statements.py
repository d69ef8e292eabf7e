"""Statements that a writer is told: as SQL texts for an engine, and as functions of rows for the model.

The table has the columns of ``DDL``: ``id`` is a key that need not be unique, ``p`` is what a table may be
partitioned by, ``v`` is the token of the statement that wrote the row last, ``n`` counts its updates: an
update that is applied to a stale row, or twice, shows there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DDL = "id BIGINT, p INT, v BIGINT, n BIGINT"
APPEND, DELETE, UPDATE, MERGE, OVERWRITE = "append", "delete", "update", "merge", "overwrite"
DELETE_KEYS, UPSERT = "delete_keys", "upsert"
OPTIMIZE, PURGE = "optimize", "purge"
CREATE, PROPERTIES, VACUUM = "create", "set_properties", "vacuum"
ON = "target.id = source.id"

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Term:
    """A comparison of a column: ``=``, ``<``, ``>=``, ``IN`` some values, ``%`` (divisor, remainder)."""

    column: str
    operator: str
    value: Any

    def __str__(self) -> str:
        match self.operator:
            case "IN":
                return f"{self.column} IN ({', '.join(map(str, self.value))})"
            case "%":
                return f"{self.column} % {self.value[0]} = {self.value[1]}"
        return f"{self.column} {self.operator} {self.value}"

    def holds(self, row: Row) -> bool:
        found = row[self.column]
        match self.operator:
            case "=":
                return bool(found == self.value)
            case "<":
                return bool(found < self.value)
            case ">=":
                return bool(found >= self.value)
            case "IN":
                return found in self.value
            case "%":
                return bool(found % self.value[0] == self.value[1])
        raise ValueError(self.operator)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement.

    token           unique among the statements of a run; stands in the condition's text or in the rows' ``v``
    where           terms that must all hold; None: every row
    moves           an update gives rows another ``p``
    rows            of an append, an overwrite, an upsert, a merge's source; of a delete of keys: their ids
    delete_from     a merge deletes matched rows that have been updated so often already
    app_version     an append of an application that counts
    merge_schema    the rows of an append may bring columns
    """

    verb: str
    token: int
    where: tuple[Term, ...] | None = None
    rows: tuple[Row, ...] = ()
    moves: bool = False
    delete_from: int | None = None
    app_version: int | None = None
    merge_schema: bool = False
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    format: str = "delta"
    format_version: int | None = None

    @property
    def condition(self) -> str | None:
        if self.where is None:
            return None
        return f"{' AND '.join(map(str, self.where))} {mark(self.token)}"

    @property
    def on(self) -> str:
        return f"{ON} {mark(self.token)}"

    @property
    def assignments(self) -> dict[str, str]:
        found = {"v": str(self.token), "n": "n + 1"}
        return found | ({"p": "(p + 1) % 3"} if self.moves else {})

    def matches(self, row: Row) -> bool:
        return self.where is None or all(term.holds(row) for term in self.where)


def mark(token: int) -> str:
    """A comment by which a commit is known: the history tells conditions as they were given."""
    return f"/* statement {token} */"


def row(number: int, token: int, p: int | None = None) -> Row:
    return {"id": number, "p": number % 3 if p is None else p, "v": token, "n": 0}
