"""The frames of statements about a table itself: CREATE TABLE, ALTER TABLE."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace as replaced

from delvec.errors import UnsupportedFeatureError
from delvec.statements.cursor import Cursor, Name, Span
from delvec.statements.lexer import Kind, Token
from delvec.statements.statement import (
    AddColumns,
    Create,
    NewColumn,
    Property,
    SetProperties,
    Statement,
    UnsetProperties,
)

IsOurs = Callable[[Name], bool]

PROVIDERS = ("delvec", "delta")
TEMPORARY = tuple(
    ("CREATE", word, *external, "TABLE") for word in ("TEMPORARY", "TEMP") for external in ((), ("EXTERNAL",))
)
_QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")


def is_path(name: Name) -> bool:
    """Whether the name is that of a place: delvec.`path` or delta.`path`."""
    return len(name.parts) == 2 and name.parts[0].lower() in PROVIDERS and name.quoted[1]


def replace(cursor: Cursor, is_ours: IsOurs) -> Statement | None:
    table = cursor.name("a table")
    if is_ours(table) or _is_for_delvec(cursor, table):
        raise UnsupportedFeatureError(
            f"delvec has no REPLACE TABLE: use CREATE TABLE for a new table, or INSERT OVERWRITE {table}",
            feature="REPLACE TABLE",
        )
    return None


def create(cursor: Cursor, is_ours: IsOurs) -> Create | None:
    """A table of ours is one at a path, or of a name alone that is USING delvec or delta."""
    del is_ours  # it is not there yet
    if_not_exists = cursor.takes("IF", "NOT", "EXISTS")
    table = cursor.name("a table")
    if not _is_for_delvec(cursor, table):
        return None
    if len(table.parts) > 1 and not is_path(table):
        raise UnsupportedFeatureError(
            f"delvec has no CREATE TABLE of a name in a schema, found {table}: use a name of one part, or "
            "delvec.`path`",
            feature="CREATE TABLE of a name in a schema",
        )
    columns = None
    if cursor.here.is_symbol("("):
        inner = cursor.inside()
        columns = inner.rest("columns")
    found = Create(table, if_not_exists, columns, None, (), (), None, None, None)
    while not (cursor.is_done or cursor.here.word in ("AS", *_QUERY_STARTS)):
        found = _with_clause(cursor, found)
    if not cursor.is_done:
        cursor.takes("AS")
        found = replaced(found, query=cursor.rest("a query"))
    return found


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
    words = cursor.rest("SET TBLPROPERTIES, UNSET TBLPROPERTIES or ADD COLUMNS")
    feature = f"ALTER TABLE … {' '.join(token.text.upper() for token in words.tokens[:2])}"
    raise UnsupportedFeatureError(
        f"delvec has no {feature}, expected SET TBLPROPERTIES, UNSET TBLPROPERTIES or ADD COLUMNS: "
        f"ALTER TABLE {table} {words.text}",
        feature=feature,
    )


def _is_for_delvec(cursor: Cursor, table: Name) -> bool:
    """Whether delvec is to create the table. A Delta table in a schema is one of a Spark with Delta's jar."""
    provider = _provider(cursor)
    return is_path(table) or provider == "delvec" or (provider in PROVIDERS and len(table.parts) == 1)


def _provider(cursor: Cursor) -> str | None:
    """The word after USING, looked for without moving."""
    tokens = cursor.tokens[cursor.closing() + 1 if cursor.here.is_symbol("(") else cursor.at :]
    for token, after in itertools.pairwise(tokens):
        if token.word in ("AS", "SELECT", "WITH"):
            return None
        if token.word == "USING":
            return after.name.lower()
    return None


def _with_clause(cursor: Cursor, found: Create) -> Create:
    match cursor.here.word:
        case "USING":
            cursor.expect("USING")
            if cursor.here.name.lower() not in PROVIDERS:
                raise cursor.error(f"expected delvec or delta for {found.table}")
            return replaced(found, provider=cursor.identifier("delvec or delta").lower())
        case "PARTITIONED":
            cursor.expect("PARTITIONED", "BY")
            return replaced(found, partition_by=_partitioning(cursor))
        case "TBLPROPERTIES":
            cursor.expect("TBLPROPERTIES")
            return replaced(found, properties=_properties(cursor))
        case "COMMENT":
            cursor.expect("COMMENT")
            return replaced(found, comment=_text(cursor, "a comment in quotes"))
        case "LOCATION":
            cursor.expect("LOCATION")
            return replaced(found, location=_text(cursor, "a location in quotes"))
        case "OPTIONS" | "CLUSTERED" | "CLUSTER" | "ROW" | "STORED" | "DEFAULT" | "SKEWED":
            raise UnsupportedFeatureError(
                f"CREATE TABLE {found.table} with {cursor.here.word} is not supported, expected USING, "
                "PARTITIONED BY, TBLPROPERTIES, COMMENT or LOCATION",
                feature=f"CREATE TABLE … {cursor.here.word}",
            )
    raise cursor.error("expected USING, PARTITIONED BY, TBLPROPERTIES, COMMENT, LOCATION or AS")


def _partitioning(cursor: Cursor) -> tuple[tuple[str, Span | None], ...]:
    inner = cursor.inside()
    found = [_partition_column(inner)]
    while inner.takes_symbol(","):
        found.append(_partition_column(inner))
    inner.expect_end()
    return tuple(found)


def _partition_column(cursor: Cursor) -> tuple[str, Span | None]:
    first = cursor.at
    name = cursor.identifier("a column")
    if cursor.here.is_symbol("("):
        raise UnsupportedFeatureError(
            f"delvec has no PARTITIONED BY {name}(…), expected columns", feature="partition transforms"
        )
    if cursor.is_done or cursor.here.is_symbol(","):
        return name, None
    cursor.until(comma=True, expected="a type")
    return name, cursor.span(first, cursor.at)


def _text(cursor: Cursor, expected: str) -> Token:
    return cursor.token(Kind.STRING, expected=expected)


def _properties(cursor: Cursor, *, values: bool = True) -> tuple[Property, ...]:
    inner = cursor.inside()
    found = [_property(inner, values=values)]
    while inner.takes_symbol(","):
        found.append(_property(inner, values=values))
    inner.expect_end()
    return tuple(found)


def property_key(cursor: Cursor) -> Token | Name:
    """A text in quotes, or a dotted name."""
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
    found = [_new_column(inner)]
    while inner.takes_symbol(","):
        found.append(_new_column(inner))
    inner.expect_end()
    return tuple(found)


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
    """A type and what follows it. Commas between angle brackets are the type's."""
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
