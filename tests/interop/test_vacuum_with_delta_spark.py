"""VACUUM of both engines on copies of one table: the same files go, and each reads after the other."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from delvec.delta.table import DeltaTable
from delvec.table import Table
from delvec.vacuum import vacuum

pytestmark = pytest.mark.interop

OLD = time.time() - 8 * 86_400
HIDDEN = ("_hidden/x", ".hidden", "_underscore", "p=1/.x", "p=1/_temporary/0/x")
LEFT = ("junk.txt", "a b%41.parquet", "p=1/never-committed.parquet", "deep/er/x.parquet", "ä/x")
CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


@pytest.fixture(scope="module", autouse=True)
def few_listing_tasks(delta_spark):
    """Delta-Spark lists a folder in up to 10,000 tasks, which takes a minute."""
    delta_spark.conf.set(LISTING, "2")
    yield
    delta_spark.conf.unset(LISTING)


@pytest.fixture(scope="module")
def template(delta_spark, tmp_path_factory):
    """A table with vectors, change files, tombstones with vectors, and files that no commit has. All old but
    those of the last statements.
    """
    root = tmp_path_factory.mktemp("vacuum") / "a table"
    spark = delta_spark
    name = f"delta.`{root}`"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, _p INT) USING delta PARTITIONED BY (_p) TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true', "
        "'delta.randomizeFilePrefixes' = 'false')"
    )
    frame = spark.range(200).selectExpr("id", "CAST(id % 2 AS INT) AS _p").repartition(1)
    frame.write.format("delta").mode("append").save(str(root))
    spark.sql(f"DELETE FROM {name} WHERE id = 3")
    spark.sql(f"UPDATE {name} SET id = id + 1000 WHERE id = 5")
    spark.sql(f"DELETE FROM {name} WHERE _p = 0 AND id < 50")
    spark.sql(f"DELETE FROM {name} WHERE _p = 0")
    for path in (*HIDDEN, *LEFT):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"12345")
    (root / "empty/inner").mkdir(parents=True)
    for place in sorted(root.rglob("*"), reverse=True):
        if "_delta_log" not in place.parts:
            os.utime(place, (OLD, OLD))
    (root / "young.parquet").write_bytes(b"1")
    return root


def expire_tombstones(root):
    """Make the removes of all commits but the last one old."""
    commits = sorted((root / "_delta_log").glob("*.json"))
    for path in commits[:-1]:
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        for action in actions:
            if "remove" in action:
                action["remove"]["deletionTimestamp"] = int(OLD * 1000)
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        (path.parent / path.name.replace(".json", ".crc")).unlink(missing_ok=True)


def files_of(root):
    places = (place.relative_to(root) for place in Path(root).rglob("*") if place.is_file())
    return {str(place) for place in places if place.parts[0] != "_delta_log"}


def rows_by_delta_spark(spark, root):
    return sorted(row.id for row in spark.read.format("delta").load(str(root)).collect())


def copies(template, tmp_path):
    for name in ("ours", "theirs"):
        shutil.copytree(template, tmp_path / name / "a table", copy_function=shutil.copy2)
        yield tmp_path / name / "a table"


def infos(root):
    paths = sorted(Path(root, "_delta_log").glob("*.json"))[-2:]
    return [json.loads(path.read_text().splitlines()[0])["commitInfo"] for path in paths]


def told(info):
    keys = ("operation", "operationParameters", "isolationLevel", "isBlindAppend", "operationMetrics")
    return {key: info[key] for key in keys}


@pytest.mark.parametrize("expired", [False, True])
def test_the_same_files_go(delta_spark, template, tmp_path, expired):
    ours, theirs = copies(template, tmp_path)
    if expired:
        expire_tombstones(ours)
        expire_tombstones(theirs)
    rows, before = rows_by_delta_spark(delta_spark, ours), files_of(ours)
    dry = {row.path for row in delta_spark.sql(f"VACUUM delta.`{theirs}` DRY RUN").collect()}
    planned = vacuum(DeltaTable.open(str(ours)), dry_run=True)
    of_files = {path.removeprefix(f"file:{theirs}/") for path in dry} & before
    assert {path.removeprefix(f"{ours}/") for path in planned.paths} & before == of_files
    done = delta_spark.sql(f"VACUUM delta.`{theirs}`").collect()
    assert [row.path for row in done] == [f"file:{theirs}"]
    result = vacuum(DeltaTable.open(str(ours)))
    assert files_of(ours) == files_of(theirs)
    assert before - files_of(ours) >= set(LEFT)
    assert set(HIDDEN) <= files_of(ours)
    assert "young.parquet" in files_of(ours)
    vectors = [path for path in before - files_of(ours) if path.endswith(".bin")]
    assert bool(vectors) is expired
    assert (ours / "empty/inner").exists() is (theirs / "empty/inner").exists() is False
    (start, end), (their_start, their_end) = infos(ours), infos(theirs)
    assert told(start)["operationParameters"] == told(their_start)["operationParameters"]
    assert {**told(start), "operationMetrics": 0} == {**told(their_start), "operationMetrics": 0}
    assert {**told(end), "operationMetrics": 0} == {**told(their_end), "operationMetrics": 0}
    assert start["operationMetrics"].keys() == their_start["operationMetrics"].keys()
    assert start["operationMetrics"]["sizeOfDataToDelete"] == str(result.bytes)
    assert (
        start["operationMetrics"]["sizeOfDataToDelete"]
        == their_start["operationMetrics"]["sizeOfDataToDelete"]
    )
    assert end["operationMetrics"].keys() == their_end["operationMetrics"].keys()
    assert (
        end["operationMetrics"]["numVacuumedDirectories"]
        == their_end["operationMetrics"]["numVacuumedDirectories"]
    )
    for root in (ours, theirs):
        assert rows_by_delta_spark(delta_spark, root) == rows
        assert sorted(row.id for row in Table.open(delta_spark, str(root)).to_df().collect()) == rows


def test_with_a_retention_of_zero(delta_spark, template, tmp_path):
    """All that the newest version does not need goes; then each engine writes on, and the other vacuums."""
    ours, theirs = copies(template, tmp_path)
    rows = rows_by_delta_spark(delta_spark, ours)
    delta_spark.conf.set(CHECK, "false")
    try:
        delta_spark.sql(f"VACUUM delta.`{theirs}` RETAIN 0 HOURS")
        vacuum(DeltaTable.open(str(ours)), 0, force=True)
        assert files_of(ours) == files_of(theirs)
        (start, _), (their_start, _) = infos(ours), infos(theirs)
        assert start["operationParameters"] == their_start["operationParameters"]
        table = Table.open(delta_spark, str(theirs))
        table.delete("id = 101")
        table.update({"id": "-1"}, "id = 103")
        delta_spark.sql(f"DELETE FROM delta.`{ours}` WHERE id = 101")
        delta_spark.sql(f"UPDATE delta.`{ours}` SET id = -1 WHERE id = 103")
        delta_spark.sql(f"VACUUM delta.`{theirs}` RETAIN 0 HOURS")
        vacuum(DeltaTable.open(str(ours)), 0, force=True)
    finally:
        delta_spark.conf.unset(CHECK)
    expected = sorted([-1, *(number for number in rows if number not in (101, 103))])
    for root in (ours, theirs):
        assert rows_by_delta_spark(delta_spark, root) == expected
        assert sorted(row.id for row in Table.open(delta_spark, str(root)).to_df().collect()) == expected
        vectors = [name for name in files_of(root) if name.endswith(".bin")]
        assert len(vectors) == 1


def test_after_our_cleanup_of_the_log(delta_spark, template, tmp_path):
    root, _ = copies(template, tmp_path)
    rows = rows_by_delta_spark(delta_spark, root)
    table = DeltaTable.open(str(root))
    table.checkpoint()
    newest = table.snapshot().version
    for path in (root / "_delta_log").glob("*"):
        os.utime(path, (time.time() - 60 * 86_400,) * 2)
    Table.open(delta_spark, str(root)).append([(5000, 1)])
    assert DeltaTable.open(str(root)).checkpoint() == newest + 1
    commits = sorted(int(path.stem) for path in (root / "_delta_log").glob("*.json"))
    assert commits == [newest, newest + 1]
    assert rows_by_delta_spark(delta_spark, root) == sorted([*rows, 5000])
    # Delta-Spark refuses versions that are older than the retention of files.
    earlier = Table.open(delta_spark, str(root)).to_df(version=newest)
    assert sorted(row.id for row in earlier.collect()) == rows
