"""Generated columns, defaults, CHAR and VARCHAR of tables that Delta-Spark made.

The same statements run on two copies of a table: Delta-Spark's on one, delvec's on the other.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from delvec.errors import InvalidOperationError
from rows import multiset
from scanning import collected
from spark_tables import Writer

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    # PySpark leaves the sockets of its results to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

OWN_VALUES = (
    "id INT, at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), "
    "twice INT GENERATED ALWAYS AS (id * 2), note STRING DEFAULT upper('none'), size TINYINT DEFAULT 3"
)
OWN_VALUES_STATEMENTS = (
    "INSERT INTO {t} (id, at) VALUES (1, timestamp'2024-01-01 12:00:00'), (2, NULL)",
    "INSERT INTO {t} (id, at, twice, note) VALUES (3, timestamp'2024-01-02 12:00:00', 6, NULL)",
    "INSERT INTO {t} BY NAME SELECT 4 AS id, timestamp'2024-01-01 13:00:00' AS at, 9Y AS size",
    "UPDATE {t} SET id = 10, at = timestamp'2025-05-05 00:00:00' WHERE id = 1",
    "UPDATE {t} SET twice = 6, note = 'set' WHERE id = 3",
    "MERGE INTO {t} t USING (SELECT 3 AS k, 30 AS n) s ON t.id = s.k WHEN MATCHED THEN UPDATE SET id = s.n",
    "MERGE INTO {t} t USING (SELECT 7 AS k) s ON t.id = s.k WHEN NOT MATCHED THEN INSERT (id) VALUES (s.k)",
)
OWN_VALUES_REFUSED = (
    "INSERT INTO {t} (id, twice) VALUES (3, 7)",
    "INSERT INTO {t} (id, twice) VALUES (3, NULL)",
    "UPDATE {t} SET twice = 1 WHERE id = 10",
)

LENGTHS = (
    "id INT, c CHAR(5), v VARCHAR(3), s STRUCT<a: CHAR(4), b: VARCHAR(2)>, l ARRAY<CHAR(3)>, "
    "m MAP<CHAR(2), VARCHAR(4)>, p CHAR(3)"
)
LENGTHS_STATEMENTS = (
    "INSERT INTO {t} VALUES "
    "(1, 'ab', 'xy', named_struct('a', 'q', 'b', 'z'), array('a', 'bb'), map('k', 'v'), 'p')",
    "INSERT INTO {t} (id, c, v, p) VALUES (2, 'ab   ', 'x ', 'pp '), (3, 'z    ', NULL, NULL)",
    "UPDATE {t} SET v = 'new' WHERE c = 'ab' AND p = 'pp'",
    "UPDATE {t} SET c = 'u' WHERE c IN ('z', 'y')",
    "UPDATE {t} SET s = named_struct('a', 'w', 'b', 'y') WHERE id = 1",
    "DELETE FROM {t} WHERE p = 'pp' OR c = 'u     '",
)
LENGTHS_REFUSED = (
    "INSERT INTO {t} (id, c) VALUES (4, 'abcdef')",
    "INSERT INTO {t} (id, v) VALUES (4, 'abc ')",
    "INSERT INTO {t} (id, s) VALUES (4, named_struct('a', 'abcde', 'b', 'z'))",
    "INSERT INTO {t} (id, l) VALUES (4, array('abc', 'abcd'))",
    "INSERT INTO {t} (id, m) VALUES (4, map('k', 'abcde'))",
    "UPDATE {t} SET c = 'abcdef'",
)
AS_STRINGS = "spark.sql.legacy.charVarcharAsString"


class Both:
    """A table of Delta-Spark, and a copy of it that delvec changes."""

    def __init__(self, spark: Any, folder: Path, columns: str, **options: Any) -> None:
        self.spark = spark
        self.theirs = Writer(spark, folder / "theirs")
        self.theirs.create(columns, **options)
        self.ours = folder / "ours"
        shutil.copytree(self.theirs.path, self.ours)

    def run(self, statement: str) -> None:
        from delvec import sql

        self.theirs.sql(statement)
        sql(self.spark, statement.replace("{t}", f"delvec.`{self.ours}`"))
        self.verify(statement)

    def refuse(self, statement: str) -> None:
        from delvec import sql

        with pytest.raises(Exception, match="DELTA_"):
            self.theirs.sql(statement)
        with pytest.raises(InvalidOperationError):
            sql(self.spark, statement.replace("{t}", f"delvec.`{self.ours}`"))
        self.verify(statement)

    def verify(self, statement: str) -> None:
        """Both have the same rows, and each engine reads delvec's table alike."""
        from delvec.table import Table

        expected = multiset(collected(self.spark.read.format("delta").load(str(self.theirs.path))))
        by_delta = multiset(collected(self.spark.read.format("delta").load(str(self.ours))))
        assert by_delta == expected, statement
        assert multiset(collected(Table.open(self.spark, str(self.ours)).to_df())) == expected, statement


