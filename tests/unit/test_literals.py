"""Literals: what value they have, and where they stand among a column's values."""

from __future__ import annotations

import math
from datetime import UTC
from decimal import Decimal as Number

import pytest

from delvec.predicate.comparison import Point, place, place_all
from delvec.predicate.date_times import day_number, instant, session_zone, wall_clock
from delvec.predicate.literals import Literal, Reading, read_literal
from delvec.predicate.parser import parse_expression
from delvec.schema import Array, Decimal, Primitive

READING = Reading(UTC, ansi=True)
MICROS = 1_000_000
NEW_YEAR = 1577836800 * MICROS  # 2020-01-01 00:00:00 UTC


def read(text, reading=READING):
    return read_literal(parse_expression(text), reading)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("NULL", "null", None),
        ("TRUE", "boolean", True),
        ("false", "boolean", False),
        ("5", "integer", 5),
        ("-5", "integer", -5),
        ("- 5", "integer", -5),
        ("+5", "integer", 5),
        ("(5)", "integer", 5),
        ("5L", "integer", 5),
        ("-5l", "integer", -5),
        ("2S", "integer", 2),
        ("3Y", "integer", 3),
        ("9223372036854775807", "integer", 2**63 - 1),
        ("9223372036854775808", "decimal", Number(2**63)),
        ("1.50", "decimal", Number("1.50")),
        ("-.5", "decimal", Number("-0.5")),
        ("5.", "decimal", Number(5)),
        ("1.5BD", "decimal", Number("1.5")),
        ("1.5D", "double", 1.5),
        ("0.1D", "double", 0.1),
        ("1e3", "double", 1000.0),
        ("-1.5E-3", "double", -0.0015),
        ("1.5F", "float", 1.5),
        ("'abc'", "string", "abc"),
        ('"abc"', "string", "abc"),
        ("''", "string", ""),
        ("X'1fA0'", "binary", b"\x1f\xa0"),
        ("X''", "binary", b""),
        ("DATE '1970-01-02'", "date", 1),
        ("date('1970-01-02')", "date", 1),
        ("CAST('1969-12-31' AS DATE)", "date", -1),
        ("TIMESTAMP '2020-01-01 00:00:00'", "timestamp", NEW_YEAR),
        ("TIMESTAMP_LTZ '2020-01-01T00:00:00Z'", "timestamp", NEW_YEAR),
        ("CAST('2020-01-01' AS TIMESTAMP)", "timestamp", NEW_YEAR),
        ("TIMESTAMP_NTZ '2020-01-01 00:00:00.5'", "timestamp_ntz", NEW_YEAR + 500_000),
        ("CAST(5 AS BIGINT)", "integer", 5),
        ("CAST(5.0 AS INT)", "integer", 5),
        ("CAST(1e3 AS INT)", "integer", 1000),
        ("CAST(0.1 AS DOUBLE)", "double", 0.1),
        ("CAST(1.5 AS DECIMAL(10,2))", "decimal", Number("1.50")),
        ("CAST(15 AS DECIMAL)", "decimal", Number(15)),
    ],
)
def test_reads(text, kind, value):
    assert read(text) == Literal(kind, value)


def test_reads_nan():
    literal = read("CAST('NaN' AS DOUBLE)")
    assert literal.kind == "double"
    assert math.isnan(literal.value)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "1 + 2",
        "- -5",
        "-(-5)",
        "-'5'",
        "5e",
        "1e400",
        "0.1F",
        "CAST(0.1 AS FLOAT)",
        "CAST('5' AS INT)",
        "CAST(5.5 AS INT)",
        "CAST(300 AS TINYINT)",
        "CAST(NULL AS INT)",
        "CAST(1.255 AS DECIMAL(10,2))",
        "CAST(1.5 AS DECIMAL)",
        "CAST(100 AS DECIMAL(2,0))",
        "CAST('Infinity' AS DOUBLE)",
        "CAST('1' AS DOUBLE)",
        "CAST(DATE '2020-01-01' AS TIMESTAMP)",
        "1234567890123456789012345678901234567890",
        "DATE '2020-1-1'",
        "DATE '2020-02-30'",
        "DATE 'today'",
        "TIMESTAMP '2020-01-01 00:00'",
        "TIMESTAMP_NTZ '2020-01-01 00:00:00Z'",
        "X'f'",
        "'a' 'b'",
        "'a''b'",
        "'a\"b'",
        "r'a'",
        "current_date()",
        "INTERVAL 1 DAY",
        "date_add(DATE '2020-01-01', 1)",
    ],
)
def test_leaves_what_is_no_certain_literal(text):
    assert read(text) is None


