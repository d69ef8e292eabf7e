"""The range of source values with a partition value: it has every value that the transform maps to it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal as Number

import pyarrow as pa
import pytest

from delvec.iceberg.partition_ranges import says_something, source_range
from delvec.partition_spec import PartitionField
from delvec.schema import Decimal, Primitive, arrow_type
from delvec.transforms import parse_transform
from iceberg_tables.values import physical, transformed

INT, LONG = Primitive("integer"), Primitive("long")
DAYS = [
    dt.date(1, 1, 1),
    dt.date(1969, 12, 1),
    dt.date(1969, 12, 31),
    dt.date(1970, 1, 1),
    dt.date(9999, 12, 31),
]
DAYS += [dt.date(2024, month, 1) + dt.timedelta(days=step) for month in (1, 2, 3) for step in (-1, 0, 28)]
TIMES = [dt.datetime.combine(day, time) for day in DAYS for time in (dt.time(0), dt.time(23, 59, 59, 999999))]
ZONED = [time.replace(tzinfo=dt.UTC) for time in TIMES]
TEXTS = ["", "a", "ab", "abc", "abcd", "abd", "é", "éa", "😀", "😀😀", "\uffff", "x" * 40, "xxy"]
BYTES = [
    b"",
    b"\x00",
    b"a",
    b"ab",
    b"abc",
    b"a\xff",
    b"a\xff\xff",
    b"\xff",
    b"\xff\xff",
    b"\xff\xffz",
    b"\xff\xfe",
]
NUMBERS = [Number(v).scaleb(-2) for v in (-9999999, -51, -50, -49, -1, 0, 1, 49, 50, 9999999, 9999998)]

CASES = [
    (
        INT,
        "int",
        [-(2**31), -11, -10, -1, 0, 1, 9, 10, 2**31 - 1],
        ["identity", "truncate[1]", "truncate[10]", "bucket[7]"],
    ),
    (
        LONG,
        "long",
        [-(2**63), -10, -1, 0, 9, 2**63 - 1, 2**63 - 11],
        ["identity", "truncate[10]", "bucket[7]"],
    ),
    (
        Primitive("string"),
        "string",
        TEXTS,
        ["identity", "truncate[1]", "truncate[2]", "truncate[3]", "bucket[7]"],
    ),
    (Primitive("binary"), "binary", BYTES, ["identity", "truncate[1]", "truncate[2]", "bucket[7]"]),
    (Decimal(7, 2), "decimal(7, 2)", NUMBERS, ["identity", "truncate[50]", "truncate[100]", "bucket[7]"]),
    (Primitive("date"), "date", DAYS, ["identity", "year", "month", "day", "bucket[7]"]),
    (
        Primitive("timestamp_ntz"),
        "timestamp",
        TIMES,
        ["identity", "year", "month", "day", "hour", "bucket[7]"],
    ),
    (Primitive("timestamp"), "timestamptz", ZONED, ["identity", "year", "month", "day", "hour", "bucket[7]"]),
]
EACH = [(*case[:3], transform) for case in CASES for transform in case[3]]


def wrapped(kind, value):
    """As numbers of Java overflow."""
    half = {"int": 1 << 31, "long": 1 << 63}.get(kind)
    return value if half is None else (value + half) % (2 * half) - half


def ranges(source, transform, numbers):
    """Of partition values as Avro has them."""
    parsed = parse_transform(transform)
    field = PartitionField("x", ("c",), parsed, parsed.result_type(source), 1000)
    values = partition_values(numbers, arrow_type(field.type))
    return source_range(field, source, values, values)


def partition_values(numbers, kind):
    if pa.types.is_decimal(kind):  # rounded down, it may have a digit more than the type
        wide = pa.array(numbers, pa.decimal128(38, kind.scale))
        return pa.Array.from_buffers(kind, len(wide), wide.buffers())
    if pa.types.is_temporal(kind):
        return pa.array(numbers, pa.int32() if kind == pa.date32() else pa.int64()).view(kind)
    return pa.array(numbers, kind)


def bounds(found, row):
    return [number_of(array[row]) for array in (found.lower, found.upper)]


def number_of(scalar):
    """Dates and times as numbers."""
    if pa.types.is_temporal(scalar.type) and scalar.is_valid:
        return scalar.value
    return scalar.as_py()


@pytest.mark.parametrize(
    ("source", "kind", "values", "transform"), EACH, ids=[f"{c[1]}-{c[3]}" for c in EACH]
)
def test_every_value_is_inside(source, kind, values, transform):
    partitions = [transformed(transform, kind, value) for value in values]
    if transform.startswith("truncate"):
        partitions = [wrapped(kind, partition) for partition in partitions]
    found = ranges(source, transform, partitions)
    some_range = False
    for row, value in enumerate(values):
        number = physical(kind, value)
        lower, upper = bounds(found, row)
        key = number.encode() if isinstance(number, str) else number
        if lower is not None:
            assert (lower.encode() if isinstance(lower, str) else lower) <= key, value
            some_range = True
        is_prefix = found.upper_is_prefix is not None and found.upper_is_prefix[row].as_py()
        if upper is not None:
            above = (upper.encode() if isinstance(upper, str) else upper) >= key
            assert above or (is_prefix and number.startswith(upper)), value
        if found.exact[row].as_py():
            assert lower == upper == number, value
        if found.hashed is not None:
            assert found.hashed.number_of(number) == found.hashed.numbers[row].as_py()
    assert some_range == (found.hashed is None)


@pytest.mark.parametrize(
    ("source", "transform", "partition", "expected"),
    [
        (INT, "truncate[10]", -10, (-10, -1)),
        (INT, "truncate[10]", 2**31 - 8, (None, None)),  # also of the least numbers, which overflow
        (Decimal(7, 2), "truncate[50]", Number("0.50"), (Number("0.50"), Number("0.99"))),
        (Primitive("date"), "year", 54, (19723, 20088)),
        (Primitive("date"), "month", 1, (31, 58)),
        (Primitive("date"), "month", 0, (-31, 30)),  # older writers rounded towards 1970
        (Primitive("date"), "month", -1, (-61, -1)),
        (Primitive("date"), "day", 0, (0, 0)),
        (Primitive("timestamp"), "day", 1, (86_400_000_000, 2 * 86_400_000_000 - 1)),
        (Primitive("timestamp"), "hour", 0, (-3_600_000_000, 3_600_000_000 - 1)),
        (Primitive("timestamp"), "hour", 2, (7_200_000_000, 10_800_000_000 - 1)),
        (Primitive("timestamp"), "year", 2**31 - 1, (None, None)),
        (
            Primitive("timestamp"),
            "hour",
            -(2**31),
            (-2147483649 * 3_600_000_000, -2147483648 * 3_600_000_000 + 3_599_999_999),
        ),
        (Primitive("date"), "year", -(2**31), (None, None)),
        (Primitive("string"), "truncate[2]", "ab", ("ab", "ab")),
        (Primitive("binary"), "truncate[2]", b"ab", (b"ab", b"ac")),
        (Primitive("binary"), "truncate[2]", b"a\xff", (b"a\xff", b"b")),
        (Primitive("binary"), "truncate[2]", b"\xff\xff", (b"\xff\xff", None)),
        (Primitive("binary"), "truncate[2]", b"a", (b"a", b"a")),
        (INT, "identity", None, (None, None)),
        (Primitive("timestamp"), "month", None, (None, None)),
    ],
)
def test_ranges(source, transform, partition, expected):
    assert tuple(bounds(ranges(source, transform, [partition]), 0)) == expected


def test_a_text_of_full_length_is_a_prefix():
    found = ranges(Primitive("string"), "truncate[2]", ["ab", "a", "é", ""])
    assert found.upper_is_prefix.to_pylist() == [True, False, True, False]  # é has two bytes
    assert found.exact.to_pylist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("transform", "source", "expected"),
    [
        ("identity", ("c",), True),
        ("identity", (), False),
        ("void", ("c",), False),
        ("weekday", ("c",), False),
    ],
)
def test_fields_that_say_nothing(transform, source, expected):
    field = PartitionField("x", source, parse_transform(transform), INT, 1000)
    assert says_something(field) is expected
