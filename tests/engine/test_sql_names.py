"""Statements on names that ``register`` or CREATE TABLE gave: shown, emptied, dropped, viewed, or refused by
the statement's name.
"""

from __future__ import annotations

import pytest

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from scanning import collected
from verbs import MAPPED, actions, refused, rows_of, table_of, unchanged

pytestmark = pytest.mark.spark

DDL = "id BIGINT NOT NULL COMMENT 'the key', `a name` STRING, p INT COMMENT 'by', s STRUCT<a: INT, b: STRING>"
ROWS = [(n, f"n{n}", n % 2, (n, "b")) for n in range(6)]


@pytest.fixture
def table(spark, tmp_path):
    properties = {"delta.columnMapping.mode": "name", "comment": "words", "note": "x"}
    made = table_of(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"], properties=properties)
    made.register("named_t")
    return made


@pytest.fixture(scope="module")
def kept(spark, tmp_path_factory):
    """A table that no statement changes."""
    made = table_of(spark, tmp_path_factory.mktemp("kept") / "t", DDL, ROWS, properties=MAPPED)
    made.register("kept_t")
    return made


@pytest.fixture
def run(spark):
    from delvec import sql

    return lambda text, args=None: collected(sql(spark, text, args))


@pytest.fixture
def names(table):
    """The ways to name the table."""
    return ["named_t", "NAMED_T", f"delvec.`{table.location}`", f"delta.`{table.location}`"]


def test_describe(spark, run, names, tmp_path):
    """As Spark describes a table of its own with these columns."""
    spark.sql(
        "CREATE TABLE spark_t (id BIGINT COMMENT 'the key', `a name` STRING, s STRUCT<a: INT, b: STRING>) "
        f"USING parquet PARTITIONED BY (p INT COMMENT 'by') LOCATION '{tmp_path / 'spark'}'"
    )
    try:
        theirs = run("DESCRIBE spark_t")
        column = run("DESCRIBE spark_t id")
    finally:
        spark.sql("DROP TABLE spark_t")
    for name in names:
        found = run(f"DESCRIBE {name}")
        assert found == [theirs[0], theirs[1], theirs[3], theirs[2], *theirs[4:]]
        assert run(f"DESC TABLE {name}") == found
        assert run(f"DESCRIBE TABLE {name} ID") == column
    assert run("DESC named_t `a name`")[1:] == [
        {"info_name": "data_type", "info_value": "string"},
        {"info_name": "comment", "info_value": None},
    ]


@pytest.mark.parametrize("text", ["DESCRIBE EXTENDED named_t", "DESC TABLE FORMATTED named_t"])
def test_describe_extended(run, table, text):
    found = run(text)
    plain = run("DESCRIBE named_t")
    assert found[: len(plain)] == plain
    told = {row["col_name"]: row["data_type"] for row in found[len(plain) :]}
    assert (told["Name"], told["Provider"], told["Comment"]) == ("named_t", "delta", "words")
    assert told["Location"] == table.location
    assert "note=x" in told["Table Properties"]


def test_show(run, table, names):
    for name in names:
        assert [row["col_name"] for row in run(f"SHOW COLUMNS IN {name}")] == ["id", "a name", "p", "s"]
        shown = {row["key"]: row["value"] for row in run(f"SHOW TBLPROPERTIES {name}")}
        assert shown == table.properties
    assert run("SHOW COLUMNS FROM named_t") == run("SHOW COLUMNS IN named_t")
    assert run("SHOW TBLPROPERTIES named_t ('note')") == [{"key": "note", "value": "x"}]
    assert run("SHOW TBLPROPERTIES named_t (delta.columnMapping.mode)")[0]["value"] == "name"
    assert "does not have property: no" in run("SHOW TBLPROPERTIES named_t (no)")[0]["value"]


def test_describe_query(run, names):
    for name in names:
        found = run(f"DESCRIBE QUERY SELECT id, p + 1L AS q FROM {name} WHERE p = 1")
        assert [(row["col_name"], row["data_type"]) for row in found] == [("id", "bigint"), ("q", "bigint")]
        assert found[0]["comment"] == "the key"


def test_truncate(run, table):
    version = table.version
    assert run("TRUNCATE TABLE named_t") == []
    assert rows_of(table) == []
    assert table.version == version + 1
    assert not [action for action in actions(table) if "add" in action]
    assert run("TRUNCATE TABLE named_t") == []
    assert table.version == version + 1


def test_drop(spark, run, table):
    assert run("DROP TABLE named_t") == []
    assert len(rows_of(table)) == 6
    for text in ("SELECT * FROM named_t", "DROP TABLE named_t"):
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            run(text)
    assert run("DROP TABLE IF EXISTS named_t") == []
    run(f"CREATE TABLE IF NOT EXISTS named_t (x INT) USING delvec LOCATION '{table.location}'")
    assert run("SELECT count(*) AS n FROM named_t") == [{"n": 6}]
    assert run("DROP TABLE IF EXISTS NAMED_T;") == []


def test_temporary_views(spark, run, table):
    run("CREATE OR REPLACE TEMP VIEW named_v AS SELECT id, p FROM named_t WHERE id < :n", {"n": 4})
    try:
        assert spark.table("named_v").count() == 4
        run("DELETE FROM named_t WHERE id = 1")
        # Spark keeps the plan: the view stays at its version.
        assert run("SELECT count(*) AS n FROM named_v JOIN named_t USING (id)") == [{"n": 3}]
        assert run("SELECT count(*) AS n FROM named_v") == [{"n": 4}]
        query = f"SELECT id, p FROM delta.`{table.location}`"
        run(f"CREATE OR REPLACE TEMPORARY VIEW named_v (k COMMENT 'x', q) AS {query}")
        assert run("SELECT max(k) AS k, count(q) AS n FROM named_v") == [{"k": 5, "n": 5}]
        with pytest.raises(Exception, match="named_v"):
            run("CREATE TEMP VIEW named_v AS SELECT * FROM named_t")
        run("CREATE GLOBAL TEMP VIEW named_g AS SELECT * FROM named_t")
        assert run("SELECT count(*) AS n FROM global_temp.named_g") == [{"n": 5}]
    finally:
        spark.catalog.dropTempView("named_v")
        spark.catalog.dropGlobalTempView("named_g")


def test_views_of_spark_are_sparks(spark, run):
    run("CREATE TEMP VIEW named_v (a COMMENT 'x') COMMENT 'y' AS SELECT 1")
    try:
        assert run("SELECT * FROM named_v") == [{"a": 1}]
        assert run("DESCRIBE named_v")[0]["comment"] == "x"
    finally:
        run("DROP VIEW named_v")


@pytest.mark.parametrize(
    ("text", "feature", "instead"),
    [
        ("OPTIMIZE {t} FULL", "OPTIMIZE … FULL", "combines files"),
        ("VACUUM {t} LITE", "VACUUM … LITE", ""),
        ("VACUUM {t} USING INVENTORY (SELECT 1) DRY RUN", "VACUUM … USING INVENTORY", ""),
        ("REORG TABLE {t} APPLY (UPGRADE UNIFORM (x = 2))", "REORG TABLE …", "use APPLY (PURGE)"),
        ("GENERATE other_manifest FOR TABLE {t}", "GENERATE other_manifest", "symlink_format_manifest"),
        ("REFRESH TABLE {t}", "REFRESH TABLE", "newest version"),
        ("ANALYZE TABLE {t} COMPUTE STATISTICS", "ANALYZE TABLE", "not needed"),
        ("CACHE TABLE {t}", "CACHE TABLE", "cache()"),
        ("CACHE LAZY TABLE {t}", "CACHE LAZY TABLE", "cache()"),
        ("UNCACHE TABLE IF EXISTS {t}", "UNCACHE TABLE", "unpersist"),
        ("SHOW PARTITIONS {t}", "SHOW PARTITIONS", "SELECT DISTINCT"),
        ("SHOW CREATE TABLE {t}", "SHOW CREATE TABLE", "DESCRIBE TABLE EXTENDED"),
        ("LOAD DATA INPATH '/x' OVERWRITE INTO TABLE {t}", "LOAD DATA", "INSERT INTO"),
        ("MSCK REPAIR TABLE {t}", "MSCK REPAIR TABLE", ""),
        ("COMMENT ON TABLE {t} IS 'x'", "COMMENT ON TABLE", "TBLPROPERTIES"),
        ("COMMENT ON COLUMN {t}.id IS 'x'", "COMMENT ON COLUMN", ""),
        ("ALTER TABLE {t} RENAME COLUMN id TO x", "ALTER TABLE … RENAME COLUMN", "ADD COLUMNS"),
        ("ALTER TABLE {t} RENAME TO other", "ALTER TABLE … RENAME TO", ""),
        ("ALTER TABLE {t} DROP COLUMN id", "ALTER TABLE … DROP COLUMN", ""),
        ("ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 0)", "ALTER TABLE … ADD CONSTRAINT", ""),
        ("ALTER TABLE {t} ALTER COLUMN id COMMENT 'x'", "ALTER TABLE … ALTER COLUMN", ""),
        ("CREATE OR REPLACE TABLE {t} (x INT) USING delta", "REPLACE TABLE", "INSERT OVERWRITE"),
        ("REPLACE TABLE {t} AS SELECT 1", "REPLACE TABLE", "INSERT OVERWRITE"),
        ("TRUNCATE TABLE {t} PARTITION (p = 1)", "TRUNCATE TABLE … PARTITION", "DELETE FROM"),
        ("DROP TABLE {t} PURGE", "DROP TABLE", "delete the folder"),
        ("CREATE VIEW v AS SELECT * FROM {t}", "CREATE VIEW", "TEMPORARY VIEW v"),
        ("CREATE TEMP VIEW v COMMENT 'x' AS SELECT * FROM {t}", "CREATE TEMPORARY VIEW … COMMENT", ""),
        ("DESCRIBE {t} PARTITION (p = 1)", "DESCRIBE … PARTITION", "DESCRIBE DETAIL"),
        ("DESCRIBE EXTENDED {t} AS JSON", "DESCRIBE … AS JSON", ""),
        ("EXPLAIN FROM {t} INSERT INTO {t} SELECT * INSERT INTO {t} SELECT *",
         "EXPLAIN of several INSERTs", "one of them"),
        ("DESCRIBE {t} s.a", "DESCRIBE of a nested column", "s"),
    ],
)  # fmt: skip
def test_statements_that_delvec_lacks(run, kept, text, feature, instead):
    for name in ("kept_t", f"delta.`{kept.location}`"):
        with pytest.raises(UnsupportedFeatureError, match=f"^delvec has no {feature}") as caught:
            run(text.format(t=name))
        assert instead in str(caught.value)
        assert caught.value.feature.startswith(feature)
    assert kept.version == 1


@pytest.mark.parametrize("text", ["CONVERT TO DELTA a.b"])
def test_statements_of_delta_lake_alone(run, text):
    with pytest.raises(UnsupportedFeatureError, match=f"^delvec has no {text.split()[0]}"):
        run(text)


@pytest.mark.parametrize(
    "text",
    ["VACUUM a.b.c", "vacuum nowhere RETAIN 5 HOURS", "OPTIMIZE nowhere", "REORG TABLE x APPLY (PURGE)"],
)
def test_statements_of_tables_that_are_not_ours(run, text):
    with pytest.raises(InvalidOperationError, match=r"^[A-Z]+ names no table of delvec, expected delvec"):
        run(text)


def test_a_path_is_not_dropped(run, table):
    with refused(table, UnsupportedFeatureError, "no DROP TABLE of a path: it drops names, and the files"):
        run(f"DROP TABLE IF EXISTS delvec.`{table.location}`")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("DESCRIBE kept_t nothing", "kept_t has no column nothing, expected one of id, a name, p, s"),
        ("CREATE TEMP VIEW kept_t AS SELECT * FROM kept_t", "kept_t is already the name of a table"),
        ("CREATE TEMP VIEW a.b AS SELECT * FROM kept_t", "expected a name without a dot"),
        ("CREATE TEMP VIEW v (a, b) AS SELECT * FROM kept_t", "names 2 columns, expected as many"),
        ("CREATE TEMP VIEW v AS SELECT nothing FROM kept_t", "(?i)nothing"),
        ("SHOW TBLPROPERTIES kept_t ()", "expected a property"),
        ("TRUNCATE TABLE kept_t x", "expected the end of the statement"),
        ("DROP TABLE kept_t, other", "expected the end of the statement"),
    ],
)
def test_refused(run, kept, text, problem):
    with pytest.raises(Exception, match=problem) as caught:
        run(text)
    assert isinstance(caught.value, InvalidOperationError) or "nothing" in problem
    assert kept.version == 1


