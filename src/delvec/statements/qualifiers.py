"""Names that are qualified by a table: ``t.id``, delta.`path`.id.

Spark resolves a name with the longest qualifier first, and takes it for a column with a field inside where
no qualifier fits. The same is done here, for two reasons: conditions prune files by bare names, and Spark
knows a table at a path by the path alone. In a subquery a bare name could be another table's: there the
qualifier stays, and Spark is told the table's alias.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from delvec.schema import Schema
from delvec.statements.cursor import Name
from delvec.statements.parse_ddl import PROVIDERS, is_path
from delvec.statements.scopes import Named, Scopes, enclosing_selects, sources
from delvec.statements.text_edits import Edit


@dataclass(frozen=True, slots=True)
class Qualifier:
    """What a statement calls a table, its alias or else its name, and the columns that may follow."""

    names: tuple[str, ...]
    schema: Schema
    case_sensitive: bool

    @classmethod
    def of(cls, table: Name, alias: str | None, schema: Schema, *, case_sensitive: bool) -> Qualifier:
        path = alias is None and is_path(table)
        names = table.parts if path else (table.parts[-1] if alias is None else alias,)
        return cls(names, schema, case_sensitive)

    def length(self, parts: Sequence[str]) -> int:
        """How many of a name's first parts are the qualifier, so that a column comes next.

        Where no column comes next, neither as a field, it is the column that is unknown.
        """
        sizes = [size for size in range(len(self.names), 0, -1) if self._leads(parts, size)]
        for size in sizes:
            if self.has(parts[size]) or parts[size] == "*":
                return size
        return sizes[0] if sizes and not self.has(parts[0]) else 0

    def _leads(self, parts: Sequence[str], size: int) -> bool:
        given, known = parts[:size], self.names[-size:]
        return len(parts) > size and all(map(self._same, given, known))

    def _same(self, one: str, other: str) -> bool:
        return one == other or (not self.case_sensitive and one.lower() == other.lower())

    def has(self, name: str) -> bool:
        return bool(self.schema.find(name, case_sensitive=self.case_sensitive))


def without_qualifier(scopes: Scopes, table: Qualifier) -> list[Edit]:
    """Edits that take the table's name away before columns, outside of subqueries."""
    return [
        Edit(named.starts[0], named.starts[size], "")
        for named in scopes.names(scopes.tree, nested=False)
        if named.starts and (size := table.length(named.parts))
    ]


def short_paths(
    scopes: Scopes, tables: Mapping[int, Callable[[], Qualifier]], outer: Sequence[Qualifier] = ()
) -> list[Edit]:
    """Edits that leave only the path of delta.`path` before a column.

    ``tables`` are those of ours, by where they are named; ``outer`` are seen from all of the text.
    """
    return [
        Edit(named.starts[0], named.starts[1], "")
        for named in scopes.names(scopes.tree)
        if named.starts and len(named.parts) > 2 and named.parts[0].lower() in PROVIDERS
        if _is_path(named, scopes, tables, outer)
    ]


def _is_path(
    named: Named,
    scopes: Scopes,
    tables: Mapping[int, Callable[[], Qualifier]],
    outer: Sequence[Qualifier],
) -> bool:
    """Whether the name starts with that of a table at a path, in the innermost scope that knows its start."""
    for select in enclosing_selects(named.node):
        inner = sources(select)
        starts = [scopes.start(source) for source in inner if isinstance(source, exp.Table)]
        found = [tables[start]() for start in starts if start in tables]
        if any(table.length(named.parts) == 2 for table in found):
            return True
        is_alias = any(source.alias_or_name.lower() == named.parts[0].lower() for source in inner)
        if is_alias or any(table.has(named.parts[0]) for table in found):
            return False
    return any(table.length(named.parts) == 2 for table in outer)
