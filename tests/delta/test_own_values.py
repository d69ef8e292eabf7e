"""Columns whose values the table gives: generated columns and defaults, in a log made by hand."""

from __future__ import annotations

import datetime as dt

import pytest

from delta_log import LogWriter, column, metadata, protocol
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from verbs import CHANGES_ON, VECTORS_OFF, changes, frame_of, holds, refused

pytestmark = pytest.mark.spark

GENERATION, DEFAULT = "delta.generationExpression", "CURRENT_DEFAULT"
COLUMNS = (
    column("id", "integer"),
    column("at", "timestamp"),
    column("day", "date", metadata={GENERATION: "CAST(at AS DATE)"}),
    column("double id", "long", metadata={GENERATION: "id * 2"}),
    column("note", "string", metadata={DEFAULT: "upper('none')"}),
    column("size", "byte", nullable=False, metadata={DEFAULT: "3"}),
)
NOON, LATE = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC), dt.datetime(2024, 2, 2, 22, tzinfo=dt.UTC)
DAY, LATE_DAY = NOON.date(), LATE.date()
KINDS = {"vectors": {}, "copy-on-write, changes": VECTORS_OFF | CHANGES_ON}


def made(spark, place, *fields, by=(), properties=None):
    from delvec.table import Table

    place.mkdir()
    body = protocol()
    body["protocol"]["writerFeatures"] += ["generatedColumns", "allowColumnDefaults", "changeDataFeed"]
    on = {"delta.enableDeletionVectors": "true"} | (properties or {})
    LogWriter(str(place)).commit(body, metadata(*fields, partition_by=by, properties=on))
    return Table.open(spark, str(place))


@pytest.fixture(params=KINDS)
def table(spark, tmp_path, request):
    table = made(spark, tmp_path / "t", *COLUMNS, by=["day"], properties=KINDS[request.param])
    table.append(frame_of(spark, "id int, at timestamp", [(1, NOON), (2, None)]))
    return table


def test_columns_left_out_get_their_values(table):
    holds(table, [(1, NOON, DAY, 2, "NONE", 3), (2, None, None, 4, "NONE", 3)])


def test_values_given_are_taken_or_refused(spark, table):
    ddl = "id int, at timestamp, `DOUBLE ID` bigint, note string, size int"
    table.append(frame_of(spark, ddl, [(3, LATE, 6, None, 7)]))
    rows = [(1, NOON, DAY, 2, "NONE", 3), (2, None, None, 4, "NONE", 3), (3, LATE, LATE_DAY, 6, None, 7)]
    holds(table, rows)
    reason = r"value of generated column double id differs from its expression id \* 2"
    for wrong in (7, None):
        with refused(table, InvalidOperationError, reason):
            table.append(frame_of(spark, ddl, [(3, LATE, wrong, None, 7)]))
    with refused(table, InvalidOperationError, "column size"):
        table.append(frame_of(spark, ddl, [(3, LATE, 6, None, None)]))


def test_overwrite_computes_what_its_condition_asks(spark, table):
    table.overwrite(frame_of(spark, "id int, at timestamp", [(4, NOON)]), where="day = '2024-01-01'")
    holds(table, [(4, NOON, DAY, 8, "NONE", 3), (2, None, None, 4, "NONE", 3)])
    with refused(table, InvalidOperationError, "outside of the condition"):
        table.overwrite(frame_of(spark, "id int, at timestamp", [(4, LATE)]), where="day = '2024-01-01'")
    table.overwrite(frame_of(spark, "id int, at timestamp", [(5, NOON)]), partitions="dynamic")
    holds(table, [(5, NOON, DAY, 10, "NONE", 3), (2, None, None, 4, "NONE", 3)])


def test_update_computes_generated_columns_anew(table):
    table.update({"id": "id + 10", "at": "timestamp'2024-02-02 22:00:00'", "note": "'new'"}, "id = 1")
    holds(table, [(11, LATE, LATE_DAY, 22, "new", 3), (2, None, None, 4, "NONE", 3)])
    if table.properties.get("delta.enableChangeDataFeed") == "true":
        assert {kind for kind, *_ in changes(table)} == {"update_preimage", "update_postimage"}
        assert ("update_postimage", 11, LATE, 22, "new", 3, "2024-02-02") in changes(table)
    table.update({"`double id`": "4", "size": "9"}, "id = 2")
    holds(table, [(11, LATE, LATE_DAY, 22, "new", 3), (2, None, None, 4, "NONE", 9)])
    with refused(table, InvalidOperationError, "generated column double id"):
        table.update({"id": "12", "`double id`": "22"}, "id = 11")


