"""Conditions over facts of files: what may match, what matches whole, and what is refused."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal as Number

import numpy as np
import pyarrow as pa
import pytest

from condition_cases import Facts
from delvec.errors import InvalidOperationError
from delvec.file_facts import ColumnStats, ConstantColumn
from delvec.predicate import SqlSettings, parse
from delvec.schema import Array, Decimal, Field, Map, Primitive, Struct, arrow_type, char, varchar

INT, STRING, DOUBLE = Primitive("integer"), Primitive("string"), Primitive("double")

SCHEMA = Struct(
    (
        Field("a", INT),
        Field("b", INT),
        Field("s", STRING),
        Field("x", DOUBLE),
        Field("flag", Primitive("boolean")),
        Field("day", Primitive("date")),
        Field("at", Primitive("timestamp")),
        Field("price", Decimal(10, 2)),
        Field("raw", Primitive("binary")),
        Field("address", Struct((Field("City", STRING), Field("geo", Struct((Field("lat", DOUBLE),)))))),
        Field("list", Array(Struct((Field("v", INT),)))),
        Field("tags", Map(STRING, STRING)),
        Field("doc", Primitive("variant")),
        Field("a.b", INT),
        Field("code", char(5)),
        Field("label", varchar(5)),
        Field("name", STRING, collated=True),
        Field("box", Struct((Field("c", STRING),)), collated=True),
    )
)


def stats(kind, lower, upper, nulls=0, records=10, **more):
    """One file's facts about one column."""
    return ColumnStats(
        pa.array([lower], arrow_type(kind)),
        pa.array([upper], arrow_type(kind)),
        pa.array([nulls], pa.int64()),
        pa.array([records], pa.int64()),
        **{name: pa.array([value]) for name, value in more.items()},
    )


def judged(text, column, path=("a",), records=10, schema=SCHEMA, **settings):
    """Whether one file may match and whether it matches whole."""
    facts = Facts(pa.array([records], pa.int64()), pa.array([False]), {path: column} if column else {})
    matches = parse(text, schema, SqlSettings(**settings)).match(facts)
    assert matches.may.dtype == matches.only.dtype == np.bool_
    return "whole" if matches.only[0] else "some" if matches.may[0] else "none"


