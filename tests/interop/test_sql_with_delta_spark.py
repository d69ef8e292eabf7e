"""Statements that Delta-Spark accepts, run by it and by delvec on equal tables: what both make of them."""

from __future__ import annotations

from typing import Any

import pytest

from rows import multiset
from scanning import collected

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    # PySpark leaves the sockets of its results to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CREATE = """CREATE TABLE {t} (id BIGINT COMMENT 'the key', name STRING, p INT COMMENT 'by',
    s STRUCT<a: INT COMMENT 'in', b: STRING>) USING delta
    PARTITIONED BY (p) COMMENT 'words'
    TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', note = 'it\\'s')"""
ROWS = """INSERT INTO {t} SELECT id, concat('n', id), CAST(id % 3 AS INT),
    named_struct('x', CAST(id AS INT), 'y', 'b') FROM range(12)"""

GROUPS = {
    "rows removed and changed": [
        "DELETE FROM {t} WHERE id = 3",
        "DELETE FROM {t} AS x WHERE x.id IN (1, 99) OR x.s.a = 5",
        "DELETE FROM {t} s WHERE s.a = 7",
        "UPDATE {t} SET name = upper(name), s.b = concat(name, '!') WHERE p = 1",
        "UPDATE {t} AS x SET x.p = 7 WHERE x.id = 2",
    ],
    "rows inserted": [
        "INSERT INTO {t} VALUES (20, 'it''s', 1, NULL), (21, \"q\", 1, named_struct('k', 3, 'l', 'v'))",
        "INSERT INTO {t} (p, id) VALUES (8, 30)",
        "INSERT INTO {t} BY NAME SELECT 31 AS id, 8 AS p, 'x' AS name, named_struct('a', 1, 'b', 'c') AS s",
        "INSERT INTO {t} PARTITION (p = '9') SELECT 32, 'fixed', NULL",
        "INSERT INTO {t} SELECT id + 100, name, p, s FROM {t} WHERE id < 5",
    ],
    "rows merged": [
        """MERGE INTO {t} AS t USING (SELECT id, concat('m', id) AS name, 1 AS p FROM range(0, 40, 4)) AS u
       ON t.id = u.id
       WHEN MATCHED AND u.id = 4 THEN DELETE
       WHEN MATCHED THEN UPDATE SET t.name = CASE WHEN t.p = 1 THEN u.name ELSE 'else' END
       WHEN NOT MATCHED AND u.id > 30 THEN INSERT (id, name, p) VALUES (u.id, u.name, u.p)
       WHEN NOT MATCHED BY SOURCE AND t.id > 100 THEN DELETE""",
        "MERGE INTO {t} AS name USING (SELECT 6L AS id, 'hidden' AS b) s ON name.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name.name = s.b",
    ],
    "columns added by merges": [
        """MERGE WITH SCHEMA EVOLUTION INTO {t} AS t
       USING (SELECT id, 'm' AS name, 1 AS p, id * 2 AS late, 7 AS unused,
              named_struct('a', 1, 'b', 'x', 'c', id, 'd', 0) AS s FROM range(0, 40, 4)) AS u
       ON t.id = u.id
       WHEN MATCHED THEN UPDATE SET late = u.late, s.c = u.s.c
       WHEN NOT MATCHED THEN INSERT (id, p, late) VALUES (u.id, u.p, u.late + 1)""",
        """MERGE WITH SCHEMA EVOLUTION INTO {t} AS t USING (SELECT 1L AS id, 'x' AS name, 5 AS unused) AS u
       ON t.id = u.id WHEN MATCHED THEN UPDATE SET name = u.name""",
    ],
    "comments": [
        "ALTER TABLE {t} SET TBLPROPERTIES ('comment' = 'newer')",
        "ALTER TABLE {t} ADD COLUMNS (e INT COMMENT 'new', s.c INT COMMENT 'nested')",
        "UPDATE {t} SET s.c = 1 WHERE id = 3",
        "ALTER TABLE {t} UNSET TBLPROPERTIES ('comment')",
    ],
    "columns and whole partitions": [
        "ALTER TABLE {t} SET TBLPROPERTIES ('x' = 'y', 'delta.logRetentionDuration' = 'interval 20 days')",
        "ALTER TABLE {t} UNSET TBLPROPERTIES IF EXISTS ('x', 'nothing')",
        "ALTER TABLE {t} ADD COLUMNS (e DECIMAL(10, 2) COMMENT 'x, y', s.c ARRAY<INT>)",
        "INSERT INTO {t} (id, e, p) VALUES (40, 1.25, 2)",
        "INSERT OVERWRITE {t} PARTITION (p = 2) SELECT 50, 'over', NULL, NULL",
        "INSERT INTO {t} REPLACE WHERE p = 1 SELECT 51, 'replaced', 1, NULL, 2.5",
        "INSERT OVERWRITE {t} SELECT id, name, p, NULL, 1.5 FROM {t} VERSION AS OF 1",
        "DELETE FROM {t}",
    ],
}

QUERIES = [
    "SELECT * FROM {t}",
    "SELECT count(*) FROM {t} VERSION AS OF 1",
    "SELECT n.id, o.name FROM {t} n JOIN {t} VERSION AS OF 1 o ON n.id = o.id "
    "WHERE n.p = 1 AND o.name <> n.name",
    "WITH c AS (SELECT p, count(*) AS n FROM {t} GROUP BY p) "
    "SELECT * FROM c WHERE n > (SELECT min(n) FROM c)",
    "SELECT id FROM {t} WHERE id IN (SELECT id FROM {t} VERSION AS OF 1 WHERE p = 2)",
]


def told(spark: Any, place: str) -> dict[str, Any]:
    """What Delta-Spark tells of a table: its description, properties and operations."""
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{place}`").collect()[0]
    history = spark.sql(f"DESCRIBE HISTORY delta.`{place}`").collect()
    return {
        "description": detail.description,
        "properties": detail.properties,
        "operations": [row.operation for row in history],
    }


def read(spark: Any, place: str) -> tuple[Any, str]:
    """The rows, and the columns with their comments, as Delta-Spark reads them."""
    spark.sql(f"REFRESH TABLE delta.`{place}`")
    frame = spark.table(f"delta.`{place}`")
    return multiset(collected(frame)), frame.schema.json()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("group", GROUPS)
def test_the_same_statements(delta_spark: Any, tmp_path: Any, group: str) -> None:
    from delvec import sql

    mine, theirs = str(tmp_path / "mine"), str(tmp_path / "theirs")
    for text in (CREATE, ROWS, *GROUPS[group]):
        ours = collected(sql(delta_spark, text.format(t=f"delta.`{mine}`")))
        other = collected(delta_spark.sql(text.format(t=f"delta.`{theirs}`")))
        if other:  # Delta-Spark counts nothing for INSERT
            assert ours == other, text
        assert read(delta_spark, mine) == read(delta_spark, theirs), text
    assert told(delta_spark, mine) == told(delta_spark, theirs)
    if "merged" in group:
        for query in QUERIES:
            found = sql(delta_spark, query.format(t=f"delta.`{mine}`"))
            expected = delta_spark.sql(query.format(t=f"delta.`{theirs}`"))
            assert multiset(collected(found)) == multiset(collected(expected)), query


def test_columns_of_a_query_keep_their_comments(delta_spark: Any, tmp_path: Any) -> None:
    from delvec import sql

    source = f"delta.`{tmp_path / 'source'}`"
    delta_spark.sql(CREATE.format(t=source))
    for run, place in ((lambda text: sql(delta_spark, text), "mine"), (delta_spark.sql, "theirs")):
        run(
            f"CREATE TABLE delta.`{tmp_path / place}` USING delta "
            f"AS SELECT id + 1 AS next, id, s FROM {source}"
        )
    mine, theirs = (read(delta_spark, str(tmp_path / place))[1] for place in ("mine", "theirs"))
    assert mine == theirs
    assert '"comment":"the key"' in mine


def test_detail_is_told_alike(delta_spark: Any, tmp_path: Any) -> None:
    from delvec import sql

    name = f"delta.`{tmp_path / 't'}`"
    delta_spark.sql(CREATE.format(t=name))
    delta_spark.sql(ROWS.format(t=name))
    ours = collected(sql(delta_spark, f"DESCRIBE DETAIL {name}"))[0]
    theirs = collected(delta_spark.sql(f"DESCRIBE DETAIL {name}"))[0]
    shared = ("format", "id", "description", "partitionColumns", "numFiles", "sizeInBytes", "lastModified")
    for key in (*shared, "minReaderVersion", "minWriterVersion"):
        assert ours[key] == theirs[key], key
    assert abs((ours["createdAt"] - theirs["createdAt"]).total_seconds()) < 60  # the first commit's, here
    assert set(theirs["tableFeatures"]) == set(ours["tableFeatures"])
    assert dict(ours["properties"]) == dict(theirs["properties"])
