"""Partition values of every type."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest

from delvec.delta.partition_values import partition_folders, partition_maps, partition_values
from delvec.errors import FormatError, InvalidOperationError, UnsupportedFeatureError
from delvec.schema import DataType, Decimal, Field, Primitive, Struct, arrow_type

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


NOON = dt.datetime(2024, 2, 29, 12, 30)


def written(kind: DataType, value: Any) -> tuple[str | None, str]:
    """The text in the log, and the folder, of a file with this partition value."""
    field = Field("logical", kind, physical_name="phys ical")
    struct = pa.struct([("logical", arrow_type(kind))])
    column = pa.chunked_array([pa.array([{"logical": value}], struct)])
    (in_log,) = partition_maps(column, [field])
    (folder,) = partition_folders(Struct((Field("id", kind), field)), ["logical"], column)
    return in_log["phys ical"], folder.removeprefix("phys ical=")


@pytest.mark.parametrize(
    ("kind", "value", "text", "folder"),
    [
        (Primitive("string"), "a b/c=%é'", "a b/c=%é'", "a b%2Fc%3D%25é%27"),
        (Primitive("string"), "", None, "__HIVE_DEFAULT_PARTITION__"),
        (Primitive("string"), None, None, "__HIVE_DEFAULT_PARTITION__"),
        (Primitive("byte"), -128, "-128", "-128"),
        (Primitive("long"), 2**63 - 1, "9223372036854775807", "9223372036854775807"),
        (Primitive("boolean"), False, "false", "false"),
        (Primitive("date"), dt.date(1, 2, 3), "0001-02-03", "0001-02-03"),
        (Primitive("timestamp"), NOON, "2024-02-29T12:30:00.000000Z", "2024-02-29 12%3A30%3A00"),
        (Primitive("timestamp_ntz"), NOON, "2024-02-29 12:30:00", "2024-02-29 12%3A30%3A00"),
        (
            Primitive("timestamp_ntz"),
            NOON.replace(microsecond=500),
            "2024-02-29 12:30:00.0005",
            "2024-02-29 12%3A30%3A00.0005",
        ),
        (Decimal(10, 2), decimal.Decimal("-1.50"), "-1.50", "-1.50"),
        (Decimal(20, 18), decimal.Decimal("0E-18"), "0.000000000000000000", "0.000000000000000000"),
    ],
)
def test_a_written_value_of_each_type(kind: DataType, value: Any, text: str | None, folder: str) -> None:
    assert written(kind, value) == (text, folder)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (0.5, "0.5"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (1234567.0, "1234567.0"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (-1.25e300, "-1.25E300"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_written_doubles_are_in_the_form_of_java(value: float, text: str) -> None:
    assert written(Primitive("double"), value) == (text, text)


def test_written_floats_have_the_digits_of_a_float() -> None:
    assert written(Primitive("float"), 0.1) == ("0.1", "0.1")
    assert written(Primitive("float"), 3.4e38)[0] == "3.4E38"


def test_written_values_that_the_log_cannot_have() -> None:
    with pytest.raises(UnsupportedFeatureError, match="partition column logical is binary"):
        written(Primitive("binary"), b"a")
    day = pa.array([4_000_000], pa.int32()).cast(pa.date32())
    days = pa.chunked_array([pa.StructArray.from_arrays([day], ["d"])])
    with pytest.raises(InvalidOperationError, match=r"column d .* between the years 1 and 9999"):
        partition_maps(days, [Field("d", Primitive("date"))])