# Bounds


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # a is between 3 and 7, never NULL
        ("a = 2", "none"),
        ("a = 3", "some"),
        ("a = 8", "none"),
        ("a <> 2", "whole"),
        ("a <> 5", "some"),
        ("a < 3", "none"),
        ("a < 4", "some"),
        ("a < 8", "whole"),
        ("a <= 2", "none"),
        ("a <= 3", "some"),
        ("a <= 7", "whole"),
        ("a > 7", "none"),
        ("a > 6", "some"),
        ("a > 2", "whole"),
        ("a >= 8", "none"),
        ("a >= 7", "some"),
        ("a >= 3", "whole"),
        ("8 > a", "whole"),
        ("3 > a", "none"),
        ("7 >= a", "whole"),
        ("2 <= a", "whole"),
        ("7 < a", "none"),
        ("2 = a", "none"),
        ("a <=> 2", "none"),
        ("a <=> 5", "some"),
        ("a IS DISTINCT FROM 2", "whole"),
        ("a IS NOT DISTINCT FROM 2", "none"),
        ("a BETWEEN 0 AND 2", "none"),
        ("a BETWEEN 7 AND 9", "some"),
        ("a BETWEEN 3 AND 7", "whole"),
        ("a NOT BETWEEN 3 AND 7", "none"),
        ("a NOT BETWEEN 8 AND 9", "whole"),
        ("a BETWEEN 9 AND 1", "none"),
        ("a IN (1, 2, 8)", "none"),
        ("a IN (1, 5)", "some"),
        ("a NOT IN (1, 2, 8)", "whole"),
        ("a NOT IN (5)", "some"),
        ("a NOT IN (1, NULL)", "none"),
        ("a IN (1, NULL)", "none"),
        ("a IN (5, NULL)", "some"),
        ("a IS NULL", "none"),
        ("a IS NOT NULL", "whole"),
        ("a <=> NULL", "none"),
        ("NOT a <=> NULL", "whole"),
        ("a IS DISTINCT FROM NULL", "whole"),
        ("a = NULL", "none"),
        ("NOT (a = NULL)", "none"),
        ("a < 2.5", "none"),
        ("a > 2.5", "whole"),
        ("a = 4.5", "none"),
        ("a <> 4.5", "whole"),
        ("a < 3.5", "some"),
        ("a < 99999999999", "whole"),
        ("a > 99999999999", "none"),
        ("a > -99999999999", "whole"),
        ("a = 99999999999", "none"),
        ("(((a))) > ((2))", "whole"),
        ("A > 2", "whole"),
        ("`a` > 2", "whole"),
    ],
)
def test_bounds(text, answer):
    assert judged(text, stats(INT, 3, 7)) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("TRUE", "whole"),
        ("FALSE", "none"),
        ("NULL", "none"),
        ("NOT NULL", "none"),
        ("a > 2 AND TRUE", "whole"),
        ("a > 2 AND NULL", "none"),
        ("a > 2 OR NULL", "whole"),
        ("a > 5 OR NULL", "some"),
        ("NOT (a > 2)", "none"),
        ("NOT (a < 2)", "whole"),
        ("NOT a < 2 AND a > 2", "whole"),
        ("a > 5 OR a <= 5", "some"),
        ("a > 2 OR a < 2 AND FALSE", "whole"),
        ("(a > 2) IS TRUE", "whole"),
        ("(a > 2) IS NOT TRUE", "none"),
        ("(a > 9) IS FALSE", "whole"),
        ("(a > 9) IS NULL", "none"),
        ("(a = NULL) IS NULL", "whole"),
        ("a > 2 IS NOT NULL", "whole"),
        ("! a < 2", "whole"),
        ("(NULL AND a > 2) IS NULL", "whole"),
        ("(a > 2 AND NULL) IS NULL", "whole"),
        ("(NULL AND a > 9) IS NULL", "none"),
        ("(NULL OR a > 9) IS NULL", "whole"),
        ("(a > 9 OR NULL) IS NULL", "whole"),
        ("(NULL OR a > 2) IS NULL", "none"),
        ("1 = 1", "whole"),
        ("1 <> 1", "none"),
        ("2 >= 3 OR 3 > 2", "whole"),
        ("1 IS DISTINCT FROM 2", "whole"),
        ("1 IS DISTINCT FROM 1", "none"),
        ("1 <=> 1 AND 1 < 2", "whole"),
    ],
)
def test_logic(text, answer):
    assert judged(text, stats(INT, 3, 7)) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # a is between 3 and 7, or NULL
        ("a > 2", "some"),
        ("a > 9", "none"),
        ("a IS NULL", "some"),
        ("a IS NOT NULL", "some"),
        ("NOT (a > 9)", "some"),
        ("a > 2 OR a IS NULL", "some"),
        ("a <=> 9", "none"),
        ("NOT a <=> 9", "whole"),
        ("(a > 9) IS NOT TRUE", "whole"),
        ("(a > 2) IS NOT FALSE", "whole"),
        ("a IN (9) IS TRUE", "none"),
        ("a NOT IN (9)", "some"),
    ],
)
@pytest.mark.parametrize("nulls", [1, None, 9, 11, -1])
def test_some_rows_may_be_null(text, answer, nulls):
    assert judged(text, stats(INT, 3, 7, nulls=nulls)) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a = 5", "none"),
        ("a <> 5", "none"),
        ("NOT a = 5", "none"),
        ("a IN (5)", "none"),
        ("a NOT IN (5)", "none"),
        ("a IS NULL", "whole"),
        ("a IS NOT NULL", "none"),
        ("a <=> NULL", "whole"),
        ("NOT a <=> 5", "whole"),
        ("(a = 5) IS NULL", "whole"),
    ],
)
@pytest.mark.parametrize("bounds", [(None, None), (3, 7)])
def test_all_rows_are_null(text, answer, bounds):
    assert judged(text, stats(INT, *bounds, nulls=10)) == answer


def test_null_count_of_a_file_whose_rows_are_not_counted():
    assert judged("a IS NULL", stats(INT, None, None, nulls=10, records=None)) == "some"
    assert judged("a IS NULL", stats(INT, None, None, nulls=0, records=None)) == "none"


@pytest.mark.parametrize("text", ["a = 5", "a IS NULL", "a IS NOT NULL", "a > 100", "TRUE", "FALSE"])
def test_a_file_recorded_as_empty_is_not_decided_upon(text):
    assert judged(text, stats(INT, 3, 7, records=0), records=0) == "some"


