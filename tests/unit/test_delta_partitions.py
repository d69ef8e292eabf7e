"""Partition values of every type."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest

from delvec.delta.partition_values import partition_values
from delvec.errors import FormatError
from delvec.schema import DataType, Decimal, Field, Primitive

UTC = dt.UTC
MAPS = pa.map_(pa.string(), pa.string())


def values(kind: DataType, *texts: str | None, time_zone: str = "UTC") -> list[Any]:
    maps = pa.chunked_array([pa.array([{"phys ical": text} for text in texts], MAPS)])
    field = Field("logical", kind, physical_name="phys ical")
    return partition_values(maps, field, time_zone=time_zone).to_pylist()


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Primitive("string"), "a b/c=%20é'\"", "a b/c=%20é'\""),
        (Primitive("string"), "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"),
        (Primitive("byte"), "-128", -128),
        (Primitive("short"), "7", 7),
        (Primitive("integer"), "-2147483648", -(2**31)),
        (Primitive("long"), "9223372036854775807", 2**63 - 1),
        (Primitive("float"), "1.5", 1.5),
        (Primitive("double"), "-Infinity", -math.inf),
        (Primitive("double"), "Infinity", math.inf),
        (Primitive("boolean"), "true", True),
        (Primitive("boolean"), "false", False),
        (Primitive("date"), "1969-12-31", dt.date(1969, 12, 31)),
        (Primitive("timestamp"), "2024-02-03T04:05:06.000007Z", dt.datetime(2024, 2, 3, 4, 5, 6, 7, UTC)),
        (Primitive("timestamp"), "2024-02-03 04:05:06.5", dt.datetime(2024, 2, 3, 4, 5, 6, 500000, UTC)),
        (Primitive("timestamp"), "2024-02-03 04:05:06", dt.datetime(2024, 2, 3, 4, 5, 6, 0, UTC)),
        (Primitive("timestamp_ntz"), "2024-02-03 04:05:06.000007", dt.datetime(2024, 2, 3, 4, 5, 6, 7)),
        (Primitive("binary"), "\x01é", b"\x01\xc3\xa9"),
        (Decimal(5, 2), "-123.45", decimal.Decimal("-123.45")),
        (Decimal(5, 2), "1", decimal.Decimal("1.00")),
        (Decimal(38, 0), "9" * 38, decimal.Decimal("9" * 38)),
    ],
)
def test_a_value_of_each_type(kind: DataType, text: str, value: Any) -> None:
    assert values(kind, text, None, text, "") == [value, None, value, None]


def test_nan() -> None:
    (found,) = values(Primitive("double"), "NaN")
    assert math.isnan(found)


def test_a_local_timestamp_is_read_in_the_readers_zone() -> None:
    (found,) = values(Primitive("timestamp"), "2024-07-01 12:00:00", time_zone="Europe/Berlin")
    assert found == dt.datetime(2024, 7, 1, 10, tzinfo=UTC)


def test_an_absent_key_and_an_absent_map_are_null() -> None:
    maps = pa.chunked_array([pa.array([{}, None, {"other": "1"}], MAPS), pa.array([{"p": "2"}], MAPS)])
    assert partition_values(maps, Field("p", Primitive("long"))).to_pylist() == [None, None, None, 2]


def test_no_files_at_all() -> None:
    assert partition_values(pa.chunked_array([], MAPS), Field("p", Primitive("long"))).to_pylist() == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Primitive("integer"), "x"),
        (Primitive("integer"), "2147483648"),
        (Primitive("byte"), "300"),
        (Primitive("boolean"), "yes"),
        (Primitive("date"), "2024-13-01"),
        (Primitive("timestamp"), "yesterday"),
        (Primitive("double"), "1,5"),
        (Decimal(5, 2), "1234.5"),
        (Decimal(5, 2), "1.234"),
        (Decimal(5, 2), "NaN"),
    ],
)
def test_what_is_no_such_value_is_refused(kind: DataType, text: str) -> None:
    with pytest.raises(FormatError, match=r"partition value of column logical is .* expected a"):
        values(kind, text)