EXPLAINED = {
    "DELETE FROM {t} WHERE id < 3": lambda t: t.delete("id < 3", dry_run=True),
    "UPDATE {t} SET p = 9 WHERE id = 4": lambda t: t.update({"p": "9"}, "id = 4", dry_run=True),
    "MERGE INTO {t} AS t USING (SELECT 3L AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE": lambda t: (
        t.merge(t._spark.sql("SELECT 3L AS id"), "target.id = source.id")
        .when_matched_delete()
        .execute(dry_run=True)
    ),
    "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id = 1": lambda t: t.overwrite(
        t.to_df(where="id = 1"), dry_run=True
    ),
    "INSERT INTO {t} REPLACE WHERE p = 1 SELECT * FROM {t} WHERE id = 1": lambda t: t.overwrite(
        t.to_df(where="id = 1"), where="p = 1", dry_run=True
    ),
}


@pytest.mark.parametrize("text", EXPLAINED)
def test_explain_of_a_change_is_its_dry_run(run, table, text):
    with unchanged(table):
        expected = EXPLAINED[text](table).files.to_pylist()
        for name in ("named_t", f"delta.`{table.location}`"):
            found = run(f"EXPLAIN {text}".replace("{t}", name))
            assert found == expected != []


def test_explain_of_other_statements(run, table):
    with unchanged(table):
        assert run("EXPLAIN FORMATTED DELETE FROM named_t WHERE id = :n", {"n": 77}) == []
        for text in (
            "INSERT INTO named_t SELECT * FROM named_t",
            "WITH c AS (SELECT * FROM named_t) INSERT INTO named_t SELECT * FROM c",
            "SELECT * FROM named_t",
            "WITH c AS (SELECT * FROM named_t) SELECT * FROM c",
            "FROM named_t SELECT id",
        ):
            (found,) = run(f"EXPLAIN {text}")
            assert "Physical Plan" in found["plan"]
            assert "Scan parquet" in found["plan"]