def test_a_column_recorded_as_empty_is_not_one_of_nulls():
    assert judged("a = 5", stats(INT, None, None, nulls=0, records=0), records=None) == "some"


@pytest.mark.parametrize(
    ("lower", "upper", "text", "answer"),
    [
        (None, 7, "a > 7", "none"),
        (None, 7, "a < -100", "some"),
        (None, 7, "a < 8", "whole"),
        (3, None, "a < 3", "none"),
        (3, None, "a > 100", "some"),
        (3, None, "a >= 3", "whole"),
        (3, None, "a IN (1, 2)", "none"),
        (None, None, "a = 5", "some"),
        (None, None, "a = 5 AND a IS NULL", "none"),
    ],
)
def test_missing_bounds(lower, upper, text, answer):
    assert judged(text, stats(INT, lower, upper)) == answer


@pytest.mark.parametrize("text", ["a = 5", "a > 9", "a < 0", "a IN (5)", "a <> 5"])
def test_bounds_that_contradict_each_other_are_unknown(text):
    assert judged(text, stats(INT, 7, 3)) == "some"


def test_one_value():
    assert judged("a IN (1, 5)", stats(INT, 5, 5)) == "whole"
    assert judged("a NOT IN (1, 5)", stats(INT, 5, 5)) == "none"
    assert judged("a = 5", stats(INT, 5, 5)) == "whole"
    assert judged("a <=> 5", stats(INT, 5, 5)) == "whole"


@pytest.mark.parametrize(
    ("kind", "path", "text"),
    [
        (INT, "a", "a IN ({})"),
        (DOUBLE, "x", "x IN ({})"),
        (Decimal(10, 2), "price", "price IN ({})"),
        (STRING, "s", "s IN ({})"),
        (Primitive("date"), "day", "day IN ({})"),
        (Primitive("timestamp"), "at", "at IN ({})"),
    ],
)
def test_long_lists(kind, path, text):
    numbers = [n for n in range(100, 160) if n not in (130, 131)]

    def literal(n):
        return {"s": f"'{n}'", "day": f"DATE '2000-01-01' + {n}"}.get(path, str(n))

    if path in ("day", "at"):
        days = [f"2000-{1 + n // 25:02}-{1 + n % 25:02}" for n in range(60)]
        items = [f"DATE '{day}'" for day in days]
        inside = np.datetime64(days[7], "us" if path == "at" else "D").item()
        outside = np.datetime64("1999-01-01", "us" if path == "at" else "D").item()
    else:
        items = [literal(n) for n in numbers]
        inside, outside = {"s": ("107", "99")}.get(path, (107, 99))
        if path == "price":
            inside, outside = Number(107), Number(99)
    text = text.format(", ".join(items))
    nan = {"nan_count": 0} if path == "x" else {}
    assert judged(text, stats(kind, inside, inside, **nan), (path,)) == "whole"
    assert judged(text, stats(kind, outside, outside, **nan), (path,)) == "none"
    assert judged(text, stats(kind, None, None, **nan), (path,)) == "some"
    assert judged(text, stats(kind, min(inside, outside), max(inside, outside), **nan), (path,)) == "some"


def test_long_lists_of_numbers_see_the_gaps():
    text = f"a IN ({', '.join(map(str, range(0, 1000, 10)))})"
    assert judged(text, stats(INT, 501, 509)) == "none"
    assert judged(text, stats(INT, 501, 510)) == "some"
    assert judged(text, stats(INT, 991, 2000)) == "none"


# Types


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("x > 7", "some"),  # a NaN is above all
        ("x > 2", "whole"),
        ("x < 8", "some"),
        ("x < 3", "none"),
        ("x = 8", "none"),
        ("x <> 8", "whole"),
        ("x = CAST('NaN' AS DOUBLE)", "some"),
        ("x < CAST('NaN' AS DOUBLE)", "some"),
        ("x <= CAST('NaN' AS DOUBLE)", "whole"),
        ("x > CAST('NaN' AS DOUBLE)", "none"),
        ("x IN (8, CAST('NaN' AS DOUBLE))", "some"),
    ],
)
@pytest.mark.parametrize("counted", [{}, {"nan_count": 1}, {"nan_count": None}])
def test_nan_may_be_there(text, answer, counted):
    column = stats(DOUBLE, 3.0, 7.0)
    if counted:
        column = stats(DOUBLE, 3.0, 7.0, nan_count=counted["nan_count"])
        if counted["nan_count"] is None:
            column = ColumnStats(
                column.lower,
                column.upper,
                column.null_count,
                column.record_count,
                nan_count=pa.nulls(1, pa.int64()),
            )
    assert judged(text, column, ("x",)) == answer


