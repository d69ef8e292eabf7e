"""Tokens of Spark SQL, with their positions in the text.

    words       SELECT, orders, _x1        numbers   1, 1.5e3, 10L
    quoted      `a name`                   strings   'x', "x", r'x', X'1F'
    markers     :name, ?                   symbols   everything else, the longest that Spark has

Comments and hints are not tokens: they stay in the text between the tokens. The rules are those of Spark's
lexer and do not depend on settings. sqlglot's tokenizer is not used here, because parts of a statement are
cut out of the text by token positions: sqlglot makes several tokens of ``10L``, one token of ``GROUP BY``,
and after some words one token of the rest of the text.
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
    """``start`` and ``end`` are its position in the statement's text."""

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """The word in capitals; empty if the token is not a word (a quoted name is not a word)."""
        return self.text.upper() if self.kind is Kind.WORD else ""

    @property
    def is_name(self) -> bool:
        return self.kind in (Kind.WORD, Kind.QUOTED)

    @property
    def name(self) -> str:
        """The name, without backquotes."""
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
  # A colon directly after a name or a bracket belongs to a type or a path: struct<a:int>.
  | (?P<marker> \? | (?<![\w`)\]]):(?=\w)\w+ )
  | (?P<symbol> <=> | \|> | \|\| | :: | -> | => | == | != | <> | <= | >= | << | >> | . )
    """,
    re.VERBOSE | re.DOTALL,
)


def tokenize(text: str) -> tuple[Token, ...]:
    """The tokens, and a last one of kind END. Refuses a string, name or comment that does not end."""
    tokens: list[Token] = []
    at = _next_token(text, 0)
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None
        assert match.lastgroup is not None
        if match.lastgroup == "symbol" and match[0] in _QUOTES:
            raise syntax_error(text, at, f"the {_QUOTES[match[0]]} does not end, expected {match[0]}")
        tokens.append(Token(Kind(match.lastgroup), match[0], at))
        at = _next_token(text, match.end())
    end = tokens[-1].end if tokens else len(text)
    return (*tokens, Token(Kind.END, "", end))


def _next_token(text: str, at: int) -> int:
    """The position of the next token."""
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
        mark = _COMMENT.search(text, at)
        if mark is None:
            raise syntax_error(text, start, "the comment does not end, expected */")
        depth += 1 if mark[0] == "/*" else -1
        at = mark.end()
    return at


def syntax_error(text: str, offset: int, problem: str) -> InvalidOperationError:
    """An error that shows the position in the text."""
    starts = [0, *(line_end.end() for line_end in re.finditer("\r\n|\n|\r", text))]
    number = bisect_right(starts, offset)
    column = offset - starts[number - 1]
    line = text[starts[number - 1] :].splitlines()[0] if starts[number - 1] < len(text) else ""
    pointer = "".join("\t" if character == "\t" else " " for character in line[:column])
    return InvalidOperationError(
        f"syntax error at line {number}, column {column + 1}: {problem}\n{line}\n{pointer}^"
    )
