"""Buckets of strings, bytes and decimals as native SQL: Iceberg's hash, 32-bit Murmur3 of the bytes.

    h = 0
    for each word of 4 bytes, little-endian:  h = rotl(h ^ k(word), 13) * 5 + 0xe6546b64
    h ^= k(the last 0 to 3 bytes)
    h = f(h ^ length)

    k(w) = rotl(w * c1, 15) * c2
    f(h) = xorshift(xorshift(xorshift(h, 16) * f1, 13) * f2, 16)

Spark's ``hash`` is the same function except for the last bytes. So it hashes the whole words, f is undone,
step by step, and the rest is done here. That needs two columns ahead of the bucket:

    <name>_bytes   the bytes
    <name>_state   h before the last f

Numbers of 32 bits are BIGINTs from -2^31 to 2^31 - 1, so that no product overflows, whatever the session's
mode. A decimal is hashed as its unscaled value, in big-endian two's complement of as few bytes as suffice.
"""

from __future__ import annotations

from delvec.partition_spec import PartitionField
from delvec.schema import DataType, Decimal, Primitive, is_string

HASHES_TO_ZERO = -1693959553
"""Spark hashes this integer to 0, so that the value after it is hashed with the seed 0, as in Iceberg."""

_C1, _C2 = 0xCC9E2D51, 0x1B873593
_F1, _F2 = 0x85EBCA6B, 0xC2B2AE35
_MASK = "4294967295L"
_HALF = "2147483648L"
_LONG_DIGITS = 18  # decimals of so many digits fit into 64 bits
_WORD = "CAST('18446744073709551616' AS DECIMAL(20,0))"
_HALF_WORD = "CAST('9223372036854775808' AS DECIMAL(20,0))"


def is_by_bytes(field: PartitionField, source: DataType) -> bool:
    """Whether the field is a bucket of a column whose values are hashed as bytes."""
    hashed = isinstance(source, Decimal) or is_string(source) or source == Primitive("binary")
    return hashed and field.transform.name == "bucket"


def preparation(column: str, source: DataType, name: str) -> tuple[str, str]:
    """The two columns ahead of the bucket, the second made from the first. ``name`` begins their names."""
    value = f"CAST({column} AS BINARY)"
    if isinstance(source, Decimal):
        value = _decimal_bytes(column, source)
    return f"{value} AS {name}_bytes", f"{_state(f'{name}_bytes')} AS {name}_state"


def bucket(name: str, width: int) -> str:
    """The bucket of a row that has the two columns."""
    return f"CAST(pmod({_mixed(f'{name}_state')} & 2147483647, {width}) AS INT)"


def _state(data: str) -> str:
    whole = f"(length({data}) - length({data}) % 4)"
    hashed = f"CAST(hash({HASHES_TO_ZERO}, substring({data}, 1, {whole})) AS BIGINT)"
    rest = f"CAST(conv(hex(rpad(substring({data}, {whole} + 1), 3, X'00')), 16, 10) AS BIGINT)"
    word = f"(shiftright({rest}, 16) | ({rest} & 65280) | shiftleft({rest} & 255, 16))"
    return f"({_unmixed(hashed)} ^ {whole} ^ {_k(word)} ^ length({data}))"


def _k(word: str) -> str:
    product = _unsigned(_product(word, _C1))
    rotated = f"(shiftleft({product} & 131071, 15) | shiftright({product}, 17))"
    return _product(_signed(rotated), _C2)


def _mixed(state: str) -> str:
    """The function f."""
    first = _product(_xorshift(state, 16), _F1)
    return _xorshift(_product(_xorshift(first, 13), _F2), 16)


def _unmixed(result: str) -> str:
    """The number whose f is ``result``."""
    first = _product(_xorshift(result, 16), pow(_F2, -1, 1 << 32))
    return _xorshift(_product(_xorshift(first, 13, 26), pow(_F1, -1, 1 << 32)), 16)


def _xorshift(number: str, *shifts: int) -> str:
    shifted = (f"shiftright({_unsigned(number)}, {shift})" for shift in shifts)
    return f"({' ^ '.join((number, *shifted))})"


def _product(number: str, factor: int) -> str:
    return _signed(f"{number} * {factor - (1 << 32) if factor >> 31 else factor}L")


def _signed(number: str) -> str:
    """The low 32 bits as a signed number."""
    return f"((({number} + {_HALF}) & {_MASK}) - {_HALF})"


def _unsigned(number: str) -> str:
    return f"({number} & {_MASK})"


def _decimal_bytes(column: str, source: Decimal) -> str:
    """The bytes of the unscaled value u. With m = u, or -u - 1 if u is negative, they are as many as 2 * m
    needs, and for a negative u the complement of those of m.
    """
    if source.precision <= _LONG_DIGITS:
        unscaled = f"CAST({column} * CAST('1E{source.scale}' AS DECIMAL({source.scale + 1},0)) AS BIGINT)"
        digits = f"lpad(hex({unscaled}), 16, '0')"
        size = _size(f"if({unscaled} < 0, -1 - {unscaled}, {unscaled}) * 2")
        return f"unhex(right({digits}, 2 * {size}))"
    unscaled = unscaled_value(column, source)
    # Spark's unary minus and abs round decimals of more than 34 digits; a difference is exact.
    number = f"CAST(if({unscaled} < 0, -1 - {unscaled}, {unscaled}) AS DECIMAL(38,0))"
    high, rest = f"({number} DIV {_WORD})", f"({number} % {_WORD})"
    low = f"CAST(if({rest} >= {_HALF_WORD}, {rest} - {_WORD}, {rest}) AS BIGINT)"
    sign = f"if({unscaled} < 0, -1L, 0L)"
    upper, lower = (f"lpad(hex({part} ^ {sign}), 16, '0')" for part in (high, low))
    digits = f"concat({upper}, {lower})"
    carry = f"(shiftleft({high}, 1) | shiftrightunsigned({low}, 63))"
    size = f"if({carry} = 0, {_size(f'shiftleft({low}, 1)')}, 8 + {_size(carry)})"
    return f"unhex(right({digits}, 2 * {size}))"


def unscaled_value(column: str, source: Decimal) -> str:
    """The decimal's digits as DECIMAL(38,0)."""
    digits = f"format_number({column}, {source.scale})"  # 1,234.50 in any session
    return f"CAST(replace(replace({digits}, ',', ''), '.', '') AS DECIMAL(38,0))"


def _size(number: str) -> str:
    """How many bytes the number needs, as an unsigned one."""
    return f"((length(hex({number})) + 1) DIV 2)"