def test_no_nan_is_there():
    column = stats(DOUBLE, 3.0, 7.0, nan_count=0)
    assert judged("x > 7", column, ("x",)) == "none"
    assert judged("x < 8", column, ("x",)) == "whole"
    assert judged("x = CAST('NaN' AS DOUBLE)", column, ("x",)) == "none"
    assert judged("x < CAST('NaN' AS DOUBLE)", column, ("x",)) == "whole"


def test_nan_bounds_are_unknown():
    assert judged("x < 3", stats(DOUBLE, math.nan, 7.0, nan_count=0), ("x",)) == "some"
    assert judged("x > 9", stats(DOUBLE, 3.0, math.nan, nan_count=0), ("x",)) == "some"
    assert judged("x < 3", stats(DOUBLE, 3.0, math.nan, nan_count=0), ("x",)) == "none"


def test_zeros_are_equal():
    for bound in (0.0, -0.0):
        column = stats(DOUBLE, bound, bound, nan_count=0)
        assert judged("x = -0.0D", column, ("x",)) == "whole"
        assert judged("x IN (0)", column, ("x",)) == "whole"
        assert judged("x < 0", column, ("x",)) == "none"
        assert judged(f"x IN ({', '.join(map(str, range(30)))})", column, ("x",)) == "whole"


def test_strings_compare_by_bytes():
    # U+FFFF sorts below U+10000 by bytes, above it by the code units of UTF-16.
    assert judged("s > '\uffff'", stats(STRING, "\U00010000", "\U00010001"), ("s",)) == "whole"
    assert judged("s < 'z'", stats(STRING, "é", "ö"), ("s",)) == "none"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # s is between 'ab' and 'ad…'
        ("s = 'ad'", "some"),
        ("s = 'adz'", "some"),
        ("s = 'ae'", "none"),
        ("s > 'ad'", "some"),
        ("s > 'adz'", "some"),
        ("s > 'ae'", "none"),
        ("s >= 'adzz'", "some"),
        ("s < 'ae'", "whole"),
        ("s <= 'ad'", "some"),
        ("s IN ('adz', 'b')", "some"),
        ("s IN ('b', 'c')", "none"),
        ("s LIKE 'adz%'", "some"),
        ("s LIKE 'ae%'", "none"),
        ("s LIKE 'a%'", "whole"),
    ],
)
def test_cut_upper_bounds(text, answer):
    assert judged(text, stats(STRING, "ab", "ad", upper_is_prefix=True), ("s",)) == answer


def test_cut_upper_bound_that_the_lower_bound_starts_with():
    column = stats(STRING, "adm", "ad", upper_is_prefix=True)
    assert judged("s = 'ac'", column, ("s",)) == "none"
    assert judged("s >= 'adm'", column, ("s",)) == "whole"
    wrong = stats(STRING, "b", "ad", upper_is_prefix=True)
    assert judged("s = 'ac'", wrong, ("s",)) == "some"


def test_a_value_equal_to_a_cut_bound_is_not_the_only_one():
    column = stats(STRING, "ad", "ad", upper_is_prefix=True)
    assert judged("s = 'ad'", column, ("s",)) == "some"
    assert judged("s IN ('ad')", column, ("s",)) == "some"
    assert judged(f"s IN ('ad', {', '.join(repr(str(n)) for n in range(30))})", column, ("s",)) == "some"
    assert judged("s = 'ad'", stats(STRING, "ad", "ad", upper_is_prefix=False), ("s",)) == "whole"


def test_cut_bounds_of_bytes_say_nothing():
    column = stats(Primitive("binary"), b"a", b"\xff", upper_is_prefix=True)
    assert judged("raw > X'ffff'", column, ("raw",)) == "some"
    assert judged("raw > X'ffff'", stats(Primitive("binary"), b"a", b"\xff"), ("raw",)) == "none"


