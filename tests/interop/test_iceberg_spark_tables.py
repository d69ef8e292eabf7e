"""Tables that Iceberg-Spark writes: rows, files and deletes as it sees them, at every snapshot."""

from __future__ import annotations

import pytest

from connector_rows import connector_rows
from delvec import sql
from delvec.detect import open_table
from delvec.table import Table
from delvec.verify import verify_table
from rows import multiset
from scanning import collected, same

pytestmark = [pytest.mark.interop, pytest.mark.spark]


def agrees(table, *conditions, connector=True):
    """delvec and Iceberg-Spark see the same rows, files and deletes; the newest rows by conditions, too."""
    mine = Table.open(table.spark, table.location)
    for snapshot in table.snapshots():
        expected = collected(table.rows(snapshot))
        same(mine.to_df(version=snapshot), expected)
        assert mine.count(version=snapshot) == len(expected)
        files_agree(table, snapshot)
    newest = collected(table.rows())
    same(mine.to_df(), newest)
    if connector:
        assert multiset(map(plain_row, connector_rows(table.location))) == multiset(newest)
    for where in conditions:
        expected = collected(table.sql(f"SELECT * FROM {{t}} WHERE {where}"))
        same(mine.to_df(where=where), expected)
        assert mine.count(where) == len(expected), where
    return mine


def plain_row(row):
    from scanning import plain

    return {name: plain(value) for name, value in row.items()}


def files_agree(table, snapshot):
    source = open_table(table.location)
    plan = source.snapshot(snapshot).plan()
    assert verify_table(source, version=snapshot).findings == ()
    columns = ["location", "record_count", "size", "spec_id"]
    found = {tuple(row.values()) for row in plan.files.select(columns).to_pylist()}
    theirs = table.data_files(snapshot)
    assert {(path.removeprefix("file:"), *rest) for path, *rest in theirs} == found
    deletes = {
        (row["location"], row["offset"], row["cardinality"])
        for row in plan.deletes.select(["location", "offset", "cardinality"]).to_pylist()
    }
    recorded = {(path.removeprefix("file:"), *rest[:2]) for _, path, *rest in table.delete_files(snapshot)}
    assert deletes <= recorded
    return deletes, recorded


def opened_files(mine, where):
    return len(mine.to_df(where=where).inputFiles())


SPECIAL = ["a", "", " ", "a b", "é", "x/y", "k=v", "50%", "%41", "it''s", "#", "null", "a:b", "?*"]


def test_v1_with_odd_partition_values(iceberg_table):
    table = iceberg_table("v1")
    table.create("id int, s string, n double", 1, "PARTITIONED BY (s)")
    values = ", ".join(f"({at}, '{text}', {at}.5)" for at, text in enumerate(SPECIAL))
    table.sql(f"INSERT INTO {{t}} VALUES {values}, (99, NULL, NULL)")
    table.sql("INSERT INTO {t} SELECT id + 100, s, n FROM {t} WHERE id % 2 = 0")
    table.sql("DELETE FROM {t} WHERE id < 3")  # copy-on-write: v1 has no delete files
    conditions = [f"s = '{text}'" for text in SPECIAL[:9]]
    mine = agrees(table, *conditions, "s IS NULL", "s > 'k'", "n > 4 AND s <> 'a'", "s IN ('é', '#')")
    assert (mine.format, mine.format_version) == ("iceberg", 1)
    assert opened_files(mine, "s = 'é'") < opened_files(mine, "s IS NOT NULL")