def test_merge_computes_per_clause(spark, table):
    source = frame_of(spark, "k int, at timestamp, g bigint", [(1, LATE, 40), (2, NOON, 4), (7, NOON, 0)])
    (
        table.merge(source, "target.id = source.k")
        .when_matched_update({"id": "20", "`double id`": "source.g"}, "source.k = 1")
        .when_matched_update({"at": "source.at"})
        .when_not_matched_insert({"id": "source.k", "at": "source.at"})
        .execute()
    )
    holds(
        table,
        [(20, NOON, DAY, 40, "NONE", 3), (2, NOON, DAY, 4, "NONE", 3), (7, NOON, DAY, 14, "NONE", 3)],
    )
    with refused(table, InvalidOperationError, "generated column double id"):
        table.merge(source, "target.id = source.k").when_matched_update({"`double id`": "5"}).execute()


def test_merge_of_all_columns_may_leave_them_out(spark, table):
    source = frame_of(
        spark, "id int, at timestamp, note string, size byte", [(1, LATE, "x", 1), (8, NOON, None, 2)]
    )
    merge = table.merge(source, "target.id = source.id").when_matched_update_all()
    merge.when_not_matched_insert_all().execute()
    rows = [(1, LATE, LATE_DAY, 2, "x", 1), (2, None, None, 4, "NONE", 3), (8, NOON, DAY, 16, None, 2)]
    holds(table, rows)
    fewer = source.select("id", "at").where("id = 8").selectExpr("id + 1 AS id", "at")
    table.merge(fewer, "target.id = source.id").when_not_matched_insert_all().execute()
    holds(table, [*rows, (9, NOON, DAY, 18, "NONE", 3)])
    with refused(table, InvalidOperationError, "column 'note' is not in the source"):
        table.merge(fewer, "target.id = source.id").when_matched_update_all().execute()


def test_sql_insert_with_a_list_of_columns(spark, table):
    from delvec import sql

    name = f"delvec.`{table.location}`"
    sql(spark, f"INSERT INTO {name} (at, id) VALUES (timestamp'2024-01-01 12:00:00', 5)")
    sql(spark, f"INSERT INTO {name} BY NAME SELECT 6 AS id, CAST(7 AS TINYINT) AS size")
    rows = [(1, NOON, DAY, 2, "NONE", 3), (2, None, None, 4, "NONE", 3)]
    holds(table, [*rows, (5, NOON, DAY, 10, "NONE", 3), (6, None, None, 12, "NONE", 7)])


def test_sql_default_as_a_value(spark, table):
    from delvec import sql

    name = f"delvec.`{table.location}`"
    sql(
        spark,
        f"INSERT INTO {name} (id, note, size, at) VALUES (5, default, DEFAULT, DEFAULT), (6, 'x', 1, NULL)",
    )
    sql(spark, f"UPDATE {name} SET note = DEFAULT, size = 9 WHERE id = 6")
    sql(
        spark,
        f"MERGE INTO {name} t USING (SELECT 5 AS k UNION ALL SELECT 7) s ON t.id = s.k "
        "WHEN MATCHED THEN UPDATE SET note = 'y', size = DEFAULT "
        "WHEN NOT MATCHED THEN INSERT (id, note, size) VALUES (s.k, DEFAULT, 2)",
    )
    rows = [(1, NOON, DAY, 2, "NONE", 3), (2, None, None, 4, "NONE", 3), (5, None, None, 10, "y", 3)]
    holds(table, [*rows, (6, None, None, 12, "NONE", 9), (7, None, None, 14, "NONE", 2)])


def test_expressions_that_cannot_be_computed_are_named(spark, tmp_path):
    fields = (column("id", "long"), column("g", "long", metadata={GENERATION: "nope + 1"}))
    table = made(spark, tmp_path / "g", *fields)
    with refused(table, InvalidOperationError, r"generation expression 'nope \+ 1' of column g"):
        table.append(spark.range(1))
    fields = (column("id", "long"), column("d", "date", metadata={DEFAULT: "5"}))
    table = made(spark, tmp_path / "d", *fields)
    with refused(table, InvalidOperationError, "value for column d is of type int, expected date"):
        table.append(spark.range(1))
    nested = {"type": "struct", "fields": [column("x", "long", metadata={DEFAULT: "5"})]}
    table = made(spark, tmp_path / "n", column("id", "long"), column("s", nested))
    with refused(table, UnsupportedFeatureError, "field s.x has a default"):
        table.append(spark.range(1))
