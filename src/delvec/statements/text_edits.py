"""Edits of a text: parts of it replaced, each given by its position in the original text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """``text`` replaces the characters from ``start`` to ``end``."""

    start: int
    end: int
    text: str


def edited(
    source: str, start: int, end: int, edits: Iterable[Edit], convert: Callable[[str], str] = str
) -> str:
    """The text of ``source`` from ``start`` to ``end`` after the edits in it; ``convert`` changes the other
    text.
    """
    parts, at = [], start
    for edit in sorted(edits):
        if at <= edit.start and edit.end <= end:
            parts += [convert(source[at : edit.start]), edit.text]
            at = edit.end
    return "".join([*parts, convert(source[at:end])])