def test_a_very_long_literal_against_a_cut_bound():
    column = stats(STRING, "x", "x" * 32, upper_is_prefix=True)
    assert judged(f"s = '{'x' * 5000}'", column, ("s",)) == "some"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # s is between 'abc' and 'abx'
        ("s LIKE 'ab%'", "whole"),
        ("s LIKE 'abd%'", "some"),
        ("s LIKE 'b%'", "none"),
        ("s LIKE 'aa%'", "none"),
        ("s LIKE 'aby%'", "none"),
        ("s LIKE '%'", "whole"),
        ("s LIKE '%z'", "some"),
        ("s LIKE 'b_c'", "none"),
        ("s LIKE 'ab_'", "some"),
        ("s LIKE 'ab%c%'", "some"),
        ("s LIKE 'abz'", "none"),
        ("s LIKE 'abd'", "some"),
        ("s NOT LIKE 'b%'", "whole"),
        ("s NOT LIKE 'ab%'", "none"),
        ("NOT s LIKE 'ab_'", "some"),
        ("startswith(s, 'ab')", "whole"),
        ("startswith(s, 'b')", "none"),
        ("NOT startswith(s, 'b')", "whole"),
        ("s LIKE 'b\\%'", "some"),
        ("s LIKE 'b!%' ESCAPE '!'", "some"),
        ("s ILIKE 'B%'", "some"),
        ("s LIKE ANY ('b%')", "some"),
        ("s RLIKE 'b.*'", "some"),
        ("like('b%', s)", "some"),
        ("startswith('b', s)", "some"),
        ("startswith(s, NULL)", "some"),
    ],
)
def test_prefixes(text, answer):
    assert judged(text, stats(STRING, "abc", "abx"), ("s",)) == answer


def test_booleans():
    column = stats(Primitive("boolean"), lower=True, upper=True)
    for text in ("flag", "flag = TRUE", "flag IS TRUE", "flag > FALSE", "flag IN (TRUE)"):
        assert judged(text, column, ("flag",)) == "whole"
    for text in ("NOT flag", "flag = FALSE", "flag IS FALSE", "flag IS UNKNOWN"):
        assert judged(text, column, ("flag",)) == "none"


def test_dates_times_and_decimals():
    day = stats(Primitive("date"), 18262, 18263)  # 2020-01-01 and the next
    assert judged("day < '2020-01-01'", day, ("day",)) == "none"
    assert judged("day <= DATE '2020-01-02'", day, ("day",)) == "whole"
    at = stats(Primitive("timestamp"), 1577836800_000_000, 1577836800_000_001)
    assert judged("at < '2020-01-01'", at, ("at",)) == "none"
    assert judged("at < '2020-01-01 01:00:00'", at, ("at",), time_zone="Europe/Berlin") == "none"
    assert judged("at < '2020-01-01 01:00:00'", at, ("at",)) == "whole"
    assert judged("at < '2020-01-01 01:00:00'", at, ("at",), time_zone="PST") == "some"
    price = stats(Decimal(10, 2), Number("1.25"), Number("1.26"))
    assert judged("price > 1.249", price, ("price",)) == "whole"
    assert judged("price = 1.255", price, ("price",)) == "none"
    assert judged("price < 1.25", price, ("price",)) == "none"


def test_bounds_in_another_unit_are_brought_to_the_column_type():
    at = ColumnStats(
        pa.array([1577836800_000], pa.timestamp("ms", "UTC")),
        pa.array([1577836800_001], pa.timestamp("ms", "UTC")),
        pa.array([0]),
        pa.array([10]),
    )
    assert judged("at < '2020-01-01 00:00:00'", at, ("at",)) == "none"
    assert judged("at <= '2020-01-01 00:00:00.001'", at, ("at",)) == "whole"


# Partition values


@pytest.mark.parametrize(
    ("value", "text", "answer"),
    [
        (5, "a = 5", "whole"),
        (5, "a <> 5", "none"),
        (5, "a IN (1, 5)", "whole"),
        (5, "a NOT IN (1, 2)", "whole"),
        (5, "a IS NULL", "none"),
        (5, "a < 6 AND a IS NOT NULL", "whole"),
        (None, "a = 5", "none"),
        (None, "a <> 5", "none"),
        (None, "a IS NULL", "whole"),
        (None, "a <=> NULL", "whole"),
        (None, "NOT a <=> 5", "whole"),
        (None, "a NOT IN (1)", "none"),
    ],
)
def test_partition_values_are_exact(value, text, answer):
    column = ConstantColumn(pa.array([value], pa.int32()))
    assert judged(text, column) == answer
    assert judged(text, ConstantColumn(column.values, pa.array([True]))) == answer


