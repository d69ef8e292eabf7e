"""Parses the frames of statements about a table itself: CREATE TABLE, ALTER TABLE."""

from __future__ import annotations

import itertools
from dataclasses import replace as replaced

from delvec import name_resolver
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.statements import parse_refs
from delvec.statements.cursor import QUERY_STARTS, Cursor, IsOurs, Name, Span
from delvec.statements.lexer import Kind, Token
from delvec.statements.statement import (
    AddColumns,
    Create,
    DropFeature,
    NewColumn,
    Property,
    SetProperties,
    Statement,
    UnsetProperties,
)

TEMPORARY = tuple(
    ("CREATE", word, *external, "TABLE") for word in ("TEMPORARY", "TEMP") for external in ((), ("EXTERNAL",))
)


def replace(cursor: Cursor, is_ours: IsOurs) -> Statement | None:
    table = cursor.name("a table")
    if is_ours(table) or _is_for_delvec(cursor, table):
        raise UnsupportedFeatureError(
            f"delvec has no REPLACE TABLE: use CREATE TABLE for a new table, or INSERT OVERWRITE {table}",
            feature="REPLACE TABLE",
        )
    return None


def create(cursor: Cursor, is_ours: IsOurs) -> Create | None:
    """Delvec creates a table at a path, one of a catalog, and a table with a one-part name that is USING one
    of its formats.
    """
    del is_ours  # the table does not exist yet
    if_not_exists = cursor.takes("IF", "NOT", "EXISTS")
    table = cursor.name("a table")
    if not _is_for_delvec(cursor, table):
        return None
    if len(table.parts) > 1 and table.reference is None:
        raise UnsupportedFeatureError(
            f"delvec has no CREATE TABLE of a name in a schema, found {table}: use a name of one part, "
            "delvec.`path`, or a catalog's name first",
            feature="CREATE TABLE of a name in a schema",
        )
    columns = cursor.inside().rest("columns") if cursor.here.is_symbol("(") else None
    provider = table.parts[0].lower() if table.is_path else None
    statement = Create(table, if_not_exists, columns, provider, (), (), None, None, None)
    while not (cursor.is_done or cursor.here.word in ("AS", *QUERY_STARTS)):
        statement = _with_clause(cursor, statement)
    if not cursor.is_done:
        cursor.takes("AS")
        statement = replaced(statement, query=cursor.rest("a query"))
    return statement


def create_temporary(cursor: Cursor, is_ours: IsOurs) -> None:
    del is_ours
    cursor.takes("IF", "NOT", "EXISTS")
    if _is_for_delvec(cursor, cursor.name("a table")):
        raise UnsupportedFeatureError(
            "delvec has no CREATE TEMPORARY TABLE: use CREATE TABLE, or CREATE TEMPORARY VIEW of a query",
            feature="CREATE TEMPORARY TABLE",
        )


def alter(cursor: Cursor, is_ours: IsOurs) -> Statement | None:
    table = cursor.name("a table")
    if not is_ours(table):
        return None
    if cursor.takes("SET", "TBLPROPERTIES"):
        return SetProperties(table, _properties(cursor))
    if cursor.takes("UNSET", "TBLPROPERTIES"):
        if_exists = cursor.takes("IF", "EXISTS")
        return UnsetProperties(table, _properties(cursor, values=False), if_exists)
    if cursor.takes("ADD", "COLUMNS") or cursor.takes("ADD", "COLUMN"):
        return AddColumns(table, _new_columns(cursor))
    refs = parse_refs.alter(cursor, table)
    if refs is not None:
        return refs
    if cursor.takes("DROP", "FEATURE"):
        feature = cursor.identifier("a feature, such as deletionVectors")
        return DropFeature(table, feature, cursor.takes("TRUNCATE", "HISTORY"))
    words = cursor.rest("SET TBLPROPERTIES, UNSET TBLPROPERTIES or ADD COLUMNS")
    feature = f"ALTER TABLE … {' '.join(token.text.upper() for token in words.tokens[:2])}"
    raise UnsupportedFeatureError(
        f"delvec has no {feature}, expected SET TBLPROPERTIES, UNSET TBLPROPERTIES or ADD COLUMNS: "
        f"ALTER TABLE {table} {words.text}",
        feature=feature,
    )


def _is_for_delvec(cursor: Cursor, table: Name) -> bool:
    """Whether delvec creates the table. A table in a schema, USING a format by its own name, belongs to a
    Spark session that has the format's jar.
    """
    provider = _provider(cursor)
    if len(table.parts) > 1 and table.reference is not None:
        return True
    if provider == name_resolver.ANY_FORMAT:
        return True
    return provider in name_resolver.providers() and len(table.parts) == 1


def _provider(cursor: Cursor) -> str | None:
    """The word after USING; does not move the cursor."""
    tokens = cursor.tokens[cursor.closing() + 1 if cursor.here.is_symbol("(") else cursor.at :]
    for token, after in itertools.pairwise(tokens):
        if token.word in ("AS", "SELECT", "WITH"):
            return None
        if token.word == "USING":
            return after.name.lower()
    return None