@pytest.mark.parametrize("by", ["", "PARTITIONED BY (day)"])
def test_generated_columns_and_defaults(delta_spark, tmp_path, by):
    both = Both(delta_spark, tmp_path, OWN_VALUES, by=by, feature_allowColumnDefaults="supported")
    for statement in OWN_VALUES_STATEMENTS:
        both.run(statement)
    for statement in OWN_VALUES_REFUSED:
        both.refuse(statement)


def test_char_and_varchar(delta_spark, tmp_path):
    both = Both(delta_spark, tmp_path, LENGTHS, by="PARTITIONED BY (p)")
    for statement in LENGTHS_STATEMENTS:
        both.run(statement)
    for statement in LENGTHS_REFUSED:
        both.refuse(statement)


def test_char_and_varchar_as_strings(delta_spark, tmp_path):
    both = Both(delta_spark, tmp_path, LENGTHS)
    delta_spark.conf.set(AS_STRINGS, "true")
    try:
        both.run(
            "INSERT INTO {t} (id, c, v) VALUES (5, 'long text', 'longer'), (6, 'ab', 'x'), (7, 'ab ', 'x')"
        )
        both.run("UPDATE {t} SET v = 'hit' WHERE c = 'ab'")
        both.run("DELETE FROM {t} WHERE c = 'ab   ' OR c = 'ab '")
    finally:
        delta_spark.conf.unset(AS_STRINGS)


def test_delta_spark_finds_char_values_that_delvec_wrote(delta_spark, tmp_path):
    """Its UPDATE and DELETE compare stored values with padded literals."""
    from delvec import sql

    both = Both(delta_spark, tmp_path, LENGTHS, by="PARTITIONED BY (p)")
    sql(
        delta_spark,
        f"INSERT INTO delvec.`{both.ours}` (id, c, p) VALUES (1, 'ab', 'p'), (2, 'c', 'p'), (3, 'd', 'q')",
    )
    delta_spark.sql(f"UPDATE delta.`{both.ours}` SET v = 'hit' WHERE c = 'ab'")
    delta_spark.sql(f"DELETE FROM delta.`{both.ours}` WHERE p = 'q'")
    rows = delta_spark.read.format("delta").load(str(both.ours)).select("id", "c", "v", "p").collect()
    assert sorted(map(tuple, rows)) == [(1, "ab   ", "hit", "p  "), (2, "c    ", None, "p  ")]


def test_merge_into_char_columns_is_read_by_delta_spark(delta_spark, tmp_path):
    """Delta-Spark 4.4 itself fails in MERGE on a table with CHAR columns."""
    from delvec import sql

    both = Both(delta_spark, tmp_path, LENGTHS)
    name = f"delvec.`{both.ours}`"
    sql(delta_spark, f"INSERT INTO {name} (id, c, v) VALUES (1, 'ab', 'x'), (2, 'cd', 'y')")
    sql(
        delta_spark,
        f"MERGE INTO {name} t USING (SELECT 1 AS id, 'new' AS c UNION ALL SELECT 3, 'e') s "
        "ON t.id = s.id AND t.c = 'ab' WHEN MATCHED THEN UPDATE SET v = 'hit' "
        "WHEN NOT MATCHED THEN INSERT (id, c) VALUES (s.id, s.c)",
    )
    rows = delta_spark.read.format("delta").load(str(both.ours)).select("id", "c", "v").collect()
    assert sorted(map(tuple, rows)) == [(1, "ab   ", "hit"), (2, "cd   ", "y"), (3, "e    ", None)]


def test_tables_that_delvec_creates_are_the_same_to_delta_spark(delta_spark, tmp_path):
    from delvec import sql

    sql(delta_spark, f"CREATE TABLE delvec.`{tmp_path}/ours` ({LENGTHS})")
    delta_spark.sql(f"CREATE TABLE delta.`{tmp_path}/theirs` ({LENGTHS}) USING delta")
    ours, theirs = (
        delta_spark.read.format("delta").load(str(tmp_path / name)).schema for name in ("ours", "theirs")
    )
    assert ours.json() == theirs.json()