@pytest.mark.parametrize("text", ["a = 5", "a IS NULL", "a IS NOT NULL", "a <=> NULL"])
@pytest.mark.parametrize("value", [5, None])
def test_partition_values_that_are_not_known(text, value):
    column = ConstantColumn(pa.array([value], pa.int32()), pa.array([False]))
    assert judged(text, column) == "some"


def test_a_nan_partition():
    column = ConstantColumn(pa.array([math.nan]))
    assert judged("x > 5", column, ("x",)) != "none"
    assert judged("x = 5", column, ("x",)) != "whole"
    assert judged("x = CAST('NaN' AS DOUBLE)", column, ("x",)) != "none"
    assert judged("x IS NULL", column, ("x",)) == "none"


# What decides nothing


@pytest.mark.parametrize(
    "text",
    [
        *("a = b", "b < a", "a = a", "a + 1 = 100", "a = 50 + 50", "-a = 100", "abs(a) = 100"),
        *(
            "a = '100'",
            "a IN (100, '101')",
            "a = 100F",
            "a IN (SELECT 100)",
            "a = (SELECT 100)",
            "(a, b) IN ((100, 1))",
        ),
        *(
            "a = CAST('100' AS INT)",
            "CAST(a AS STRING) = '100'",
            "a IN 100",
            "a = ANY (100)",
            "a = ALL (SELECT 1)",
        ),
        *(
            "a BETWEEN SYMMETRIC 100 AND 101",
            "a IN (100, b)",
            "a BETWEEN b AND 5",
            "CASE WHEN a = 100 THEN TRUE END",
        ),
        *(
            "coalesce(a, 1) = 100",
            "if(a = 100, TRUE, FALSE)",
            "a",
            "NOT a",
            "a IS TRUE",
            "a AND TRUE",
            "f(a = 100)",
        ),
        *(
            "exists(array(a), v -> v = 100)",
            "sum(a) = 100",
            "row_number() OVER (ORDER BY a) = 100",
            "5",
            "'x'",
        ),
        *(
            "a = 99999999999999999999",
            "a = :parameter",
            "a = ?",
            "a = ${value}",
            "a = 100 -- \\\n",
            "1 = '2'",
            "1.0 = 2",
        ),
    ],
)
def test_not_understood(text):
    assert judged(text, stats(INT, 3, 7)) == "some"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("code",), "code = 'zzz'"),
        (("name",), "name = 'zzz'"),
        (("box", "c"), "box.c = 'zzz'"),
        (("name",), "name LIKE 'zzz%'"),
        (("name",), "name IN ('zzz')"),
        (("s",), "s = 5"),
        (("s",), "s = 'z\\tz'"),
        (("s",), "s = 'zz' COLLATE UTF8_LCASE"),
    ],
)
def test_strings_that_do_not_compare_by_bytes(path, text):
    assert judged(text, stats(STRING, "a", "b"), path) == "some"
    assert judged("label = 'zzz'", stats(STRING, "a", "b"), ("label",)) == "none"


def test_nulls_of_any_string_are_counted():
    assert judged("name IS NULL", stats(STRING, "a", "b"), ("name",)) == "none"
    assert judged("code IS NOT NULL", stats(STRING, "a", "b"), ("code",)) == "whole"


@pytest.mark.parametrize(
    "text",
    [
        "address IS NULL",
        "list IS NULL",
        "tags IS NULL",
        "doc IS NULL",
        "address.geo IS NULL",
        "tags.k IS NULL",
    ],
)
def test_nulls_of_nested_values_are_not_counted(text):
    path = parse(text, SCHEMA).columns
    assert judged(text, stats(INT, 3, 7), *path) == "some"


@pytest.mark.parametrize(
    "text", ["list.v = 9", "list[0].v = 9", "tags['k'] = 'x'", "tags.k = 'x'", "doc.v = 9"]
)
def test_inside_arrays_and_maps(text):
    (path,) = parse(text, SCHEMA).columns
    assert judged(text, stats(INT, 3, 7), path) == "some"


