"""What the text of ON says about target rows, and the condition that the range of the source's keys makes."""

from __future__ import annotations

import random
from datetime import date

import pytest
from pyspark.sql import types as t

from delvec.predicate import SqlSettings, parse
from delvec.schema import Field, Primitive, Struct, char
from delvec.spark.merge_keys import NO_ROW, Key, Matching, Sides, source_schema

PADDED = {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}


def field(name, kind):
    return Field(name, Primitive(kind))


TARGET = Struct(
    (
        field("id", "long"),
        field("small", "byte"),
        field("name", "string"),
        field("day", "date"),
        field("mine", "integer"),
        field("ratio", "double"),
        field("at", "timestamp"),
        Field("collated", Primitive("string"), collated=True),
        Field("padded", char(5)),
        field("s`t", "string"),
        field("a.b", "long"),
        Field("source", Struct((field("inner", "long"),))),
    )
)
SOURCE = t.StructType(
    [
        t.StructField("id", t.LongType()),
        t.StructField("small", t.ShortType()),
        t.StructField("name", t.StringType()),
        t.StructField("day", t.DateType()),
        t.StructField("theirs", t.IntegerType()),
        t.StructField("ratio", t.DoubleType()),
        t.StructField("at", t.TimestampType()),
        t.StructField("collated", t.StringType("UNICODE")),
        t.StructField("padded", t.StringType(), metadata=PADDED),
        t.StructField("span", t.DayTimeIntervalType()),
        t.StructField("doubled", t.LongType()),
        t.StructField("Doubled", t.LongType()),
    ]
)


def matching(on, *, target_alias="target", source_alias="source", **settings):
    sides = Sides(TARGET, target_alias, source_schema(SOURCE), source_alias, SqlSettings(**settings))
    return sides.matching(on)


def keys(on, **options):
    return [(key.target, key.source) for key in matching(on, **options).keys]


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("target.id = source.id", [("id", "id")]),
        ("source.id == target.id", [("id", "id")]),
        ("TARGET.ID = Source.iD", [("id", "id")]),
        ("`target`.`id` = (source.id)", [("id", "id")]),
        ("mine = theirs", [("mine", "theirs")]),
        ("mine = source.id AND target.name = source.name", [("mine", "id"), ("name", "name")]),
        ("(target.id = source.id AND (target.day = source.day)) AND 1 = 1", [("id", "id"), ("day", "day")]),
        ("target.id = source.id AND target.id = source.id", [("id", "id")]),
        ("target.small = source.small", [("small", "small")]),
        ("target.small = source.id", [("small", "id")]),
        ("target.`s``t` = source.name", [("s`t", "name")]),
        ("target.`a.b` = source.id", [("a.b", "id")]),
        ("NOT target.small = source.small AND target.id = source.id", [("id", "id")]),
        ("target.name LIKE 'x OR y' AND target.id = source.id", [("id", "id")]),
        ("target.id BETWEEN 1 AND 2 AND target.id = source.id -- by id", [("id", "id")]),
    ],
)
def test_columns_that_are_asked_to_be_equal(on, expected):
    assert keys(on) == expected


def test_keys_of_which_null_equals_null():
    (key,) = matching("target.id <=> source.id").keys
    assert (key.target, key.source, key.null_safe) == ("id", "id", True)


@pytest.mark.parametrize(
    "on",
    [
        "target.id = source.id OR target.name = source.name",
        "NOT target.id = source.id",
        "NOT (target.id = source.id AND target.name = source.name)",
        "target.id <> source.id",
        "target.id >= source.id",
        "target.id = source.id + 1",
        "-target.id = source.id",
        "CAST(target.id AS STRING) = source.name",
        "target.id = source.id IS NULL",
        "(target.id = source.id) IS NULL",
        "(target.id = source.id) = false",
        "target.id = source.id = false",
        "target.name = source.name COLLATE UTF8_LCASE",
        "(target.id, target.name) = (source.id, source.name)",
        "CASE WHEN true THEN target.id = source.id END",
        "coalesce(target.id = source.id, true)",
        "target.id = target.mine",
        "source.id = source.theirs",
        "id = source.id",  # Spark refuses it, as ambiguous
        "other.id = source.id",
        "target.id = source.doubled",
        "source.inner = source.id",  # a field of the target's column
        "target.source.inner = source.id",
        "target.nope = source.id",
    ],
)
def test_what_is_no_such_equality(on):
    assert matching(on) == Matching()


@pytest.mark.parametrize(
    "on",
    [
        "target.id = source.name",
        "target.name = source.id",
        "target.day = source.name",
        "target.day = source.at",
        "target.id = source.ratio",
        "target.ratio = source.ratio",
        "target.at = source.at",
        "target.collated = source.name",
        "target.name = source.collated",
        "target.padded = source.name",
        "target.name = source.padded",
        "target.id = source.span",
    ],
)
def test_types_that_do_not_compare_by_their_values_alone(on):
    assert matching(on) == Matching()


@pytest.mark.parametrize(
    "on",
    [
        "target.name = '\\' AND target.id = source.id AND source.name = '\\'",
        "target.id = source.id AND target.name = '${x}'",
        "target.id = source.id -- \r AND nothing",
        "target.id = = source.id",
        "",
    ],
)
def test_text_that_settings_read_otherwise_or_that_is_not_understood(on):
    assert matching(on) == Matching()


