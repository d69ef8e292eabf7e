"""Tokens of Spark SQL, with their places in the text.

    words       SELECT, orders, _x1        numbers   1, 1.5e3, 10L
    quoted      `a name`                   strings   'x', "x", r'x', X'1F'
    markers     :name, ?                   symbols   everything else, the longest that Spark has

Comments and hints are no tokens: they stay in the text between them. The rules are those of Spark's lexer and
depend on no setting. sqlglot's tokenizer is not used here: it makes several tokens of ``10L``, one of
``GROUP BY`` and one of all that follows some words, and statements are cut out of the text by token places.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum

from delvec.errors import InvalidOperationError


class Kind(Enum):
    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    MARKER = "marker"
    SYMBOL = "symbol"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """``start`` and ``end`` are where it stands in the statement's text."""

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """The word in capitals; empty for what is none, quoted names as well."""
        return self.text.upper() if self.kind is Kind.WORD else ""

    @property
    def is_name(self) -> bool:
        return self.kind in (Kind.WORD, Kind.QUOTED)

    @property
    def name(self) -> str:
        """The name that a word or a quoted name is."""
        return self.text[1:-1].replace("``", "`") if self.kind is Kind.QUOTED else self.text

    def is_symbol(self, text: str) -> bool:
        return self.kind is Kind.SYMBOL and self.text == text


_SPACE = re.compile(r"\s+|--(?:\\\n|[^\r\n])*")
_COMMENT = re.compile(r"/\*|\*/")
_QUOTES = {"'": "string", '"': "string", "`": "quoted name"}
_TOKEN = re.compile(
    r"""
    (?P<string> [rR](?:'[^']*'|"[^"]*") | [xX]?(?:'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*") )
  | (?P<quoted> `(?:[^`]|``)*` )
  | (?P<number> (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w* )
  | (?P<word> \w+ )
  # A colon that stands against a name or a bracket is a type's or a path's: struct<a:int>.
  | (?P<marker> \? | (?<![\w`)\]]):(?=\w)\w+ )
  | (?P<symbol> <=> | \|> | \|\| | :: | -> | => | == | != | <> | <= | >= | << | >> | . )
    """,
    re.VERBOSE | re.DOTALL,
)


def tokenize(text: str) -> tuple[Token, ...]:
    """The tokens, and one of kind END after them. Refuses a string, name or comment that does not end."""
    tokens: list[Token] = []
    at = _skipped(text, 0)
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None
        assert found.lastgroup is not None
        if found.lastgroup == "symbol" and found[0] in _QUOTES:
            raise syntax_error(text, at, f"the {_QUOTES[found[0]]} does not end, expected {found[0]}")
        tokens.append(Token(Kind(found.lastgroup), found[0], at))
        at = _skipped(text, found.end())
    end = tokens[-1].end if tokens else len(text)
    return (*tokens, Token(Kind.END, "", end))


def _skipped(text: str, at: int) -> int:
    """Where the next token starts."""
    while True:
        space = _SPACE.match(text, at)
        if space is not None:
            at = space.end()
        elif text.startswith("/*", at):
            at = _after_comment(text, at)
        else:
            return at


def _after_comment(text: str, start: int) -> int:
    depth, at = 1, start + 2
    while depth:
        found = _COMMENT.search(text, at)
        if found is None:
            raise syntax_error(text, start, "the comment does not end, expected */")
        depth += 1 if found[0] == "/*" else -1
        at = found.end()
    return at


def syntax_error(text: str, offset: int, problem: str) -> InvalidOperationError:
    """The error that shows the place in the text."""
    starts = [0, *(found.end() for found in re.finditer("\r\n|\n|\r", text))]
    number = bisect_right(starts, offset)
    column = offset - starts[number - 1]
    line = text[starts[number - 1] :].splitlines()[0] if starts[number - 1] < len(text) else ""
    pointer = "".join("\t" if character == "\t" else " " for character in line[:column])
    return InvalidOperationError(
        f"syntax error at line {number}, column {column + 1}: {problem}\n{line}\n{pointer}^"
    )
