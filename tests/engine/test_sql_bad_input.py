"""SQL that must be refused: with an error of ours that names the place, and a table that stays as it was."""

from __future__ import annotations

import pytest

from delvec.errors import InvalidOperationError, TableNotFoundError, UnsupportedFeatureError
from scanning import collected
from verbs import refused, rows_of, table_of, unchanged

pytestmark = pytest.mark.spark

DDL = "id bigint, name string, p int, `select` int, s struct<id: bigint>"


@pytest.fixture
def table(spark, tmp_path):
    rows = [(1, "it's", 1, 5, (7,)), (2, "b", 2, 6, (1,))]
    made = table_of(spark, tmp_path / "t", DDL, rows, partition_by=["p"])
    made.register("bad_t")
    return made


@pytest.fixture
def run(spark):
    from delvec import sql

    return lambda text, args=None: collected(sql(spark, text, args))


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("SELECT *\nFROM bad_t\nWHERE id ==== 3", (3, 12), "Syntax error at or near '=='"),
        ("SELECT id, FROM bad_t WHERE", (1, 28), "found nothing more"),
        ("EXPLAIN SELECT id FROM bad_t WHERE id ==== 3", (1, 41), "Syntax error"),
        ("DELETE FROM bad_t WHERE id = 1 LIMIT 5", (1, 32), "Syntax error at or near 'LIMIT'"),
        ("DELETE FROM bad_t WHERE id =\n  = 3", (2, 3), "Syntax error at or near '='"),
        ("DELETE FROM bad_t\n WHERE id = 3 4", (2, 15), "Syntax error at or near '4'"),
        ("UPDATE bad_t SET name = 'a' 'b' +", (1, 34), "found nothing more"),
        ("UPDATE bad_t SET name = upper(name, WHERE id = 1", (1, 30), "( is not closed"),
        ("MERGE INTO bad_t USING (SELEC 1) s ON true WHEN MATCHED THEN DELETE", (1, 31), "Syntax error"),
        (
            "MERGE INTO bad_t t USING bad_t s ON t.id === s.id WHEN MATCHED THEN DELETE",
            (1, 44),
            "Syntax error",
        ),
        ("INSERT INTO bad_t SELECT 1,, 2", (1, 28), "Syntax error"),
        ("INSERT INTO bad_t VALUES (1, 'a\n', 2, 3", (1, 26), "( is not closed"),
        ("SELECT * FROM bad_t VERSION AS OF x", (1, 35), "version is x, expected a whole number"),
        ("SELECT * FROM bad_t VERSION AS OF", (1, 34), "expected a value"),
    ],
)
def test_syntax_errors_point_at_the_place(run, table, text, place, problem):
    line, column = place
    with unchanged(table), pytest.raises(InvalidOperationError) as caught:
        run(text)
    *_, shown, pointer = str(caught.value).splitlines()
    assert f"line {line}, column {column}: " in str(caught.value)
    assert problem in str(caught.value)
    assert shown == text.splitlines()[line - 1]
    assert pointer == " " * (column - 1) + "^"


def test_several_statements(run, table):
    with refused(table, InvalidOperationError, "found a second statement"):
        run("DELETE FROM bad_t WHERE id = 1; DELETE FROM bad_t")
    with refused(table, InvalidOperationError, "found a second statement"):
        run("SELECT 1; DROP TABLE x")
    run("DELETE FROM bad_t WHERE name = 'a;b'; -- done;")


def test_unknown_tables(run, tmp_path):
    for text in (
        "SELECT * FROM {}",
        "DELETE FROM {}",
        "UPDATE {} SET a = 1",
        "INSERT INTO {} VALUES (1)",
        "MERGE INTO {} t USING (SELECT 1 a) s ON true WHEN MATCHED THEN DELETE",
        "DESCRIBE HISTORY {}",
        "ALTER TABLE {} SET TBLPROPERTIES ('a' = 'b')",
    ):
        with pytest.raises(TableNotFoundError, match=r"no table at .*nowhere"):
            run(text.format(f"delvec.`{tmp_path / 'nowhere'}`"))


