"""Tables that a query reads, wherever they stand in it: joins, subqueries, common table expressions.

A table's name is what follows FROM, JOIN or a comma between them (TABLE and USING too), unless it is a
function's or that of a common table expression. FROM inside a function's parentheses, as in
``extract(year FROM d)``, is no clause.

For pruning, each name comes with its query block: the relations beside it, how they are joined, and WHERE.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from delvec.statements.cursor import Cursor, Name, Span
from delvec.statements.expressions import after_value
from delvec.statements.lexer import Kind, Token

QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")
_SET_OPERATIONS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
_CLAUSES = (
    *("SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET"),
    *("WINDOW", "QUALIFY", "INSERT", "SET", "WHEN", *_SET_OPERATIONS),
)
_JOIN_WORDS = ("INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL")
_RESHAPING = ("PIVOT", "UNPIVOT", "TABLESAMPLE", "MATCH_RECOGNIZE")
_NO_ALIAS = frozenset(
    (*_CLAUSES, *_JOIN_WORDS, *_RESHAPING, "JOIN", "ON", "USING", "LATERAL", "AS", "VALUES")
)


@dataclass(slots=True)
class Block:
    """One SELECT. ``joins`` are the words before each JOIN, none for a comma, in the order of ``names``.

    ``names``: of the relations, by alias or last part. ``reshaped``: WHERE does not see the tables' own rows.
    """

    names: list[str] = field(default_factory=list)
    joins: list[frozenset[str]] = field(default_factory=list)
    where: Span | None = None
    reshaped: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A table in a query.

    span         its name and the version asked for
    alias        its alias, None without one
    alias_at     where one can be put; None where the grammar has no place for it
    renamed      the alias also renames the columns
    position     which relation of its block it is
    """

    name: Name
    span: Span
    version: Span | None
    timestamp: Span | None
    alias: str | None
    alias_at: int | None
    renamed: bool
    block: Block
    position: int

    @property
    def shown_as(self) -> str:
        """What qualifies its columns."""
        return self.alias if self.alias is not None else self.name.parts[-1]


def relations(span: Span, *, listed: bool = False) -> list[Relation]:
    """The tables that a query reads, those of common table expressions left out.

    ``listed``: the piece of text is what stands after FROM.
    """
    scan = _Scan(span)
    scan.region(0, len(span.tokens), frozenset(), listed=listed)
    return scan.found


def nested_relations(span: Span) -> list[Relation]:
    """The tables that the subqueries of an expression read."""
    scan = _Scan(span)
    scan.nested(0, len(span.tokens), frozenset())
    return scan.found


def has_query(span: Span) -> bool:
    """Whether there is a subquery in the expression."""
    tokens = span.tokens
    return any(
        token.is_symbol("(") and is_query(tokens, index + 1, len(tokens))
        for index, token in enumerate(tokens)
    )


def alias_after(source: Span) -> str | None:
    """The alias at the end of a relation, such as a MERGE's source."""
    scan = _Scan(source)
    block = Block()
    scan.relation(0, len(source.tokens), block, frozenset())
    return block.names[0] if block.names else None