def test_without_facts():
    assert judged("a = 5", None) == "some"
    assert judged("a = 5 AND FALSE", None) == "none"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a > 2 OR 1 / b > 2", "some"),  # the right side may raise: no delete from metadata alone
        ("a > 9 AND 1 / b > 2", "none"),
        ("a > 2 AND 1 / b > 2", "some"),
        ("NOT (a < 2 AND f(b))", "some"),
        ("TRUE OR f(b)", "some"),
        ("a > 2 OR a = b", "some"),
        ("(f(b)) IS NULL OR a > 2", "some"),
        ("a > 2 OR day = '2020-99-99'", "some"),
    ],
)
def test_parts_that_are_not_understood_never_match_whole(text, answer):
    assert judged(text, stats(INT, 3, 7)) == answer


# Names


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("A = 1 AND `a.b` = 2", {("a",), ("a.b",)}),
        ("address.city = 'x'", {("address", "City")}),
        ("ADDRESS.GEO.LAT > 1", {("address", "geo", "lat")}),
        ("f(a, g(b)) > s", {("a",), ("b",), ("s",)}),
        ("list.v[0] = 1 AND tags.k = 'x' AND list[a].v = 1", {("list",), ("tags",), ("a",)}),
        ("exists(list, e -> e.v > a)", {("list",), ("a",)}),
        ("aggregate(list, 0, (acc, e) -> acc + e.v, z -> z * b) > 1", {("list",), ("b",)}),
        ("a IN (SELECT other FROM t WHERE t.k = b)", {("a",), ("b",)}),
        ("EXISTS (SELECT 1 FROM t WHERE t.k = s)", {("s",)}),
        ("timestampadd(HOUR, 1, at) > current_timestamp", {("at",)}),
        ("extract(YEAR FROM at) = 2020 AND day > current_date", {("at",), ("day",)}),
        ("at > now() - INTERVAL 1 DAY", {("at",)}),
        ("struct(a AS k, s).k = 1 AND array(a, b)[0] = 1", {("a",), ("b",), ("s",)}),
        ("CASE WHEN a = 1 THEN s ELSE `label` END = 'x'", {("a",), ("s",), ("label",)}),
        ("some_db.fn(a) = 1", {("a",)}),
        ("count(*) > 1", set()),
        ("sum(a) OVER (PARTITION BY b ORDER BY s) > 1", {("a",), ("b",), ("s",)}),
        ("fn(arg => a)", {("a",)}),
        ("s = 5 AND ${x} = a", {("s",), ("a",)}),
        ("TRUE", set()),
    ],
)
def test_columns(text, columns):
    assert parse(text, SCHEMA).columns == columns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prise = 1", r"unknown column `prise` in the condition 'prise = 1': expected one of price, "),
        ("f(g(prise)) = 1", r"unknown column `prise`"),
        ("t.a = 1", r"unknown column `t`.`a`"),
        (
            "address.town = 'x'",
            r"unknown column `address`.`town` \(no field `town` in `address`\).*: expected one of",
        ),
        ("a.b = 1", r"unknown column `a`.`b`.*`a` is of type integer, expected a struct.*backquotes"),
        ("exists(list, e -> e.v > prise)", r"unknown column `prise`"),
        ("`current_date` = day", r"unknown column `current_date`"),
        ("hour = 5", r"unknown column `hour`"),
        ("address.geo.lat.z.y.x = 1", r"unknown column `address`.`geo`.`lat`.`z`.`y`.`x`"),
    ],
)
def test_unknown_columns_are_refused(text, message):
    with pytest.raises(InvalidOperationError, match=message):
        parse(text, SCHEMA)


def test_many_columns_are_not_all_listed():
    schema = Struct(tuple(Field(f"column_{n}", INT) for n in range(100)))
    with pytest.raises(InvalidOperationError, match=r"expected one of column_42, .* and 80 more$"):
        parse("columm_42 = 1", schema)


def test_case_sensitive_names():
    assert parse("a = 1", SCHEMA, SqlSettings(case_sensitive=True)).columns == {("a",)}
    with pytest.raises(InvalidOperationError, match="unknown column `A`"):
        parse("A = 1", SCHEMA, SqlSettings(case_sensitive=True))


