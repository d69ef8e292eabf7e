"""Conditions that select rows by a set of keys: each column of the key is one of some literals, or null.

    id = 5 AND region IN ('eu', 'us')     (5, 'eu'), (5, 'us')
    id IN (1, 2) AND id = 2               (2)
    id IS NULL                            (null)

Such a condition is TRUE exactly for the rows whose columns have one of the keys, where null equals null. A
literal counts only if it is a value of the column's type. So `id = 1.5` of an integer column has no key.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from delvec.predicate.binding import Column
from delvec.predicate.comparison import Point
from delvec.predicate.tree import Among, And, Compare, IsNull, Node
from delvec.schema import DataType, arrow_type


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys that a condition selects: every combination of the columns' values.

    columns   the values of each column, none twice, in its Arrow type; by the names of top-level columns
    """

    columns: Mapping[str, pa.Array]

    def __len__(self) -> int:
        return math.prod(map(len, self.columns.values()))

    @property
    def is_product(self) -> bool:
        """Whether values of several columns are combined."""
        return sum(len(values) > 1 for values in self.columns.values()) > 1

    def table(self) -> pa.Table:
        """A row for each key."""
        rows, repeated, arrays = np.arange(len(self)), 1, []
        for values in self.columns.values():
            arrays.append(values.take(pa.array(rows // repeated % len(values))))
            repeated *= len(values)
        return pa.table(arrays, names=list(self.columns))


def key_set(tree: Node) -> KeySet | None:
    """The keys of a condition that is a conjunction of ``=``, ``IN`` and ``IS NULL`` over literals; None if
    it is another condition, or compares fields of structs.
    """
    values: dict[str, tuple[Any, ...]] = {}
    types: dict[str, DataType] = {}
    for part in _parts(tree):
        compared = _values(part)
        if compared is None:
            return None
        column, found = compared
        if len(column.path) != 1 or column.type is None:
            return None
        (name,) = column.path
        types[name] = column.type
        distinct = tuple(dict.fromkeys(found))
        values[name] = _common(values[name], distinct) if name in values else distinct
    return KeySet({name: pa.array(found, arrow_type(types[name])) for name, found in values.items()})


def _parts(tree: Node) -> Iterator[Node]:
    if isinstance(tree, And):
        for operand in tree.operands:
            yield from _parts(operand)
    else:
        yield tree


def _values(part: Node) -> tuple[Column, Iterable[Any]] | None:
    """The column and the values for which a part of the conjunction is TRUE; None if it is another part."""
    match part:
        case Compare(column, point, below=False, equal=True, above=False):
            return column, _exact((point,))
        case Among(column, points):
            return column, _exact(points)
        case IsNull(column):
            return column, (None,)
    return None


def _exact(points: Iterable[Point]) -> list[Any]:
    """The literals that are values of the column's type."""
    return [point.value for point in points if point.exact]


def _common(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    both = set(other)
    return tuple(value for value in one if value in both)