def test_v2_with_position_deletes(iceberg_table):
    table = iceberg_table("v2")
    table.create("id int, s string, p int", 2, "PARTITIONED BY (bucket(4, id), truncate(2, s))")
    table.sql("INSERT INTO {t} SELECT id, concat('s', id % 7), id % 3 FROM range(200)")
    table.sql("DELETE FROM {t} WHERE id % 10 = 3")
    table.sql("UPDATE {t} SET s = concat('u', s) WHERE id BETWEEN 40 AND 60")
    table.sql(
        "MERGE INTO {t} USING (SELECT id FROM range(195, 210)) n ON {t}.id = n.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, s, p) VALUES (n.id, 'new', 9)"
    )
    table.sql("DELETE FROM {t} WHERE s = 's1' AND id < 50")
    mine = agrees(table, "id = 44", "id IN (3, 44, 207)", "s LIKE 'us%'", "s = 'us1'", "p = 9 OR id < 5")
    deletes, recorded = files_agree(table, table.snapshots()[-1])
    assert deletes
    assert len(recorded) >= len(deletes)
    assert opened_files(mine, "id = 44") < opened_files(mine, "id >= 0")
    sizes = mine.files().selectExpr("sum(record_count)").first()[0]
    assert sizes > mine.count()


def test_v3_with_vectors_branches_and_tags(iceberg_table):
    table = iceberg_table("v3")
    table.create("id int, s string, ts timestamp", 3, "PARTITIONED BY (days(ts))")
    rows = "id, concat('s', id), TIMESTAMP '2024-02-28 20:00:00' + make_interval(0, 0, 0, 0, id)"
    table.sql(f"INSERT INTO {{t}} SELECT {rows} FROM range(60)")
    table.sql("ALTER TABLE {t} CREATE TAG before")
    table.sql("DELETE FROM {t} WHERE id % 4 = 1")
    table.sql("ALTER TABLE {t} CREATE BRANCH audit")
    table.sql("DELETE FROM {t}.branch_audit WHERE id < 30")
    table.sql("UPDATE {t} SET s = 'x' WHERE id IN (2, 30, 58)")
    day = "ts >= TIMESTAMP '2024-02-29 00:00:00' AND ts < TIMESTAMP '2024-03-01 00:00:00'"
    mine = agrees(table, day, "ts < TIMESTAMP '2024-02-28 23:00:00'", "s = 'x'", "id = 30 AND s = 's30'")
    for ref in ("before", "audit", "main"):
        expected = collected(table.rows(ref))
        same(mine.to_df(ref=ref), expected)
        query = f"SELECT * FROM delvec.`{table.location}` VERSION AS OF '{ref}'"
        same(sql(table.spark, query), expected)
    deletes, recorded = files_agree(table, table.snapshots()[-1])
    assert deletes == recorded
    assert opened_files(mine, day) < opened_files(mine, "id >= 0")


def test_partition_evolution_with_every_transform(iceberg_table):
    table = iceberg_table("evolved")
    table.create("id int, s string, d date, ts timestamp, n decimal(9, 2)", 3)

    def insert(first):
        table.sql(
            f"INSERT INTO {{t}} SELECT id, concat('name', id % 5), date_add(DATE '2023-12-20', int(id)), "
            f"TIMESTAMP '1969-12-31 20:00:00' + make_interval(0, 0, 0, 0, id), CAST(id / 4 AS DECIMAL(9, 2)) "
            f"FROM range({first}, {first + 24})"
        )

    insert(0)
    for at, field in enumerate(
        ("years(d)", "months(d)", "hours(ts)", "bucket(3, s)", "truncate(5, n)", "s"), 1
    ):
        table.sql(f"ALTER TABLE {{t}} ADD PARTITION FIELD {field}")
        insert(at * 100)
        table.sql(f"DELETE FROM {{t}} WHERE id % 100 = {at}")
        table.sql(f"ALTER TABLE {{t}} DROP PARTITION FIELD {field}")
    table.sql("INSERT INTO {t} VALUES (-1, NULL, NULL, NULL, NULL)")
    agrees(
        table,
        "d = DATE '2024-01-02'",
        "d < DATE '2024-01-01'",
        "year(d) = 2023",
        "ts < TIMESTAMP '1970-01-01 00:00:00'",
        "ts = TIMESTAMP '1970-01-01 05:00:00'",
        "s = 'name3'",
        "s IN ('name1', 'name4') AND d > DATE '2024-04-01'",
        "n = 1.25",
        "n > 50",
        "n BETWEEN -1 AND 0.5",
        "s IS NULL",
        "NOT (s = 'name2')",
    )


