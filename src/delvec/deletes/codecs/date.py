"""Dates as days since 1970."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from delvec.schema import DataType, Primitive, arrow_type


@dataclass(frozen=True, slots=True)
class DateCodec:
    name: ClassVar[str] = "date"
    supported_type: ClassVar[DataType] = Primitive("date")
    is_automatic: ClassVar[bool] = False

    def encode(self, values: pa.Array) -> pa.Int64Array:
        return values.cast(pa.int32()).cast(pa.int64())

    def decode(self, numbers: pa.Int64Array) -> pa.Array:
        return numbers.cast(pa.int32()).cast(arrow_type(self.supported_type))
