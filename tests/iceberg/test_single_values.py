"""Single values by columns, and the hash of buckets, against the test writer and pyiceberg."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from decimal import Decimal as Number

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delvec.iceberg.bucket_hash import bucket, murmur3
from delvec.iceberg.single_values import decode, encode
from delvec.iceberg.stats import values_of
from delvec.schema import Decimal, Fixed, Primitive, arrow_type
from iceberg_tables.values import physical, to_bytes

DAY = dt.date(1969, 12, 31)
MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)

CASES = [
    (Primitive("boolean"), "boolean", [True, False, None]),
    (Primitive("integer"), "int", [0, -1, 2**31 - 1, -(2**31), None]),
    (Primitive("long"), "long", [0, -1, 2**63 - 1, -(2**63), None]),
    (Primitive("float"), "float", [0.0, -1.5, float("inf"), None]),
    (Primitive("double"), "double", [0.0, -1.5, 1e300, None]),
    (Primitive("date"), "date", [DAY, dt.date(2024, 2, 29), None]),
    (Primitive("time"), "time", [dt.time(0), dt.time(23, 59, 59, 999999), None]),
    (Primitive("timestamp_ntz"), "timestamp", [MOMENT, dt.datetime(2024, 2, 29), None]),
    (Primitive("timestamp"), "timestamptz", [MOMENT.replace(tzinfo=dt.UTC), None]),
    (Primitive("string"), "string", ["", "a", "é😀", None]),
    (Primitive("binary"), "binary", [b"", b"\xff", None]),
    (Primitive("uuid"), "uuid", [uuid.UUID(int=7).bytes, None]),
    (Fixed(3), "fixed[3]", [b"abc", None]),
    (
        Decimal(9, 2),
        "decimal(9, 2)",
        [Number("0.00"), Number("-1.28"), Number("1.27"), Number("9999999.99"), None],
    ),
    (Decimal(38, 10), "decimal(38, 10)", [Number(-(10**37)).scaleb(-10), Number(10**37).scaleb(-10), None]),
]


@pytest.mark.parametrize(("data_type", "kind", "values"), CASES, ids=[case[1] for case in CASES])
def test_values_are_decoded(data_type, kind, values):
    encoded = pa.array(
        [None if value is None else to_bytes(kind, value) for value in values], pa.large_binary()
    )
    found = decode(encoded, data_type)
    assert found.type == arrow_type(data_type)
    assert found.equals(pa.array(values, arrow_type(data_type)))
    assert decode(encoded.slice(1), data_type).equals(found.slice(1))


@pytest.mark.parametrize(("data_type", "kind", "values"), CASES, ids=[case[1] for case in CASES])
def test_values_are_encoded(data_type, kind, values):
    expected = [None if value is None else to_bytes(kind, value) for value in values]
    array = pa.array(values, arrow_type(data_type))
    assert encode(array, data_type).equals(pa.array(expected, pa.large_binary()))
    assert encode(array.slice(1), data_type).to_pylist() == expected[1:]
    assert encode(array.slice(1, 1), data_type).to_pylist() == expected[1:2]  # maybe without a null
    assert encode(array.slice(0, 0), data_type).to_pylist() == []


@settings(deadline=None)
@given(
    st.integers(1, 38).flatmap(
        lambda digits: st.tuples(st.just(digits), st.integers(1 - 10**digits, 10**digits - 1))
    )
)
def test_decimals_are_as_short_as_those_of_pyiceberg(number):
    conversions = pytest.importorskip("pyiceberg.conversions")
    types = pytest.importorskip("pyiceberg.types")
    digits, unscaled = number
    value = Number(unscaled)
    data_type = Decimal(digits, 0)
    (found,) = encode(pa.array([value], arrow_type(data_type)), data_type).to_pylist()
    assert found == conversions.to_bytes(types.DecimalType(digits, 0), value)


@settings(deadline=None)
@given(
    st.lists(st.none() | st.floats(), max_size=4),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=4),
)
def test_numbers_are_those_of_pyiceberg(floats, integers):
    conversions = pytest.importorskip("pyiceberg.conversions")
    types = pytest.importorskip("pyiceberg.types")
    for values, name, kind in ((floats, "double", types.DoubleType()), (integers, "long", types.LongType())):
        expected = [None if value is None else conversions.to_bytes(kind, value) for value in values]
        assert encode(pa.array(values, arrow_type(Primitive(name))), Primitive(name)).to_pylist() == expected


@pytest.mark.parametrize("name", ["variant", "void", "geometry"])
def test_types_without_single_values(name):
    values = pa.nulls(2, arrow_type(Primitive(name)))
    assert encode(values, Primitive(name)).equals(pa.nulls(2, pa.large_binary()))


@pytest.mark.parametrize(
    ("data_type", "data", "expected"),
    [
        (Primitive("long"), b"\xff\xff\xff\xff", -1),
        (Primitive("double"), b"\x00\x00\xc0\x3f", 1.5),
        (Primitive("timestamp_ntz"), b"\xff\xff\xff\xff", dt.datetime(1969, 12, 31)),
        (Primitive("timestamp_ntz"), b"\xff\xff\xff\x7f", None),  # a date that the timestamp cannot hold
        (Decimal(20, 2), b"\xff", Number("-0.01")),
        (Primitive("long"), b"\xff\xff", None),
        (Primitive("integer"), b"\x00" * 8, None),
        (Primitive("float"), b"\x00" * 8, None),
        (Primitive("string"), b"\xc3", None),
        (Decimal(9, 2), b"", None),
        (Decimal(9, 2), b"\x00" * 17, None),
        (Fixed(3), b"abcd", None),
        (Primitive("variant"), b"x", None),
    ],
)
def test_the_length_says_the_type(data_type, data, expected):
    other = pa.array([b"\x01\x00\x00\x00\x00\x00\x00\x00", data, None], pa.large_binary())
    assert decode(other, data_type).to_pylist()[1:] == [expected, None]


def test_values_of_maps_by_key():
    kind = pa.large_list(pa.struct([("key", pa.int32()), ("value", pa.int64())]))
    rows = [{1: 10, 2: 20}, None, {}, {2: 21, 1: 11}, {3: 33}, {2: None}]
    lists = pa.array(
        [None if row is None else [{"key": k, "value": v} for k, v in row.items()] for row in rows], kind
    )
    for chunks in ([lists], [lists.slice(0, 2), lists.slice(2)], [lists.slice(1, 3)]):
        column = pa.chunked_array(chunks, kind)
        some = [None if row is None else dict(map(dict.values, row)) for row in column.to_pylist()]
        for key in (1, 2, 3, 4):
            assert values_of(column, key).to_pylist() == [(row or {}).get(key) for row in some]
    assert values_of(pa.chunked_array([], kind), 1).to_pylist() == []


SAMPLES = {
    "int": [0, 34, -1, 2**31 - 1],
    "long": [0, 34, -1, 2**63 - 1],
    "date": [DAY, dt.date(2017, 11, 16)],
    "time": [dt.time(22, 31, 8)],
    "timestamp": [MOMENT, dt.datetime(2017, 11, 16, 22, 31, 8)],
    "timestamptz": [MOMENT.replace(tzinfo=dt.UTC)],
    "string": ["", "iceberg", "é😀", *("x" * n for n in range(10))],
    "binary": [b"", b"\x00\x01\x02\x03"],
    "uuid": [uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")],
    "decimal(9, 2)": [Number("14.20"), Number("-0.01"), Number("0.00"), Number("-1.28"), Number("327.68")],
}
TYPES = {
    "int": Primitive("integer"),
    "timestamp": Primitive("timestamp_ntz"),
    "timestamptz": Primitive("timestamp"),
    "decimal(9, 2)": Decimal(9, 2),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_buckets_are_those_of_pyiceberg(kind):
    from pyiceberg import transforms, types

    names = {"int": "IntegerType", "timestamptz": "TimestamptzType", "uuid": "UUIDType"}
    theirs = (
        types.DecimalType(9, 2) if "(" in kind else getattr(types, names.get(kind, f"{kind.title()}Type"))()
    )
    for count in (1, 7, 100, 2**31 - 1):
        transform = transforms.BucketTransform(count).transform(theirs)
        for value in SAMPLES[kind]:
            number = physical(kind, value)
            given = value.bytes if isinstance(value, uuid.UUID) else number
            expected = transform(value if isinstance(value, uuid.UUID) else number)
            assert bucket(given, TYPES.get(kind, Primitive(kind)), count) == expected, value


def test_nanoseconds_have_the_bucket_of_their_microseconds():
    for micros in (-1, 0, 1510871468000001):
        for rest in (0, 1, 999):
            ours = bucket(micros * 1000 + rest, Primitive("timestamp_ns"), 1000)
            assert ours == bucket(micros, Primitive("timestamp"), 1000)


def test_types_without_buckets():
    assert bucket(1.5, Primitive("double"), 4) is None
    assert bucket(True, Primitive("boolean"), 4) is None


def test_murmur3_of_known_texts():
    assert murmur3(b"") == 0
    assert murmur3(b"iceberg") == 1210000089
    assert len({murmur3(random.Random(n).randbytes(n)) for n in range(50)}) == 50
