"""Each statement through SQL, and the same through the API on an equal table: rows, history, counts."""

from __future__ import annotations

import pytest

from contract.kinds import ANY_COLUMN_NAMES, CHANGE_FEED, REQUESTS
from scanning import collected
from verbs import holds, rows_of

pytestmark = pytest.mark.spark

DDL = "id bigint, name string, p int, s struct<a: int, b: string>"
ROWS = [(n, f"n{n}", n % 3, (n, f"b{n}") if n % 4 else None) for n in range(12)]
TIMES = ("executionTimeMs", "numCommitTries", "numRuns")


@pytest.fixture
def pair(kind, spark, tmp_path):
    """Two equal tables, partitioned by p: one for SQL, one for the API."""
    return [kind.table(spark, tmp_path / name, DDL, ROWS, partition_by=["p"]) for name in ("sql", "api")]


@pytest.fixture
def run(spark, pair):
    """Runs SQL in which ``t`` stands for the first table, and gives the row that comes of it."""
    from delvec import sql

    def statement(text, args=None):
        found = collected(sql(spark, text.replace("{t}", f"delvec.`{pair[0].location}`"), args))
        return found[0] if found else None

    return statement


@pytest.fixture
def same_as(kind, pair):
    def compare(result=None):
        mine, api = pair
        assert rows_of(mine) == rows_of(api)
        (told, other) = (collected(table.history(1))[0] for table in pair)
        assert told["operation"] == other["operation"]
        assert counts(told) == counts(other)
        assert kind.commits(mine) == kind.commits(api)
        assert kind.written(mine) == kind.written(api)

    return compare


def counts(commit):
    return {
        name: value
        for name, value in dict(commit["metrics"]).items()
        if name not in TIMES and "Bytes" not in name
    }


def affected(result):
    return next(
        value for name, value in result.metrics.items() if name in ("numDeletedRows", "numUpdatedRows")
    )


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("DELETE FROM {t}", None),
        ("DELETE FROM {t} WHERE id > 3 AND name <> 'n5'", "id > 3 AND name <> 'n5'"),
        ("DELETE FROM {t} AS x WHERE x.id = 3 OR x.s.a = 5", "id = 3 OR s.a = 5"),
        ("DELETE FROM {t} WHERE {t}.p = 1", "p = 1"),
        ("delete from {t} /* all */ where -- these\n id = 7 ;", "id = 7"),
        ("DELETE FROM {t} WHERE id = 99", "id = 99"),
        ("DELETE FROM {t} s WHERE s.a = 5 AND s.id = 5", "s.a = 5 AND id = 5"),
    ],
)
def test_delete(run, pair, same_as, text, where):
    found = run(text)
    result = pair[1].delete(where)
    assert found == {"num_affected_rows": affected(result)}
    same_as()


def test_update(run, pair, same_as):
    found = run(
        "UPDATE {t} AS x SET x.name = upper(x.name), s.b = 'new', p = x.p + 1 WHERE x.id BETWEEN 2 AND 6"
    )
    pair[1].update({"name": "upper(name)", "s.b": "'new'", "p": "p + 1"}, "id BETWEEN 2 AND 6")
    assert found == {"num_affected_rows": 5}
    same_as()


def test_update_of_all_rows(run, pair, same_as):
    assert run("UPDATE {t} SET name = concat(name, ', ', name)") == {"num_affected_rows": 12}
    pair[1].update({"name": "concat(name, ', ', name)"})
    same_as()


@pytest.fixture
def requests(spark):
    frame = spark.createDataFrame([(1, "one"), (3, "three"), (40, "forty")], "rid bigint, word string")
    frame.createOrReplaceTempView("requests")
    yield frame
    spark.catalog.dropTempView("requests")


