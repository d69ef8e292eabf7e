"""A codec from outside of the package: amounts with two decimal places, as whole cents."""

from __future__ import annotations

from decimal import Decimal as Number

import pyarrow as pa

from delvec.schema import Decimal


class CentsCodec:
    name = "cents"
    supported_type = Decimal(10, 2)
    is_automatic = True

    def encode(self, values: pa.Array) -> pa.Int64Array:
        return pa.array([None if v is None else int(v * 100) for v in values.to_pylist()], pa.int64())

    def decode(self, numbers: pa.Int64Array) -> pa.Array:
        return pa.array([Number(n) / 100 for n in numbers.to_pylist()], pa.decimal128(10, 2))
