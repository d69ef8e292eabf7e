"""Facts about a column (bounds, or a constant) as ranges of its values, one per file.

Facts that contradict each other (a lower bound above the upper one, a NaN as a bound) are treated as unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.file_facts import ColumnStats, ConstantColumn, HashedColumn

_ABOVE_ALL_CHARACTERS = b"\xff"


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of one column in each file.

    lower, upper      null where unknown; NULL and NaN are not covered by them
    upper_is_prefix   values that start with the upper bound are inside too
    some_value, some_null, some_nan   whether a row may have a value that is not NULL, a NULL, a NaN
    hashed            numbers that all values of the column in a file share
    """

    lower: pa.Array
    upper: pa.Array
    some_value: pa.BooleanArray
    some_null: pa.BooleanArray
    some_nan: pa.BooleanArray
    upper_is_prefix: pa.BooleanArray | None = None
    hashed: tuple[HashedColumn, ...] = ()

    def may_have(self, values: Sequence[Any]) -> pa.BooleanArray | None:
        """Whether each file may have one of the values, by the numbers that they hash to; None: all files."""
        answer = None
        for column in self.hashed:
            numbers = [column.number_of(value) for value in values]
            if None in numbers:
                continue
            listed = pc.is_in(column.numbers, value_set=pa.array(numbers, column.numbers.type))
            possible = pc.or_(listed, pc.is_null(column.numbers))
            answer = possible if answer is None else pc.and_(answer, possible)
        return answer

    def numbers(self, bound: pa.Array) -> npt.NDArray[Any] | None:
        """The bound as numbers in the same order, 0 where unknown; None if the type is not numeric."""
        kind = bound.type
        if pt.is_floating(kind):
            return np.asarray(pc.fill_null(bound, 0.0).to_numpy(zero_copy_only=False))
        if pt.is_date32(kind):
            bound = bound.view(pa.int32())
        elif pt.is_timestamp(kind):
            bound = bound.view(pa.int64())
        elif not pt.is_integer(kind):
            return None
        return np.asarray(pc.fill_null(bound, 0).to_numpy(zero_copy_only=False))


def uniform(count: int, *, value: bool) -> pa.BooleanArray:
    """``count`` times the same answer."""
    bits = pa.py_buffer((b"\xff" if value else b"\x00") * ((count + 7) // 8))
    return pa.Array.from_buffers(pa.bool_(), count, [None, bits])


def maybe(answers: pa.BooleanArray) -> pa.BooleanArray:
    """The answers with "not known" read as yes."""
    return pc.or_kleene(answers, pc.is_null(answers))


def surely(answers: pa.BooleanArray) -> pa.BooleanArray:
    """The answers with "not known" read as no."""
    return pc.and_kleene(answers, pc.is_valid(answers))


def unpacked(answers: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """The answers, which have no nulls, as a numpy array."""
    bits = np.frombuffer(answers.buffers()[1], dtype=np.uint8) if len(answers) else np.empty(0, np.uint8)
    first = answers.offset
    return np.unpackbits(bits, count=first + len(answers), bitorder="little")[first:].view(np.bool_)


def range_of(facts: ColumnStats | ConstantColumn, kind: pa.DataType, count: int) -> Range:
    """The range in each of ``count`` files, with bounds of type ``kind``."""
    if isinstance(facts, ConstantColumn):
        return _of_constant(facts, kind, count)
    return _of_stats(facts, kind, count)


def _of_constant(constant: ConstantColumn, kind: pa.DataType, count: int) -> Range:
    values = _typed(constant.values, kind)
    some_value, some_null = pc.is_valid(values), pc.is_null(values)
    some_nan = uniform(count, value=False)
    if pt.is_floating(kind):
        some_nan = surely(pc.is_nan(values))
        values = _erased(values, some_nan)
    if constant.known is not None:
        unknown = pc.invert(surely(constant.known))
        values = _erased(values, unknown)
        some_value, some_null, some_nan = (
            pc.or_(answer, unknown) for answer in (some_value, some_null, some_nan)
        )
    return Range(values, values, some_value, some_null, some_nan)


def _of_stats(stats: ColumnStats, kind: pa.DataType, count: int) -> Range:
    some_nan = uniform(count, value=False)
    lower, upper, prefix = _typed(stats.lower, kind), _typed(stats.upper, kind), stats.upper_is_prefix
    if pt.is_floating(kind):
        some_nan = uniform(count, value=True)
        if stats.nan_count is not None:
            some_nan = pc.invert(surely(pc.equal(stats.nan_count, 0)))
        lower, upper = (_erased(bound, surely(pc.is_nan(bound))) for bound in (lower, upper))
    if prefix is not None:
        prefix = maybe(prefix)
        if not pt.is_string(kind):
            upper, prefix = _erased(upper, prefix), None  # a prefix of binary is no upper bound
    wrong = _contradiction(lower, upper, prefix)
    lower, upper = _erased(lower, wrong), _erased(upper, wrong)
    all_null = surely(
        pc.and_(pc.equal(stats.null_count, stats.record_count), pc.greater(stats.record_count, 0))
    )
    some_null = pc.invert(surely(pc.equal(stats.null_count, 0)))
    return Range(lower, upper, pc.invert(all_null), some_null, some_nan, prefix, stats.hashed)


def _contradiction(lower: pa.Array, upper: pa.Array, prefix: pa.BooleanArray | None) -> pa.BooleanArray:
    wrong = surely(pc.greater(lower, upper))
    if prefix is None or not wrong.true_count:
        return wrong
    # If the upper bound is a prefix, a lower bound that starts with it is greater and still correct.
    rows = pc.indices_nonzero(pc.and_(wrong, prefix))
    end = pc.binary_join_element_wise(upper.take(rows).cast(pa.binary()), _ABOVE_ALL_CHARACTERS, b"")
    right = pc.less(lower.take(rows).cast(pa.binary()), end)
    mask = unpacked(wrong)
    mask[rows.to_numpy()[unpacked(right)]] = False
    return pa.array(mask)


def _erased(values: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    if not mask.true_count:
        return values
    return pc.if_else(mask, pa.scalar(None, values.type), values)


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)
