"""Conditions under session settings, Spark as the judge; and every setting of Spark is classed."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
from pyspark.errors import PySparkException

from condition_cases import SCHEMA, random_case, random_facts, random_file
from condition_judge import check, frame_of_files, known_bounds, spark_answers
from delvec import detect, sql
from delvec.errors import InvalidOperationError
from delvec.plan import MATCH_ALL
from delvec.predicate import Matches, parse
from delvec.predicate.settings import RELEVANT
from delvec.spark.session import sql_settings
from plans import plan_where
from setting_cases import (
    ANY_VALUE,
    FOLLOWED,
    IRRELEVANT,
    NOT_FOLLOWED,
    random_settings,
    sensitive_text,
)
from verbs import rows_of, table_of

pytestmark = pytest.mark.spark

FILES = 40
CASES, SENSITIVE = 25, 20


@contextmanager
def session(spark, values):
    before = {name: spark.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def registered_entries(spark):
    """All SQL settings of the running Spark, internal ones too."""
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for name in ("StaticSQLConf", "SQLConf"):  # the first registers its settings in the second
        module = loader.loadClass(f"org.apache.spark.sql.internal.{name}$").getField("MODULE$").get(None)
    return list(module.getConfigEntries().toArray())


def test_every_setting_of_spark_is_classed(spark):
    unknown = {entry.key() for entry in registered_entries(spark)} - RELEVANT - ANY_VALUE.keys() - IRRELEVANT
    assert not unknown, (
        f"Spark {spark.version} has settings that are not classed: {', '.join(sorted(unknown))}. Read what "
        "each does. If it changes how Spark reads or evaluates a condition that delvec can decide on, add it "
        "to delvec/predicate/settings.py: follow it, or name the values it may have in EXPECTED. If it only "
        "seems so, add it to ANY_VALUE in tests/setting_cases.py; else to tests/irrelevant_settings.txt."
    )


def test_older_names_of_relevant_settings_are_relevant(spark):
    """Spark lists a setting under the name by which it was set."""
    entries = [entry for entry in registered_entries(spark) if entry.key() in RELEVANT]
    older = {name for entry in entries for name in entry.alternatives().mkString(",").split(",") if name}
    assert older
    assert older <= RELEVANT


def test_a_setting_has_one_class():
    assert FOLLOWED.keys() | NOT_FOLLOWED.keys() <= RELEVANT
    assert not RELEVANT & (ANY_VALUE.keys() | IRRELEVANT)
    assert not ANY_VALUE.keys() & IRRELEVANT


@pytest.fixture(scope="module")
def files():
    rng = random.Random(15)
    return [random_file(rng) for _ in range(FILES)]


@pytest.fixture(scope="module")
def known(files):
    return max((random_facts(files, random.Random(seed)) for seed in range(20)), key=known_bounds)


@pytest.fixture(scope="module")
def rows(spark, files):
    return frame_of_files(spark, files)


def accepted(rows, texts):
    """The texts that Spark does not refuse before any row."""
    found = []
    for text in texts:
        try:
            _ = rows.selectExpr(f"({text}\n) IS TRUE").schema
            found.append(text)
        except PySparkException:
            pass
    return found


def answers(rows, texts):
    """Spark's answers, and None for a text that fails on a row."""
    try:
        return spark_answers(rows, texts)
    except PySparkException:
        if len(texts) == 1:
            return None, [None]
    half = len(texts) // 2
    (one, first), (other, second) = answers(rows, texts[:half]), answers(rows, texts[half:])
    return other if one is None else one, first + second


def judge(rows, matched, texts):
    """How often files are decided upon by ``matched``; fails where Spark says otherwise."""
    decided = 0
    numbers, found = answers(rows, texts)
    for text, answer in zip(texts, found, strict=True):
        try:
            matches = matched(text)
        except InvalidOperationError:  # then nothing is pruned
            continue
        if answer is None:
            assert not matches.only.any(), f"Spark fails on a row: {text}"
            continue
        check(text, numbers, answer, matches)
        decided += int((~matches.may).sum() + matches.only.sum())
    return decided