def _with_clause(cursor: Cursor, statement: Create) -> Create:
    match cursor.here.word:
        case "USING":
            cursor.expect("USING")
            providers = " or ".join(name_resolver.providers())
            if cursor.here.name.lower() not in name_resolver.providers():
                raise cursor.error(f"expected {providers} for {statement.table}")
            return _with_provider(statement, cursor.identifier(providers).lower())
        case "PARTITIONED":
            cursor.expect("PARTITIONED", "BY")
            return replaced(statement, partition_by=_partitioning(cursor))
        case "TBLPROPERTIES":
            cursor.expect("TBLPROPERTIES")
            return replaced(statement, properties=_properties(cursor))
        case "COMMENT":
            cursor.expect("COMMENT")
            return replaced(statement, comment=_text(cursor, "a comment in quotes"))
        case "LOCATION":
            cursor.expect("LOCATION")
            return replaced(statement, location=_text(cursor, "a location in quotes"))
        case "OPTIONS" | "CLUSTERED" | "CLUSTER" | "ROW" | "STORED" | "DEFAULT" | "SKEWED":
            raise UnsupportedFeatureError(
                f"CREATE TABLE {statement.table} with {cursor.here.word} is not supported, expected USING, "
                "PARTITIONED BY, TBLPROPERTIES, COMMENT or LOCATION",
                feature=f"CREATE TABLE … {cursor.here.word}",
            )
    raise cursor.error("expected USING, PARTITIONED BY, TBLPROPERTIES, COMMENT, LOCATION or AS")


def _with_provider(statement: Create, provider: str) -> Create:
    """The statement with the word after USING, which may repeat the format before a path but not change
    it.
    """
    if statement.provider in (None, name_resolver.ANY_FORMAT) or provider == name_resolver.ANY_FORMAT:
        return replaced(
            statement, provider=statement.provider if provider == name_resolver.ANY_FORMAT else provider
        )
    if provider != statement.provider:
        raise InvalidOperationError(
            f"CREATE TABLE {statement.table} is USING {provider}, expected {statement.provider}"
        )
    return statement


def _partitioning(cursor: Cursor) -> tuple[tuple[str, Span | None], ...]:
    return tuple(cursor.bracketed(_partition_column))


def _partition_column(cursor: Cursor) -> tuple[str, Span | None]:
    """A column, which may be defined here, or a transform of one: as the text that ``partition_by`` has."""
    first = cursor.at
    name = cursor.identifier("a column")
    if cursor.here.is_symbol("("):
        cursor.at = cursor.closing() + 1
        return cursor.span(first, cursor.at).text, None
    while cursor.takes_symbol("."):
        cursor.identifier("a name after the dot")
    if cursor.is_done or cursor.here.is_symbol(","):
        is_path = cursor.at > first + 1
        return cursor.span(first, cursor.at).text if is_path else name, None
    cursor.until(comma=True, expected="a type")
    return name, cursor.span(first, cursor.at)


def _text(cursor: Cursor, expected: str) -> Token:
    return cursor.token(Kind.STRING, expected=expected)


def _properties(cursor: Cursor, *, values: bool = True) -> tuple[Property, ...]:
    return tuple(cursor.bracketed(lambda inner: _property(inner, values=values)))


def property_key(cursor: Cursor) -> Token | Name:
    """A string, or a dotted name."""
    if cursor.here.kind is Kind.STRING:
        return cursor.token(Kind.STRING, expected="a property")
    return cursor.name("a property")


def _property(cursor: Cursor, *, values: bool) -> Property:
    key = property_key(cursor)
    if not values:
        return Property(key, None)
    cursor.takes_symbol("=")
    first = cursor.at
    cursor.takes_symbol("-")
    kinds = (Kind.STRING, Kind.NUMBER, Kind.MARKER)
    if cursor.here.word not in ("TRUE", "FALSE"):
        cursor.token(*kinds, expected="a value: a text in quotes, a number, true or false")
    else:
        cursor.at += 1
    return Property(key, cursor.span(first, cursor.at))


def _new_columns(cursor: Cursor) -> tuple[NewColumn, ...]:
    inner = cursor.inside() if cursor.here.is_symbol("(") else cursor
    columns = inner.list_of(lambda: _new_column(inner))
    inner.expect_end()
    return tuple(columns)


def _new_column(cursor: Cursor) -> NewColumn:
    name = cursor.name("a column")
    definition = _definition(cursor)
    for token, after in zip(definition.tokens, (*definition.tokens[1:], None), strict=True):
        last = after is None
        if (token.word == "FIRST" and last) or (token.word == "AFTER" and not last):
            raise UnsupportedFeatureError(
                f"column {name} cannot be added {token.word}: new columns come last",
                feature=f"ADD COLUMNS … {token.word}",
            )
    return NewColumn(name, definition)


def _definition(cursor: Cursor) -> Span:
    """A type and the text after it. Commas in angle brackets belong to the type."""
    first, depth = cursor.at, 0
    while not cursor.is_done:
        text = cursor.here.text if cursor.here.kind is Kind.SYMBOL else ""
        if text == "," and not depth:
            break
        depth += {"<": 1, ">": -1, ">>": -2}.get(text, 0)
        cursor.at = cursor.closing() + 1 if text == "(" else cursor.at + 1
    if cursor.at == first:
        raise cursor.error("expected a type")
    return cursor.span(first, cursor.at)
