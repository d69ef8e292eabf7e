"""A condition as a tree that can be judged from metadata alone.

The leaves are comparisons of one column with literals. What is no such leaf, or none whose meaning is
certain, is ``Undecided``: it may be true, false, NULL, or raise an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from delvec.predicate.binding import Column
from delvec.predicate.comparison import Point


@dataclass(frozen=True, slots=True)
class Undecided:
    """Anything may come of it."""


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL in every row."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Compare:
    """The column against a literal: true where the column is ``below``, ``equal`` or ``above``.

    NULL is NULL, or, where ``null_safe``, false.
    """

    column: Column
    point: Point
    below: bool = False
    equal: bool = False
    above: bool = False
    null_safe: bool = False


@dataclass(frozen=True, slots=True)
class Among:
    """The column is one of the literals; ``with_null``: the list has a NULL, so no value is surely none."""

    column: Column
    points: tuple[Point, ...]
    with_null: bool


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The column starts with ``prefix``; ``whole``: that is all, else more is asked of the rest."""

    column: Column
    prefix: str
    whole: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    column: Column


@dataclass(frozen=True, slots=True)
class Is:
    """What comes of ``operand`` is ``value``; itself never NULL."""

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