@pytest.mark.numbered
@pytest.mark.parametrize(
    ("condition", "gone"),
    [
        ("id IN (SELECT rid FROM requests)", {1, 3}),
        ("id NOT IN (SELECT rid FROM requests)", set(range(12)) - {1, 3}),
        ("EXISTS (SELECT 1 FROM requests r WHERE r.rid = x.id)", {1, 3}),
        # names that both tables have: the qualifier decides
        ("EXISTS (SELECT 1 FROM (SELECT rid AS id FROM requests) r WHERE r.id = x.id)", {1, 3}),
        ("EXISTS (SELECT 1 FROM {other} o JOIN requests r ON o.id = r.rid WHERE x.id = o.id + 1)", {2, 4}),
        ("EXISTS (WITH x AS (SELECT 7 AS id) SELECT 1 FROM x WHERE x.id = 7)", set(range(12))),
        ("x.id < 8 AND EXISTS (SELECT 1 FROM range(3) r WHERE r.id = x.id)", {0, 1, 2}),
        ("x.id = (SELECT max(r.rid) FROM requests r WHERE r.rid < x.id + 2)", {1, 3}),
        ("NOT EXISTS (SELECT 1 FROM requests WHERE rid = id)", set(range(12)) - {1, 3}),
        ("id = (SELECT min(rid) FROM requests WHERE rid > ?)", {3}),
        ("x.id IN (SELECT id FROM {other} VERSION AS OF {first} x WHERE x.id < 4)", {0, 1, 2, 3}),
    ],
)
def test_delete_by_a_subquery(kind, run, pair, requests, condition, gone):
    args = [2] if "?" in condition else None
    condition = condition.replace("{other}", f"delvec.`{pair[1].location}`")
    condition = condition.replace("{first}", str(kind.version(pair[1], 1)))
    before = views(pair)
    assert run(f"DELETE FROM {{t}} x WHERE {condition}", args) == {"num_affected_rows": len(gone)}
    assert {row[0] for row in rows_of(pair[0])} == set(range(12)) - gone
    assert views(pair) == before


def test_update_by_a_correlated_subquery(run, pair, requests):
    """Without an alias the table goes by its name or its path."""
    same = "(SELECT rid AS id, word AS name FROM requests) r WHERE r.id = {t}.id"
    run(f"UPDATE {{t}} SET name = (SELECT max(r.name) FROM {same}) WHERE EXISTS (SELECT 1 FROM {same})")
    names = {row[0]: row[1] for row in rows_of(pair[0])}
    assert names == {number: f"n{number}" for number in range(12)} | {1: "one", 3: "three"}


def test_update_by_a_subquery(run, pair, requests):
    run("UPDATE {t} SET name = (SELECT max(word) FROM requests) WHERE id IN (SELECT rid FROM requests)")
    assert {row[0]: row[1] for row in rows_of(pair[0]) if row[0] < 4} == {
        0: "n0",
        1: "three",
        2: "n2",
        3: "three",
    }


def views(pair):
    return [table.name for table in pair[0]._spark.catalog.listTables()]


MERGE = """
MERGE INTO {t} AS x
USING (SELECT id, concat('m', id) AS name, 0 AS p FROM VALUES (1), (5), (9), (20), (21) AS v(id)) AS y
ON x.id = y.id
WHEN MATCHED AND y.id = 9 THEN DELETE
WHEN MATCHED AND CASE WHEN x.p = 1 THEN true ELSE false END THEN UPDATE SET x.name = y.name, s.a = -1
WHEN MATCHED THEN UPDATE SET name = concat(x.name, y.name)
WHEN NOT MATCHED AND y.id > 20 THEN INSERT (id, `name`, p) VALUES (y.id, y.name, y.p)
WHEN NOT MATCHED BY SOURCE AND x.id < 2 THEN DELETE
WHEN NOT MATCHED BY SOURCE AND id = 11 THEN UPDATE SET name = 'alone'
"""


