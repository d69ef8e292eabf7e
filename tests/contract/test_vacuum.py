"""Vacuum: no row of the newest version is lost, older versions are refused by name, writers go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.kinds import CHANGE_FEED, FREQUENT_CHECKPOINTS, REQUESTS
from delvec import Table, sql
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.formats import Vacuumable
from delvec.verify import verify_table
from racing import losing
from verbs import holds, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.numbered]

DDL = "id bigint, _p int, v string"
ROWS = [(i, i % 2, f"v{i}") for i in range(20)]
CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


@pytest.fixture
def table(kind, spark, tmp_path):
    """Files that nothing needs any more: replaced ones, vectors, changes, and what a writer left."""
    table = kind.table(
        spark, tmp_path / "a table", DDL, ROWS, partition_by=["_p"], having=[CHANGE_FEED], properties={}
    )
    if not isinstance(table._table, Vacuumable):
        pytest.skip(f"{kind.name} has no vacuum")
    table.delete("id = 3")
    table.delete("id IN (4, 5)")
    table.update({"v": "'new'"}, "id IN (6, 7)")
    table.delete("_p = 1 AND id > 7")
    Path(table.location, "crashed.parquet").write_bytes(b"x")
    return table


def files_of(table):
    return {path for path in Path(table.location).rglob("*") if path.is_file()}


def expected(kind):
    del kind
    kept = [row for row in ROWS if row[0] not in (3, 4, 5) and not (row[1] == 1 and row[0] > 7)]
    return [(i, p, "new" if i in (6, 7) else v) for i, p, v in kept]


def test_rows_stay_and_old_versions_are_refused(kind, spark, table):
    commits, before = kind.commits(table), files_of(table)
    second = kind.version(table, 2)
    assert table.vacuum().files == 0
    if REQUESTS in kind.abilities:
        assert kind.commits(table) == commits + 2
    dry = table.vacuum(0, dry_run=True, force=True)
    assert files_of(table) >= before
    result = table.vacuum(0, force=True)
    assert (result.files, result.bytes) == (dry.files, dry.bytes)
    assert result.version == table.version
    gone = before - files_of(table)
    assert {str(path) for path in gone} == set(dry.paths)
    assert result.bytes > 0
    assert Path(table.location, "crashed.parquet") in gone
    holds(table, expected(kind))
    kind.is_read_by_others(table)
    assert not verify_table(table._table).errors
    refusal = r"can no longer be read: [0-9]+ of its 3 files are gone|does not exist|expired"
    with pytest.raises(InvalidOperationError, match=rf"{second}.*{refusal}") as error:
        table.to_df(version=second)
    if REQUESTS in kind.abilities:
        assert kind.commits(table) == commits + 4
        assert any(path.name in str(error.value) for path in gone)
        operations = [row["operation"] for row in table.history(2).collect()]
        assert operations == ["VACUUM END", "VACUUM START"]
    table.append(spark.createDataFrame([(99, 0, "z")], DDL))
    assert table.delete("id = 99").counts.deleted == 1


def test_statements_commit_on_top_of_a_vacuum(kind, spark, table):
    """The commits of a vacuum are in conflict with nothing, and it deletes no file of the other writer."""
    vacuum = Table.vacuum
    loser = losing(spark, table.location, vacuum, vacuum)
    assert loser.delete("id = 6").counts.deleted == 1
    loser = losing(spark, table.location, vacuum)
    loser.append(spark.createDataFrame([(100, 0, "z")], DDL))
    loser = losing(spark, table.location, vacuum)
    loser.merge(spark.createDataFrame([(100, 0, "y"), (101, 0, "x")], DDL), "target.id = source.id") \
        .when_matched_update_all().when_not_matched_insert_all().execute()  # fmt: skip
    rows = [row for row in expected(kind) if row[0] != 6]
    holds(table, [*rows, (100, 0, "y"), (101, 0, "x")])


def test_sql(kind, spark, table):
    name = f"delvec.`{table.location}`"
    before = files_of(table)
    dry = sql(spark, f"VACUUM {name} DRY RUN")
    assert (dry.columns, dry.collect()) == (["path"], [])
    for text, problem in (
        ("RETAIN 1 HOURS", "retain_hours is 1, expected at least (168|72)"),
        ("RETAIN x HOURS", "RETAIN is 'x', expected a number of hours"),
        ("RETAIN -1 HOURS", "RETAIN is '-1', expected a number of hours"),
        ("RETAIN 5 DAYS", "expected HOURS"),
        ("TWICE", "expected RETAIN n HOURS, DRY RUN or the end"),
    ):
        with pytest.raises(InvalidOperationError, match=problem):
            sql(spark, f"VACUUM {name} {text}")
    spark.conf.set(CHECK, "false")
    try:
        paths = {row.path for row in sql(spark, f"VACUUM {name} RETAIN 0 HOURS DRY RUN").collect()}
        assert f"file:{table.location}/crashed.parquet" in paths
        assert files_of(table) == before
        done = sql(spark, f"VACUUM {name} FULL RETAIN :hours HOURS", {"hours": 0}).collect()
        assert [row.path for row in done] == [f"file:{table.location}"]
    finally:
        spark.conf.unset(CHECK)
    assert {f"file:{path}" for path in before - files_of(table)} == paths
    holds(table, expected(kind))


def test_a_format_without_the_answer(spark, tmp_path):
    table = Table.create(spark, str(tmp_path / "t"), "id bigint", format="toy")
    with pytest.raises(UnsupportedFeatureError, match="vacuum is not supported on toy tables"):
        table.vacuum()
    with pytest.raises(UnsupportedFeatureError, match="toy tables have no checkpoints"):
        table.checkpoint()


def test_a_checkpoint_on_request(kind, spark, table):
    kind.having(FREQUENT_CHECKPOINTS)
    version = table.version
    before = sorted(map(str, rows_of(table)))
    assert table.checkpoint() == version
    assert table.version == version
    assert sorted(map(str, rows_of(Table.open(spark, table.location)))) == before
