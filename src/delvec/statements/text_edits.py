"""A text with pieces replaced, all of them told by their places in the old text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """``text`` in the place of what is from ``start`` to ``end``."""

    start: int
    end: int
    text: str


def edited(source: str, start: int, end: int, edits: Iterable[Edit], kept: Callable[[str], str] = str) -> str:
    """The piece of ``source`` with the edits that lie in it; ``kept`` is applied to what stays."""
    parts, at = [], start
    for edit in sorted(edits):
        if at <= edit.start and edit.end <= end:
            parts += [kept(source[at : edit.start]), edit.text]
            at = edit.end
    return "".join([*parts, kept(source[at:end])])
