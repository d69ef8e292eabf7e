"""What ``predicate`` says of files, against what Spark says of their rows."""

from __future__ import annotations

import random
from contextlib import contextmanager

import pytest

from condition_cases import SCHEMA, random_case, random_facts, random_file
from condition_judge import check, frame_of_files, known_bounds, spark_answers
from delvec.predicate import SqlSettings, parse

pytestmark = pytest.mark.spark

FILES = 60
CONDITIONS = 150
SETTINGS = [(True, "UTC"), (False, "UTC"), (True, "Europe/Berlin"), (False, "America/New_York")]


@contextmanager
def session_settings(spark, ansi, zone):
    names = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")
    before = [spark.conf.get(name) for name in names]
    spark.conf.set(names[0], str(ansi).lower())
    spark.conf.set(names[1], zone)
    yield
    for name, value in zip(names, before, strict=True):
        spark.conf.set(name, value)


@pytest.fixture(scope="module")
def files():
    rng = random.Random(7)
    return [random_file(rng) for _ in range(FILES)]


@pytest.fixture(scope="module")
def known(files):
    """Facts with much left out, and the fullest of many draws."""
    draws = [random_facts(files, random.Random(seed)) for seed in range(20)]
    return draws[0], max(draws, key=known_bounds)


@pytest.fixture(scope="module")
def rows(spark, files):
    return frame_of_files(spark, files)


@pytest.mark.parametrize(("ansi", "zone"), SETTINGS)
def test_random_conditions(spark, rows, known, ansi, zone):
    rng = random.Random(f"{ansi} {zone}")
    texts = [random_case(rng, zone, depth=rng.choice((0, 0, 1, 2))).text for _ in range(CONDITIONS)]
    decided = 0
    with session_settings(spark, ansi, zone):
        numbers, answers = spark_answers(rows, texts)
    for text, answer in zip(texts, answers, strict=True):
        condition = parse(text, SCHEMA, SqlSettings(time_zone=zone, ansi=ansi))
        for facts in known:
            matches = condition.match(facts)
            check(text, numbers, answer, matches)
            decided += (~matches.may).sum() + matches.only.sum()
    assert decided > FILES * CONDITIONS / 2, "the conditions decide too little to be a test"


