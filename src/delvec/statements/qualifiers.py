"""Names that are qualified by a table: ``t.id``, delta.`path`.id.

Conditions prune files by bare names, so that the qualifier is taken away, as Spark would resolve the name: a
qualifier first, else a column with a field inside. In a subquery the bare name could be another table's:
there it stays, and Spark is told the table's alias.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from delvec.statements.cursor import Cursor, Name, Span
from delvec.statements.definitions import PROVIDERS
from delvec.statements.edits import Edit
from delvec.statements.lexer import Kind, Token
from delvec.statements.relations import is_query


def short_paths(tokens: Sequence[Token], taken: Collection[int] = ()) -> list[Edit]:
    """Edits that leave only the path of delta.`path` before a column; ``taken``: where tables are named."""
    return [
        Edit(first.start, path.start, "")
        for first, dot, path, after in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False)
        if first.text.lower() in PROVIDERS
        and dot.is_symbol(".")
        and path.kind is Kind.QUOTED
        and after.is_symbol(".")
        and first.start not in taken
    ]


def without_qualifier(span: Span, qualifier: str, columns: Collection[str]) -> list[Edit]:
    """Edits that take the qualifier away, outside of subqueries. ``columns`` are lower-case names."""
    tokens = span.tokens
    inside = _inside_queries(span)
    return [
        Edit(tokens[index].start, tokens[index + 2].start, "")
        for index in _qualified(tokens, qualifier, columns)
        if index not in inside
    ]


def unqualified_parts(column: Name, qualifier: str, columns: Collection[str]) -> tuple[str, ...]:
    """The parts of a column's name without the table's."""
    parts = column.parts
    if len(parts) > 2 and parts[0].lower() in PROVIDERS and column.quoted[1]:
        parts = parts[1:]
    if len(parts) == 1 or parts[0].lower() != qualifier.lower():
        return parts
    return parts[1:] if parts[1].lower() in columns or parts[0].lower() not in columns else parts


def _qualified(tokens: Sequence[Token], qualifier: str, columns: Collection[str]) -> Iterator[int]:
    """Where the qualifier stands before a column."""
    for index, token in enumerate(tokens[:-2]):
        is_first = index == 0 or not tokens[index - 1].is_symbol(".") or _is_path(tokens, index)
        if not (is_first and token.is_name and token.name.lower() == qualifier.lower()):
            continue
        if tokens[index + 1].is_symbol(".") and tokens[index + 2].is_name:
            column = tokens[index + 2].name.lower()
            if column in columns or qualifier.lower() not in columns:
                yield index


def _is_path(tokens: Sequence[Token], index: int) -> bool:
    return index >= 2 and tokens[index - 2].text.lower() in PROVIDERS and tokens[index].kind is Kind.QUOTED


def _inside_queries(span: Span) -> set[int]:
    """The indices of tokens that stand in a subquery."""
    cursor = Cursor(span.source, span.tokens)
    inside: set[int] = set()
    for index, token in enumerate(span.tokens):
        if (
            token.is_symbol("(")
            and index not in inside
            and is_query(span.tokens, index + 1, len(span.tokens))
        ):
            cursor.at = index
            inside.update(range(index, cursor.closing()))
    return inside