def test_two_tables_of_one_name(spark, run, table, tmp_path):
    spark.range(3).createOrReplaceTempView("bad_t")
    try:
        for text in (
            "SELECT * FROM bad_t",
            "DELETE FROM BAD_T",
            "SELECT 1 WHERE 1 IN (SELECT id FROM bad_t)",
        ):
            with pytest.raises(
                InvalidOperationError, match=r"(?i)bad_t names two tables: .*registered at .*/t and"
            ):
                run(text)
        with pytest.raises(InvalidOperationError, match="names two tables"):
            run("CREATE TABLE IF NOT EXISTS bad_t (a INT) USING delvec")
        assert run("WITH bad_t AS (SELECT 5 AS a) SELECT * FROM bad_t") == [{"a": 5}]
        assert len(run(f"SELECT * FROM delvec.`{table.location}`")) == 2
    finally:
        spark.catalog.dropTempView("bad_t")
    spark.range(3).createOrReplaceTempView("bad_other")
    try:
        with pytest.raises(InvalidOperationError, match="bad_other names two tables"):
            run(f"CREATE TABLE bad_other (a INT) USING delvec LOCATION '{tmp_path / 'other'}'")
    finally:
        spark.catalog.dropTempView("bad_other")


def test_a_name_is_taken(run, table, tmp_path):
    with pytest.raises(InvalidOperationError, match="bad_t is already the name of a table"):
        run(f"CREATE TABLE bad_t (a INT) USING delvec LOCATION '{tmp_path / 'x'}'")
    with pytest.raises(InvalidOperationError, match="already exists"):
        run(f"CREATE TABLE delvec.`{table.location}` (a INT)")
    with pytest.raises(InvalidOperationError, match="bad_new has no location, expected LOCATION"):
        run("CREATE TABLE bad_new (a INT) USING delta")


def test_reserved_words_need_backquotes(run, table):
    run("UPDATE bad_t SET `select` = 9 WHERE `select` = 5")
    assert {row[3] for row in rows_of(table)} == {6, 9}
    run("MERGE INTO bad_t AS `when` USING (SELECT 2L AS `then`) AS `on` ON `when`.id = `on`.`then` "
        "WHEN MATCHED THEN UPDATE SET `when`.`select` = 7")  # fmt: skip
    assert {row[3] for row in rows_of(table)} == {7, 9}
    assert run("SELECT `select` FROM bad_t WHERE bad_t.`select` = 9") == [{"select": 9}]


def test_comments_and_quotes(run, table):
    assert len(run("SELECT /* ; DELETE */ * FROM bad_t -- WHERE false\n")) == 2
    assert (
        len(run("SELECT * FROM bad_t /* nested /* FROM x */ */ WHERE name = 'it''s' OR name = \"-- b\"")) == 1
    )
    assert run("DELETE FROM bad_t WHERE name = 'it\\'s' -- OR true") == [{"num_affected_rows": 1}]
    assert len(run("SELECT 'FROM bad_t VERSION AS OF 99' FROM bad_t")) == 1


NASTY = [
    "x' OR '1' = '1",
    "x' OR 1=1 --",
    "x\\' OR 1=1 --",
    "'; DROP",
    "x\\",
    "${env:HOME}",
    "*/",
    "`",
    "{0}",
    ":p",
    "?",
]


