"""DEFAULT as a value: in SET, in the values of MERGE and in the rows of INSERT … VALUES."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from delvec.row_delta import Verb
from delvec.statements.cursor import Cursor, Span
from delvec.statements.lexer import Token
from delvec.statements.opened_tables import snapshot_of
from delvec.statements.text_edits import Edit
from delvec.table import Table

_DEFAULT = "DEFAULT"


def default_edits(table: Table, query: Span, columns: Sequence[str] | None) -> list[Edit]:
    """Edits that replace each DEFAULT in the rows of ``VALUES`` by the default of its column.

    ``columns``: the target columns of the values, in order. None (by name): VALUES has no column names.
    """
    if columns is None or query.tokens[0].word != "VALUES":
        return []
    words = [(at, token) for at, token in _values(query) if at < len(columns)]
    if not words or _is_column(table):
        return []
    return [Edit(token.start, token.end, _text(table, columns[at])) for at, token in words]


def default_of(table: Table, column: str, value: Span) -> str | None:
    """The column's default if the value is the word DEFAULT; otherwise None."""
    if len(value.tokens) != 1 or value.tokens[0].word != _DEFAULT or _is_column(table):
        return None
    return _text(table, column)


def _values(query: Span) -> Iterator[tuple[int, Token]]:
    """Each DEFAULT that is a whole value of a row, with the index of the value in its row."""
    tokens, cursor = query.tokens, Cursor(query.source, query.tokens)
    depth = place = 0
    while cursor.at < len(tokens):
        number, token = cursor.at, cursor.here
        # Skip the type after ::, whose commas do not separate values; enter brackets.
        cursor.at = cursor.after_group() if token.is_symbol("::") else number + 1
        if token.is_symbol("("):
            depth += 1
            place = 0 if depth == 1 else place
        elif token.is_symbol(")"):
            depth -= 1
        elif token.is_symbol(",") and depth == 1:
            place += 1
        elif token.word == _DEFAULT and depth <= 1 and _stands_alone(tokens, number):
            yield place if depth else 0, token


def _stands_alone(tokens: Sequence[Token], number: int) -> bool:
    before, after = tokens[number - 1], tokens[number + 1] if number + 1 < len(tokens) else None
    starts = before.word == "VALUES" or before.is_symbol("(") or before.is_symbol(",")
    return starts and (after is None or after.is_symbol(",") or after.is_symbol(")"))


def _is_column(table: Table) -> bool:
    """Whether a column has the name DEFAULT: then the word means the column."""
    return _DEFAULT in (name.upper() for name in table.schema.names)


def _text(table: Table, column: str) -> str:
    # The statement itself asks for the rules of its verb, which may refuse the table.
    defaults = snapshot_of(table).rules(Verb.DELETE).defaults
    texts = {name.lower(): text for name, text in defaults.items()}
    return f"({texts.get(column.lower(), 'NULL')})"
