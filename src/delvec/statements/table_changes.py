"""The functions ``table_changes('t', start [, end])`` and ``table_changes_by_path('path', start [, end])``.

The first argument is a string with the name of a table as SQL writes it, or with a path. The bounds are
constants: a whole number is a version, a string or a timestamp is a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from delvec.errors import InvalidOperationError
from delvec.name_resolver import ANY_FORMAT
from delvec.statements.cursor import Cursor, Name, Span
from delvec.statements.lexer import Kind, Token, tokenize

_BY_NAME, _BY_PATH = "TABLE_CHANGES", "TABLE_CHANGES_BY_PATH"


@dataclass(frozen=True, slots=True)
class TableChanges:
    """``name``: the table; its span is the whole function. ``arguments``: the text after the first comma."""

    name: Name
    arguments: Span | None


def changes_of(function: Name, arguments: Cursor, span: Span) -> TableChanges | None:
    """The changes that a table function returns; None if it is another function, or if its table is not
    written as a plain string.
    """
    words = tuple(part.upper() for part in function.parts)
    if words not in ((_BY_NAME,), (_BY_PATH,)) or arguments.here.kind is not Kind.STRING:
        return None
    text = _plain_text(arguments.here)
    if text is None:
        return None
    if words == (_BY_PATH,):
        name = Name((ANY_FORMAT, text), (False, True), span)
    else:
        parsed = _name(text)
        if parsed is None:
            return None
        name = Name(parsed.parts, parsed.quoted, span)
    arguments.at += 1
    rest = arguments.rest("a version") if arguments.takes_symbol(",") else None
    return TableChanges(name, rest)


def _plain_text(token: Token) -> str | None:
    """The value of a string without escapes."""
    quote, inner = token.text[0], token.text[1:-1]
    is_plain = quote in "'\"" and not {quote, "\\", "$"} & set(inner)
    return inner if is_plain else None


def _name(text: str) -> Name | None:
    try:
        cursor = Cursor(text, tokenize(text))
        name = cursor.name("a table")
    except InvalidOperationError:
        return None
    return name if cursor.is_done else None