@pytest.mark.common
def test_merge(spark, run, pair, same_as):
    found = run(MERGE)
    source = spark.sql(
        "SELECT id, concat('m', id) AS name, 0 AS p FROM VALUES (1L), (5L), (9L), (20L), (21L) AS v(id)"
    )
    (
        pair[1]
        .merge(source, "x.id = y.id", source_alias="y", target_alias="x")
        .when_matched_delete("y.id = 9")
        .when_matched_update({"name": "y.name", "s.a": "-1"}, "x.p = 1")
        .when_matched_update({"name": "concat(x.name, y.name)"})
        .when_not_matched_insert({"id": "y.id", "name": "y.name", "p": "y.p"}, "y.id > 20")
        .when_not_matched_by_source_delete("x.id < 2")
        .when_not_matched_by_source_update({"name": "'alone'"}, "id = 11")
        .execute()
    )
    assert found == {
        "num_affected_rows": 6,
        "num_updated_rows": 3,
        "num_deleted_rows": 2,
        "num_inserted_rows": 1,
    }
    same_as()


def test_merge_of_all_columns_from_a_table(run, pair):
    pair[1].update({"name": "'other'"}, "id < 2")
    pair[1].delete("id > 4")
    run("DELETE FROM {t} WHERE id = 1 OR id > 6")
    found = run(
        f"MERGE INTO {{t}} USING delvec.`{pair[1].location}` AS y ON {{t}}.id = y.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert (found["num_updated_rows"], found["num_inserted_rows"]) == (4, 1)
    assert [row[:2] for row in rows_of(pair[0])] == [
        *((0, "other"), (1, "other"), (2, "n2"), (3, "n3"), (4, "n4"), (5, "n5"), (6, "n6")),
    ]


def test_merge_that_reads_its_target(run, pair):
    found = run(
        "MERGE INTO {t} t USING (SELECT id + 100 AS id, p FROM {t} WHERE id < 3) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id, s.p)"
    )
    assert found["num_inserted_rows"] == 3
    assert [row[0] for row in rows_of(pair[0]) if row[0] > 99] == [100, 101, 102]


def test_a_merge_alias_that_hides_a_column(run, pair):
    """A qualifier counts before a column with fields, as in Spark: s.id is the source's, not a field of s."""
    found = run(
        "MERGE INTO {t} AS name USING (SELECT 3L AS id, 'x' AS b) AS s ON name.id = s.id "
        "WHEN MATCHED AND name.s.a = 3 THEN UPDATE SET name.name = s.b"
    )
    assert found["num_updated_rows"] == 1
    assert [row[1] for row in rows_of(pair[0]) if row[0] == 3] == ["x"]


@pytest.mark.parametrize(
    ("text", "rows", "options"),
    [
        ("INSERT INTO {t} VALUES (50, 'x', 1, NULL), (51, 'y', 2, named_struct('q', 1, 'r', 'z'))",
         [(50, "x", 1, None), (51, "y", 2, (1, "z"))], None),
        ("INSERT INTO {t} (p, id) SELECT 7, 60", [(60, None, 7, None)], None),
        ("INSERT INTO {t} BY NAME SELECT 9 AS p, 70L AS ID", [(70, None, 9, None)], None),
        ("INSERT INTO {t} PARTITION (p = '4') SELECT 80, 'w', NULL", [(80, "w", 4, None)], None),
        ("INSERT INTO {t} SELECT id + 100, name, p, s FROM {t} WHERE id < 2",
         [(100, "n0", 0, None), (101, "n1", 1, (1, "b1"))], None),
        ("INSERT OVERWRITE {t} SELECT 1, 'only', 0, NULL", [(1, "only", 0, None)], {}),
        ("INSERT OVERWRITE TABLE {t} PARTITION (p = 1) VALUES (90, 'v', NULL)", [(90, "v", 1, None)],
         {"where": "p <=> 1"}),
        ("INSERT OVERWRITE {t} PARTITION (p) SELECT 91, 'u', 2, NULL", [(91, "u", 2, None)], {}),
        ("INSERT INTO {t} REPLACE WHERE id >= 10 VALUES (95, 'r', 1, NULL)", [(95, "r", 1, None)],
         {"where": "id >= 10"}),
    ],
)  # fmt: skip
def test_insert(run, pair, text, rows, options):
    found = run(text)
    assert found == {"num_affected_rows": len(rows), "num_inserted_rows": len(rows)}
    api = pair[1]
    frame = api._spark.createDataFrame(rows, DDL).coalesce(1)
    _ = api.append(frame) if options is None else api.overwrite(frame, **options)
    mine, theirs = rows_of(pair[0]), rows_of(api)
    assert mine == theirs
    assert collected(pair[0].history(1))[0]["operation"] == collected(api.history(1))[0]["operation"]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("INSERT OVERWRITE {t} VALUES (90, 'v', 2, NULL)", {"partitions": "dynamic"}),
        ("INSERT OVERWRITE {t} PARTITION (p) VALUES (90, 'v', 2, NULL)", {"partitions": "dynamic"}),
        ("INSERT OVERWRITE {t} PARTITION (p = 2) VALUES (90, 'v', NULL)", {"where": "p <=> 2"}),
    ],
)
def test_insert_overwrite_of_partitions(conf, run, pair, text, options):
    conf("spark.sql.sources.partitionOverwriteMode", "dynamic")
    run(text)
    pair[1].overwrite(pair[1]._spark.createDataFrame([(90, "v", 2, None)], DDL), **options)
    assert rows_of(pair[0]) == rows_of(pair[1])
    assert {row[0] for row in rows_of(pair[0]) if row[2] == 2} == {90}
    assert len(rows_of(pair[0])) == 9