def run(spark, rows, matching, seeds):
    """``matching`` has the session's settings, and answers for a text."""
    decided = 0
    for seed in seeds:
        rng = random.Random(seed)
        values = random_settings(rng)
        zone = values.get("spark.sql.session.timeZone", "UTC")
        texts = [random_case(rng, zone, depth=rng.choice((0, 0, 1, 2))).text for _ in range(CASES)]
        with session(spark, values):
            texts = accepted(rows, texts + [sensitive_text(rng) for _ in range(SENSITIVE)])
            settings = sql_settings(spark)
            try:
                decided += judge(rows, lambda text, settings=settings: matching(text, settings), texts)
            except AssertionError as error:
                raise AssertionError(f"{error} (seed {seed}: {values})") from None
    return decided


def from_facts(known):
    return lambda text, settings: parse(text, SCHEMA, settings).match(known)


def from_plan(snapshot):
    def matching(text, settings):
        plan = plan_where(snapshot, text, settings).files
        may, only = np.zeros(FILES, dtype=bool), np.zeros(FILES, dtype=bool)
        for partition, match in zip(plan["partition"].to_pylist(), plan["match"].to_pylist(), strict=True):
            may[partition["file"]] = True
            only[partition["file"]] = match == MATCH_ALL
        return Matches(may, only)

    return matching


