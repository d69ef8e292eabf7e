"""Values for the markers of a statement, ``:name`` and ``?``.

A marker is replaced by a literal. No value can break out of its literal, whatever the session's settings:
numbers, dates and bytes have only characters that need no quoting; strings of plain characters are quoted;
all other strings are written as the hex of their bytes. File pruning understands all of these except the
last.

Spark's own parameters would work for queries, but not for conditions, which reach the engine as text. And if
``spark.sql.parser.escapedStringLiterals`` is on, Spark 4.1 writes strings in a form that it cannot read back.
They are used only for values that are Columns.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from pyspark.sql import Column

from delvec.errors import InvalidOperationError
from delvec.statements.cursor import Span
from delvec.statements.lexer import Kind, Token, syntax_error
from delvec.statements.text_edits import Edit, edited

Arguments = Mapping[str, Any] | Sequence[Any]
_NOT_PLAIN = frozenset("'\"\\$")
_LONG = 1 << 63


class Parameters:
    """The arguments of a statement. Each marker must have a value, and each value a marker."""

    def __init__(self, source: str, tokens: Sequence[Token], args: Arguments | None) -> None:
        markers = [token for token in tokens if token.kind is Kind.MARKER]
        self._named = isinstance(args, Mapping)
        self._values: dict[int, Any] = {}
        _verify_type(args)
        _verify_not_mixed(source, markers)
        if isinstance(args, Mapping):
            self._bind_names(source, markers, args)
        else:
            self._bind_positions(source, markers, list(args or ()))

    def _bind_names(self, source: str, markers: Sequence[Token], args: Mapping[str, Any]) -> None:
        for marker in markers:
            if marker.text == "?":
                raise syntax_error(source, marker.start, "? has no value: args has names, so use :name")
            if marker.text[1:] not in args:
                names = ", ".join(sorted(args)) or "none"
                problem = f"{marker.text} has no value in args, which has {names}"
                raise syntax_error(source, marker.start, problem)
            self._values[marker.start] = args[marker.text[1:]]
        unused = sorted(set(args) - {marker.text[1:] for marker in markers})
        if unused:
            raise InvalidOperationError(f"args has {', '.join(unused)}, which the statement does not use")

    def _bind_positions(self, source: str, markers: Sequence[Token], args: Sequence[Any]) -> None:
        for number, marker in enumerate(markers):
            if marker.text != "?" or number >= len(args):
                problem = f"{marker.text} has no value in args, which has {len(args) or 'none'}"
                raise syntax_error(source, marker.start, problem)
            self._values[marker.start] = args[number]
        if len(args) > len(markers):
            raise InvalidOperationError(
                f"args has {len(args)} values, expected {len(markers)}, one for each ?"
            )

    def value(self, marker: Token) -> Any:
        return self._values[marker.start]

    def for_query(
        self, span: Span, left_out: Sequence[Span] = ()
    ) -> tuple[list[Edit], dict[str, Any] | list[Any] | None]:
        """Edits for the markers of a query, and ``args`` for ``spark.sql``: values that cannot be literals.

        ``left_out``: parts of the text that will be replaced.
        """
        replaced = {token.start for part in left_out for token in part.tokens}
        edits: list[Edit] = []
        remaining: list[Token] = []
        for marker in span.tokens:
            if marker.kind is Kind.MARKER and marker.start not in replaced:
                value = self.value(marker)
                if isinstance(value, Column):
                    remaining.append(marker)
                else:
                    edits.append(Edit(marker.start, marker.end, literal(value, marker.text)))
        if not remaining:
            return edits, None
        if self._named:
            return edits, {marker.text[1:]: self.value(marker) for marker in remaining}
        return edits, [self.value(marker) for marker in remaining]

    def literals(self, span: Span) -> list[Edit]:
        """Edits that replace the markers of a part of the text by literals."""
        markers = [token for token in span.tokens if token.kind is Kind.MARKER]
        return [Edit(m.start, m.end, literal(self.value(m), m.text)) for m in markers]

    def text(self, span: Span) -> str:
        """The part of the text with literals instead of markers."""
        return edited(span.source, span.start, span.end, self.literals(span))


def literal(value: Any, what: str) -> str:
    """The value as Spark SQL text; ``what`` names it in errors."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return _integer(value, what)
        case float():
            return _double(value)
        case Decimal():
            return _decimal(value, what)
        case str():
            return _string(value, what)
        case bytes() | bytearray():
            return f"X'{value.hex()}'"
        case dt.datetime():
            instant = value.astimezone(dt.UTC)  # without a zone: local time, as in Spark
            return f"TIMESTAMP_LTZ'{instant:%Y-%m-%d %H:%M:%S.%f}Z'" if instant.year > 999 else _early(what)
        case dt.date():
            return f"DATE'{value.isoformat()}'"
        case dt.timedelta():
            return _interval(value)
        case list() | tuple():
            return f"array({', '.join(literal(item, what) for item in value)})"
        case dict():
            items = (text for pair in value.items() for text in (literal(part, what) for part in pair))
            return f"map({', '.join(items)})"
    raise InvalidOperationError(
        f"parameter {what} is {type(value).__name__}, expected a SQL value{_hint(value)}"
    )


def _integer(value: int, what: str) -> str:
    if not -_LONG <= value < _LONG:
        raise InvalidOperationError(f"parameter {what} is {value}, expected a 64-bit number or a Decimal")
    return str(value) if value >= 0 else f"({value})"  # two minus signs would start a comment


def _double(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return f"CAST('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}' AS DOUBLE)"
    return f"{value!r}D" if math.copysign(1, value) > 0 else f"({value!r}D)"


def _decimal(value: Decimal, what: str) -> str:
    if not value.is_finite():
        raise InvalidOperationError(f"parameter {what} is {value}, expected a number")
    return f"{value:f}BD" if not value.is_signed() else f"({value:f}BD)"


def _string(value: str, what: str) -> str:
    if value.isprintable() and not _NOT_PLAIN & set(value):
        return f"'{value}'"
    try:
        return f"decode(X'{value.encode().hex()}', 'UTF-8')"
    except UnicodeEncodeError:
        raise InvalidOperationError(
            f"parameter {what} is {value!r}, expected a string that can be encoded as UTF-8"
        ) from None


def _early(what: str) -> str:
    raise InvalidOperationError(f"parameter {what} is before the year 1000, expected a later time")


def _interval(value: dt.timedelta) -> str:
    sign, size = ("-", -value) if value < dt.timedelta(0) else ("", value)
    hours, rest = divmod(size.seconds, 3600)
    time = f"{hours:02}:{rest // 60:02}:{rest % 60:02}.{size.microseconds:06}"
    return f"INTERVAL '{sign}{size.days} {time}' DAY TO SECOND"


def _hint(value: Any) -> str:
    return " (a Column is possible in queries alone)" if isinstance(value, Column) else ""


def _verify_type(args: Arguments | None) -> None:
    # The types that Spark's own sql() accepts.
    if args is not None and not isinstance(args, Mapping | list | tuple):
        raise InvalidOperationError(f"args is {type(args).__name__}, expected a dict or a list")


def _verify_not_mixed(source: str, markers: Sequence[Token]) -> None:
    other_kind = [marker for marker in markers if (marker.text == "?") != (markers[0].text == "?")]
    if other_kind:
        problem = f"found {other_kind[0].text} beside {markers[0].text}, expected markers of one kind"
        raise syntax_error(source, other_kind[0].start, problem)
