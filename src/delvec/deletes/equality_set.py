"""``EqualityDeleteSet``: the loaded deletes of one layer, as (scope, key, largest sequence).

A row of a data file is deleted if its key is there for the file's scope, with a sequence above the data
sequence of the file.

Two keys are equal if all their values are. Null equals null and NaN equals NaN; 0.0 and -0.0 differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Mask, Rows, one_chunk
from delvec.deletes.equality import KeyColumn
from delvec.schema import arrow_type

SCOPE, SEQUENCE = "scope", "sequence"
NOT_FOUND = -1


@dataclass(frozen=True, slots=True)
class EqualityDeleteSet:
    """The keys of deleted rows.

    keys   the values of the columns, under the names of ``key_names``; ``scope`` and ``sequence``. No key is
           there twice for a scope, unless the set has every delete of a key (`every`)
    """

    columns: tuple[KeyColumn, ...]
    keys: pa.Table
    _indices: dict[int, tuple[KeyIndex, Rows]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def collapse(cls, columns: tuple[KeyColumn, ...], deletes: Sequence[pa.Table]) -> EqualityDeleteSet:
        """The largest sequence of each key in each scope."""
        table = _united(columns, deletes)
        grouped = table.group_by([*key_names(columns), SCOPE]).aggregate([(SEQUENCE, "max")])
        grouped = grouped.rename_columns({f"{SEQUENCE}_max": SEQUENCE}).select(table.column_names)
        return cls(columns, grouped.combine_chunks())

    @classmethod
    def every(cls, columns: tuple[KeyColumn, ...], deletes: Sequence[pa.Table]) -> EqualityDeleteSet:
        """All sequences of each key in each scope."""
        table = _united(columns, deletes)
        return cls(columns, table.group_by(table.column_names).aggregate([]).combine_chunks())

    def __len__(self) -> int:
        return len(self.keys)

    def at(self, rows: Mask | Rows) -> EqualityDeleteSet:
        """The set with some of its keys."""
        taken = self.keys.filter(pa.array(rows)) if rows.dtype == bool else self.keys.take(pa.array(rows))
        return EqualityDeleteSet(self.columns, taken)

    def deleted(self, values: Sequence[pa.Array], *, scope: int, sequence: int) -> Mask:
        """Which rows of a data file are deleted, given their keys and the file's scope and sequence."""
        index, sequences = self._index(scope)
        rows = index.find(values)
        deleted: Mask = (rows != NOT_FOUND) & (sequences[rows] > sequence)
        return deleted

    def _index(self, scope: int) -> tuple[KeyIndex, Rows]:
        """The keys of a scope and their sequences; the last sequence is that of no key."""
        if scope not in self._indices:
            keys = self.keys.filter(pa.array(self.keys.column(SCOPE).to_numpy() == scope))
            index = KeyIndex([one_chunk(keys.column(n)) for n in key_names(self.columns)])
            self._indices[scope] = index, np.append(keys.column(SEQUENCE).to_numpy(), 0)
        return self._indices[scope]


def _united(columns: tuple[KeyColumn, ...], deletes: Sequence[pa.Table]) -> pa.Table:
    fields = [pa.field(name, arrow_type(c.type)) for name, c in zip(key_names(columns), columns, strict=True)]
    schema = pa.schema([*fields, pa.field(SCOPE, pa.int64()), pa.field(SEQUENCE, pa.int64())])
    return (pa.concat_tables(deletes) if deletes else schema.empty_table()).cast(schema)


def key_names(columns: Sequence[KeyColumn]) -> list[str]:
    """The names of the columns in ``EqualityDeleteSet.keys``."""
    return [f"key_{number}" for number in range(len(columns))]


class KeyIndex:
    """Keys, none of them twice, which can be asked for many keys at once.

    Each column in turn narrows the keys: a number stands for the values of the columns so far.
    """

    def __init__(self, keys: Sequence[pa.Array]) -> None:
        self._steps: list[tuple[pa.Array, Rows]] = []
        numbers = np.zeros(len(keys[0]), np.int64)
        for values in map(comparable, keys):
            distinct = values.unique()
            place = pc.index_in(values, value_set=distinct).to_numpy(zero_copy_only=False)
            known, numbers = np.unique(numbers * len(distinct) + place, return_inverse=True)
            self._steps.append((distinct, known))
        self._rows = np.empty(len(numbers), np.int64)
        self._rows[numbers] = np.arange(len(numbers))

    def find(self, keys: Sequence[pa.Array]) -> Rows:
        """For each key its row in the index; `NOT_FOUND` where there is none."""
        if not len(self._rows):
            return np.full(len(keys[0]), NOT_FOUND, np.int64)
        found, numbers = np.ones(len(keys[0]), dtype=bool), np.zeros(len(keys[0]), np.int64)
        for values, (distinct, known) in zip(map(comparable, keys), self._steps, strict=True):
            place = pc.index_in(values, value_set=distinct)
            found &= pc.is_valid(place).to_numpy(zero_copy_only=False)
            numbers = numbers * len(distinct) + pc.fill_null(place, 0).to_numpy(zero_copy_only=False)
            at = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
            found &= known[at] == numbers
            numbers = at
        return np.where(found, self._rows[numbers], NOT_FOUND)


def comparable(values: pa.Array) -> pa.Array:
    """Values that are equal, as Arrow compares them, where the keys are equal."""
    if not pa.types.is_floating(values.type):
        return values
    bits = values.type.bit_width // 8
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    numbers = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers)
    return pa.array(numbers.view(f"i{bits}"), mask=pc.is_null(values).to_numpy(zero_copy_only=False))
