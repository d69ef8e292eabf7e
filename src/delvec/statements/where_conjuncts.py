"""Selects the conjuncts of a query's WHERE that prune the files of one table.

A conjunct counts only if it surely applies to every row of the table: it belongs to the SELECT that reads the
table, it uses only columns of this table, and no outer join can add rows that it does not filter. If the
SELECT has any other clause between the table and WHERE, or a relation whose columns are not certain, nothing
is pruned. Pruning must understand the whole conjunct, and no row may make it fail. The query keeps its WHERE.
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
from delvec.statements.scopes import ColumnName, Scopes, sources
from delvec.statements.table_references import Relation
from delvec.statements.text_edits import Edit, edited

# The clauses that a SELECT may have. Other clauses apply between the tables and WHERE, or are unknown.
_SELECT_CLAUSES = frozenset(
    (
        *("expressions", "from_", "from", "joins", "where", "group", "having", "order", "sort", "limit"),
        *("offset", "distinct", "hint", "with_", "with", "windows"),
    )
)
_COUNTED_CLAUSES = frozenset(("expressions", "from_", "from", "where"))
_TABLE_PARTS = frozenset(("this", "db", "catalog", "alias"))
_JOIN_PARTS = frozenset(("this", "on", "kind", "side"))
_INNER = (("", ""), ("", "INNER"), ("", "CROSS"))
_KEEPS_LEFT = (*_INNER, ("LEFT", ""), ("LEFT", "OUTER"), ("LEFT", "SEMI"), ("LEFT", "ANTI"))


@dataclass(frozen=True, slots=True)
class Filter:
    """A conjunct of WHERE that applies to all rows of a table: its position, and the names in it.

    ``alone``: the SELECT reads no other table, so every name that the table has is a column of it.
    """

    start: int
    end: int
    names: tuple[ColumnName, ...]
    alone: bool


def filters(relation: Relation, scopes: Scopes | None) -> list[Filter]:
    """The conjuncts of WHERE that apply to all rows of the table."""
    table = None if scopes is None else scopes.table(relation)
    if scopes is None or table is None or _is_expression(relation, scopes.tree):
        return []
    select = _select_of(table)
    if select is None or select.args.get("where") is None or not _is_plain(select, table):
        return []
    is_only_source = len(sources(select)) == 1
    result = []
    for node in _conjuncts(select.args["where"].this):
        position, names = scopes.position(node), tuple(scopes.names(node))
        if position is not None and all(name.starts for name in names) and scopes.is_alone(node):
            result.append(Filter(*position, names, is_only_source))
    return result


def all_filters(relation: Relation, scopes: Scopes) -> list[Filter] | None:
    """All conjuncts of WHERE if the query is one SELECT that has FROM the table and WHERE only; empty without
    WHERE. None if the query is another one, or if a conjunct may not apply to all rows of the table.
    """
    table = scopes.table(relation)
    select = None if table is None else _select_of(table)
    if table is None or select is not scopes.tree or not _has_only(select, _COUNTED_CLAUSES):
        return None
    where = select.args.get("where")
    if not _is_plain(select, table):
        return None
    if where is None:
        return []
    found = filters(relation, scopes)
    return found if len(found) == len(list(_conjuncts(where.this))) else None


def whole_condition(
    filters: Sequence[Filter], table: Qualifier, query: Span, parameters: Parameters, settings: SqlSettings
) -> str | None:
    """The filters as one condition; None if one of them is not understood."""
    texts = [condition([each], table, query, parameters, settings) for each in filters]
    understood = [text for text in texts if text is not None]
    return " AND ".join(understood) if len(understood) == len(texts) else None


def condition(
    filters: Sequence[Filter], table: Qualifier, query: Span, parameters: Parameters, settings: SqlSettings
) -> str | None:
    """The filters that use only columns of the table, as one condition."""
    texts = [_unqualified(each, table, query, parameters) for each in filters]
    understood = [text for text in texts if text is not None and _is_understood(text, table.schema, settings)]
    return " AND ".join(f"({text})" for text in understood) or None


def _is_expression(relation: Relation, tree: exp.Expr) -> bool:
    """Whether a common table expression has the table's name, or is recursive."""
    name = relation.name.parts[-1].lower()
    has_name = any(cte.alias.lower() == name for cte in tree.find_all(exp.CTE))
    return has_name or any(clause.args.get("recursive") for clause in tree.find_all(exp.With))


def _select_of(table: exp.Table) -> exp.Select | None:
    """The SELECT that reads the table after FROM or in a join."""
    clause = table.parent
    if not isinstance(clause, exp.From | exp.Join) or clause.this is not table:
        return None
    return clause.parent if isinstance(clause.parent, exp.Select) else None


def _is_plain(select: exp.Select, table: exp.Table) -> bool:
    """Whether WHERE filters the table's own rows, or each of them joined with rows of other relations."""
    joins: list[exp.Join] = select.args.get("joins") or []
    if not _has_only(select, _SELECT_CLAUSES) or select.find(exp.QueryTransform) is not None:
        return False
    if not all(_has_only(join, _JOIN_PARTS) and _kind(join) in _KEEPS_LEFT for join in joins):
        return False
    if any(join.this is table and _kind(join) not in _INNER for join in joins):
        return False
    other_sources = [source for source in sources(select) if source is not table]
    return _is_plain_table(table) and all(_has_other_name(source, table) for source in other_sources)


def _has_other_name(source: exp.Expr, table: exp.Table) -> bool:
    """Whether the relation's name is certain, and no part of it is the table's name."""
    if isinstance(source, exp.Subquery) and source.alias:
        names = [source.alias]
    elif isinstance(source, exp.Table) and _is_plain_table(source):
        names = [source.alias] if source.alias else [part.name for part in source.parts]
    else:
        return False
    return _folded(table.alias_or_name) not in map(_folded, names)


def _is_plain_table(source: exp.Table) -> bool:
    """Whether it is a table without sampling, column aliases and the like."""
    alias = source.args.get("alias")
    is_name = all(isinstance(part, exp.Identifier) for part in source.parts)
    return (
        is_name
        and _has_only(source, _TABLE_PARTS)
        and (alias is None or _has_only(alias, frozenset(["this"])))
    )


def _has_only(node: exp.Expr, allowed: frozenset[str]) -> bool:
    return all(name in allowed for name, value in node.args.items() if value)


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


def _unqualified(conjunct: Filter, table: Qualifier, query: Span, parameters: Parameters) -> str | None:
    """The conjunct without qualifiers; None if a name may belong to another relation, or a value is a
    Column.
    """
    edits = []
    for name in conjunct.names:
        size = table.length(name.parts)
        if not conjunct.alone and len(name.parts) > 1 and not size:
            return None
        if size:
            edits.append(Edit(name.starts[0], name.starts[size], ""))
    tokens = tuple(token for token in query.tokens if conjunct.start <= token.start < conjunct.end)
    try:
        edits += parameters.literals(Span(query.source, tokens))
    except InvalidOperationError:
        return None
    return edited(query.source, conjunct.start, conjunct.end, edits)


def _is_understood(text: str, schema: Schema, settings: SqlSettings) -> bool:
    try:
        return is_decided(predicate.parse(text, schema, settings).tree)
    except InvalidOperationError:
        return False


def _folded(name: str) -> str:
    """Equal for all names that Spark may treat as equal: Java compares letters in upper and in lower case."""
    return name.upper().lower()