def test_an_append_only_table_is_not_truncated(run, table):
    table.set_properties({"delta.appendOnly": "true"})
    with refused(table, InvalidOperationError, "(?i)append"):
        run("TRUNCATE TABLE named_t")


def test_names_of_tables_in_a_catalog(spark, run, table, monkeypatch):
    """A catalog stands behind names of several parts; other such names belong to Spark."""
    from pyspark.errors import AnalysisException

    from delvec import Table, detect
    from delvec.errors import TableNotFoundError

    class Lake:
        def open_table(self, identifier, options_for):
            if identifier != ("db", "t"):
                raise TableNotFoundError(f"no table {'.'.join(identifier)} in the catalog")
            return detect.open_table(table.location, options_for(table.location))

    lake = Lake()
    monkeypatch.setattr(detect, "find_catalog", lambda given: lake if given in ("lake", lake) else None)
    assert run("SELECT id, t.p FROM lake.db.t WHERE t.id > 4") == [{"id": 5, "p": 1}]
    assert run("DELETE FROM lake.db.t WHERE id = 5") == [{"num_affected_rows": 1}]
    assert run("DESCRIBE DETAIL lake.db.t")[0]["location"] == table.location
    assert Table.open(spark, "db.t", catalog=lake).version == table.version
    assert Table.open(spark, "db.t", catalog="lake").location == table.location
    with pytest.raises(TableNotFoundError, match=r"no table db\.other in the catalog"):
        run("SELECT * FROM lake.db.other")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        run("SELECT * FROM elsewhere.t")


def test_a_format_before_a_path_and_after_using(run, tmp_path):
    run(f"CREATE TABLE delta.`{tmp_path}/a` (id INT) USING delvec")
    run(f"CREATE TABLE delvec.`{tmp_path}/b` (id INT) USING delta")
    assert run(f"DESCRIBE DETAIL delvec.`{tmp_path}/b`")[0]["format"] == "delta"
    with pytest.raises(InvalidOperationError, match="expected delvec or delta or iceberg for"):
        run(f"CREATE TABLE delta.`{tmp_path}/c` (id INT) USING parquet")
