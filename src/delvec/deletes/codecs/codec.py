"""``DeletionVectorCodec``: values of one type as numbers of a vector, and back.

A codec keeps the order of values where the numbers are not negative, so that a vector's smallest and largest
number bound its keys. A vector holds numbers from 0 on; a key whose number is negative goes to full rows.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from delvec.schema import DataType


class DeletionVectorCodec(Protocol):
    """How the values of one type become numbers. A new codec is a class like this, and a `register` call."""

    @property
    def name(self) -> str:
        """The name that stands in blobs. It never changes."""
        ...

    @property
    def supported_type(self) -> DataType:
        """The type of the columns whose values it encodes."""
        ...

    @property
    def is_automatic(self) -> bool:
        """Whether writers choose it by themselves, and not only if the table's hint asks for vectors."""
        ...

    def encode(self, values: pa.Array) -> pa.Int64Array:
        """The number of each value, which has the Arrow type of ``supported_type``; null for null."""
        ...

    def decode(self, numbers: pa.Int64Array) -> pa.Array:
        """The values of these numbers, in the Arrow type of ``supported_type``."""
        ...
