"""A query's scopes, parsed by sqlglot: which SELECT reads a table, and what its names mean.

sqlglot gets a text of the same length, so that positions in its tree are positions in the statement. The text
contains only what sqlglot reads as Spark does: comments and versions of tables are replaced by spaces,
strings by strings whose meaning does not depend on settings, markers by numbers. A query that sqlglot cannot
parse has no scopes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError

from delvec.predicate.binding import name_parts
from delvec.predicate.parser import ConditionParser
from delvec.statements.cursor import Span
from delvec.statements.lexer import Kind, Token
from delvec.statements.table_references import Relation

_POSITION = "delvec_position"
_EXPLAIN = ("EXPLAIN", "LOGICAL", "FORMATTED", "EXTENDED", "CODEGEN", "COST")
_NOT_PLAIN = frozenset("'\"\\$")


class _QueryParser(ConditionParser):
    """sqlglot's grammar of Spark. Conditions get their positions; raises where sqlglot would only warn."""

    def _parse_disjunction(self) -> Any:
        return self._with_position(super()._parse_disjunction)

    def _parse_equality(self) -> Any:
        return self._with_position(super()._parse_equality)

    def _with_position(self, parse: Callable[[], Any]) -> Any:
        first = self._curr
        node = parse()
        if node is not None and first is not None and self._prev is not None:
            node.meta[_POSITION] = (first.start, self._prev.end + 1)
        return node

    def _warn_unsupported(self) -> None:
        raise ParseError("not in sqlglot's grammar")


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A dotted name: its parts (a star at the end as ``*``) and their positions in the statement.

    ``starts`` is empty if the positions are not certain.
    """

    parts: tuple[str, ...]
    starts: tuple[int, ...]
    node: exp.Expr


@dataclass(frozen=True, slots=True)
class Scopes:
    """A parsed query or expression.

    text      the text that sqlglot parsed
    shift     added to a position in ``text``, gives the position in the statement
    tokens    the positions of the statement's tokens
    """

    tree: exp.Expr
    text: str
    shift: int
    tokens: frozenset[int]

    @classmethod
    def of(cls, span: Span, relations: Sequence[Relation] = (), before: str = "") -> Scopes | None:
        """None if sqlglot cannot parse it. ``before``: text that makes a query of it."""
        text = before + _plain(span, relations)
        if "${" in span.text or any(token.is_symbol("|>") for token in span.tokens):
            return None  # Spark substitutes variables; a pipe changes the columns from step to step
        try:
            trees = _parsed(text)
        except Exception:  # sqlglot raises all kinds of errors for text that it cannot parse
            return None
        if len(trees) != 1 or trees[0] is None:
            return None
        starts = frozenset(token.start for token in span.tokens)
        return cls(trees[0], text, span.start - len(before), starts)

    def table(self, relation: Relation) -> exp.Table | None:
        """The node of a table that `table_references` found; None if sqlglot reads something else there."""
        for node in self.tree.find_all(exp.Table):
            if self.start(node) == relation.span.start:
                same = tuple(part.name for part in node.parts) == relation.name.parts
                return node if same and node.alias == (relation.alias or "") else None
        return None

    def names(self, tree: exp.Expr, *, nested: bool = True) -> Iterator[ColumnName]:
        """The column names in a part of the tree; with ``nested`` those in subqueries too.

        A name that may be the variable of a lambda (whatever its case) is not a column.
        """
        pending: list[tuple[exp.Expr, frozenset[str]]] = [(tree, frozenset())]
        while pending:
            node, variables = pending.pop()
            identifiers = _identifiers(node)
            if identifiers is None:
                if isinstance(node, exp.Lambda):
                    variables |= {variable.name.lower() for variable in node.expressions}
                if nested or node is tree or not isinstance(node, exp.Query):
                    pending.extend((child, variables) for child in node.iter_expressions())
            elif identifiers[0].name.lower() not in variables:
                yield self._column_name(node, identifiers)

    @property
    def is_certain(self) -> bool:
        """Whether the position of each dotted name is known."""
        return all(name.starts or len(name.parts) == 1 for name in self.names(self.tree))

    def position(self, node: exp.Expr) -> tuple[int, int] | None:
        """Start and end of a condition in the statement; None if they are not certain."""
        position = node.meta.get(_POSITION)
        if position is None or position[0] + self.shift not in self.tokens:
            return None
        return position[0] + self.shift, position[1] + self.shift

    def is_alone(self, node: exp.Expr) -> bool:
        """Whether the node's text, parsed by itself, gives the same tree."""
        start, end = node.meta[_POSITION]
        try:
            (select,) = _parsed(f"SELECT {self.text[start:end]}")
        except Exception:
            return False
        return isinstance(select, exp.Select) and select.expressions == [node]

    def _column_name(self, node: exp.Expr, identifiers: Sequence[exp.Expr]) -> ColumnName:
        starts = tuple(map(self.start, identifiers))
        parts = tuple("*" if isinstance(part, exp.Star) else part.name for part in identifiers)
        return ColumnName(parts, starts if self.tokens.issuperset(starts) else (), node)

    def start(self, node: exp.Expr) -> int:
        """The position of a table's name or of a part of a name; -1 if it is not known."""
        first = node.parts[0] if isinstance(node, exp.Table) else node
        return int(first.meta.get("start", -1 - self.shift)) + self.shift


def enclosing_selects(node: exp.Expr) -> Iterator[exp.Select]:
    """The SELECTs around a node, the innermost first."""
    above = node.parent
    while above is not None:
        if isinstance(above, exp.Select):
            yield above
        above = above.parent


def sources(select: exp.Select) -> list[exp.Expr]:
    """The relations after FROM, in joins and in LATERAL VIEWs."""
    clauses = [select.args.get("from_") or select.args.get("from"), *(select.args.get("joins") or [])]
    return [clause.this for clause in clauses if clause is not None] + list(select.args.get("laterals") or [])


def _identifiers(node: exp.Expr) -> list[exp.Expr] | None:
    """The parts of a column name, whose last may be a star; None if the node is not a column name."""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return list(node.parts)
    if name_parts(node) is None:
        return None
    outer: list[exp.Expr] = []
    while isinstance(node, exp.Dot):
        outer.append(node.expression)
        node = node.this
    assert isinstance(node, exp.Column)
    return list(node.parts) + outer[::-1]


def _parsed(text: str) -> list[Any]:
    dialect = Spark()
    return list(_QueryParser(dialect=dialect).parse(dialect.tokenize(text), text))


def _plain(span: Span, relations: Iterable[Relation]) -> str:
    """The tokens at their positions, in a text of the same length."""
    blank = {token.start for relation in relations for token in relation.span.tokens}
    blank -= {token.start for relation in relations for token in relation.name.span.tokens}
    explains = span.tokens[0].word == "EXPLAIN"
    parts, at = [], span.start
    for token in span.tokens:
        explains = explains and token.word in _EXPLAIN
        text = " " * len(token.text) if explains or token.start in blank else _plain_token(token)
        parts.append(" " * (token.start - at) + text)
        at = token.end
    return "".join(parts)


def _plain_token(token: Token) -> str:
    size = len(token.text)
    if token.kind is Kind.MARKER:
        return "0" * size
    if token.kind is not Kind.STRING:
        return token.text
    inner = token.text[1:-1]
    is_plain = token.text[0] in "'\"" and not _NOT_PLAIN & set(inner)
    return f"'{inner if is_plain else 'x' * (size - 2)}'"
