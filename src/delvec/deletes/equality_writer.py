"""``EqualityDeleteWriter``: writes keys of deleted rows, as a vector where that is possible and smaller.

    a vector    one column with a codec, numbers from 0 to `MAX_POSITION`, not too sparse; above 64 KiB only
                if it is smaller than the same keys as rows
    full rows   all other keys: a Parquet file with the key columns only

Keys that cannot be in a vector go to full rows, so one writer may write both. The result counts them by the
reason, and the log names it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delvec import location
from delvec.bitmap import MAX_POSITION, Bitmap
from delvec.byte_size import size_text
from delvec.deletes.codecs import DeletionVectorCodec
from delvec.deletes.cost import EncodingCostEstimator
from delvec.deletes.encoding import DeleteEncoding
from delvec.deletes.equality_bounds import is_integer
from delvec.deletes.key_columns import key_array, keys_of
from delvec.deletes.key_rows import key_file
from delvec.deletes.key_vector import KeyVector, vector_file
from delvec.deletes.model import GLOBAL, DeleteContent, DeleteFile, DeleteScope
from delvec.deletes.write_options import DeleteWriteOptions, EncodingHint
from delvec.deletes.write_result import REASONS, DeleteWriteResult, Fallback
from delvec.errors import InvalidOperationError
from delvec.row_delta import new_file_id
from delvec.schema import Field, Struct
from delvec.storage import Storage

SMALL_VECTOR = 64 << 10
"""A vector of at most so many bytes is kept without a comparison."""

MOST_SPARSE = 1000
"""A vector whose numbers span more than this many times their count is too sparse."""

_LOGGER = logging.getLogger(__name__)


@dataclass(slots=True)
class EqualityDeleteWriter:
    """Collects keys, and writes them when it is closed.

    fields    the key columns
    codec     how keys become numbers; None: they are all full rows
    reason    why there is no codec, if the table allows vectors of keys
    scope     the data files that the keys delete rows of
    folder    where new files are, below the storage's root
    """

    storage: Storage
    fields: tuple[Field, ...]
    options: DeleteWriteOptions
    codec: DeletionVectorCodec | None = None
    reason: Fallback | None = None
    scope: DeleteScope = GLOBAL
    sequence: int | None = None
    folder: str = "data"
    _keys: list[list[pa.Array]] = field(default_factory=list)
    _rows: list[Mapping[str, Any]] = field(default_factory=list)
    _is_closed: bool = False

    def write(self, row: Mapping[str, Any]) -> None:
        """One key; other values of the row are ignored."""
        for column in self.fields:
            if column.name not in row:
                raise InvalidOperationError(
                    f"the keys have no column {column.name!r}, expected one; they have: {', '.join(row)}"
                )
        self._rows.append({column.name: row[column.name] for column in self.fields})

    def write_batch(self, batch: pa.RecordBatch | pa.Table) -> None:
        """The keys in these rows; other columns are ignored."""
        self._keys.append(keys_of(batch, self.fields))

    def close(self, *, needs_vector: bool = False) -> DeleteWriteResult:
        """Write the files. Nothing can be written after. ``needs_vector``: no file is written if none of the
        keys would be in a vector.
        """
        if self._is_closed:
            raise InvalidOperationError("writer of deletes is closed, expected one that is open")
        self._is_closed = True
        keys = self._columns()
        if not len(keys[0]):
            return DeleteWriteResult()
        names = ", ".join(f"{column.name!r} ({column.type})" for column in self.fields)
        fields = "field" if len(self.fields) == 1 else "fields"
        _LOGGER.info("Writing equality deletes on %s %s, %d deletes", fields, names, len(keys[0]))
        fallbacks: Counter[Fallback] = Counter()
        files = self._written(keys, fallbacks, needs_vector=needs_vector)
        for reason, count in fallbacks.items() if files else ():
            _LOGGER.info("%d keys are written as full rows: %s", count, REASONS[reason])
        return DeleteWriteResult(tuple(files), dict(fallbacks))

    def _written(
        self, keys: list[pa.Array], fallbacks: Counter[Fallback], *, needs_vector: bool
    ) -> list[DeleteFile]:
        files: list[DeleteFile] = []
        numbers, rows = self._split(keys, fallbacks)
        if numbers is not None:
            vector = self._smaller_vector(numbers)
            if vector is None:
                fallbacks[Fallback.SIZE] += len(numbers)
                rows = keys
            else:
                files.append(self._put_vector(numbers, *vector))
        if len(rows[0]) and (files or not needs_vector):
            files.append(self._put_rows(rows))
        return files

    def _columns(self) -> list[pa.Array]:
        """All keys, a column for each field."""
        if self._rows:
            try:
                columns = {c.name: pa.array([row[c.name] for row in self._rows]) for c in self.fields}
            except (pa.ArrowException, TypeError, OverflowError) as error:
                raise InvalidOperationError(f"keys have values of several types: {error}") from None
            self._keys.append([key_array(columns[column.name], column) for column in self.fields])
            self._rows = []
        empty = [key_array(pa.nulls(0), column) for column in self.fields]
        return [pa.concat_arrays(parts) for parts in zip(empty, *self._keys, strict=True)]

    def _split(
        self, keys: list[pa.Array], fallbacks: Counter[Fallback]
    ) -> tuple[Bitmap | None, list[pa.Array]]:
        """The numbers for a vector, if any, and the keys that must be rows."""
        if self.codec is None:
            if self.reason is not None:
                fallbacks[self.reason] += len(keys[0])
            return None, keys
        (values,) = keys
        encoded = self.codec.encode(values)
        is_null = encoded.is_null().to_numpy(zero_copy_only=False)
        numbers = pc.fill_null(encoded, 0).to_numpy(zero_copy_only=False)
        is_negative, is_large = numbers < 0, numbers > MAX_POSITION
        for reason, mask in (
            (Fallback.NULL, is_null),
            (Fallback.NEGATIVE, is_negative),
            (Fallback.TOO_LARGE, is_large),
        ):
            if mask.any():
                fallbacks[reason] += int(mask.sum())
        fits = ~(is_null | is_negative | is_large)
        bitmap = Bitmap.from_numpy(numbers[fits])
        if self._is_too_sparse(bitmap):
            fallbacks[Fallback.SPARSE] += int(fits.sum())
            return None, keys
        return bitmap or None, [values.filter(pa.array(~fits))]

    def _is_too_sparse(self, numbers: Bitmap) -> bool:
        lowest, highest = numbers.min(), numbers.max()
        if lowest is None or highest is None or self.options.hint is EncodingHint.DELETION_VECTOR:
            return False
        return highest - lowest > len(numbers) * MOST_SPARSE

    def _smaller_vector(self, numbers: Bitmap) -> tuple[bytes, int, int] | None:
        """The Puffin file, and offset and length of its blob; None if the keys are smaller as rows."""
        assert self.codec is not None
        vector = KeyVector(_id(self.fields[0]), numbers, self.codec.name, self.scope.stated_spec)
        data, placed = vector_file(vector, self.options.compression)
        if len(data) > SMALL_VECTOR:
            keys = self.codec.decode(pa.array(numbers.to_numpy(), pa.int64()))
            row_bytes = len(key_file([keys], self.fields))
            _LOGGER.info("Equality delete vector: %s, as rows %s", size_text(len(data)), size_text(row_bytes))
            if row_bytes < len(data):
                return None
        return data, placed.offset, placed.length

    def _put_vector(self, numbers: Bitmap, data: bytes, offset: int, length: int) -> DeleteFile:
        has_bounds = is_integer(self.fields[0].type)
        place, count, ids = self._put(data, "puffin"), len(numbers), [_id(self.fields[0])]
        rows = EncodingCostEstimator().full_row_cost(
            DeleteContent.EQUALITY_DELETES, count, Struct(self.fields), ids
        )
        _LOGGER.info("Using an equality delete vector (bitmap)")
        _LOGGER.info("EDV file: %s (%s, about %s as rows)", place, size_text(len(data)), size_text(rows))
        return DeleteFile(
            DeleteContent.EQUALITY_DELETES,
            place,
            "puffin",
            numbers.cardinality,
            len(data),
            DeleteEncoding.DELETION_VECTOR,
            (_id(self.fields[0]),),
            offset=offset,
            length=length,
            sequence=self.sequence,
            scope=self.scope,
            lower=numbers.min() if has_bounds else None,
            upper=numbers.max() if has_bounds else None,
        )

    def _put_rows(self, keys: Sequence[pa.Array]) -> DeleteFile:
        data = key_file(keys, self.fields)
        place = self._put(data, "parquet")
        _LOGGER.info("Equality-delete file: %s (%s)", place, size_text(len(data)))
        return DeleteFile(
            DeleteContent.EQUALITY_DELETES,
            place,
            "parquet",
            len(keys[0]),
            len(data),
            DeleteEncoding.FULL_ROW,
            tuple(map(_id, self.fields)),
            sequence=self.sequence,
            scope=self.scope,
        )

    def _put(self, data: bytes, suffix: str) -> str:
        path = f"{self.folder}/deletes-{new_file_id()}.{suffix}".lstrip("/")
        self.storage.put(path, data)
        return location.join(self.storage.root, path)


def _id(column: Field) -> int:
    assert column.field_id is not None
    return column.field_id