def test_strings_count_only_where_no_escape_was_in_the_text():
    assert read("'a'", Reading(UTC, ansi=True, plain_strings=False)) is None
    assert read("DATE '2020-01-01'", Reading(UTC, ansi=True, plain_strings=False)) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2020-01-01", 0),
        ("2020-01-01 00:00:01", 1),
        ("2020-01-01T00:00:01", 1),
        ("2020-01-01 00:00:01.25", 1.25),
        ("2020-01-01 00:00:01.000001Z", 1.000001),
        ("2020-01-01 02:00:00+02:00", 0),
        ("2019-12-31 18:30:00-05:30", 0),
    ],
)
def test_instants_in_utc(text, seconds):
    assert instant(text, UTC) == NEW_YEAR + round(seconds * MICROS)


@pytest.mark.parametrize(
    "text",
    [
        *("", "2020", "2020-01", "2020-1-1", " 2020-01-01", "2020-01-01 ", "2020-01-01 1:00:00"),
        *("2020-01-01 00:00", "2020-01-01 24:00:00", "2020-01-01 00:00:60", "2020-01-01 00:00:00.1234567"),
        *("2020-01-01 00:00:00 Europe/Berlin", "2020-01-01 00:00:00+19:00", "2020-01-01 00:00:00+02:75"),
        *("2020-01-01 00:00:00+2", "+2020-01-01", "12020-01-01", "0000-01-01", "2020-02-30", "now"),
        "٢٠٢٠-01-01",
    ],
)
def test_other_forms_of_time_are_not_read(text):
    assert instant(text, UTC) is None
    assert wall_clock(text) is None
    assert day_number(text) is None


def test_instants_follow_the_session_zone():
    berlin = session_zone("Europe/Berlin")
    assert instant("2020-01-01 01:00:00", berlin) == NEW_YEAR
    assert instant("2020-01-01 00:00:00Z", berlin) == NEW_YEAR
    assert instant("2020-01-01 05:30:00", session_zone("+05:30")) == NEW_YEAR


@pytest.mark.parametrize("text", ["2021-03-28 02:30:00", "2021-10-31 02:30:00", "1969-12-31 00:00:00"])
def test_local_times_that_are_none_or_two_or_old_are_not_read(text):
    assert instant(text, session_zone("Europe/Berlin")) is None
    assert instant(text + "Z", session_zone("Europe/Berlin")) is not None
    assert instant(text, UTC) is not None


def test_wall_clock_has_no_zone():
    assert wall_clock("2020-01-01 00:00:00") == NEW_YEAR
    assert wall_clock("2020-01-01 00:00:00Z") is None


@pytest.mark.parametrize("name", ["PST", "EST", "Nowhere/Town", "UTC+1", "+2", "+25:00", "../etc/passwd", ""])
def test_zones_that_java_may_read_otherwise_are_unknown(name):
    assert session_zone(name) is None


@pytest.mark.parametrize("name", ["UTC", "GMT", "Z", "+00:00", "Europe/Berlin", "America/Argentina/Salta"])
def test_zones_that_are_known(name):
    assert session_zone(name) is not None


INT, LONG, BYTE = Primitive("integer"), Primitive("long"), Primitive("byte")
FLOAT, DOUBLE = Primitive("float"), Primitive("double")
AFTER = {"exact": False}