def test_names_that_differ_in_case_alone():
    schema = Struct((Field("id", INT), Field("ID", INT)))
    with pytest.raises(InvalidOperationError, match=r"ambiguous column `Id`.*may be `id`, `ID`"):
        parse("Id = 1", schema)
    with pytest.raises(InvalidOperationError, match="ambiguous column `id`"):
        parse("f(id) = 1", schema)
    assert parse("ID = 1", schema, SqlSettings(case_sensitive=True)).columns == {("ID",)}


def test_words_of_functions_may_be_columns():
    schema = Struct(
        (
            Field("date", Primitive("date")),
            Field("hour", INT),
            Field("user", STRING),
            Field("current_date", Primitive("date")),
        )
    )
    assert parse("current_date > '2020-01-01'", schema).columns == {("current_date",)}
    assert parse("current_date() > date", schema).columns == {("date",)}
    column = stats(INT, 3, 7)
    assert (
        judged("hour = 9 AND user = 'x' AND date > '2020-01-01'", column, ("hour",), schema=schema) == "none"
    )


# Text


@pytest.mark.parametrize("text", ["", "  ", "\n\t"])
def test_empty_text_is_refused(text):
    with pytest.raises(InvalidOperationError, match="the condition is empty"):
        parse(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a = ", "line 1"),
        ("a = 5 b", "line 1, column 7: a = 5 ⟦b⟧"),
        ("(a = 5", "line 1, column 6"),
        ("a = 5)", "line 1, column 6"),
        ("a =\n = 5", "line 2"),
        ("SELECT 1", "line 1, column 6: ⟦SELECT⟧"),
        ("a = 5 AS x", "⟦AS⟧"),
    ],
)
def test_syntax_errors_show_the_place(text, place):
    with pytest.raises(InvalidOperationError, match=f"syntax error in the condition at .*{place}"):
        parse(text, SCHEMA)


@pytest.mark.parametrize(
    "text", ["a = 'x", "a = `x", "a = 5 /* x", "-- a", "if = 1", "'", "\\", "\x00", "a = 5 \\"]
)
def test_text_that_is_no_expression_is_refused(text):
    with pytest.raises(InvalidOperationError):
        parse(text, SCHEMA)


@pytest.mark.parametrize("text", ["a = 5;", "a = 5; b = 6", "a = 5; DROP TABLE t", ";"])
def test_more_than_one_expression_is_refused(text):
    with pytest.raises(InvalidOperationError):
        parse(text, SCHEMA)


def test_depth_is_refused_and_length_is_not():
    with pytest.raises(InvalidOperationError, match="nested too deeply"):
        parse("(" * 5000 + "a = 5" + ")" * 5000, SCHEMA)
    text = " OR ".join(f"a = {n}" for n in range(10, 3000))
    assert judged(text, stats(INT, 3, 7)) == "none"
    assert judged(text, stats(INT, 3, 70)) == "some"


def test_a_condition_carries_what_it_depends_on():
    settings = SqlSettings(case_sensitive=True, time_zone="Europe/Berlin", ansi=False)
    condition = parse("a = 5", SCHEMA, settings)
    assert (condition.text, condition.settings) == ("a = 5", settings)
    assert pickle.loads(pickle.dumps(condition)) == condition


def test_many_files_at_once():
    lower = pa.array([0, 5, None, 9], pa.int32())
    upper = pa.array([4, 5, 3, 9], pa.int32())
    column = ColumnStats(lower, upper, pa.array([0, 0, 0, None]), pa.array([1, 1, 1, 1]))
    facts = Facts(pa.array([1, 1, 1, 1]), pa.array([True] * 4), {("a",): column})
    matches = parse("a = 5", SCHEMA).match(facts)
    assert matches.may.tolist() == [False, True, False, False]
    assert matches.only.tolist() == [False, True, False, False]


def test_no_files():
    empty = ColumnStats(*(pa.array([], kind) for kind in (pa.int32(), pa.int32(), pa.int64(), pa.int64())))
    facts = Facts(pa.array([], pa.int64()), pa.array([], pa.bool_()), {("a",): empty})
    for text in (
        "a = 5",
        "a IN (1, 2)",
        "TRUE",
        "f(a)",
        "a IS NULL",
        f"a IN ({', '.join(map(str, range(40)))})",
    ):
        matches = parse(text, SCHEMA).match(facts)
        assert len(matches.may) == len(matches.only) == 0