@pytest.mark.parametrize("escaped", ["true", "false"])
def test_values_cannot_escape(spark, conf, run, tmp_path, escaped):
    conf("spark.sql.parser.escapedStringLiterals", escaped)
    table = table_of(
        spark, tmp_path / "nasty", "id bigint, name string", [(n, v) for n, v in enumerate(NASTY)]
    )
    name = f"delvec.`{table.location}`"
    for n, value in enumerate(NASTY):
        assert run(f"SELECT id FROM {name} WHERE name = :v", {"v": value}) == [{"id": n}]
        assert run(f"SELECT id FROM {name} WHERE name IN (?, ?)", [value, "no"]) == [{"id": n}]
    args = {"v": "x' OR '1' = '1", "w": "'; -- \\"}
    assert run(f"UPDATE {name} SET name = :w WHERE name = :v", args) == [{"num_affected_rows": 1}]
    assert [row[1] for row in rows_of(table) if row[0] == 0] == ["'; -- \\"]
    for value in ("'; -- \\", *NASTY[1:]):
        assert run(f"DELETE FROM {name} WHERE name = ?", [value]) == [{"num_affected_rows": 1}]


@pytest.mark.parametrize(
    ("text", "args", "problem"),
    [
        ("DELETE FROM bad_t WHERE id = :x", None, ":x has no value"),
        ("DELETE FROM bad_t WHERE id = :x", {"y": 1}, ":x has no value in args, which has y"),
        ("DELETE FROM bad_t WHERE id = 1", {"y": 1}, "args has y"),
        ("DELETE FROM bad_t WHERE id = ?", [1, 2], "args has 2 values"),
        ("SELECT * FROM bad_t WHERE id = :x", {"x": 1, "y": 2}, "args has y"),
        ("SELECT * FROM bad_t VERSION AS OF :v", {"v": "1 x"}, "ref is '1 x', but delta tables have no"),
        ("SELECT * FROM bad_t VERSION AS OF :v", {"v": 1.5}, "version is :v, expected a whole number"),
        ("SELECT * FROM bad_t VERSION AS OF :v", {"v": True}, "version is :v"),
    ],
)
def test_parameters_that_do_not_fit(run, table, text, args, problem):
    with refused(table, InvalidOperationError, problem):
        run(text, args)