class _Scan:
    def __init__(self, span: Span) -> None:
        self.source = span.source
        self.tokens = span.tokens
        self.closing = _pairs(span.tokens)
        self.found: list[Relation] = []

    def region(self, at: int, end: int, ctes: frozenset[str], *, listed: bool = False) -> None:
        """A query, or with ``listed`` the relations of a FROM clause, whose WHERE is not here."""
        start, block, in_from, expecting = at, Block(reshaped=listed), listed, listed
        while at < end:
            token = self.tokens[at]
            word = "" if at > start and self.tokens[at - 1].is_symbol(".") else token.word
            if expecting and word != "LATERAL":
                at, expecting = self.relation(at, end, block, ctes), False
                continue
            if token.is_symbol("("):
                close = self.closing[at]
                self.nested(at + 1, close, ctes)
                at = close + 1
                continue
            if word == "WITH" and self._has_expression(at, end):
                at, ctes = self.expressions(at, end, ctes)
                continue
            if word in _SET_OPERATIONS and not self.tokens[at - 1].is_symbol("*"):
                block = Block()
            block.reshaped |= word in _RESHAPING or token.is_symbol("|>")
            if word == "WHERE":
                block.where = self._until_clause(at + 1, end)
            lateral_view = word == "LATERAL" and self._word(at + 1) == "VIEW"
            if word in _CLAUSES or token.is_symbol("|>") or lateral_view:
                in_from = False  # commas are not between relations any more
            if lateral_view:
                block.names.append("")
                block.joins.append(frozenset())
            expecting = expecting or self._expects(at, start, end, in_from=in_from)
            if expecting and word != "LATERAL":
                in_from = in_from or word == "FROM"
                block.joins.append(self._join(at) if block.names else frozenset())
            at += 1

    def nested(self, at: int, end: int, ctes: frozenset[str]) -> None:
        """What parentheses hold: a query, or an expression in which there may be some."""
        if is_query(self.tokens, at, end):
            self.region(at, end, ctes)
            return
        while at < end:
            if self.tokens[at].is_symbol("("):
                self.nested(at + 1, self.closing[at], ctes)
                at = self.closing[at]
            at += 1

    def expressions(self, at: int, end: int, ctes: frozenset[str]) -> tuple[int, frozenset[str]]:
        """The common table expressions of a WITH; the index after them, and all that are known there."""
        recursive = self._word(at + 1) == "RECURSIVE"
        at += 2 if recursive else 1
        while at < end:
            name = self.tokens[at].name.lower()
            at += 1
            if self.tokens[at].is_symbol("("):  # names of its columns
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

    def relation(self, at: int, end: int, block: Block, ctes: frozenset[str]) -> int:
        """One relation, which starts here; the index after it and its alias."""
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
            block.names.append("")
            return at + 1
        last = at
        if name is not None and at < end and self.tokens[at].is_symbol("("):  # a function
            self.nested(at + 1, self.closing[at], ctes)
            at, name = self.closing[at] + 1, None
        at = self._after_sample(at, end, block)
        alias_at = None if self._word(first - 1) == "TABLE" else self.tokens[at - 1].end
        alias, renamed, at = self._alias(at, end)
        position = len(block.names)
        block.names.append(alias if alias is not None else name.parts[-1] if name is not None else "")
        is_cte = name is not None and len(name.parts) == 1 and name.parts[0].lower() in ctes
        if name is not None and not is_cte:
            span = Span(self.source, self.tokens[first:last])
            self.found.append(
                Relation(name, span, version, timestamp, alias, alias_at, renamed, block, position)
            )
        return at

    def _after_sample(self, at: int, end: int, block: Block) -> int:
        if at < end and self._word(at) == "TABLESAMPLE":
            block.reshaped = True
            at += 1
            while at < end and self.tokens[at].is_symbol("("):
                at = self.closing[at] + 1
                if self._word(at) == "REPEATABLE":
                    at += 1
        return at

    def _alias(self, at: int, end: int) -> tuple[str | None, bool, int]:
        if at < end and self._word(at) == "AS":
            at += 1
        elif at >= end or not self.tokens[at].is_name or self._word(at) in _NO_ALIAS:
            return None, False, at
        if at >= end or not self.tokens[at].is_name:
            return None, False, at
        alias = self.tokens[at].name
        at += 1
        if at < end and self.tokens[at].is_symbol("("):
            return alias, True, self.closing[at] + 1
        return alias, False, at

    def _expects(self, at: int, start: int, end: int, *, in_from: bool) -> bool:
        """Whether a relation must follow this token."""
        word, before = self._word(at), self._word(at - 1) if at > start else ""
        if at > start and self.tokens[at - 1].is_symbol("."):
            return False
        if at + 1 >= end:
            return False
        if word == "FROM":
            return not (before == "DISTINCT" and self._word(at - 2) in ("IS", "NOT"))
        if word == "JOIN" or (in_from and self.tokens[at].is_symbol(",")):
            return True
        if word == "USING":  # of a MERGE; of a join it has columns in parentheses
            return self.tokens[at + 1].is_name
        starts = at == start or before in (*_SET_OPERATIONS, "ALL", "DISTINCT")
        return word == "TABLE" and starts and self.tokens[at + 1].is_name

    def _join(self, at: int) -> frozenset[str]:
        """The words before JOIN."""
        words = []
        while at > 0 and self._word(at - 1) in _JOIN_WORDS:
            at -= 1
            words.append(self._word(at))
        return frozenset(words)

    def _until_clause(self, at: int, end: int) -> Span | None:
        first = at
        while at < end:
            is_field = self.tokens[at - 1].is_symbol(".")
            if (self._word(at) in _CLAUSES and not is_field) or self.tokens[at].is_symbol("|>"):
                break
            at = self.closing[at] + 1 if self.tokens[at].is_symbol("(") else at + 1
        return Span(self.source, self.tokens[first:at]) if at > first else None

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
    """The version or the timestamp of AS OF, where it comes next."""
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
