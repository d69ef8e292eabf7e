"""Finds the tables that a query reads: in joins, subqueries and common table expressions too.

The name of a table follows FROM, JOIN, TABLE, USING, or a comma in a FROM clause, unless it is a function or
a common table expression. FROM inside the parentheses of a function, as in ``extract(year FROM d)``, is not a
clause.

This works on tokens, and reads only names, versions and aliases, because sqlglot cannot parse all of Spark's
statements. The meaning of column names and of WHERE comes from sqlglot's parse (`scopes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from delvec.statements.cursor import QUERY_STARTS, Cursor, Name, Span
from delvec.statements.expression_ends import after_value
from delvec.statements.lexer import Kind, Token

_SET_OPERATIONS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
_CLAUSES = (
    *("SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET"),
    *("WINDOW", "QUALIFY", "INSERT", "SET", "WHEN", *_SET_OPERATIONS),
)
_JOIN_WORDS = ("INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL")
_TABLE_OPERATORS = ("PIVOT", "UNPIVOT", "TABLESAMPLE", "MATCH_RECOGNIZE")
_NO_ALIAS = frozenset(
    (*_CLAUSES, *_JOIN_WORDS, *_TABLE_OPERATORS, "JOIN", "ON", "USING", "LATERAL", "AS", "VALUES")
)


@dataclass(frozen=True, slots=True)
class Relation:
    """A table in a query.

    span         its name and its version (AS OF)
    alias        its alias; None without one
    alias_at     the position for an alias; None if the grammar does not allow one
    """

    name: Name
    span: Span
    version: Span | None
    timestamp: Span | None
    alias: str | None
    alias_at: int | None


def relations(span: Span, *, listed: bool = False) -> list[Relation]:
    """The tables that a query reads, without its common table expressions.

    ``listed``: the text is the part after FROM.
    """
    scan = _Scan(span)
    scan.region(0, len(span.tokens), frozenset(), listed=listed)
    return scan.found


def nested_relations(span: Span) -> list[Relation]:
    """The tables that the subqueries of an expression read."""
    scan = _Scan(span)
    scan.nested(0, len(span.tokens), frozenset())
    return scan.found


def alias_after(source: Span) -> str | None:
    """The qualifier of a relation's columns, such as a MERGE's source: its alias, or else its name."""
    return _Scan(source).relation(0, len(source.tokens), frozenset())[1]


class _Scan:
    def __init__(self, span: Span) -> None:
        self.source = span.source
        self.tokens = span.tokens
        self.closing = _pairs(span.tokens)
        self.found: list[Relation] = []

    def region(self, at: int, end: int, ctes: frozenset[str], *, listed: bool = False) -> None:
        """A query, or with ``listed`` the relations of a FROM clause."""
        start, in_from, expecting = at, listed, listed
        while at < end:
            token = self.tokens[at]
            word = "" if at > start and self.tokens[at - 1].is_symbol(".") else token.word
            if expecting and word != "LATERAL":
                at, expecting = self.relation(at, end, ctes)[0], False
                continue
            if token.is_symbol("("):
                close = self.closing[at]
                self.nested(at + 1, close, ctes)
                at = close + 1
                continue
            if word == "WITH" and self._has_expression(at, end):
                at, ctes = self.expressions(at, end, ctes)
                continue
            lateral_view = word == "LATERAL" and self._word(at + 1) == "VIEW"
            if word in _CLAUSES or token.is_symbol("|>") or lateral_view:
                in_from = False  # commas do not separate relations any more
            expecting = expecting or self._expects(at, start, end, in_from=in_from)
            in_from = in_from or (expecting and word == "FROM")
            at += 1

    def nested(self, at: int, end: int, ctes: frozenset[str]) -> None:
        """The text in parentheses: a query, or an expression that may contain queries."""
        if is_query(self.tokens, at, end):
            self.region(at, end, ctes)
            return
        while at < end:
            if self.tokens[at].is_symbol("("):
                self.nested(at + 1, self.closing[at], ctes)
                at = self.closing[at]
            at += 1

    def expressions(self, at: int, end: int, ctes: frozenset[str]) -> tuple[int, frozenset[str]]:
        """The common table expressions of a WITH: the index after them, and the names of all that exist
        there.
        """
        recursive = self._word(at + 1) == "RECURSIVE"
        at += 2 if recursive else 1
        while at < end:
            name = self.tokens[at].name.lower()
            at += 1
            if self.tokens[at].is_symbol("(") and not is_query(self.tokens, at + 1, end):  # its columns
                at = self.closing[at] + 1
            while at < end and not self.tokens[at].is_symbol("("):
                at += 1
            if at >= end:
                break
            self.nested(at + 1, self.closing[at], ctes | {name} if recursive else ctes)
            ctes |= {name}
            at = self.closing[at] + 1
            if at >= end or not self.tokens[at].is_symbol(","):
                break
            at += 1
        return at, ctes

    def relation(self, at: int, end: int, ctes: frozenset[str]) -> tuple[int, str | None]:
        """One relation: the index after its alias, and the qualifier of its columns."""
        token, name = self.tokens[at], None
        first, version, timestamp = at, None, None
        if token.is_symbol("("):
            close = self.closing[at]
            if is_query(self.tokens, at + 1, close):
                self.region(at + 1, close, ctes)
            else:
                self.region(at + 1, close, ctes, listed=True)
            at = close + 1
        elif token.is_name and token.word != "VALUES":
            cursor = Cursor(self.source, (*self.tokens[:end], Token(Kind.END, "", self.tokens[end - 1].end)))
            cursor.at = at
            name = cursor.name("a table")
            version, timestamp = _version(cursor)
            at = cursor.at
        else:  # VALUES, whose rows are in parentheses
            return at + 1, None
        last = at
        if name is not None and at < end and self.tokens[at].is_symbol("("):  # a function
            self.nested(at + 1, self.closing[at], ctes)
            at, name = self.closing[at] + 1, None
        at = self._after_sample(at, end)
        alias_at = None if self._word(first - 1) == "TABLE" else self.tokens[at - 1].end
        alias, at = self._alias(at, end)
        is_cte = name is not None and len(name.parts) == 1 and name.parts[0].lower() in ctes
        if name is not None and not is_cte:
            span = Span(self.source, self.tokens[first:last])
            self.found.append(Relation(name, span, version, timestamp, alias, alias_at))
        return at, name.parts[-1] if alias is None and name is not None else alias

    def _after_sample(self, at: int, end: int) -> int:
        if at < end and self._word(at) == "TABLESAMPLE":
            at += 1
            while at < end and self.tokens[at].is_symbol("("):
                at = self.closing[at] + 1
                if self._word(at) == "REPEATABLE":
                    at += 1
        return at

    def _alias(self, at: int, end: int) -> tuple[str | None, int]:
        if at < end and self._word(at) == "AS":
            at += 1
        elif at >= end or not self.tokens[at].is_name or self._word(at) in _NO_ALIAS:
            return None, at
        if at >= end or not self.tokens[at].is_name:
            return None, at
        alias = self.tokens[at].name
        at += 1
        if at < end and self.tokens[at].is_symbol("("):  # new names for its columns
            return alias, self.closing[at] + 1
        return alias, at

    def _expects(self, at: int, start: int, end: int, *, in_from: bool) -> bool:
        """Whether a relation follows this token."""
        word, before = self._word(at), self._word(at - 1) if at > start else ""
        if at > start and self.tokens[at - 1].is_symbol("."):
            return False
        if at + 1 >= end:
            return False
        if word == "FROM":
            return not (before == "DISTINCT" and self._word(at - 2) in ("IS", "NOT"))
        if word == "JOIN" or (in_from and self.tokens[at].is_symbol(",")):
            return True
        if word == "USING":  # in a MERGE; in a join, columns in parentheses follow
            return self.tokens[at + 1].is_name
        starts = at == start or before in (*_SET_OPERATIONS, "ALL", "DISTINCT")
        return word == "TABLE" and starts and self.tokens[at + 1].is_name

    def _has_expression(self, at: int, end: int) -> bool:
        """Whether the WITH here starts common table expressions: name [(columns)] AS (…)."""
        at += 2 if self._word(at + 1) == "RECURSIVE" else 1
        if at + 1 >= end or not self.tokens[at].is_name:
            return False
        after = self.tokens[at + 1]
        return after.is_symbol("(") or after.word in ("AS", "MAX")

    def _word(self, at: int) -> str:
        return self.tokens[at].word if 0 <= at < len(self.tokens) else ""


def _version(cursor: Cursor) -> tuple[Span | None, Span | None]:
    """The version or the timestamp of AS OF, if it comes next."""
    start = cursor.at
    cursor.takes("FOR")
    by_version = cursor.sees("VERSION", "AS", "OF") or cursor.sees("SYSTEM_VERSION", "AS", "OF")
    by_time = cursor.sees("TIMESTAMP", "AS", "OF") or cursor.sees("SYSTEM_TIME", "AS", "OF")
    if not (by_version or by_time):
        cursor.at = start
        return None, None
    cursor.at += 3
    first = cursor.at
    cursor.at = after_value(cursor)
    value = cursor.span(first, cursor.at)
    return (value, None) if by_version else (None, value)


def is_query(tokens: Sequence[Token], at: int, end: int) -> bool:
    """Whether a query starts here, after any parentheses."""
    while at < end and tokens[at].is_symbol("("):
        at += 1
    if at >= end or tokens[at].word not in QUERY_STARTS:
        return False
    # A column may have such a name: (values), (table.id), (map('a', 1)).
    after = tokens[at + 1] if at + 1 < end else None
    if tokens[at].word in ("VALUES", "TABLE", "MAP", "REDUCE", "FROM", "WITH"):
        if after is None or after.text in (".", ",", ")"):
            return False
        return after.text != "(" or tokens[at].word == "VALUES"
    return True


def _pairs(tokens: Iterable[Token]) -> dict[int, int]:
    """The index of the parenthesis that closes each one that opens."""
    pairs, open_ones = {}, []
    for index, token in enumerate(tokens):
        if token.is_symbol("("):
            open_ones.append(index)
        elif token.is_symbol(")"):
            pairs[open_ones.pop()] = index
    return pairs
