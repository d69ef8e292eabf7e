"""Reading tokens one after another, and parts of the text that are passed to Spark unchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from delvec import name_resolver
from delvec.errors import InvalidOperationError
from delvec.statements.lexer import Kind, Token, syntax_error

T = TypeVar("T")

_OPENING = {")": "(", "]": "["}
_NESTED_TYPES = ("ARRAY", "MAP", "STRUCT")

QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")
"""The words that a query may start with."""

ROW_CHANGES = ("INSERT", "DELETE", "UPDATE", "MERGE")
"""The words that a statement which changes rows may start with."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a statement's text: at least one token."""

    source: str
    tokens: tuple[Token, ...]

    @property
    def start(self) -> int:
        return self.tokens[0].start

    @property
    def end(self) -> int:
        return self.tokens[-1].end

    @property
    def text(self) -> str:
        return self.source[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Name:
    """A name as written: its parts, which of them are in backquotes, and its position."""

    parts: tuple[str, ...]
    quoted: tuple[bool, ...]
    span: Span

    @property
    def is_path(self) -> bool:
        """Whether it is the name of a table at a path, such as delvec.`path`."""
        return name_resolver.is_path(self.parts, self.quoted)

    @property
    def reference(self) -> name_resolver.Reference | None:
        """The table of delvec that it names; None: a table of Spark."""
        return name_resolver.resolve(self.parts, self.quoted)

    def __str__(self) -> str:
        return self.span.text


IsOurs = Callable[[Name], bool]
"""Whether a name is that of a table of delvec."""


class Cursor:
    """A position in the tokens of a statement, the last of which is of kind END."""

    def __init__(self, source: str, tokens: Sequence[Token]) -> None:
        self.source = source
        self.tokens = tuple(tokens)
        self.at = 0

    @classmethod
    def over(cls, span: Span) -> Cursor:
        """A cursor over a part of the text."""
        return cls(span.source, (*span.tokens, Token(Kind.END, "", span.end)))

    @property
    def here(self) -> Token:
        return self.tokens[self.at]

    def ahead(self, count: int = 1) -> Token:
        return self.tokens[min(self.at + count, len(self.tokens) - 1)]

    @property
    def is_done(self) -> bool:
        return self.here.kind is Kind.END

    def sees(self, *words: str) -> bool:
        return all(self.ahead(n).word == word for n, word in enumerate(words))

    def takes(self, *words: str) -> bool:
        """Whether the next tokens are these words; if so, moves past them."""
        if not self.sees(*words):
            return False
        self.at += len(words)
        return True

    def takes_symbol(self, text: str) -> bool:
        if not self.here.is_symbol(text):
            return False
        self.at += 1
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.takes(word):
                raise self.error(f"expected {word}")

    def expect_end(self) -> None:
        if not self.is_done:
            raise self.error("expected the end of the statement")

    def token(self, *kinds: Kind, expected: str) -> Token:
        if self.here.kind not in kinds:
            raise self.error(f"expected {expected}")
        self.at += 1
        return self.tokens[self.at - 1]

    def identifier(self, expected: str) -> str:
        return self.token(Kind.WORD, Kind.QUOTED, expected=expected).name

    def name(self, expected: str) -> Name:
        """A dotted name."""
        first = self.at
        parts = [self.token(Kind.WORD, Kind.QUOTED, expected=expected)]
        while self.takes_symbol("."):
            parts.append(self.token(Kind.WORD, Kind.QUOTED, expected="a name after the dot"))
        quoted = tuple(part.kind is Kind.QUOTED for part in parts)
        return Name(tuple(part.name for part in parts), quoted, self.span(first, self.at))

    def span(self, first: int, last: int) -> Span:
        return Span(self.source, self.tokens[first:last])

    def until(self, *stops: str, comma: bool = False, expected: str) -> Span:
        """The text up to one of the words (outside of brackets and CASE) or up to the end.

        ``comma``: a comma ends it too. ``expected`` is for the error if there is no text.
        """
        first, cases = self.at, 0
        while not self.is_done:
            word = "" if self.is_field() else self.here.word
            if not cases and (word in stops or (comma and self.here.is_symbol(","))):
                break
            cases += {"CASE": 1, "END": -1 if cases else 0}.get(word, 0)
            self.at = self.after_group()
            if self.here.is_symbol(")"):
                break
        if self.at == first:
            raise self.error(f"expected {expected}")
        return self.span(first, self.at)

    def rest(self, expected: str) -> Span:
        """All remaining text."""
        if self.is_done:
            raise self.error(f"expected {expected}")
        first, self.at = self.at, len(self.tokens) - 1
        return self.span(first, self.at)

    def is_field(self) -> bool:
        """Whether the word here follows a dot."""
        return self.at > 0 and self.tokens[self.at - 1].is_symbol(".")

    def closing(self) -> int:
        """The index of the bracket that closes the one here."""
        open_brackets: list[Token] = []
        for index in range(self.at, len(self.tokens)):
            token = self.tokens[index]
            if token.kind is not Kind.SYMBOL:
                continue
            if token.text in ("(", "["):
                open_brackets.append(token)
            elif token.text in _OPENING and open_brackets.pop().text != _OPENING[token.text]:
                break
            if not open_brackets:
                return index
        raise self.error("the bracket is not closed")

    def after_group(self) -> int:
        """The index after the token here; after the closing bracket of a bracket; after the type of
        ``::``.
        """
        if self.here.is_symbol("::"):
            return self._after_type()
        return self.closing() + 1 if self.here.text in ("(", "[") else self.at + 1

    def _after_type(self) -> int:
        """The index after ``::`` and the type, which may have types of its parts in ``<…>``."""
        at, depth = self.at + 2, 0
        if self.ahead().word not in _NESTED_TYPES:
            return at  # a < after another type is a comparison
        while at < len(self.tokens) and (depth or self.tokens[at].text in ("<", "<>")):
            token = self.tokens[at]
            if token.kind is Kind.SYMBOL:
                depth += token.text.count("<") - token.text.count(">")
            at += 1
        if depth:
            raise self.error("the type does not end")
        return at

    def inside(self) -> Cursor:
        """A cursor over the text in the parentheses here; this cursor moves behind them."""
        if not self.here.is_symbol("("):
            raise self.error("expected (")
        close = self.closing()
        end = Token(Kind.END, "", self.tokens[close].start)
        inner = Cursor(self.source, (*self.tokens[self.at + 1 : close], end))
        self.at = close + 1
        return inner

    def list_of(self, parse: Callable[[], T]) -> list[T]:
        """What ``parse`` reads, once or more, with commas between."""
        items = [parse()]
        while self.takes_symbol(","):
            items.append(parse())
        return items

    def bracketed(self, parse: Callable[[Cursor], T]) -> list[T]:
        """A list in parentheses: ``parse`` reads each item."""
        inner = self.inside()
        items = inner.list_of(lambda: parse(inner))
        inner.expect_end()
        return items

    def error(self, problem: str) -> InvalidOperationError:
        actual = f"{self.here.text!r}" if self.here.kind is not Kind.END else "nothing more"
        return syntax_error(self.source, self.here.start, f"found {actual}, {problem}")


def verify_brackets(source: str, tokens: Sequence[Token]) -> None:
    """Refuse a bracket that is not opened or not closed."""
    open_brackets: list[Token] = []
    for token in tokens:
        if token.kind is not Kind.SYMBOL or token.text not in "()[]":
            continue
        if token.text not in _OPENING:
            open_brackets.append(token)
        elif not open_brackets or open_brackets.pop().text != _OPENING[token.text]:
            raise syntax_error(source, token.start, f"{token.text} has no opening bracket")
    if open_brackets:
        raise syntax_error(source, open_brackets[-1].start, f"{open_brackets[-1].text} is not closed")
