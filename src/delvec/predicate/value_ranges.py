"""What is known of a column's values in each file, brought to one shape for bounds and constants.

Facts that contradict themselves (a lower bound above the upper one, a NaN for a bound) count as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.file_facts import ColumnStats, ConstantColumn

_ABOVE_ALL_CHARACTERS = b"\xff"


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of one column in each file, and what else its rows may hold.

    ``lower`` and ``upper`` are null where unknown and say nothing of NULL and NaN. Where
    ``upper_is_prefix`` is true, what starts with the upper bound is inside too. ``some_value``,
    ``some_null`` and ``some_nan`` say whether a row may hold a value, a NULL, a NaN.
    """

    lower: pa.Array
    upper: pa.Array
    some_value: pa.BooleanArray
    some_null: pa.BooleanArray
    some_nan: pa.BooleanArray
    upper_is_prefix: pa.BooleanArray | None = None

    def numbers(self, bound: pa.Array) -> npt.NDArray[Any] | None:
        """A bound as numbers in its order, 0 where unknown; None for types that are no numbers."""
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


def range_of(known: ColumnStats | ConstantColumn, kind: pa.DataType, count: int) -> Range:
    """The range in each of ``count`` files, with bounds of type ``kind``."""
    if isinstance(known, ConstantColumn):
        return _of_constant(known, kind, count)
    return _of_stats(known, kind, count)


def _of_constant(known: ConstantColumn, kind: pa.DataType, count: int) -> Range:
    values = _typed(known.values, kind)
    some_value, some_null = pc.is_valid(values), pc.is_null(values)
    some_nan = uniform(count, value=False)
    if pt.is_floating(kind):
        some_nan = surely(pc.is_nan(values))
        values = _erased(values, some_nan)
    if known.known is not None:
        unknown = pc.invert(surely(known.known))
        values = _erased(values, unknown)
        some_value, some_null, some_nan = (
            pc.or_(answer, unknown) for answer in (some_value, some_null, some_nan)
        )
    return Range(values, values, some_value, some_null, some_nan)


def _of_stats(known: ColumnStats, kind: pa.DataType, count: int) -> Range:
    some_nan = uniform(count, value=False)
    lower, upper, prefix = _typed(known.lower, kind), _typed(known.upper, kind), known.upper_is_prefix
    if pt.is_floating(kind):
        some_nan = uniform(count, value=True)
        if known.nan_count is not None:
            some_nan = pc.invert(surely(pc.equal(known.nan_count, 0)))
        lower, upper = (_erased(bound, surely(pc.is_nan(bound))) for bound in (lower, upper))
    if prefix is not None:
        prefix = maybe(prefix)
        if not pt.is_string(kind):
            upper, prefix = _erased(upper, prefix), None  # no byte is above all bytes
    wrong = _contradiction(lower, upper, prefix)
    lower, upper = _erased(lower, wrong), _erased(upper, wrong)
    all_null = surely(
        pc.and_(pc.equal(known.null_count, known.record_count), pc.greater(known.record_count, 0))
    )
    some_null = pc.invert(surely(pc.equal(known.null_count, 0)))
    return Range(lower, upper, pc.invert(all_null), some_null, some_nan, prefix)


def _contradiction(lower: pa.Array, upper: pa.Array, prefix: pa.BooleanArray | None) -> pa.BooleanArray:
    wrong = surely(pc.greater(lower, upper))
    if prefix is None or not wrong.true_count:
        return wrong
    # Where the upper bound is cut, a lower bound that starts with it is above it and right.
    rows = pc.indices_nonzero(pc.and_(wrong, prefix))
    end = pc.binary_join_element_wise(upper.take(rows).cast(pa.binary()), _ABOVE_ALL_CHARACTERS, b"")
    right = pc.less(lower.take(rows).cast(pa.binary()), end)
    mask = unpacked(wrong)
    mask[rows.to_numpy()[unpacked(right)]] = False
    return pa.array(mask)


def _erased(values: pa.Array, where: pa.BooleanArray) -> pa.Array:
    if not where.true_count:
        return values
    return pc.if_else(where, pa.scalar(None, values.type), values)


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)
