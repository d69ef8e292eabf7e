"""Timestamps without a time zone as microseconds since 1970."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from delvec.schema import DataType, Primitive, arrow_type


@dataclass(frozen=True, slots=True)
class TimestampCodec:
    name: ClassVar[str] = "timestamp"
    supported_type: ClassVar[DataType] = Primitive("timestamp_ntz")
    is_automatic: ClassVar[bool] = False

    def encode(self, values: pa.Array) -> pa.Int64Array:
        return values.cast(pa.int64())

    def decode(self, numbers: pa.Int64Array) -> pa.Array:
        return numbers.cast(arrow_type(self.supported_type))
