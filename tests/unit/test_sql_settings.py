"""Conditions under session settings: what delvec follows, and what switches pruning off."""

from __future__ import annotations

import pytest

from delvec.errors import InvalidOperationError
from delvec.predicate import SPARK_DEFAULTS, SqlSettings, parse
from delvec.predicate.settings import EXPECTED, FOLLOWED
from delvec.predicate.tree import UNDECIDED, is_decided
from delvec.schema import Field, Primitive, Struct

SCHEMA = Struct(
    (
        Field("x", Primitive("string")),
        Field("y", Primitive("string")),
        Field('a"b', Primitive("string")),
        Field("at", Primitive("timestamp")),
        Field("local", Primitive("timestamp_ntz")),
    )
)
QUOTED = {"spark.sql.ansi.doubleQuotedIdentifiers": "true"}
WITHOUT_ZONE = {"spark.sql.timestampType": "timestamp_ntz"}


def read(text: str, values: dict[str, str]):
    return parse(text, SCHEMA, SqlSettings.of(values))


def test_a_session_without_settings_has_the_defaults():
    assert SqlSettings.of({}) == SPARK_DEFAULTS
    assert SqlSettings.of({"spark.sql.shuffle.partitions": "2", "spark.app.name": "x"}) == SPARK_DEFAULTS


def test_double_quotes_enclose_strings_or_names():
    assert read('x = "y"', {}).columns == {("x",)}
    assert is_decided(read('x = "y"', {}).tree)
    assert read('x = "y"', QUOTED).columns == {("x",), ("y",)}
    assert read('x = "y"', QUOTED).tree == UNDECIDED
    assert read("\"x\" = 'y'", QUOTED).tree == read("x = 'y'", {}).tree
    assert read('"a""b" = \'y\'', QUOTED).columns == {('a"b',)}
    with pytest.raises(InvalidOperationError, match="unknown column `z`"):
        read('x = "z"', QUOTED)


def test_double_quotes_enclose_names_in_ansi_mode_alone():
    assert read('x = "y"', {**QUOTED, "spark.sql.ansi.enabled": "false"}).columns == {("x",)}


@pytest.mark.parametrize("text", ['x = r"y"', 'x = "y\\""', 'x = "y\\\\"', "\"x\" = 'a\\\\'"])
def test_what_double_quotes_may_leave_a_string_decides_nothing(text):
    try:
        found = read(text, QUOTED)
    except InvalidOperationError:
        return
    assert found.tree == UNDECIDED


@pytest.mark.parametrize(
    "text", ["TIMESTAMP '{}'", "CAST('{}' AS TIMESTAMP)", "'{}'::timestamp", "timestamp'{}'"]
)
def test_the_word_timestamp_has_the_type_of_the_session(text):
    zoned, plain = text.format("2020-01-05 02:00:00+05:00"), text.format("2020-01-05 02:00:00")
    for moment, column, values, decided in (
        (zoned, "at", {}, True),
        (plain, "at", {}, True),
        (plain, "local", {}, False),
        (zoned, "at", WITHOUT_ZONE, False),
        (plain, "at", WITHOUT_ZONE, False),
        (zoned, "local", WITHOUT_ZONE, False),
        (plain, "local", WITHOUT_ZONE, True),
    ):
        assert is_decided(read(f"{column} < {moment}", values).tree) is decided, (moment, column, values)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_values_that_are_not_expected_switch_pruning_off(name):
    assert read("x = 'y'", {name: "other"}).tree == UNDECIDED
    assert read("x = 'y'", {name: "other"}).columns == {("x",)}
    for value in EXPECTED[name]:
        assert is_decided(read("x = 'y'", {name: f" {value.upper()} "}).tree)


@pytest.mark.parametrize("name", sorted(FOLLOWED - {"spark.sql.session.timeZone"}))
def test_a_value_that_is_none_of_the_settings_switches_pruning_off(name):
    assert not SqlSettings.of({name: "*********(redacted)"}).known


def test_an_unknown_time_zone_leaves_local_times_undecided():
    assert not is_decided(
        read("at < TIMESTAMP '2020-01-05 02:00:00'", {"spark.sql.session.timeZone": "?"}).tree
    )
