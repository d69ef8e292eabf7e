"""A query's scopes, from a parse by sqlglot: which SELECT reads a table, and what its names stand for.

sqlglot gets a text of the same length, in which only what it reads as Spark does is left: comments are blank,
so are versions of tables, texts have quotes and characters that no setting changes, markers are numbers. A
place in its tree is then a place in the statement. What it cannot parse has no scopes.
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

_PLACE = "delvec_place"
_EXPLAIN = ("EXPLAIN", "LOGICAL", "FORMATTED", "EXTENDED", "CODEGEN", "COST")
_NOT_PLAIN = frozenset("'\"\\$")


class _QueryParser(ConditionParser):
    """Spark's grammar, in which conditions know their places; fails where sqlglot would only warn."""

    def _parse_disjunction(self) -> Any:
        return self._placed(super()._parse_disjunction)

    def _parse_equality(self) -> Any:
        return self._placed(super()._parse_equality)

    def _placed(self, parse: Callable[[], Any]) -> Any:
        first = self._curr
        node = parse()
        if node is not None and first is not None and self._prev is not None:
            node.meta[_PLACE] = (first.start, self._prev.end + 1)
        return node

    def _warn_unsupported(self) -> None:
        raise ParseError("not in sqlglot's grammar")


@dataclass(frozen=True, slots=True)
class Named:
    """A dotted name: its parts, a star at the end as ``*``, and where each starts in the statement.

    ``starts`` is empty where that is not certain.
    """

    parts: tuple[str, ...]
    starts: tuple[int, ...]
    node: exp.Expr


@dataclass(frozen=True, slots=True)
class Scopes:
    """A parsed query or expression. ``text`` is what sqlglot got, ``shift`` leads from it to the statement.

    ``tokens`` are where the statement's tokens start.
    """

    tree: exp.Expr
    text: str
    shift: int
    tokens: frozenset[int]

    @classmethod
    def of(cls, span: Span, relations: Sequence[Relation] = (), before: str = "") -> Scopes | None:
        """None where sqlglot cannot parse it; ``before`` is put before it, to make a query of it."""
        text = before + _plain(span, relations)
        if "${" in span.text or any(token.is_symbol("|>") for token in span.tokens):
            return None  # Spark may see another text; or columns that only a chain of steps tells
        try:
            trees = _parsed(text)
        except Exception:  # the parser has no contract for what it does not know
            return None
        if len(trees) != 1 or trees[0] is None:
            return None
        starts = frozenset(token.start for token in span.tokens)
        return cls(trees[0], text, span.start - len(before), starts)

    def table(self, relation: Relation) -> exp.Table | None:
        """The node of a table that the token reader found; None where sqlglot reads something else there."""
        for node in self.tree.find_all(exp.Table):
            if self.start(node) == relation.span.start:
                same = tuple(part.name for part in node.parts) == relation.name.parts
                return node if same and node.alias == (relation.alias or "") else None
        return None

    def names(self, tree: exp.Expr, *, nested: bool = True) -> Iterator[Named]:
        """The names of columns in a part of the tree; with ``nested`` those in subqueries too.

        What may be a variable of a lambda, in whichever case it is written, is no column.
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
                yield self._named(node, identifiers)

    @property
    def is_certain(self) -> bool:
        """Whether the place of each dotted name is known."""
        return all(named.starts or len(named.parts) == 1 for named in self.names(self.tree))

    def place(self, node: exp.Expr) -> tuple[int, int] | None:
        """Where a condition stands in the statement; None where that is not certain."""
        place = node.meta.get(_PLACE)
        if place is None or place[0] + self.shift not in self.tokens:
            return None
        return place[0] + self.shift, place[1] + self.shift

    def is_alone(self, node: exp.Expr) -> bool:
        """Whether the text at the node's place, parsed by itself, is the same tree."""
        start, end = node.meta[_PLACE]
        try:
            (select,) = _parsed(f"SELECT {self.text[start:end]}")
        except Exception:
            return False
        return isinstance(select, exp.Select) and select.expressions == [node]

    def _named(self, node: exp.Expr, identifiers: Sequence[exp.Expr]) -> Named:
        starts = tuple(map(self.start, identifiers))
        parts = tuple("*" if isinstance(part, exp.Star) else part.name for part in identifiers)
        return Named(parts, starts if self.tokens.issuperset(starts) else (), node)

    def start(self, node: exp.Expr) -> int:
        """Where a table's name or a part of a name starts; -1 where that is not known."""
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
    """What stands after FROM and in joins; LATERAL VIEWs too."""
    found = [select.args.get("from_") or select.args.get("from"), *(select.args.get("joins") or [])]
    return [node.this for node in found if node is not None] + list(select.args.get("laterals") or [])


def _identifiers(node: exp.Expr) -> list[exp.Expr] | None:
    """The parts of the name that the node is, a star as its last too."""
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
    """The tokens at their places, in a text of the same length."""
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
