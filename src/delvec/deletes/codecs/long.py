"""Longs are their own numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from delvec.schema import DataType, Primitive


@dataclass(frozen=True, slots=True)
class LongCodec:
    name: ClassVar[str] = "long"
    supported_type: ClassVar[DataType] = Primitive("long")
    is_automatic: ClassVar[bool] = True

    def encode(self, values: pa.Array) -> pa.Int64Array:
        return values

    def decode(self, numbers: pa.Int64Array) -> pa.Array:
        return numbers