def test_random_conditions_under_random_settings(spark, rows, known):
    assert run(spark, rows, from_facts(known), range(5)) > 800, (
        "the conditions decide too little to be a test"
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_many_random_conditions_under_random_settings(spark, rows, known, part):
    assert run(spark, rows, from_facts(known), range(100 + 40 * part, 140 + 40 * part)) > 5000


@pytest.fixture(scope="module")
def table(spark, rows, tmp_path_factory):
    """A table with the rows of each file in a file of its own."""
    from delvec.table import Table

    place = str(tmp_path_factory.mktemp("settings") / "table")
    found = Table.create(spark, place, rows.schema, partition_by="file")
    found.append(rows.coalesce(1))
    return found


def test_random_conditions_on_a_table_under_random_settings(spark, rows, table):
    snapshot = detect.open_table(table.location).snapshot()
    assert run(spark, rows, from_plan(snapshot), range(5, 7)) > 300


def test_rows_and_deletes_of_a_table_under_random_settings(spark, table):
    seed, deleted = 1000, 0
    while deleted < 2:
        seed += 1
        rng = random.Random(seed)
        values = random_settings(rng)
        with session(spark, values):
            for text in accepted(table.to_df(), [sensitive_text(rng) for _ in range(4)]):
                try:
                    expected = files_of(table.to_df().where(text))
                    kept = files_of(table.to_df().where(f"({text}\n) IS NOT TRUE"))
                except PySparkException:  # it fails on a row
                    continue
                assert files_of(table.to_df(where=text)) == expected, (text, values)
                if 0 < expected.total() < kept.total():
                    table.delete(text)
                    assert files_of(table.to_df()) == kept, (text, values)
                    deleted += 1
                    break


def files_of(frame):
    return Counter(row.file for row in frame.select("file").collect())


QUOTED = {"spark.sql.ansi.doubleQuotedIdentifiers": "true"}
PAIRS = [(1, "y", "a"), (2, "y", "b"), (3, "a", "a"), (4, "b", "b"), (5, "y", "y")]


@pytest.fixture
def pairs(spark, tmp_path):
    return table_of(spark, tmp_path / "pairs", "id int, x string, y string", PAIRS, partition_by=["x"])


@pytest.mark.parametrize(
    ("values", "matched"),
    [
        ({}, {1, 2, 5}),
        (QUOTED, {3, 4, 5}),
        (QUOTED | {"spark.sql.ansi.enabled": "false"}, {1, 2, 5}),
    ],
    ids=["strings", "names", "not ANSI"],
)
def test_double_quotes_are_read_as_spark_reads_them(spark, pairs, values, matched):
    text, others = 'x = "y"', [row for row in PAIRS if row[0] not in matched]
    place = f"delvec.`{pairs.location}`"
    with session(spark, values):
        assert {row.id for row in pairs.to_df().where(text).collect()} == matched, "Spark's own answer"
        assert {row.id for row in pairs.to_df(where=text).collect()} == matched
        assert {row.id for row in sql(spark, f"SELECT id FROM {place} WHERE {text}").collect()} == matched
        assert {row.id for row in sql(spark, f"SELECT id FROM {place} t WHERE t.{text}").collect()} == matched
        sql(spark, f"UPDATE {place} SET y = concat(y, '!') WHERE {text}")
        assert {row[0] for row in rows_of(pairs) if row[2].endswith("!")} == matched
        sql(spark, f"UPDATE {place} SET y = replace(y, '!', '')")
        pairs.delete(text)
    assert rows_of(pairs) == others


def test_double_quotes_in_the_condition_of_a_merge(spark, pairs):
    source = spark.createDataFrame([(1,), (3,), (4,)], "id int")
    with session(spark, QUOTED):
        on = 'target.id = source.id AND target.x = "y"'
        pairs.merge(source, on).when_matched_delete().execute()
    assert [row[0] for row in rows_of(pairs)] == [1, 2, 5]


MOMENTS = [(1, "2020-01-04 20:00:00"), (2, "2020-01-05 01:00:00")]


@pytest.mark.parametrize("kind", ["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])
@pytest.mark.parametrize(
    "form", ["CAST('{}' AS TIMESTAMP)", "'{}'::timestamp", "TIMESTAMP '{}'", "to_timestamp('{}')"]
)
def test_the_word_timestamp_means_what_the_session_says(spark, tmp_path, kind, form):
    """Both rows are before 02:00, one of them before 02:00+05:00."""
    table = table_of(spark, tmp_path / "t", "id int, at timestamp_ltz", [])
    table.append(
        spark.createDataFrame(MOMENTS, "id int, at string").selectExpr(
            "id", "CAST(at AS TIMESTAMP_LTZ) AS at"
        )
    )
    text = "at < " + form.format("2020-01-05 02:00:00+05:00")
    with session(spark, {"spark.sql.timestampType": kind}):
        expected = {row.id for row in table.to_df().where(text).collect()}
        assert {row.id for row in table.to_df(where=text).collect()} == expected
        table.delete(text)
        assert {row.id for row in table.to_df().collect()} == {1, 2} - expected


def test_values_of_timestamps_do_not_depend_on_what_the_word_means(spark, tmp_path):
    """A partition's value, values that are set, and analysis are of the column's type."""
    table = table_of(spark, tmp_path / "t", "id int, at timestamp_ltz, p timestamp_ltz", partition_by=["p"])
    place, moment = f"delvec.`{table.location}`", "TIMESTAMP_LTZ'2020-01-01 01:00:00Z'"
    values = {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.session.timeZone": "Asia/Tokyo"}
    with session(spark, values):
        sql(spark, f"INSERT INTO {place} PARTITION (p = '2020-01-01 00:00:00') VALUES (1, {moment})")
        sql(spark, f"UPDATE {place} SET at = p WHERE p = '2020-01-01 00:00:00'")
    found = table.to_df().selectExpr("unix_seconds(at)", "unix_seconds(p)").collect()
    assert [tuple(row) for row in found] == [(1577804400, 1577804400)], "midnight in Tokyo"


def test_patterns_in_the_place_of_names_are_refused(spark, pairs):
    with (
        session(spark, {"spark.sql.parser.quotedRegexColumnNames": "true"}),
        pytest.raises(InvalidOperationError, match="quotedRegexColumnNames is true, expected false"),
    ):
        pairs.delete("id = 1")
    assert len(rows_of(pairs)) == len(PAIRS)