def test_columns_that_changed(iceberg_table):
    table = iceberg_table("columns")
    table.create(
        "id int, a int, f float, n decimal(5, 2), st struct<x: int, y: string>, "
        "l array<struct<k: int, v: string>>, m map<string, struct<q: int>>, `a b` string, `1é` int",
        3,
    )
    values = (
        "{id}, {id} * 2, CAST({id} AS FLOAT), CAST({id} AS DECIMAL(5, 2)), "
        "named_struct('x', {id}, 'y', 'y'), array(named_struct('k', {id}, 'v', 'v')), "
        "map('m', named_struct('q', {id})), 'ab', 7"
    )
    table.sql(f"INSERT INTO {{t}} SELECT {values.format(id='CAST(id AS INT)')} FROM range(10)")
    for change in (
        "RENAME COLUMN a TO b",
        "ALTER COLUMN b TYPE bigint",
        "ALTER COLUMN f TYPE double",
        "ALTER COLUMN n TYPE decimal(12, 2)",
        "RENAME COLUMN st.x TO renamed",
        "ADD COLUMN st.z bigint",
        "DROP COLUMN st.y",
        "ADD COLUMN st.y int",  # another column than before
        "ADD COLUMN l.element.w string",
        "RENAME COLUMN m.value.q TO r",
        "DROP COLUMN `a b`",
        "ADD COLUMN `a b` int FIRST",  # another column than before
        "ALTER COLUMN id AFTER f",
    ):
        table.sql(f"ALTER TABLE {{t}} {change}")
    table.sql("DELETE FROM {t} WHERE id = 3")
    table.sql(
        "INSERT INTO {t} (`a b`, b, f, id, n, st, l, m, `1é`) VALUES (1, 5000000000, 1.5D, 77, 1234567.25, "
        "named_struct('renamed', 1, 'z', 2L, 'y', 3), array(named_struct('k', 1, 'v', 'v', 'w', 'w')), "
        "map('n', named_struct('r', 4)), 8)"
    )
    table.sql("DELETE FROM {t} WHERE id = 5")
    table.sql("ALTER TABLE {t} ADD COLUMN late string")  # no snapshot has it
    agrees(table, "b > 10", "st.renamed = 4", "`a b` IS NULL", "`a b` = 1", "f < 3", "n = 7", "`1é` = 7")


def test_v3_upgraded_from_v2(iceberg_table):
    table = iceberg_table("upgraded")
    table.create("id int, p int", 2, "PARTITIONED BY (p)")
    table.sql("INSERT INTO {t} SELECT id, id % 2 FROM range(40)")
    table.sql("DELETE FROM {t} WHERE id < 6")
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
    table.sql("DELETE FROM {t} WHERE id IN (6, 8, 10)")
    table.sql("INSERT INTO {t} SELECT id, id % 2 FROM range(100, 110)")
    agrees(table, "p = 1", "id > 100 AND p = 0")


def test_row_lineage(iceberg_table):
    table = iceberg_table("lineage")
    table.create("id int, s string", 3)
    table.sql("INSERT INTO {t} SELECT id, 'a' FROM range(10)")
    table.sql("UPDATE {t} SET s = 'b' WHERE id IN (2, 5)")
    table.sql("DELETE FROM {t} WHERE id = 7")
    lineage = ["id", "_row_id", "_last_updated_sequence_number"]
    expected = collected(table.sql(f"SELECT {', '.join(lineage)} FROM {{t}}"))
    same(Table.open(table.spark, table.location).to_df(columns=lineage), expected)