@pytest.mark.numbered
def test_insert_into_a_table_of_spark(kind, spark, run, pair, tmp_path):
    first = kind.version(pair[0], 1)
    spark.sql(f"CREATE TABLE sparks (id bigint) USING parquet LOCATION '{tmp_path / 'sparks'}'")
    try:
        query = f"WITH c AS (SELECT id FROM {{t}} VERSION AS OF {first}) SELECT id FROM c WHERE id < 3"
        run(f"INSERT INTO sparks {query}")
        assert sorted(row.id for row in spark.table("sparks").collect()) == [0, 1, 2]
    finally:
        spark.sql("DROP TABLE sparks")


@pytest.mark.numbered
@pytest.mark.common
def test_create(kind, spark, tmp_path):
    from delvec import Table, sql

    place, other = tmp_path / "a b", tmp_path / "api"
    features = {**kind.having(ANY_COLUMN_NAMES, CHANGE_FEED), "x y": "z"}
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in features.items())
    text = f"""CREATE TABLE delvec.`{place}`
        (id BIGINT NOT NULL COMMENT 'the ''key''', `a b` STRUCT<x: INT>, P INT)
        USING {kind.format} PARTITIONED BY (p) COMMENT 'words'
        TBLPROPERTIES ({listed}, 'x' = 'it\\'s', n = -5)"""
    assert collected(sql(spark, text)) == []
    properties = features | {"x": "it's", "n": "-5"}
    ddl = "id BIGINT NOT NULL COMMENT 'the ''key''', `a b` STRUCT<x: INT>, P INT"
    api = Table.create(
        spark,
        str(other),
        ddl,
        kind.format,
        kind.format_version,
        partition_by=["P"],
        properties=properties | {"comment": "words"},
    )
    table = Table.open(spark, str(place))
    assert table.schema == api.schema
    assert table.properties == api.properties
    if REQUESTS in kind.abilities:
        assert [name for name, _ in collected(table.history())[0]["parameters"]] == [
            name for name, _ in collected(api.history())[0]["parameters"]
        ]
        assert collected(table.history())[0]["operation"] == "CREATE TABLE"
    sql(spark, text.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
    assert (table.version, kind.commits(table)) == (kind.version(table, 0), 0)


@pytest.mark.numbered
def test_create_as_select_under_a_name(kind, spark, run, pair, tmp_path):
    from delvec import Table, sql

    sql(
        spark,
        f"CREATE TABLE made USING {kind.format} PARTITIONED BY (p) LOCATION '{tmp_path / 'made'}' AS "
        f"SELECT id, p FROM delvec.`{pair[0].location}` WHERE id < :n",
        {"n": 4},
    )
    made = Table.open(spark, str(tmp_path / "made"))
    holds(made, [(0, 0), (1, 1), (2, 2), (3, 0)])
    if REQUESTS in kind.abilities:
        assert collected(made.history())[0]["operation"] == "CREATE TABLE AS SELECT"
    assert collected(sql(spark, "SELECT MADE.id FROM made WHERE p = 2")) == [{"id": 2}]
    assert collected(sql(spark, "DELETE FROM Made WHERE made.id = 2")) == [{"num_affected_rows": 1}]
    assert collected(sql(spark, "CREATE TABLE IF NOT EXISTS made (x INT) USING delvec")) == []


@pytest.mark.numbered
def test_properties(kind, run, pair, same_as):
    name, value = next(iter(kind.switch_vectors(on=True).items()))
    run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{name}' = '{value}', note = :n)", {"n": "it's; -- x"})
    pair[1].set_properties({name: value, "note": "it's; -- x"})
    assert pair[0].properties == pair[1].properties
    same_as()
    run("ALTER TABLE {t} UNSET TBLPROPERTIES IF EXISTS ('note', 'nothing')")
    pair[1].set_properties({"note": None})
    assert pair[0].properties == pair[1].properties
    same_as()
    version = pair[0].version
    run("ALTER TABLE {t} UNSET TBLPROPERTIES IF EXISTS ('nothing')")
    assert pair[0].version == version


def test_add_columns(kind, run, pair, same_as):
    run(
        "ALTER TABLE {t} ADD COLUMNS "
        "(e DECIMAL(10, 2) COMMENT 'x, y', f ARRAY<STRUCT<a: INT>>, s.c MAP<STRING, INT>)"
    )
    pair[1].add_columns(
        "e DECIMAL(10, 2) COMMENT 'x, y', f ARRAY<STRUCT<a: INT>>, s STRUCT<c: MAP<STRING, INT>>"
    )
    assert pair[0].schema == pair[1].schema
    assert pair[0].schema["s"].dataType.names == ["a", "b", "c"]
    same_as()
    if REQUESTS in kind.abilities:
        assert collected(pair[0].history(1))[0]["operation"] == "ADD COLUMNS"
    run("ALTER TABLE {t} ADD COLUMN f.element.b STRING")
    assert pair[0].schema["f"].dataType.elementType.names == ["a", "b"]
    run("INSERT INTO {t} (id, e) VALUES (99, 1.5)")
    assert len(rows_of(pair[0])) == 13


@pytest.mark.numbered
def test_describe_history(spark, run, pair):
    from delvec import sql

    run("DELETE FROM {t} WHERE id = 1")
    found = sql(spark, f"DESCRIBE HISTORY delvec.`{pair[0].location}`")
    assert collected(found) == collected(pair[0].history())
    limited = sql(spark, f"DESC HISTORY delvec.`{pair[0].location}` LIMIT 1")
    assert [row["operation"].upper() for row in collected(limited)] == ["DELETE"]


@pytest.mark.numbered
def test_describe_detail(kind, run, pair):
    run("DELETE FROM {t} WHERE p = 1")
    found = run("DESCRIBE DETAIL {t}")
    files = collected(pair[0].files())
    assert found["numFiles"] == len(files) == 2
    assert found["sizeInBytes"] == sum(file["size"] for file in files)
    assert (found["format"], found["location"]) == (kind.format, pair[0].location)
    assert found["partitionColumns"] == ["p"]
    assert dict(found["properties"]) == pair[0].properties
    times = [row["timestamp"] for row in collected(pair[0].history())]
    assert found["lastModified"] == times[0]
    created = found["createdAt"]
    assert created == times[-1] if REQUESTS in kind.abilities else created < times[-1]


def test_statements_that_are_sparks(spark):
    from delvec import sql

    assert collected(sql(spark, "SELECT :a AS a, ':b' AS b", {"a": 5, "unused": 1})) == [{"a": 5, "b": ":b"}]
    assert sql(spark, "SHOW TABLES").columns == ["namespace", "tableName", "isTemporary"]
    assert collected(sql(spark, "SELECT ? + ? AS x;", [1, 2])) == [{"x": 3}]
