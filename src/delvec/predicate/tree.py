"""A condition as a tree that can be judged by metadata alone.

The leaves are comparisons of one column with literals. Every other part is ``Undecided``: it may be true,
false, NULL, or raise an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from delvec.predicate.binding import Column
from delvec.predicate.comparison import Point


@dataclass(frozen=True, slots=True)
class Undecided:
    """Any result is possible."""


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL in every row."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Compare:
    """A column compared with a literal: true if the column is below, equal or above it, by the flags.

    For a NULL the result is NULL, or false if ``null_safe``.
    """

    column: Column
    point: Point
    below: bool = False
    equal: bool = False
    above: bool = False
    null_safe: bool = False


@dataclass(frozen=True, slots=True)
class Among:
    """The column is one of the literals. ``with_null``: the list has a NULL, so the result is never false."""

    column: Column
    points: tuple[Point, ...]
    with_null: bool


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The column starts with ``prefix``. Unless ``whole``, the rest of the value must match a pattern too."""

    column: Column
    prefix: str
    whole: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    column: Column


@dataclass(frozen=True, slots=True)
class Is:
    """Whether the result of ``operand`` is ``value``. Never NULL itself."""

    operand: Node
    value: bool | None


@dataclass(frozen=True, slots=True)
class Not:
    operand: Node


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Node, ...]


Node = Undecided | Constant | Compare | Among | StartsWith | IsNull | Is | Not | And | Or

UNDECIDED = Undecided()


def is_decided(node: Node) -> bool:
    """Whether no part of the tree is ``Undecided``, so that no part can raise an error."""
    match node:
        case Undecided():
            return False
        case Not(operand) | Is(operand, _):
            return is_decided(operand)
        case And(operands) | Or(operands):
            return all(is_decided(operand) for operand in operands)
    return True
