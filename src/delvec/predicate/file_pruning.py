"""Judges a condition for each file by facts about the file's columns.

Three questions are answered per file: can the condition be TRUE for a row, can it be FALSE, can it be NULL? A
"yes" may be wrong, a "no" never is. The answers are Arrow arrays of booleans without nulls, one value per
file; there is no loop over files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.file_facts import ColumnPath, FileFacts
from delvec.predicate.binding import Column
from delvec.predicate.comparison import Point
from delvec.predicate.tree import (
    Among,
    And,
    Compare,
    Constant,
    Is,
    IsNull,
    Node,
    Not,
    Or,
    StartsWith,
    Undecided,
)
from delvec.predicate.value_ranges import Range, maybe, range_of, surely, uniform
from delvec.schema import arrow_type

_POINTS_EACH_COMPARED = 16
_PREFIXES_TRIED = 4096


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Whether each outcome is possible in each file."""

    true: pa.BooleanArray
    false: pa.BooleanArray
    null: pa.BooleanArray


@dataclass(frozen=True, slots=True)
class Judgement:
    """One evaluation over one set of files. The facts about each column are requested once."""

    facts: FileFacts
    _ranges: dict[ColumnPath, Range | None] = field(default_factory=dict)

    def outcomes(self, node: Node) -> Outcomes:
        match node:
            case Undecided():
                return self._anything()
            case Constant(value):
                return self._constant(value)
            case Not(operand):
                inner = self.outcomes(operand)
                return Outcomes(inner.false, inner.true, inner.null)
            case And(operands):
                return reduce(_both, map(self.outcomes, operands))
            case Or(operands):
                return reduce(_either, map(self.outcomes, operands))
            case Is(operand, value):
                return self._is(self.outcomes(operand), value)
        bounds = self._range(node.column)
        return self._anything() if bounds is None else self._leaf(node, bounds)

    def _leaf(self, node: Compare | Among | StartsWith | IsNull, bounds: Range) -> Outcomes:
        none = uniform(self.facts.count, value=False)
        match node:
            case IsNull():
                return Outcomes(bounds.some_null, bounds.some_value, none)
            case Among():
                return _among(node, bounds, none)
            case StartsWith():
                return _starts_with(node, bounds)
        return _compare(node, bounds, none)

    def _range(self, column: Column) -> Range | None:
        if column.path not in self._ranges:
            facts = self.facts.column(column.path)
            bounds = None
            if facts is not None and column.type is not None:
                bounds = range_of(facts, arrow_type(column.type), self.facts.count)
            self._ranges[column.path] = bounds
        return self._ranges[column.path]

    def _anything(self) -> Outcomes:
        yes = uniform(self.facts.count, value=True)
        return Outcomes(yes, yes, yes)

    def _constant(self, value: bool | None) -> Outcomes:  # noqa: FBT001 - the SQL value
        count = self.facts.count
        return Outcomes(*(uniform(count, value=value is outcome) for outcome in (True, False, None)))

    def _is(self, inner: Outcomes, value: bool | None) -> Outcomes:  # noqa: FBT001 - the SQL value
        outcomes = {True: inner.true, False: inner.false, None: inner.null}
        hit = outcomes.pop(value)
        return Outcomes(hit, pc.or_(*outcomes.values()), uniform(self.facts.count, value=False))


def _both(left: Outcomes, right: Outcomes) -> Outcomes:
    null = pc.or_(
        pc.and_(left.null, pc.or_(right.null, right.true)),
        pc.and_(left.true, right.null),
    )
    return Outcomes(pc.and_(left.true, right.true), pc.or_(left.false, right.false), null)


def _either(left: Outcomes, right: Outcomes) -> Outcomes:
    null = pc.or_(
        pc.and_(left.null, pc.or_(right.null, right.false)),
        pc.and_(left.false, right.null),
    )
    return Outcomes(pc.or_(left.true, right.true), pc.and_(left.false, right.false), null)


def _compare(node: Compare, bounds: Range, none: pa.BooleanArray) -> Outcomes:
    below, equal, above = _sides(node.point, bounds, none)
    true = false = none
    for is_true, possible in ((node.below, below), (node.equal, equal), (node.above, above)):
        if is_true:
            true = pc.or_(true, possible)
        else:
            false = pc.or_(false, possible)
    if node.null_safe:
        return Outcomes(true, pc.or_(false, bounds.some_null), none)
    return Outcomes(true, false, bounds.some_null)


