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

from delvec.bitmap import Bitmap
from delvec.chunked import Mask, Rows, one_chunk
from delvec.deletes.codecs import DeletionVectorCodec, codec_for
from delvec.deletes.equality import KeyColumn
from delvec.deletes.key_columns import keys_of
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.schema import Field, arrow_type

SCOPE, SEQUENCE = "scope", "sequence"
NOT_FOUND = -1
ALWAYS = int(np.iinfo(np.int64).max)
"""The sequence of a delete that applies to all data files."""


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
    def from_deletion_vector(
        cls, vector: Bitmap, field: Field, *, codec: DeletionVectorCodec | None = None, sequence: int = ALWAYS
    ) -> EqualityDeleteSet:
        """Of a vector of keys of one column; by default with the codec of the column's type."""
        codec = codec or codec_for(field.type)
        if codec is None:
            raise UnsupportedFeatureError(
                f"vector of keys is of column {field.name!r} of type {field.type}, which has no codec",
                feature=f"vector of {field.type}",
            )
        numbers = pa.array(vector.to_numpy(), pa.int64())
        return cls._of([field], [codec.decode(numbers)], sequence)

    @classmethod
    def from_rows(
        cls, rows: pa.Table | pa.RecordBatch, fields: Sequence[Field], *, sequence: int = ALWAYS
    ) -> EqualityDeleteSet:
        """Of rows that have these columns; others are ignored."""
        return cls._of(fields, keys_of(rows, fields), sequence)

    @classmethod
    def _of(cls, fields: Sequence[Field], keys: Sequence[pa.Array], sequence: int) -> EqualityDeleteSet:
        columns = tuple(map(top_level, fields))
        return cls.collapse(columns, [scoped(columns, keys, scope=0, sequence=sequence)])

    @classmethod
    def merged(cls, sets: Sequence[EqualityDeleteSet]) -> EqualityDeleteSet:
        """The keys of several sets, which compare the same columns."""
        columns = sets[0].columns
        for other in sets:
            if other.columns != columns:
                names = [", ".join(".".join(c.path) for c in each) for each in (other.columns, columns)]
                raise InvalidOperationError(f"a delete set compares {names[0]}, expected {names[1]}")
        return cls.collapse(columns, [each.keys for each in sets])

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

    def contains(self, values: Sequence[pa.Array]) -> Mask:
        """Which of these keys the set has, whatever scope and sequence; an array for each column."""
        keys = self.keys.select(key_names(self.columns))
        keys = keys.group_by(keys.column_names).aggregate([])
        found = KeyIndex([one_chunk(column) for column in keys.columns]).find(values)
        is_there: Mask = found != NOT_FOUND
        return is_there

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


def top_level(field: Field) -> KeyColumn:
    """A column of the table as a key column."""
    if field.field_id is None:
        raise InvalidOperationError(f"key column {field.name!r} has no field id, expected one")
    return KeyColumn(field.field_id, (field.name,), field.type, ((field.physical_name,),))


def scoped(
    columns: Sequence[KeyColumn],
    keys: Sequence[pa.Array | pa.ChunkedArray],
    *,
    scope: int | None,
    sequence: int | None,
) -> pa.Table:
    """Keys of one delete as rows of ``EqualityDeleteSet.keys``."""
    named = dict(zip(key_names(columns), keys, strict=True))
    for name, value in ((SCOPE, scope), (SEQUENCE, sequence)):
        named[name] = pa.repeat(pa.scalar(value, pa.int64()), len(keys[0]))
    return pa.table(named)


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
