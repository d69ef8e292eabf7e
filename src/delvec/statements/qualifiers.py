"""Column names with a table before them: ``t.id``, delta.`path`.id.

Spark tries the longest qualifier of a name first; if no qualifier matches, the name is a column and a field
inside of it. This module does the same, for two reasons: conditions prune files by names without qualifiers,
and Spark knows a table at a path by the path only. In a subquery a name without its qualifier could belong to
another table: there the qualifier stays, and Spark gets the table's alias.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from delvec import name_resolver
from delvec.schema import Schema
from delvec.statements.cursor import Name
from delvec.statements.scopes import ColumnName, Scopes, enclosing_selects, sources
from delvec.statements.text_edits import Edit


@dataclass(frozen=True, slots=True)
class Qualifier:
    """The name of a table before its columns (its alias if it has one), and its columns."""

    names: tuple[str, ...]
    schema: Schema
    case_sensitive: bool

    @classmethod
    def of(cls, table: Name, alias: str | None, schema: Schema, *, case_sensitive: bool) -> Qualifier:
        if alias is not None:
            names: tuple[str, ...] = (alias,)
        else:
            names = table.parts if table.is_path else table.parts[-1:]
        return cls(names, schema, case_sensitive)

    def length(self, parts: Sequence[str]) -> int:
        """How many of a name's first parts are the qualifier, so that the next part is a column.

        If neither the next nor the first part is a column of the table, the column is unknown and the longest
        qualifier counts.
        """
        sizes = [size for size in range(len(self.names), 0, -1) if self._leads(parts, size)]
        for size in sizes:
            if self.has(parts[size]) or parts[size] == "*":
                return size
        return sizes[0] if sizes and not self.has(parts[0]) else 0

    def _leads(self, parts: Sequence[str], size: int) -> bool:
        return len(parts) > size and all(map(self._same, parts[:size], self.names[-size:]))

    def _same(self, name: str, other: str) -> bool:
        return name == other or (not self.case_sensitive and name.lower() == other.lower())

    def has(self, name: str) -> bool:
        return bool(self.schema.find(name, case_sensitive=self.case_sensitive))


def without_qualifier(scopes: Scopes, table: Qualifier) -> list[Edit]:
    """Edits that remove the table's name before columns, outside of subqueries."""
    return [
        Edit(name.starts[0], name.starts[size], "")
        for name in scopes.names(scopes.tree, nested=False)
        if name.starts and (size := table.length(name.parts))
    ]


def short_paths(
    scopes: Scopes, tables: Mapping[int, Callable[[], Qualifier]], outer: Sequence[Qualifier] = ()
) -> list[Edit]:
    """Edits that keep only the path of delta.`path` before a column.

    ``tables``: delvec's tables by the position of their names; ``outer``: tables that are visible everywhere.
    """
    providers = name_resolver.providers()
    return [
        Edit(name.starts[0], name.starts[1], "")
        for name in scopes.names(scopes.tree)
        if name.starts and len(name.parts) > 2 and name.parts[0].lower() in providers
        if _starts_with_path(name, scopes, tables, outer)
    ]


def _starts_with_path(
    name: ColumnName,
    scopes: Scopes,
    tables: Mapping[int, Callable[[], Qualifier]],
    outer: Sequence[Qualifier],
) -> bool:
    """Whether the name starts with that of a table at a path, in the innermost scope that has its first
    part.
    """
    first = name.parts[0]
    for select in enclosing_selects(name.node):
        inner = sources(select)
        starts = [scopes.start(source) for source in inner if isinstance(source, exp.Table)]
        qualifiers = [tables[start]() for start in starts if start in tables]
        if any(qualifier.length(name.parts) == 2 for qualifier in qualifiers):
            return True
        is_alias = any(source.alias_or_name.lower() == first.lower() for source in inner)
        if is_alias or any(qualifier.has(first) for qualifier in qualifiers):
            return False
    return any(qualifier.length(name.parts) == 2 for qualifier in outer)