def _sides(
    point: Point, bounds: Range, none: pa.BooleanArray
) -> tuple[pa.BooleanArray, pa.BooleanArray, pa.BooleanArray]:
    """Whether a value of the column can be below, equal to, above the literal. NaN is above all numbers."""
    if point.value is None:
        return none, none, bounds.some_value
    if point.is_nan:
        return bounds.some_value, pc.and_(bounds.some_value, bounds.some_nan), none
    value = pa.scalar(point.value, bounds.lower.type)
    extended = _extended_beyond(point.value, bounds)
    not_above = pc.less_equal(bounds.lower, value)
    below = pc.less(bounds.lower, value) if point.exact else not_above
    above = pc.or_(pc.or_(maybe(pc.greater(bounds.upper, value)), bounds.some_nan), extended)
    equal = none
    if point.exact:
        reached = pc.or_(maybe(pc.greater_equal(bounds.upper, value)), extended)
        equal = _hashed(bounds, [point], pc.and_(maybe(not_above), reached))
    return tuple(pc.and_(side, bounds.some_value) for side in (maybe(below), equal, above))


def _hashed(bounds: Range, points: Sequence[Point], possible: pa.BooleanArray) -> pa.BooleanArray:
    """``possible`` without the files in which no value has the same number as one of the literals."""
    if not bounds.hashed:
        return possible
    found = bounds.may_have([point.value for point in points])
    return possible if found is None else pc.and_(possible, found)


def _extended_beyond(value: Any, bounds: Range) -> pa.BooleanArray:
    """Whether the upper bound is a prefix of ``value``: the file may then have values on both sides of it."""
    if bounds.upper_is_prefix is None or not isinstance(value, str):
        return uniform(len(bounds.upper), value=False)
    if len(value) > _PREFIXES_TRIED:
        return bounds.upper_is_prefix
    prefixes = pa.array([value[:size] for size in range(len(value) + 1)], bounds.upper.type)
    return pc.and_(bounds.upper_is_prefix, pc.is_in(bounds.upper, value_set=prefixes))


def _among(node: Among, bounds: Range, none: pa.BooleanArray) -> Outcomes:
    hit = _any_equal(node.points, bounds, none)
    miss = pc.and_not(bounds.some_value, pc.and_(_single(bounds), hit))
    if node.with_null:
        return Outcomes(hit, none, pc.or_(bounds.some_null, miss))
    return Outcomes(hit, miss, bounds.some_null)


def _any_equal(points: tuple[Point, ...], bounds: Range, none: pa.BooleanArray) -> pa.BooleanArray:
    points = tuple(point for point in points if point.exact)
    if len(points) <= _POINTS_EACH_COMPARED or any(point.is_nan for point in points):
        return reduce(pc.or_, (_sides(point, bounds, none)[1] for point in points), none)
    numbers = [bounds.numbers(bound) for bound in (bounds.lower, bounds.upper)]
    if numbers[0] is None or numbers[1] is None:
        return _overlap(points, bounds, none)
    ordered = np.sort(np.array([point.value for point in points], dtype=numbers[0].dtype))
    index = np.searchsorted(ordered, numbers[0])
    following = ordered[np.minimum(index, len(ordered) - 1)]
    in_bounds = pa.array((index < len(ordered)) & (following <= numbers[1]))
    unknown = pc.or_(pc.is_null(bounds.lower), pc.is_null(bounds.upper))
    return _hashed(bounds, points, pc.and_(pc.or_(in_bounds, unknown), bounds.some_value))


def _overlap(points: tuple[Point, ...], bounds: Range, none: pa.BooleanArray) -> pa.BooleanArray:
    """For long lists of values that are not numbers: compares the bounds with those of the list. A file with
    only one value is looked up in the list.
    """
    values = [point.value for point in points]
    least, greatest = Point(min(values)), Point(max(values))
    _, at_least, above = _sides(least, bounds, none)
    below, at_most, _ = _sides(greatest, bounds, none)
    overlap = pc.and_(pc.or_(at_least, above), pc.or_(at_most, below))
    listed = pc.is_in(bounds.lower, value_set=pa.array(values, bounds.lower.type))
    return _hashed(bounds, points, pc.and_(overlap, pc.or_(pc.invert(_single(bounds)), listed)))


def _single(bounds: Range) -> pa.BooleanArray:
    """Whether all values of the file equal its lower bound."""
    single = pc.and_not(surely(pc.equal(bounds.lower, bounds.upper)), bounds.some_nan)
    return single if bounds.upper_is_prefix is None else pc.and_not(single, bounds.upper_is_prefix)


def _starts_with(node: StartsWith, bounds: Range) -> Outcomes:
    prefix = pa.scalar(node.prefix, bounds.lower.type)
    lower_has, upper_has = (pc.starts_with(bound, node.prefix) for bound in (bounds.lower, bounds.upper))
    reaches_down = pc.or_(maybe(pc.less_equal(bounds.lower, prefix)), maybe(lower_has))
    reaches_up = pc.or_(maybe(pc.greater_equal(bounds.upper, prefix)), _extended_beyond(node.prefix, bounds))
    true = pc.and_(pc.and_(reaches_down, reaches_up), bounds.some_value)
    if not node.whole:
        return Outcomes(true, bounds.some_value, bounds.some_null)
    every = surely(pc.and_kleene(lower_has, upper_has))
    return Outcomes(true, pc.and_not(bounds.some_value, every), bounds.some_null)
