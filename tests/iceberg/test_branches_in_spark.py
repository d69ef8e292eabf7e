"""Statements on branches: Python and SQL, by path, by registered name and by catalog."""

from __future__ import annotations

import pyarrow as pa
import pytest

from delvec import Table, sql
from delvec.errors import InvalidOperationError
from delvec.ref_changes import IfExists, RefRetention
from iceberg_tables import IcebergWriter
from verbs import rows_of

pytestmark = pytest.mark.spark

MERGE_ON_READ = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
DAY_MS = 86_400_000


@pytest.fixture
def table(spark, tmp_path):
    """Rows 0 to 5 in one file, of version 3."""
    writer = IcebergWriter(tmp_path / "a t", pa.schema([("id", pa.int64()), ("v", pa.string())]),
                           format_version=3, properties=dict(MERGE_ON_READ))  # fmt: skip
    writer.append([{"id": number, "v": "old"} for number in range(6)])
    return Table.open(spark, str(writer.root))


@pytest.fixture
def named(table):
    """The table by a name."""
    from delvec import name_resolver

    table.register("shop_t")
    yield table
    name_resolver.unregister("shop_t")


def ids(table):
    return sorted(row[0] for row in rows_of(table))


def test_verbs_on_a_branch(spark, table):
    table.create_ref("audit")
    audit = Table.open(spark, table.location, ref="audit")
    audit.delete("id < 2")
    audit.append(spark.createDataFrame([(9, "new")], "id bigint, v string"))
    audit.update({"v": "'set'"}, "id = 5")
    source = spark.createDataFrame([(4, "x"), (7, "y")], "id bigint, v string")
    audit.merge(source, "target.id = source.id").when_matched_delete().when_not_matched_insert_all().execute()
    assert sorted(rows_of(audit)) == [(2, "old"), (3, "old"), (5, "set"), (7, "y"), (9, "new")]
    assert ids(table) == [0, 1, 2, 3, 4, 5]
    assert ids(Table.open(spark, table.location, ref="main")) == [0, 1, 2, 3, 4, 5]
    assert audit.version != table.version
    table.append(spark.createDataFrame([(10, "main")], "id bigint, v string"))
    assert 10 not in ids(audit)
    # Main becomes what the branch is.
    assert table.restore(audit.version).version == audit.version == table.version
    assert rows_of(table) == rows_of(audit)
    table.drop_ref("audit")
    with pytest.raises(InvalidOperationError, match="'audit' does not exist, expected one of main"):
        audit.delete("id = 9")
    with pytest.raises(InvalidOperationError, match="'audit' does not exist, expected one of main"):
        Table.open(spark, table.location, ref="audit")


def test_a_tag_cannot_be_written(spark, table):
    table.create_ref("start", kind="tag")
    at = Table.open(spark, table.location, ref="start")
    frame = spark.createDataFrame([(9, "new")], "id bigint, v string")
    for change in (
        lambda: at.delete("id = 1"),
        lambda: at.append(frame),
        lambda: at.overwrite(frame),
        lambda: at.update({"v": "'x'"}),
        lambda: at.set_properties({"x": "y"}),
        lambda: at.restore(at.version),
    ):
        with pytest.raises(InvalidOperationError, match="'start' is a tag, expected a branch"):
            change()
    assert ids(at) == ids(table) == [0, 1, 2, 3, 4, 5]


