"""Reading tokens one after another, and pieces of the text that go to Spark as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delvec.errors import InvalidOperationError
from delvec.statements.lexer import Kind, Token, syntax_error

_OPENING = {")": "(", "]": "["}
_GENERIC = ("ARRAY", "MAP", "STRUCT")


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a statement's text: at least one token."""

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
    """A table's name as written: its parts, which of them were in backquotes, and its place."""

    parts: tuple[str, ...]
    quoted: tuple[bool, ...]
    span: Span

    def __str__(self) -> str:
        return self.span.text


class Cursor:
    """A place among the tokens of a statement."""

    def __init__(self, source: str, tokens: Sequence[Token]) -> None:
        self.source = source
        self.tokens = tuple(tokens)
        self.at = 0

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
        """Whether these words come next; they are passed then."""
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

    def expect_symbol(self, text: str) -> None:
        if not self.takes_symbol(text):
            raise self.error(f"expected {text}")

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
        """What comes before one of the words, which is not inside brackets or CASE, or before the end.

        ``comma``: before a comma as well. ``expected`` says what is missing where nothing comes.
        """
        first, cases = self.at, 0
        while not self.is_done:
            word = "" if self.is_field() else self.here.word
            if not cases and (word in stops or (comma and self.here.is_symbol(","))):
                break
            cases += {"CASE": 1, "END": -1 if cases else 0}.get(word, 0)
            self.at = self.after_piece()
            if self.here.is_symbol(")"):
                break
        if self.at == first:
            raise self.error(f"expected {expected}")
        return self.span(first, self.at)

    def rest(self, expected: str) -> Span:
        """All that is left."""
        if self.is_done:
            raise self.error(f"expected {expected}")
        first, self.at = self.at, len(self.tokens) - 1
        return self.span(first, self.at)

    def is_field(self) -> bool:
        """Whether the word here is the field of something before it."""
        return self.at > 0 and self.tokens[self.at - 1].is_symbol(".")

    def closing(self) -> int:
        """The index of the bracket that closes the one that is here."""
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

    def after_piece(self) -> int:
        """The index after the token here: of a bracket after its partner, of ``::`` after the type."""
        if self.here.is_symbol("::"):
            return self._after_type()
        return self.closing() + 1 if self.here.text in ("(", "[") else self.at + 1

    def _after_type(self) -> int:
        """The index after ``::`` and the type: a word, with types of its parts after it in ``<…>``."""
        at, depth = self.at + 2, 0
        if self.ahead().word not in _GENERIC:
            return at  # what follows as < compares
        while at < len(self.tokens) and (depth or self.tokens[at].text in ("<", "<>")):
            token = self.tokens[at]
            if token.kind is Kind.SYMBOL:
                depth += token.text.count("<") - token.text.count(">")
            at += 1
        if depth:
            raise self.error("the type does not end")
        return at

    def inside(self) -> Cursor:
        """A cursor over what the parentheses here enclose; this one moves behind them."""
        if not self.here.is_symbol("("):
            raise self.error("expected (")
        close = self.closing()
        end = Token(Kind.END, "", self.tokens[close].start)
        inner = Cursor(self.source, (*self.tokens[self.at + 1 : close], end))
        self.at = close + 1
        return inner

    def error(self, problem: str) -> InvalidOperationError:
        found = f"{self.here.text!r}" if self.here.kind is not Kind.END else "nothing more"
        return syntax_error(self.source, self.here.start, f"found {found}, {problem}")


def verify_brackets(source: str, tokens: Sequence[Token]) -> None:
    """Refuse a bracket without its partner."""
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
