"""Finds the tables that a query reads: in joins, subqueries and common table expressions too.

The name of a table follows FROM, JOIN, TABLE, USING, or a comma in a FROM clause, unless it is a function or
a common table expression. FROM inside the parentheses of a function, as in ``extract(year FROM d)``, is not a
clause.

This works on tokens, and reads only names, versions and aliases, because sqlglot cannot parse all of Spark's
statements. sqlglot's parse (`scopes`) gives the meaning of column names and of WHERE.
"""

from __future__ import annotations

from dataclasses import dataclass

from delvec.statements.cursor import QUERY_STARTS, Cursor, Name, Span
from delvec.statements.expression_ends import after_value
from delvec.statements.lexer import Kind
from delvec.statements.table_changes import TableChanges, changes_of

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
    changes      the function that returns its changes; None: its rows
    """

    name: Name
    span: Span
    version: Span | None
    timestamp: Span | None
    alias: str | None
    alias_at: int | None
    changes: TableChanges | None = None


def relations(span: Span, *, listed: bool = False) -> list[Relation]:
    """The tables that a query reads, without its common table expressions.

    ``listed``: the text is the part after FROM.
    """
    reader = _Reader()
    reader.query(Cursor.over(span), frozenset(), listed=listed)
    return reader.relations


def nested_relations(span: Span) -> list[Relation]:
    """The tables that the subqueries of an expression read."""
    reader = _Reader()
    reader.nested(Cursor.over(span), frozenset())
    return reader.relations


def alias_after(source: Span) -> str | None:
    """The qualifier of a relation's columns, such as a MERGE's source: its alias, or else its name."""
    return _Reader().relation(Cursor.over(source), frozenset())


class _Reader:
    """Collects the tables of a query. ``ctes``: the names of common table expressions, in lower case."""

    def __init__(self) -> None:
        self.relations: list[Relation] = []

    def query(self, cursor: Cursor, ctes: frozenset[str], *, listed: bool = False) -> None:
        """A query, or with ``listed`` the relations of a FROM clause."""
        in_from, expects_relation = listed, listed
        while not cursor.is_done:
            word = "" if cursor.is_field() else cursor.here.word
            if expects_relation and word != "LATERAL":
                self.relation(cursor, ctes)
                expects_relation = False
            elif cursor.here.is_symbol("("):
                self.nested(cursor.inside(), ctes)
            elif word == "WITH" and _has_expressions(cursor):
                ctes = self.expressions(cursor, ctes)
            else:
                if word in _CLAUSES or cursor.here.is_symbol("|>") or cursor.sees("LATERAL", "VIEW"):
                    in_from = False  # commas do not separate relations any more
                expects_relation = expects_relation or _precedes_relation(cursor, in_from=in_from)
                in_from = in_from or (expects_relation and word == "FROM")
                cursor.at += 1

    def nested(self, cursor: Cursor, ctes: frozenset[str]) -> None:
        """The text in parentheses: a query, or an expression that may contain queries."""
        if _is_query(cursor):
            self.query(cursor, ctes)
        while not cursor.is_done:
            if cursor.here.is_symbol("("):
                self.nested(cursor.inside(), ctes)
            else:
                cursor.at += 1

    def expressions(self, cursor: Cursor, ctes: frozenset[str]) -> frozenset[str]:
        """The common table expressions of a WITH; returns the names of all that exist after it."""
        cursor.expect("WITH")
        recursive = cursor.takes("RECURSIVE")
        while not cursor.is_done:
            name = cursor.here.name.lower()
            cursor.at += 1
            inner = cursor.inside() if cursor.here.is_symbol("(") else None
            if inner is None or not _is_query(inner):  # the names of its columns
                while not (cursor.is_done or cursor.here.is_symbol("(")):
                    cursor.at += 1
                if cursor.is_done:
                    break
                inner = cursor.inside()
            self.nested(inner, ctes | {name} if recursive else ctes)
            ctes |= {name}
            if not cursor.takes_symbol(","):
                break
        return ctes

    def relation(self, cursor: Cursor, ctes: frozenset[str]) -> str | None:
        """One relation with its alias; returns the qualifier of its columns."""
        first, name, version, timestamp, changes = cursor.at, None, None, None, None
        if cursor.here.is_symbol("("):
            inner = cursor.inside()
            self.query(inner, ctes, listed=not _is_query(inner))
        elif cursor.here.is_name and cursor.here.word != "VALUES":
            name = cursor.name("a table")
            version, timestamp = version_clause(cursor)
        else:  # VALUES, whose rows are in parentheses
            cursor.at += 1
            return None
        span = cursor.span(first, cursor.at)
        if name is not None and cursor.here.is_symbol("("):  # a function
            function, arguments = name, cursor.inside()
            span = cursor.span(first, cursor.at)
            changes = changes_of(function, arguments, span)
            name = None if changes is None else changes.name
            if changes is None:
                self.nested(arguments, ctes)
        _pass_sample(cursor)
        alias_at = None if _word_before(cursor, first) == "TABLE" else cursor.tokens[cursor.at - 1].end
        alias = _alias(cursor)
        is_expression = name is not None and len(name.parts) == 1 and name.parts[0].lower() in ctes
        if name is not None and (changes is not None or not is_expression):
            self.relations.append(Relation(name, span, version, timestamp, alias, alias_at, changes))
        return name.parts[-1] if alias is None and name is not None else alias


def _pass_sample(cursor: Cursor) -> None:
    if cursor.takes("TABLESAMPLE"):
        while cursor.here.is_symbol("("):
            cursor.inside()
            cursor.takes("REPEATABLE")


def _alias(cursor: Cursor) -> str | None:
    if not cursor.takes("AS") and cursor.here.word in _NO_ALIAS:
        return None
    if not cursor.here.is_name:
        return None
    alias = cursor.identifier("an alias")
    if cursor.here.is_symbol("("):  # new names for its columns
        cursor.inside()
    return alias


def _precedes_relation(cursor: Cursor, *, in_from: bool) -> bool:
    """Whether a relation follows the token here."""
    word, after, before = cursor.here.word, cursor.ahead(), _word_before(cursor, cursor.at)
    if cursor.is_field() or after.kind is Kind.END:
        return False
    if word == "FROM":
        return not (before == "DISTINCT" and _word_before(cursor, cursor.at - 1) in ("IS", "NOT"))
    if word == "JOIN" or (in_from and cursor.here.is_symbol(",")):
        return True
    if word == "USING":  # in a MERGE; in a join, columns in parentheses follow
        return after.is_name
    starts = cursor.at == 0 or before in (*_SET_OPERATIONS, "ALL", "DISTINCT")
    return word == "TABLE" and starts and after.is_name


def _has_expressions(cursor: Cursor) -> bool:
    """Whether the WITH here starts common table expressions: name [(columns)] AS (…)."""
    count = 2 if cursor.ahead().word == "RECURSIVE" else 1
    after = cursor.ahead(count + 1)
    return cursor.ahead(count).is_name and (after.is_symbol("(") or after.word in ("AS", "MAX"))


def _word_before(cursor: Cursor, at: int) -> str:
    return cursor.tokens[at - 1].word if at > 0 else ""


def version_clause(cursor: Cursor) -> tuple[Span | None, Span | None]:
    """The version or the timestamp of AS OF, if it is next."""
    start = cursor.at
    cursor.takes("FOR")
    by_version = cursor.takes("VERSION", "AS", "OF") or cursor.takes("SYSTEM_VERSION", "AS", "OF")
    by_time = cursor.takes("TIMESTAMP", "AS", "OF") or cursor.takes("SYSTEM_TIME", "AS", "OF")
    if not (by_version or by_time):
        cursor.at = start
        return None, None
    first = cursor.at
    cursor.at = after_value(cursor)
    value = cursor.span(first, cursor.at)
    return (value, None) if by_version else (None, value)


def _is_query(cursor: Cursor) -> bool:
    """Whether a query starts here, after any parentheses."""
    count = 0
    while cursor.ahead(count).is_symbol("("):
        count += 1
    word, after = cursor.ahead(count).word, cursor.ahead(count + 1)
    if word not in QUERY_STARTS or word == "SELECT":
        return word == "SELECT"
    # A column may have such a name: (values), (table.id), (map('a', 1)).
    if after.kind is Kind.END or after.text in (".", ",", ")"):
        return False
    return after.text != "(" or word == "VALUES"
