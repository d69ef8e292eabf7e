"""What a query's WHERE says of one table, so that files without a matching row are not opened.

Only conjuncts that are certain to apply to each of the table's rows count: of the SELECT that reads it, on
the columns of that table alone, and not where an outer join could bring rows without them. A SELECT prunes
nothing that has anything else between the table and WHERE, or a relation whose columns are not certain. The
conjuncts must be of the kind that pruning understands whole, which no row can make fail. The query keeps its
WHERE.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from delvec import predicate
from delvec.errors import InvalidOperationError
from delvec.predicate.settings import SqlSettings
from delvec.predicate.tree import is_decided
from delvec.schema import Schema
from delvec.statements.cursor import Span
from delvec.statements.parameters import Parameters
from delvec.statements.qualifiers import Qualifier
from delvec.statements.scopes import Named, Scopes, sources
from delvec.statements.table_references import Relation
from delvec.statements.text_edits import Edit, edited

# What a SELECT may have: the rest stands between the tables and WHERE, or is not known.
_SELECT = frozenset(
    (
        *("expressions", "from_", "from", "joins", "where", "group", "having", "order", "sort", "limit"),
        *("offset", "distinct", "hint", "with_", "with", "windows"),
    )
)
_TABLE = frozenset(("this", "db", "catalog", "alias"))
_JOIN = frozenset(("this", "on", "kind", "side"))
_INNER = (("", ""), ("", "INNER"), ("", "CROSS"))
_KEEPS_LEFT = (*_INNER, ("LEFT", ""), ("LEFT", "OUTER"), ("LEFT", "SEMI"), ("LEFT", "ANTI"))


@dataclass(frozen=True, slots=True)
class Filter:
    """A conjunct of WHERE that applies to all rows of a table: its place, the names in it.

    ``alone``: the table is the only one of its SELECT, so that a name is a column of it if it has such a one.
    """

    start: int
    end: int
    names: tuple[Named, ...]
    alone: bool


def filters(relation: Relation, scopes: Scopes | None) -> list[Filter]:
    """The conjuncts of WHERE, where they apply to all rows of the table."""
    table = None if scopes is None else scopes.table(relation)
    if scopes is None or table is None or _is_expression(relation, scopes.tree):
        return []
    select = _select_of(table)
    if select is None or select.args.get("where") is None or not _is_plain(select, table):
        return []
    alone = len(sources(select)) == 1
    found = []
    for node in _conjuncts(select.args["where"].this):
        place, names = scopes.place(node), tuple(scopes.names(node))
        if place is not None and all(named.starts for named in names) and scopes.is_alone(node):
            found.append(Filter(*place, names, alone))
    return found


def condition(
    found: Sequence[Filter], table: Qualifier, query: Span, parameters: Parameters, settings: SqlSettings
) -> str | None:
    """The filters that are about the table's columns alone, as one condition."""
    texts = [_of_table(each, table, query, parameters) for each in found]
    understood = [text for text in texts if text is not None and _is_understood(text, table.schema, settings)]
    return " AND ".join(f"({text})" for text in understood) or None


def _is_expression(relation: Relation, tree: exp.Expr) -> bool:
    """Whether a common table expression has the table's name, or one reads itself."""
    name = relation.name.parts[-1].lower()
    named = any(each.alias.lower() == name for each in tree.find_all(exp.CTE))
    return named or any(each.args.get("recursive") for each in tree.find_all(exp.With))


def _select_of(table: exp.Table) -> exp.Select | None:
    """The SELECT that has the table after FROM or in a join."""
    clause = table.parent
    if not isinstance(clause, exp.From | exp.Join) or clause.this is not table:
        return None
    return clause.parent if isinstance(clause.parent, exp.Select) else None


def _is_plain(select: exp.Select, table: exp.Table) -> bool:
    """Whether WHERE sees the table's rows as they are, and each once for each row beside it."""
    joins: list[exp.Join] = select.args.get("joins") or []
    if not _has_only(select, _SELECT) or select.find(exp.QueryTransform) is not None:
        return False
    if not all(_has_only(join, _JOIN) and _kind(join) in _KEEPS_LEFT for join in joins):
        return False
    if any(join.this is table and _kind(join) not in _INNER for join in joins):
        return False
    others = [source for source in sources(select) if source is not table]
    return _is_plain_table(table) and all(_is_unlike(source, table) for source in others)


def _is_unlike(source: exp.Expr, table: exp.Table) -> bool:
    """Whether a relation is of a kind whose name is certain, and nothing of it is the table's name."""
    if isinstance(source, exp.Subquery) and source.alias:
        names = [source.alias]
    elif isinstance(source, exp.Table) and _is_plain_table(source):
        names = [source.alias] if source.alias else [part.name for part in source.parts]
    else:
        return False
    return _folded(table.alias_or_name) not in map(_folded, names)


def _is_plain_table(source: exp.Table) -> bool:
    """Whether it is a table under its own columns' names, and nothing else."""
    alias = source.args.get("alias")
    named = all(isinstance(part, exp.Identifier) for part in source.parts)
    return named and _has_only(source, _TABLE) and (alias is None or _has_only(alias, frozenset(["this"])))


def _has_only(node: exp.Expr, known: frozenset[str]) -> bool:
    return all(name in known for name, value in node.args.items() if value)


def _kind(join: exp.Join) -> tuple[str, str]:
    return join.side.upper(), join.kind.upper()


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    elif isinstance(node, exp.Paren) and isinstance(node.this, exp.And):
        yield from _conjuncts(node.this)
    else:
        yield node


def _of_table(found: Filter, table: Qualifier, query: Span, parameters: Parameters) -> str | None:
    """The conjunct with bare names; None where one may be of another relation, or is not known yet."""
    edits = []
    for named in found.names:
        size = table.length(named.parts)
        if not found.alone and len(named.parts) > 1 and not size:
            return None
        if size:
            edits.append(Edit(named.starts[0], named.starts[size], ""))
    inside = tuple(token for token in query.tokens if found.start <= token.start < found.end)
    try:
        edits += parameters.literals(Span(query.source, inside))
    except InvalidOperationError:  # a value that only Spark knows
        return None
    return edited(query.source, found.start, found.end, edits)


def _is_understood(text: str, schema: Schema, settings: SqlSettings) -> bool:
    try:
        found = predicate.parse(text, schema, settings)
    except InvalidOperationError:
        return False
    return is_decided(found.tree)


def _folded(name: str) -> str:
    """Equal for all names that Spark may take for one: Java compares letters in both cases."""
    return name.upper().lower()
