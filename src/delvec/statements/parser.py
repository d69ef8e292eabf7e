"""Parses SQL text into a statement, by recursive descent over the tokens.

Only the frame of a statement is parsed. Conditions, values and queries stay parts of the text, and Spark
parses them: no other parser accepts all that Spark accepts, and text generated from a syntax tree differs
from the original. Of a statement on a table of Spark only the name is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.statements import (
    parse_compaction,
    parse_ddl,
    parse_dml,
    parse_maintenance,
    parse_query_insert,
    parse_restore,
    parse_rewrite_deletes,
    parse_show,
    unsupported,
    views,
)
from delvec.statements.cursor import QUERY_STARTS, ROW_CHANGES, Cursor, IsOurs, Span, verify_brackets
from delvec.statements.lexer import Kind, Token, syntax_error, tokenize
from delvec.statements.statement import (
    Delete,
    Explain,
    Insert,
    Merge,
    MultiInsert,
    Other,
    Query,
    Statement,
    Update,
)

_EXPLAIN_MODES = ("EXTENDED", "FORMATTED", "CODEGEN", "COST", "LOGICAL")


def parse(text: str, is_ours: IsOurs) -> Statement:
    """Parse the text of one statement."""
    tokens = tokenize(text)
    if tokens[0].kind is Kind.END:
        raise InvalidOperationError("the statement is empty, expected SQL")
    if tokens[0].word == "BEGIN":
        return Other()  # a script, which may have semicolons
    tokens = _single(text, tokens)
    verify_brackets(text, tokens)
    cursor = Cursor(text, tokens)
    statement = _explained(cursor, is_ours) or _statement(cursor, is_ours)
    if statement is not None:
        cursor.expect_end()
        return statement
    unsupported.verify_known(cursor, is_ours)
    first = tokens[0]
    rewritten = (
        first.word in (*QUERY_STARTS, *ROW_CHANGES, "EXPLAIN")
        or first.is_symbol("(")
        or cursor.sees("CREATE", "TABLE")
        or _describes_query(cursor)
    )
    return Query(Span(text, tokens[:-1])) if rewritten else Other()


def _explained(cursor: Cursor, is_ours: IsOurs) -> Explain | None:
    """EXPLAIN of a change of a delvec table. Otherwise None, and the cursor does not move."""
    if not cursor.takes("EXPLAIN"):
        return None
    _ = any(cursor.takes(word) for word in _EXPLAIN_MODES)
    changes_rows = cursor.here.word in (*ROW_CHANGES, "WITH", "FROM")
    statement = _statement(cursor, is_ours) if changes_rows else None
    if isinstance(statement, Delete | Update | Merge | Insert):
        return Explain(statement)
    if isinstance(statement, MultiInsert):
        raise UnsupportedFeatureError(
            "delvec has no EXPLAIN of several INSERTs: use it with one of them",
            feature="EXPLAIN of several INSERTs",
        )
    cursor.at = 0
    return None


def _describes_query(cursor: Cursor) -> bool:
    """Whether it is DESCRIBE [QUERY] with a query."""
    if not (cursor.sees("DESCRIBE") or cursor.sees("DESC")):
        return False
    return cursor.ahead().word in ("QUERY", "SELECT", "WITH", "FROM", "VALUES")


def _single(text: str, tokens: Sequence[Token]) -> tuple[Token, ...]:
    """The tokens without semicolons at the end; refuses a semicolon elsewhere."""
    *body, end = tokens
    while body and body[-1].is_symbol(";"):
        end = Token(Kind.END, "", body[-1].start)
        body.pop()
    for token in body:
        if token.is_symbol(";"):
            raise syntax_error(text, token.start, "found a second statement after ;, expected one statement")
    if not body:
        raise InvalidOperationError("the statement is empty: no SQL before ;")
    return (*body, end)


def _statement(cursor: Cursor, is_ours: IsOurs) -> Statement | None:
    """The statement if it is about a delvec table. Otherwise None, and the cursor does not move."""
    start = cursor.at
    for words, read in _READERS.items():
        if cursor.takes(*words):
            statement = read(cursor, is_ours)
            if statement is not None:
                return statement
            cursor.at = start
    return None


_Reader = Callable[[Cursor, IsOurs], Statement | None]

_DESCRIBING: Mapping[tuple[str, ...], _Reader] = {
    (verb, *words): read
    for words, read in (
        (("HISTORY",), parse_show.describe_history),
        (("DETAIL",), parse_show.describe_detail),
        ((), parse_show.describe),
    )
    for verb in ("DESCRIBE", "DESC")
}

# The first entry whose words match reads the statement.
_READERS: Mapping[tuple[str, ...], _Reader] = MappingProxyType(
    {
        ("DELETE", "FROM"): parse_dml.delete,
        ("UPDATE",): parse_dml.update,
        ("MERGE",): parse_dml.merge,
        ("INSERT",): parse_dml.insert,
        ("WITH",): parse_query_insert.after_with,
        ("FROM",): parse_query_insert.after_from,
        ("CREATE", "OR", "REPLACE", "TABLE"): parse_ddl.replace,
        ("REPLACE", "TABLE"): parse_ddl.replace,
        ("CREATE", "TABLE"): parse_ddl.create,
        ("CREATE", "EXTERNAL", "TABLE"): parse_ddl.create,
        **dict.fromkeys(parse_ddl.TEMPORARY, parse_ddl.create_temporary),
        ("ALTER", "TABLE"): parse_ddl.alter,
        **_DESCRIBING,
        ("SHOW", "COLUMNS"): parse_show.show_columns,
        ("SHOW", "TBLPROPERTIES"): parse_show.show_properties,
        ("TRUNCATE", "TABLE"): parse_show.truncate,
        ("DROP", "TABLE"): parse_show.drop,
        ("CONVERT", "TO", "DELTA"): parse_maintenance.convert,
        ("GENERATE",): parse_maintenance.generate,
        ("OPTIMIZE",): parse_compaction.optimize,
        ("REORG", "TABLE"): parse_compaction.purge,
        ("REWRITE", "DELETES"): parse_rewrite_deletes.rewrite_deletes,
        ("VACUUM",): parse_maintenance.vacuum,
        ("RESTORE", "TABLE"): parse_restore.restore,
        ("RESTORE",): parse_restore.restore,
        **dict.fromkeys(views.STARTS, views.create),
    }
)