@pytest.mark.parametrize(
    ("text", "data_type", "point"),
    [
        ("5", INT, Point(5)),
        ("5L", BYTE, Point(5)),
        ("5.0", INT, Point(5)),
        ("5.5", INT, Point(5, **AFTER)),
        ("-5.5", LONG, Point(-6, **AFTER)),
        ("5.5D", INT, Point(5, **AFTER)),
        ("300", BYTE, Point(127, **AFTER)),
        ("-300", BYTE, Point(None, **AFTER)),
        ("1.255", Decimal(10, 2), Point(Number("1.25"), **AFTER)),
        ("-1.255", Decimal(10, 2), Point(Number("-1.26"), **AFTER)),
        ("1.2500", Decimal(10, 2), Point(Number("1.25"))),
        ("7", Decimal(10, 2), Point(Number("7.00"))),
        ("1000", Decimal(4, 2), Point(Number("99.99"), **AFTER)),
        ("-1000", Decimal(4, 2), Point(None, **AFTER)),
        ("0.1", DOUBLE, Point(0.1)),
        ("3", DOUBLE, Point(3.0)),
        ("1.5F", DOUBLE, Point(1.5)),
        ("0.5", FLOAT, Point(0.5)),
        ("0.1", FLOAT, Point(0.09999999403953552, **AFTER)),
        ("1e300", FLOAT, Point(3.4028234663852886e38, **AFTER)),
        ("-1e300", FLOAT, Point(-math.inf, **AFTER)),
        ("'a'", Primitive("string"), Point("a")),
        ("X'61'", Primitive("binary"), Point(b"a")),
        ("TRUE", Primitive("boolean"), Point(value=True)),
        ("DATE '1970-01-02'", Primitive("date"), Point(1)),
        ("'1970-01-02'", Primitive("date"), Point(1)),
        ("'1970-01-02'", Primitive("timestamp"), Point(86400 * MICROS)),
        ("DATE '1970-01-02'", Primitive("timestamp"), Point(86400 * MICROS)),
        ("DATE '0999-01-01'", Primitive("timestamp_ntz"), Point(-30641760000 * MICROS)),
        ("'1970-01-02 00:00:01'", Primitive("timestamp_ntz"), Point(86401 * MICROS)),
    ],
)
def test_places(text, data_type, point):
    assert place(read(text), data_type, READING) == point


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("'5'", INT),
        ("TRUE", INT),
        ("1.5F", INT),
        ("9007199254740992D", LONG),
        ("CAST('NaN' AS DOUBLE)", LONG),
        ("99999999999999999999", LONG),  # Spark: TRUE or FALSE for NULL rows too
        ("0.0000000000000000001", LONG),  # 20 + 19 digits: the common type would round
        ("1.5D", Decimal(10, 2)),
        ("0.00000000000000001", Decimal(38, 10)),
        ("'1.5'", Decimal(10, 2)),
        ("16777217", FLOAT),
        ("'1.5'", DOUBLE),
        ("5", Primitive("string")),
        ("DATE '2020-01-01'", Primitive("string")),
        ("'a'", Primitive("binary")),
        ("1", Primitive("boolean")),
        ("'true'", Primitive("boolean")),
        ("'2020-01-01 00:00:00'", Primitive("date")),
        ("TIMESTAMP '2020-01-01 00:00:00'", Primitive("date")),
        ("TIMESTAMP_NTZ '2020-01-01 00:00:00'", Primitive("timestamp")),
        ("TIMESTAMP '2020-01-01 00:00:00'", Primitive("timestamp_ntz")),
        ("'2020-01-01 00:00:00Z'", Primitive("timestamp_ntz")),
        ("1577836800", Primitive("timestamp")),
        ("5", Array(INT)),
    ],
)
def test_literals_that_do_not_count(text, data_type):
    assert place(read(text), data_type, READING) is None


@pytest.mark.parametrize(
    ("texts", "data_type", "counts"),
    [
        (["1", "2.5", "3L"], INT, True),
        (["1", "2.5D"], INT, False),
        (["1", "'2'"], INT, False),
        (["123456789012345678.5", "0.0000000000000000005"], LONG, False),
        (["1", "2.5", "3D"], DOUBLE, True),
        (["1", "0.1"], FLOAT, True),
        (["1", "1.25"], Decimal(38, 10), True),
        (["1.25", "12345678901234567890123456789.0"], Decimal(20, 10), False),
        (["'2020-01-01'", "'2020-01-02'"], Primitive("date"), True),
        (["'2020-01-01'", "DATE '2020-01-02'"], Primitive("date"), False),
        (["'a'", "'b'"], Primitive("string"), True),
        ([], INT, True),
    ],
)
def test_lists_of_literals(texts, data_type, counts):
    points = place_all([read(text) for text in texts], data_type, READING)
    assert (points is not None) == counts


def test_lists_of_strings_are_times_only_in_ansi_mode():
    literals, kind = [read("'2020-01-01 00:00:00'")], Primitive("timestamp")
    assert place_all(literals, kind, READING) == [Point(NEW_YEAR)]
    assert place_all(literals, kind, Reading(UTC, ansi=False)) is None