ODD = """
s = 5 | s > 1.5 | s = TRUE | i = '5' | i > 'abc' | i IN (1, '2') | i = 5.5 | i = 5F
l = 9007199254740993D | l = 9007199254740992 | l > 9007199254740992D | l = 9.007199254740992E15
l IN (1, 2.5, 3D) | h = 100000 | h > -100000 | h IN (1, 100000) | i < 99999999999999999999
i = 0.000000000000000000000000000001 | f = 0.1 | f = 0.1F | f = CAST(0.1 AS FLOAT) | f IN (0.1, 3)
f > 16777217 | f = 16777216L | x = 0.1F | x = CAST(0.1 AS FLOAT) | x = 0.1 | x IN (0.1, 3, 4L) | x = -0.0
x = 0 | x >= CAST('NaN' AS DOUBLE) | x < double('NaN') | x = CAST('Infinity' AS DOUBLE) | x > '1.5'
x = 'NaN' | f >= 3.4e38 | f > 1e39 | f > -1e39 | m = 1.25D | m = 1.255 | m > 1.2549999
m IN (1, 1.25, 3.0) | m = '1.25' | m BETWEEN 1 AND 1.255 | m = 1e0 | w = 1.5 | w > 99999999999999999999
w = 0.0000000001 | w > 0.00000000005 | w IN (1, 1.5) | w IN (1L, 1.5)
w < 12345678901234567890.123456789012345678 | w = 1.00000000000000000000000001
m < 123456789012345678901234567890 | b = 1 | b = 'true' | b > FALSE | b IN (TRUE) | b = NULL | b <=> FALSE
NOT b | b IS NOT FALSE | b IS UNKNOWN | d = '2020-1-1' | d > '2020-01-01 12:00:00'
d = TIMESTAMP '2020-01-01 00:00:00' | d = '2020-13-01' | d = 'abc' | d IN ('2020-01-01', '2020-01-02')
d IN ('2020-1-1', '2020-01-02') | d IN (DATE '2020-01-01', '2020-01-02')
d BETWEEN '2020-01-01' AND DATE '2020-01-02' | d > 18262 | d < '0001-01-02' | d = date('2020-01-01')
d > '20200101' | t = '2020-01-01' | t > '2020-01-01T00:00:00Z' | t > DATE '2020-01-01'
t = TIMESTAMP_NTZ '2020-01-01 00:00:00' | t > TIMESTAMP_NTZ '2020-01-01 00:00:00'
t > '2021-03-28 02:30:00' | t >= TIMESTAMP '2021-10-31 02:30:00'
t IN ('2020-01-01 00:00:00', '2020-01-01T00:00:00Z')
t IN (TIMESTAMP '2020-01-01 00:00:00', DATE '2020-01-02') | t IN (DATE '2020-01-01', '2020-01-02')
t > '2020' | t > 'now' | t = '2020-01-01 00:00' | t < '1900-01-01 00:00:00'
t > '2020-01-01 00:00:00 Europe/Berlin' | t > TIMESTAMP_LTZ '2020-01-01 00:00:00' | t > 1577836800
t >= '2020-01-01 00:00:00.1234569' | t <= '2020-01-01 00:00:00+18:00'
t > CAST('2020-01-01 00:00:00' AS TIMESTAMP) | n > TIMESTAMP '2020-01-01 00:00:00' | n = '2020-01-01'
n > DATE '2020-01-01' | n > '2020-01-01 00:00:00Z' | n IN ('2020-01-01 00:00:00', '2020-01-02 12:00:00')
n = TIMESTAMP_NTZ '2020-01-01 00:00:00' | z = 'a' | z > X'7f' | z = X'f' | z IN (X'61', X'80')
z >= X'FF' | z = X'' | s LIKE 'a%c' | s LIKE 'a' | s LIKE '%' | s LIKE '' | s NOT LIKE 'ab%'
s LIKE 'a\\\\%' | s LIKE 'a!%' ESCAPE '!' | s LIKE 'a_' | s ILIKE 'A%' | s LIKE ANY ('a%', 'b%')
s LIKE ALL ('a%', 'ab%') | s NOT LIKE ANY ('a%') | s = "abc" | s = r'abc' | s = 'a' 'b' | s = 'a''b'
s = '\\u00e9' | s = 'a\\tb' | s IN ('a', 5) | s = DATE '2020-01-01' | s < 'é' | s > '\uffff'
s BETWEEN 'a' AND 'b' | s = 'abc' COLLATE UTF8_LCASE | s COLLATE UTF8_LCASE = 'ABC' | like('ab%', s)
like(s, 'ab%') | startswith(s, 'a') | startswith('abc', s) | NOT startswith(s, '') | startswith(s, NULL)
s RLIKE '^a' | i = 5 IS NULL | i = 5 IS NOT NULL | NOT i = 5 IS NULL | NOT i = 5 AND b
i = 5 OR b AND l = 3 | ! i = 5 | ! b AND i > 3 | i BETWEEN 1 AND 5 AND b | NOT i BETWEEN 1 AND 5 OR b
i NOT IN (1, NULL) | i IN (NULL) | i NOT BETWEEN 5 AND 1 | i = -5 | i = - 5 | i = +5 | i > -(3) | i = 5L
i = 5S | i = 5Y | i = 1e1 | i < 2.5e0 | i = .5 | i > 1. | i >= 1.0BD | i IS DISTINCT FROM NULL
i IS NOT DISTINCT FROM 5 | NULL <=> i | 5 <=> i | NULL = i | i <=> CAST(NULL AS INT) | i + 1 = 5
i = 2 + 3 | i = l | i % 2 = 1 | i IN (l, 3) | i = 5 AND 1 / i > 0 | i > -100 OR 1 / (i - 5) > 2 | -i < 3
g.c = 5 | g.k.s = 'a' | g.k IS NULL | g IS NOT NULL | g.c IS NULL | G.C > 3 | `g`.`c` = 3
g.k.s LIKE 'a%' | pi = 5 | ps LIKE 'a%' | pd >= '2020-01-01' | NOT pb | px > 0
px = CAST('NaN' AS DOUBLE) | px <> 0.5 | ps NOT IN ('a') | i = CAST(5.0 AS INT) | i = CAST(5.7 AS INT)
i = CAST('5' AS INT) | h = CAST(70000 AS SMALLINT) | l = CAST(1e3 AS BIGINT)
m = CAST(1.255 AS DECIMAL(10,2)) | m = CAST(1.25 AS DECIMAL) | m = CAST(1.25 AS DECIMAL(10,2))
x = CAST(0.1 AS DOUBLE) | i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6)
exists(array(i, l), v -> v > 3) | (i, l) IN ((1, 2)) | i > 3 -- a comment
i > 3 /* a /* nested */ comment */ AND i < 9 | (((i))) = ((5)) | 1 = 1 | TRUE | NULL | NOT NULL
FALSE OR i = 3
"""
ODD_TEXTS = [text.strip() for line in ODD.strip().splitlines() for text in line.split(" | ")]


@pytest.mark.parametrize(("ansi", "zone"), SETTINGS[2:])
def test_odd_conditions(spark, rows, known, ansi, zone):
    """One by one: what Spark refuses must not be decided upon as matching whole."""
    refused = 0
    with session_settings(spark, ansi, zone):
        for text in ODD_TEXTS:
            condition = parse(text, SCHEMA, SqlSettings(time_zone=zone, ansi=ansi))
            every = [condition.match(facts) for facts in known]
            try:
                numbers, (answer,) = spark_answers(rows, [text])
            except Exception:
                refused += 1
                assert not any(matches.only.any() for matches in every), f"Spark raises: {text}"
                continue
            for matches in every:
                check(text, numbers, answer, matches)
    assert refused < len(ODD_TEXTS) / 3