@pytest.mark.parametrize(
    ("text", "error", "problem"),
    [
        ("DELETE FROM bad_t WHERE nothing = 1", InvalidOperationError, "nothing"),
        ("DELETE FROM bad_t t WHERE u.id = 1", InvalidOperationError, "u"),
        ("DELETE FROM bad_t WHERE id IN (SELECT id FROM bad_t)",
         UnsupportedFeatureError, "MERGE can read it"),
        ("UPDATE bad_t SET id = (SELECT max(id) FROM bad_t)", UnsupportedFeatureError, "MERGE can read it"),
        ("DELETE FROM bad_t t WHERE EXISTS (SELECT 1 FROM (SELECT 1 AS id) r WHERE r.id = bad_t.id)",
         InvalidOperationError, "bad_t"),
        ("DELETE FROM bad_t t WHERE rand() < (SELECT max(r.id) FROM range(3) r WHERE r.id = t.id)",
         InvalidOperationError, "(?i)nondeterministic"),
        ("DELETE FROM bad_t t WHERE sum(t.id) = (SELECT max(r.id) FROM range(3) r WHERE r.id = t.id)",
         InvalidOperationError, "(?i)aggregate"),
        ("DELETE FROM bad_t t WHERE row_number() OVER (ORDER BY t.id) = "
         "(SELECT max(r.id) FROM range(3) r WHERE r.id = t.id)", InvalidOperationError, "(?i)window"),
        ("DELETE FROM bad_t t WHERE (SELECT max(r.id) FROM range(3) r WHERE r.id = t.id)",
         InvalidOperationError, "(?i)boolean"),
        ("UPDATE bad_t SET nothing = 1", InvalidOperationError, "unknown column"),
        ("UPDATE bad_t SET id = 1, ID = 2", InvalidOperationError, "column ID appears twice"),
        ("UPDATE bad_t SET id = 1, bad_t.id = 2", InvalidOperationError, "column bad_t.id appears twice"),
        ("UPDATE bad_t SET id = 'x'",
         InvalidOperationError, "value for column id is of type string, expected bigint"),
        ("MERGE INTO bad_t t USING (SELECT 1L AS id) T ON true WHEN MATCHED THEN DELETE",
         InvalidOperationError, "source_alias and target_alias are both"),
        ("MERGE INTO bad_t t USING (SELECT 1L AS id) s ON id = 1 WHEN MATCHED THEN DELETE",
         InvalidOperationError, "(?i)ambiguous"),
        ("INSERT INTO bad_t SELECT 1, 'a'", InvalidOperationError, "the query has 2 columns .*expected 5"),
        ("INSERT INTO bad_t (id, nothing) VALUES (1, 2)", InvalidOperationError, "unknown column nothing"),
        ("INSERT INTO bad_t (id, id) VALUES (1, 2)", InvalidOperationError, "id appears twice"),
        ("INSERT INTO bad_t BY NAME SELECT 1 AS other", InvalidOperationError, "unknown column 'other'"),
        ("INSERT INTO bad_t PARTITION (id = 1) SELECT 1",
         InvalidOperationError, "id is not a partition column"),
        ("INSERT INTO bad_t PARTITION (p = 'x') SELECT 1",
         InvalidOperationError, "partition column p is 'x'"),
        ("INSERT OVERWRITE bad_t PARTITION (p = 1, p = 2) SELECT 1",
         InvalidOperationError, "p appears twice"),
        ("INSERT INTO bad_t REPLACE WHERE p = 1 VALUES (9, 'x', 2, 0, NULL)",
         InvalidOperationError, "a new row is outside of the condition"),
        ("SELECT * FROM bad_t VERSION AS OF 99", InvalidOperationError, "version 99 does not exist"),
        ("SELECT * FROM bad_t TIMESTAMP AS OF 'never'",
         InvalidOperationError, "timestamp 'never' is invalid"),
        ("SELECT * FROM bad_t TIMESTAMP AS OF NULL", InvalidOperationError, "is null, expected a time"),
        ("ALTER TABLE bad_t UNSET TBLPROPERTIES ('nothing')",
         InvalidOperationError, "has no property nothing"),
        ("ALTER TABLE bad_t SET TBLPROPERTIES ('a' = 'b', a = 'c')",
         InvalidOperationError, "a appears twice"),
        ("ALTER TABLE bad_t ADD COLUMNS (id INT)",
         InvalidOperationError, "column id already exists in the table"),
        ("ALTER TABLE bad_t ADD COLUMNS (a INT NOT NULL)", InvalidOperationError, "NOT NULL"),
        ("ALTER TABLE bad_t ADD COLUMNS (a NONSENSE)", InvalidOperationError, "new column a is NONSENSE"),
        ("ALTER TABLE bad_t ADD COLUMNS (nothing.a INT)",
         InvalidOperationError, "inside nothing, which is not a column of the table"),
        ("ALTER TABLE bad_t ADD COLUMNS (id.a INT)",
         InvalidOperationError, "inside bigint, expected a struct"),
        ("ALTER TABLE bad_t DROP COLUMN name",
         UnsupportedFeatureError, "delvec has no ALTER TABLE … DROP COLUMN"),
    ],
)  # fmt: skip
def test_refused(run, table, text, error, problem):
    with refused(table, error, problem):
        run(text)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("(a NONSENSE)", "NONSENSE"),
        ("(a INT, A INT)", "(?i)column|duplicate"),
        ("", "has no columns"),
        ("(a INT) PARTITIONED BY (b)", "partition column 'b' is not in the schema"),
        ("(a INT) AS SELECT 1", "has both columns and a query"),
        ("(a INT) LOCATION '/elsewhere'", "LOCATION is /elsewhere, expected none or"),
        ("(a INT) TBLPROPERTIES ('delta.appendOnly' = 'maybe')", "delta.appendOnly"),
    ],
)
def test_tables_that_cannot_be_created(run, tmp_path, columns, problem):
    with pytest.raises(InvalidOperationError, match=problem):
        run(f"CREATE TABLE delvec.`{tmp_path / 'new'}` {columns}")
    assert not (tmp_path / "new" / "_delta_log").exists()
