"""``PositionDeleteIndex``: the deleted rows of one data file, whatever stored them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from delvec import blob
from delvec.bitmap import Bitmap


@dataclass(frozen=True, slots=True)
class PositionDeleteIndex:
    """``rows``: the positions of the deleted rows, counted from 0 over the whole file."""

    rows: Bitmap

    @classmethod
    def from_deletion_vector(cls, vector: Bitmap | bytes) -> PositionDeleteIndex:
        """Of a vector: a bitmap, or a framed blob, which is verified first."""
        return cls(vector if isinstance(vector, Bitmap) else blob.decode(vector))

    @classmethod
    def from_rows(cls, positions: Iterable[int] | pa.Array | pa.ChunkedArray) -> PositionDeleteIndex:
        """Of positions, as position files list them."""
        if isinstance(positions, pa.Array | pa.ChunkedArray):
            return cls(Bitmap.from_numpy(positions.to_numpy()))
        return cls(Bitmap.from_iterable(positions))

    @classmethod
    def merged(cls, indexes: Iterable[PositionDeleteIndex]) -> PositionDeleteIndex:
        """The rows that any of the indexes deletes."""
        return cls(Bitmap().union(*(index.rows for index in indexes)))

    @property
    def cardinality(self) -> int:
        return self.rows.cardinality

    def is_deleted(self, position: int) -> bool:
        return position in self.rows