def test_sql(spark, named, table):
    def run(text, args=None):
        return [tuple(row) for row in sql(spark, text, args).collect()]

    def refs():
        return table._table.snapshot().metadata.raw["refs"]

    first = table.version
    run("ALTER TABLE shop_t CREATE BRANCH audit")
    run("ALTER TABLE shop_t CREATE TAG start AS OF VERSION :v RETAIN 7 DAYS", {"v": first})
    run("ALTER TABLE shop_t CREATE BRANCH IF NOT EXISTS audit RETAIN 1 DAYS")
    assert refs()["start"] == {"snapshot-id": first, "type": "tag", "max-ref-age-ms": 7 * DAY_MS}
    assert refs()["audit"] == {"snapshot-id": first, "type": "branch"}
    run("DELETE FROM shop_t.branch_audit WHERE id = 0")
    run("INSERT INTO shop_t.branch_audit VALUES (7, 'seven')")
    run(f"UPDATE delvec.`{table.location}`.branch_audit SET v = 'u' WHERE id = 1")
    run(f"MERGE INTO iceberg.`{table.location}`.branch_audit t USING (SELECT 2 AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE")  # fmt: skip
    assert run("SELECT id, v FROM shop_t.branch_audit WHERE id IN (0, 1, 2, 7) ORDER BY id") == \
        [(1, "u"), (7, "seven")]  # fmt: skip
    assert run("SELECT count(*) FROM shop_t VERSION AS OF 'audit'") == [(5,)]
    assert run("SELECT a.id FROM shop_t.branch_audit a LEFT ANTI JOIN shop_t.tag_start b ON a.id = b.id") == [
        (7,)
    ]
    assert run("SELECT count(*), sum(shop_t.id) FROM shop_t") == [(6, 15)]
    with pytest.raises(InvalidOperationError, match="'start' is a tag, expected a branch"):
        run("DELETE FROM shop_t.tag_start WHERE id = 1")
    with pytest.raises(
        InvalidOperationError, match="'other' does not exist, expected one of audit, main, start"
    ):
        run("DELETE FROM shop_t.branch_other WHERE id = 1")
    with pytest.raises(InvalidOperationError, match=r"found '1\.5', expected a whole number"):
        run("ALTER TABLE shop_t CREATE TAG x RETAIN 1.5 DAYS")
    run("ALTER TABLE shop_t.branch_audit CREATE OR REPLACE BRANCH other WITH SNAPSHOT RETENTION 2 SNAPSHOTS")
    assert refs()["other"] == refs()["audit"] | {"min-snapshots-to-keep": 2}
    run("ALTER TABLE shop_t DROP BRANCH audit")
    run("ALTER TABLE shop_t DROP TAG IF EXISTS start")
    run("ALTER TABLE shop_t DROP TAG IF EXISTS start")
    with pytest.raises(InvalidOperationError, match="'other' is a branch, expected a tag"):
        run("ALTER TABLE shop_t DROP TAG other")
    assert sorted(refs()) == ["main", "other"]


def test_a_name_of_two_tables(spark, named, tmp_path):
    spark.sql("CREATE DATABASE shop_t")
    try:
        spark.sql(f"CREATE TABLE shop_t.branch_b (id INT) USING parquet LOCATION '{tmp_path}/spark'")
        with pytest.raises(InvalidOperationError, match=r"shop_t\.branch_b names two tables"):
            sql(spark, "SELECT * FROM shop_t.branch_b")
    finally:
        spark.sql("DROP DATABASE shop_t CASCADE")
    assert named.version


def test_upgrade_by_sql(spark, tmp_path):
    writer = IcebergWriter(tmp_path / "t", pa.schema([("id", pa.int64())]))
    writer.append([{"id": 1}])
    sql(spark, f"ALTER TABLE delvec.`{writer.root}` SET TBLPROPERTIES ('format-version' = '3')")
    table = Table.open(spark, str(writer.root))
    assert (table.format_version, "format-version" in table.properties) == (3, False)
    table.append(spark.createDataFrame([(2,)], "id bigint"))
    rows = table.to_df(columns=["id", "_row_id"]).collect()
    assert sorted(row["id"] for row in rows) == [1, 2]
    assert sorted(row["_row_id"] for row in rows) == [0, 1]


def test_options_of_python(spark, table):
    table.create_ref("b", retention=RefRetention(min_versions=3))
    table.create_ref("b", if_exists=IfExists.KEEP)
    table.create_ref("b", if_exists="replace")
    with pytest.raises(InvalidOperationError, match="if_exists is 'drop', expected one of refuse, keep"):
        table.create_ref("b", if_exists="drop")
    with pytest.raises(InvalidOperationError, match="branch 'b' exists already"):
        table.create_ref("b")
    with pytest.raises(InvalidOperationError, match="kind is 'label', expected 'branch' or 'tag'"):
        table.create_ref("c", kind="label")
    with pytest.raises(InvalidOperationError, match="kind is 'label', expected 'branch' or 'tag'"):
        table.drop_ref("b", kind="label")
    with pytest.raises(InvalidOperationError, match="version is '1'"):
        table.create_ref("c", version="1")
    delta = Table.create(spark, f"{table.location}-delta", "id bigint")
    for call in (lambda: delta.create_ref("b"), lambda: delta.drop_ref("b")):
        with pytest.raises(
            InvalidOperationError, match="ref is 'b', but delta tables have no branches and tags"
        ):
            call()
