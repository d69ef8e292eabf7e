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
