"""Statistics from JSON texts to columns, and what does not fit."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from typing import Any

import pyarrow as pa
import pytest

from delvec.delta.stats.parser import ParsedColumn, ParsedStats, parse
from delvec.footers.statistics import MeasuredColumn
from delvec.schema import Array, DataType, Decimal, Primitive

LONG = Primitive("long")


def parsed(columns: list[MeasuredColumn], *texts: str | None, chunks: int = 1) -> ParsedStats:
    size = max(1, len(texts) // chunks)
    arrays = [pa.array(texts[i : i + size], pa.string()) for i in range(0, len(texts), size)]
    return parse(pa.table({"stats": pa.chunked_array(arrays, pa.string())}), columns)


def bounds(kind: DataType, low: Any, high: Any = None, nulls: Any = 0) -> tuple[Any, Any, Any]:
    text = json.dumps(
        {"numRecords": 3, "minValues": {"c": low}, "maxValues": {"c": high}, "nullCount": {"c": nulls}}
    )
    (found,) = parsed([MeasuredColumn(("c",), kind)], text).columns
    return found.lower[0].as_py(), found.upper[0].as_py(), found.null_count[0].as_py()


@pytest.mark.parametrize(
    ("kind", "low", "high", "value_low", "value_high"),
    [
        (Primitive("byte"), -128, 127, -128, 127),
        (Primitive("integer"), 1, 2, 1, 2),
        (LONG, -(2**63), 2**63 - 1, -(2**63), 2**63 - 1),
        (Primitive("double"), -0.5, 1e300, -0.5, 1e300),
        (Primitive("string"), "a", "z\nz", "a", "z\nz"),
        (Primitive("date"), "1900-01-01", "2024-02-29", dt.date(1900, 1, 1), dt.date(2024, 2, 29)),
        (Decimal(10, 2), 1.25, "3", decimal.Decimal("1.25"), decimal.Decimal("3.00")),
    ],
)
def test_bounds_of_each_type(kind: DataType, low: Any, high: Any, value_low: Any, value_high: Any) -> None:
    assert bounds(kind, low, high, 2) == (value_low, value_high, 2)


def test_a_float_bound_is_the_float_not_the_double_of_its_text() -> None:
    low, high, _ = bounds(Primitive("float"), 0.1, 0.1)
    assert low == high == pa.scalar(0.1, pa.float32()).as_py() != 0.1


def test_the_upper_bound_of_a_timestamp_is_widened_to_the_next_millisecond() -> None:
    low, high, _ = bounds(Primitive("timestamp"), "2024-01-01T00:00:00.123Z", "2024-01-01T01:00:00.123+01:00")
    assert low == dt.datetime(2024, 1, 1, 0, 0, 0, 123000, dt.UTC)
    assert high == dt.datetime(2024, 1, 1, 0, 0, 0, 123999, dt.UTC)
    low, high, _ = bounds(Primitive("timestamp_ntz"), "2024-01-01T00:00:00.123", "2024-01-01")
    assert (low, high) == (dt.datetime(2024, 1, 1, 0, 0, 0, 123000), dt.datetime(2024, 1, 1, 0, 0, 0, 999))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Primitive("integer"), 2**31),
        (Primitive("integer"), "5"),
        (Primitive("integer"), 1.5),
        (Primitive("integer"), True),
        (Primitive("integer"), [1]),
        (Primitive("string"), 5),
        (Primitive("date"), "someday"),
        (Primitive("date"), 17),
        (Primitive("timestamp"), "2024-01-01T00:00:00"),
        (Decimal(4, 2), 12345.6),
        (Decimal(4, 2), 1.234),
        (Decimal(4, 2), "NaN"),
    ],
)
def test_a_bound_that_does_not_fit_is_unknown_and_the_others_stay(kind: DataType, value: Any) -> None:
    text = json.dumps({"numRecords": 3, "minValues": {"c": value, "d": 1}, "maxValues": {"d": 2}})
    good = json.dumps({"numRecords": 4, "minValues": {"d": 5}})
    found = parsed([MeasuredColumn(("c",), kind), MeasuredColumn(("d",), LONG)], good, text)
    assert found.record_count.to_pylist() == [4, 3]
    assert found.columns[0].lower.to_pylist() == [None, None]
    assert found.columns[1].lower.to_pylist() == [5, 1]


def test_a_nan_written_as_text_is_a_nan() -> None:
    low, high, _ = bounds(Primitive("double"), "NaN", "Infinity")
    assert math.isnan(low)
    assert high == math.inf


@pytest.mark.parametrize("bad", ["", " ", "null", "[]", "{", "{}{}", '{"numRecords":"x"}', "\n", "nope"])
def test_a_text_that_is_no_object_is_as_if_absent_and_moves_nothing(bad: str) -> None:
    good = '{"numRecords":%d,"nullCount":{"c":1}}'
    found = parsed([MeasuredColumn(("c",), LONG)], good % 1, bad, None, good % 2, bad, good % 3, chunks=2)
    assert found.record_count.to_pylist() == [1, None, None, 2, None, 3]
    assert found.columns[0].null_count.to_pylist() == [1, None, None, 1, None, 1]


def test_a_text_with_line_breaks_inside_is_read() -> None:
    pretty = json.dumps({"numRecords": 7, "minValues": {"c": 1}}, indent=2)
    found = parsed([MeasuredColumn(("c",), LONG)], '{"numRecords":1}', pretty)
    assert found.record_count.to_pylist() == [1, 7]
    assert found.columns[0].lower.to_pylist() == [None, 1]


def test_tight_is_true_unless_it_says_no() -> None:
    found = parsed([], '{"tightBounds":false}', '{"tightBounds":true}', "{}", None)
    assert found.tight.to_pylist() == [False, True, True, True]


def test_nested_columns_and_columns_without_bounds() -> None:
    text = '{"numRecords":2,"minValues":{"s":{"a b":{"c":5}}},"nullCount":{"s":{"a b":{"c":1}},"l":2}}'
    columns = [
        MeasuredColumn(("s", "a b", "c"), LONG),
        MeasuredColumn(("l",), Array(LONG)),
        MeasuredColumn(("gone",), LONG),
    ]
    first, second, third = parsed(columns, text).columns
    assert facts(first) == (5, None, 1)
    assert facts(second) == (None, None, 2)
    assert facts(third) == (None, None, None)


def facts(stats: ParsedColumn) -> tuple[Any, Any, Any]:
    return stats.lower[0].as_py(), stats.upper[0].as_py(), stats.null_count[0].as_py()


def test_parsed_statistics_are_used_where_there_is_no_text() -> None:
    struct = pa.array(
        [
            {
                "numRecords": 5,
                "minValues": {"c": 1},
                "maxValues": {"c": 9},
                "nullCount": {"c": 0},
                "tightBounds": False,
            }
        ]
    )
    table = pa.concat_tables(
        [
            pa.table({"stats": pa.nulls(1, pa.string()), "stats_parsed": struct}),
            pa.table({"stats": ['{"numRecords":6,"minValues":{"c":2}}']}),
        ],
        promote_options="default",
    )
    found = parse(
        table.combine_chunks(), [MeasuredColumn(("c",), LONG), MeasuredColumn(("t",), Primitive("timestamp"))]
    )
    assert found.record_count.to_pylist() == [5, 6]
    assert found.tight.to_pylist() == [False, True]
    assert found.columns[0].lower.to_pylist() == [1, 2]
    assert found.columns[0].upper.to_pylist() == [9, None]
    assert found.columns[1].lower.to_pylist() == [None, None]


def test_no_files() -> None:
    found = parsed([MeasuredColumn(("c",), LONG)])
    assert len(found.record_count) == len(found.tight) == len(found.columns[0].lower) == 0
