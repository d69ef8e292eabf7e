"""Integers of 32 bits are their own numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from delvec.schema import DataType, Primitive


@dataclass(frozen=True, slots=True)
class IntegerCodec:
    name: ClassVar[str] = "int"
    supported_type: ClassVar[DataType] = Primitive("integer")
    is_automatic: ClassVar[bool] = False

    def encode(self, values: pa.Array) -> pa.Int64Array:
        return values.cast(pa.int64())

    def decode(self, numbers: pa.Int64Array) -> pa.Array:
        return numbers.cast(pa.int32())