def test_aliases_of_the_users_own_and_case():
    options = {"target_alias": "old rows", "source_alias": "s"}
    assert keys("`old rows`.id = s.id AND `Old Rows`.name = S.NAME", **options) == [
        ("id", "id"),
        ("name", "name"),
    ]
    assert keys("target.id = source.id", **options) == []
    assert keys("target.id = source.id AND Target.name = source.name", case_sensitive=True) == [("id", "id")]
    assert keys("target.ID = source.id", case_sensitive=True) == []
    assert keys("target.id = source.Doubled", case_sensitive=True) == [("id", "Doubled")]


@pytest.mark.parametrize(
    ("on", "limits"),
    [
        ("target.name = 'x'", ["`name` = 'x'"]),
        ("'x' = target.name", ["`name` = 'x'"]),
        ("target.day >= DATE'2025-01-01'", ["`day` >= DATE'2025-01-01'"]),
        ("DATE '2025-01-01' < target.day", ["`day` > DATE'2025-01-01'"]),
        ("mine > -5 AND target.id <= 7", ["`mine` > -5", "`id` <= 7"]),
        ("5 >= mine", ["`mine` <= 5"]),
        ("target.`s``t` < 'b'", ["`s``t` < 'b'"]),
        ("source.name = 'x' AND theirs = 5", []),
        ("target.name = 5 AND target.id = '5' AND target.day = '2025-01-01'", []),
        ("target.name <=> 'x' AND target.name <> 'x' AND target.name = NULL", []),
        ("target.name = 'x' OR target.id = 1", []),
        ("target.name = 'it''s' AND target.collated = 'x' AND target.ratio = 1", []),
    ],
)
def test_comparisons_of_target_columns_with_literals(on, limits):
    found = matching(on)
    assert (list(found.limits), found.keys) == (limits, ())


def ranged(kind, low, high):
    name = {"integer": "id", "string": "name", "date": "day"}[kind]
    return Matching((Key(name, name, kind),)).condition({"rows": 3, "min0": low, "max0": high})


def days(text):
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        ("integer", 5, 90, "`id` BETWEEN 5 AND 90"),
        ("integer", -(2**63), 2**63 - 1, f"`id` BETWEEN {-(2**63)} AND {2**63 - 1}"),
        ("string", "a", "é\U0001f600", "`name` BETWEEN 'a' AND 'é\U0001f600'"),
        ("string", "it's", "z", "`name` BETWEEN 'it' AND 'z'"),
        ("string", "a\\", 'z"', "`name` >= 'a'"),
        ("string", "a", "\ufffd", "`name` >= 'a'"),
        ("string", "\n", "${x}", "`name` >= ''"),
        ("string", "a" * 300, "b" * 300, f"`name` >= '{'a' * 200}'"),
        (
            "date",
            days("0001-01-01"),
            days("2025-01-31"),
            "`day` BETWEEN DATE'0001-01-01' AND DATE'2025-01-31'",
        ),
        ("date", days("2025-01-31"), 10**7, "`day` >= DATE'2025-01-31'"),
        ("date", -(10**7), 0, "`day` <= DATE'1970-01-01'"),
        ("date", -(10**7), 10**7, None),
    ],
)
def test_the_range_as_a_condition(kind, low, high, expected):
    found = ranged(kind, low, high)
    assert found == expected
    if found is not None:
        assert parse(found, TARGET).columns  # understood


def test_a_range_of_texts_holds_every_text_in_it():
    drawn = random.Random(5)
    letters = "ab'\"\\$\x00\n\r\ufffd\U0010ffff{é-"
    for _ in range(500):
        low, middle, high = sorted(
            ("".join(drawn.choices(letters, k=drawn.randrange(5))) for _ in range(3)),
            key=lambda text: text.encode(),
        )
        words = ranged("string", low, high).split("'")
        assert words[1] <= middle
        assert len(words) == 3 or middle <= words[3]


def test_nothing_can_match_without_rows_or_without_keys():
    one = matching("target.id = source.id AND target.name = source.name AND target.mine = 5")
    seen = {"rows": 2, "min0": 1, "max0": 1, "min1": "a", "max1": "b"}
    assert one.condition(seen) == "`mine` = 5 AND `id` BETWEEN 1 AND 1 AND `name` BETWEEN 'a' AND 'b'"
    assert one.condition(seen | {"min1": None, "max1": None}) == NO_ROW
    assert one.condition({"rows": 0}) == NO_ROW
    assert Matching().condition({"rows": 0}) == NO_ROW
    assert Matching().condition({"rows": 1}) is None


def test_what_is_observed_is_numbers_and_texts():
    found = matching("target.small = source.small AND target.name = source.name AND target.day = source.day")
    assert found.observed() == [
        "count(1) AS rows",
        "CAST(min(`small`) AS BIGINT) AS min0",
        "CAST(max(`small`) AS BIGINT) AS max0",
        "min(`name`) AS min1",
        "max(`name`) AS max1",
        "unix_date(min(`day`)) AS min2",
        "unix_date(max(`day`)) AS max2",
    ]
