"""Vacuum and restore beside Iceberg-Spark's procedures, each on the same table: the same snapshots and refs
are kept, the same files deleted.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
from pathlib import Path

import pytest

from delvec.detect import open_table
from delvec.ref_changes import IfExists, NewRef, RefRetention
from delvec.restore import restore
from delvec.table import Table
from delvec.vacuum import vacuum
from iceberg_copies import files_of, metadata_of, put_back, state_of, time_text
from rows import multiset
from scanning import collected, same

pytestmark = [pytest.mark.interop, pytest.mark.spark]

DAY = 86_400
WRITERS = [(2, "Iceberg-Spark"), (3, "Iceberg-Spark"), (3, "delvec")]
MORE_WRITERS = [pytest.param((2, "delvec"), marks=pytest.mark.slow)]


@pytest.fixture
def busy(iceberg_table, request):
    """A table whose history has every kind of file, branches, tags and a rollback."""
    table = iceberg_table(f"upkeep_{request.node.name.partition('[')[0].removeprefix('test_')}_"
                          f"{abs(hash(request.node.name)) % 10**6}")  # fmt: skip
    version, writer = getattr(request, "param", WRITERS[0])
    if writer == "delvec":
        written_by_delvec(table, version)
    else:
        written_by_iceberg_spark(table, version)
    return table


def written_by_iceberg_spark(table, version):
    table.create("id int, s string", version, "PARTITIONED BY (truncate(1, s))")
    table.sql("INSERT INTO {t} SELECT id, concat('a', id % 3) FROM range(30)")
    table.sql("INSERT INTO {t} SELECT id + 100, concat('b', id % 3) FROM range(30)")
    table.sql("ALTER TABLE {t} CREATE TAG start")
    table.sql("DELETE FROM {t} WHERE id % 5 = 1")
    table.sql("ALTER TABLE {t} CREATE BRANCH audit RETAIN 100 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS")
    table.sql("INSERT INTO {t}.branch_audit VALUES (500, 'b')")
    table.sql("DELETE FROM {t} WHERE s = 'a2' AND id > 4")
    table.delete_keys([{"id": 3}], ["id"], partition={"s": "a"})
    table.sql("ALTER TABLE {t} CREATE TAG passing RETAIN 5 MINUTES")
    table.sql("UPDATE {t} SET s = 'c' WHERE id BETWEEN 100 AND 105")
    table.sql("DELETE FROM {t} WHERE s LIKE 'b%'")
    table.sql("INSERT INTO {t}.branch_audit VALUES (501, 'b')")


def written_by_delvec(table, version):
    """The same refs; more verbs, and vectors of several files in one Puffin file."""
    spark = table.spark
    ddl, by = "id int, s string", ["truncate(1, s)"]
    mine = Table.create(spark, table.location, ddl, format="iceberg", format_version=version, partition_by=by)

    def rows(first, last, text):
        return spark.sql(f"SELECT int(id) AS id, concat('{text}', id % 3) AS s FROM range({first}, {last})")

    mine.append(rows(0, 30, "a"))
    mine.append(rows(100, 130, "b"))
    mine.create_ref("start", "tag")
    mine.delete("id % 5 = 1")
    kept = RefRetention(min_versions=2, max_ref_age_ms=100 * DAY * 1000)
    mine.create_ref("audit", retention=kept)
    audit = Table.open(spark, table.location, ref="audit")
    audit.append(rows(500, 501, "b"))
    mine.update({"s": "'b9'"}, "id IN (3, 120)")
    merging = mine.merge(rows(25, 33, "a"), "target.id = source.id")
    merging.when_matched_update_all().when_not_matched_insert_all().execute()
    mine.create_ref("passing", "tag", retention=RefRetention(max_ref_age_ms=300_000))
    mine.optimize()
    mine.delete("id IN (4, 128)")
    mine.purge()
    mine.delete("id % 7 = 3")
    mine.restore(version=mine.history(2).collect()[1]["version"])
    mine.overwrite(rows(200, 210, "c"), where="id > 125")
    mine.delete("s LIKE 'b%'")
    audit.append(rows(501, 502, "b"))


COUNTS = {
    "deleted_data_files_count": "numDeletedDataFiles",
    "deleted_position_delete_files_count": "numDeletedPositionDeleteFiles",
    "deleted_equality_delete_files_count": "numDeletedEqualityDeleteFiles",
    "deleted_manifest_files_count": "numDeletedManifests",
    "deleted_manifest_lists_count": "numDeletedManifestLists",
    "deleted_statistics_files_count": "numDeletedStatisticsFiles",
}


@pytest.mark.parametrize("busy", [*WRITERS, *MORE_WRITERS], indirect=True, ids=str)
@pytest.mark.parametrize("kept", ["1", "3", None])
def test_expired_snapshots(busy, kept, monkeypatch):
    """By the properties, and up to a time in the middle of the history."""
    if kept is not None:
        busy.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('history.expire.min-snapshots-to-keep' = '{kept}')")
    if kept == "1":  # of refs without an age of their own
        busy.sql("ALTER TABLE {t} SET TBLPROPERTIES ('history.expire.max-ref-age-ms' = '1')")
    times = sorted(record.timestamp_ms for record in metadata_of(busy).snapshots.values())
    older_than = times[len(times) // 2] if kept is None else times[-1] + 1
    with put_back(busy):
        call = "CALL ice.system.expire_snapshots(table => 'db.{}', older_than => TIMESTAMP '{}')"
        (theirs,) = busy.spark.sql(call.format(busy.name, time_text(older_than))).collect()
        expected_state, expected_files = state_of(busy), files_of(busy)
    before = files_of(busy)
    monkeypatch.setattr("delvec.vacuum._now_ms", lambda: older_than)
    result = vacuum(open_table(busy.location), 0, force=True)
    assert state_of(busy) == expected_state
    assert files_of(busy) == expected_files < before
    assert result.expired_refs == (("start",) if kept == "1" else ())
    counts = theirs.asDict()
    assert {name: result.metrics[metric] for name, metric in COUNTS.items()} == counts
    assert result.metrics["numDeletedOrphanFiles"] == 0
    busy.sql("REFRESH TABLE {t}")
    mine = Table.open(busy.spark, busy.location)
    for snapshot in expected_state["snapshots"]:
        same(mine.to_df(version=snapshot), collected(busy.rows(snapshot)))


@pytest.mark.parametrize("busy", [WRITERS[0], WRITERS[2]], indirect=True, ids=str)
def test_orphans(busy):
    """Files that no snapshot has, below the location and older than three days."""
    old, young = ["data/old.parquet", "metadata/old.avro", "x/y.txt"], ["data/young.parquet"]
    hidden = ["data/_x.parquet", "data/.x.parquet", "_x/x.parquet"]
    for name in (*old, *young, *hidden):
        place = Path(busy.location, name)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(b"x")
        age = 2 * DAY if name in young else 4 * DAY
        at = dt.datetime.now().timestamp() - age
        os.utime(place, (at, at))
    with put_back(busy):
        shutil.copystat(f"{busy.location}-aside", busy.location)
        rows = busy.spark.sql(f"CALL ice.system.remove_orphan_files(table => 'db.{busy.name}')").collect()
        theirs = {row[0].removeprefix("file:") for row in rows}
        expected = files_of(busy)
    assert theirs == {f"{busy.location}/{name}" for name in old}
    dry = vacuum(open_table(busy.location), dry_run=True)
    assert set(dry.paths) == theirs
    result = vacuum(open_table(busy.location))
    assert (result.expired_versions, result.files) == (0, len(old))
    assert files_of(busy) == expected


@pytest.mark.parametrize("busy", [WRITERS[0], WRITERS[2]], indirect=True, ids=str)
@pytest.mark.parametrize("procedure", ["rollback_to_snapshot", "set_current_snapshot"])
def test_restore(busy, procedure):
    """To an ancestor; and to a snapshot of another branch, which only set_current_snapshot allows."""
    metadata = metadata_of(busy)
    ancestor = metadata.refs["start"].snapshot_id
    other = metadata.refs["audit"].snapshot_id
    for target in [ancestor] if procedure == "rollback_to_snapshot" else [ancestor, other]:
        before = files_of(busy)
        with put_back(busy):
            busy.spark.sql(f"CALL ice.system.{procedure}('db.{busy.name}', {target})")
            expected, rows = state_of(busy), collected(busy.rows())
            history = collected(busy.sql("SELECT snapshot_id, is_current_ancestor FROM {t}.history"))
        with put_back(busy):
            result = restore(open_table(busy.location), version=target)
            assert (result.version, state_of(busy)) == (target, expected)
            assert files_of(busy) == before
            busy.sql("REFRESH TABLE {t}")
            same(Table.open(busy.spark, busy.location).to_df(), rows)
            assert multiset(collected(busy.rows())) == multiset(rows)
            assert collected(busy.sql("SELECT snapshot_id, is_current_ancestor FROM {t}.history")) == history


def test_refs(busy):
    """The same metadata as Iceberg-Spark's statements give; and Iceberg-Spark reads what delvec made."""
    first = min(metadata_of(busy).snapshots.values(), key=lambda record: record.timestamp_ms).snapshot_id
    with put_back(busy):
        busy.sql(f"ALTER TABLE {{t}} CREATE BRANCH b AS OF VERSION {first}")
        busy.sql("ALTER TABLE {t} CREATE TAG g RETAIN 3 HOURS")
        busy.sql("ALTER TABLE {t} REPLACE BRANCH audit RETAIN 3 DAYS")
        busy.sql("ALTER TABLE {t} DROP TAG start")
        busy.sql(f"ALTER TABLE {{t}} CREATE OR REPLACE BRANCH b AS OF VERSION {first} "
                 "WITH SNAPSHOT RETENTION 4 SNAPSHOTS 5 MINUTES")  # fmt: skip
        expected = state_of(busy)
    table = open_table(busy.location)
    table.create_ref(NewRef("b", version=first))
    table.create_ref(NewRef("g", "tag", retention=RefRetention(max_ref_age_ms=3 * 3_600_000)))
    days = RefRetention(max_ref_age_ms=3 * DAY * 1000)
    table.create_ref(NewRef("audit", if_exists=IfExists.MUST_REPLACE, retention=days))
    table.drop_ref("start", "tag")
    kept = RefRetention(min_versions=4, max_version_age_ms=300_000)
    table.create_ref(NewRef("b", version=first, if_exists=IfExists.REPLACE, retention=kept))
    assert state_of(busy) == expected
    busy.sql("REFRESH TABLE {t}")
    rows = collected(busy.sql("SELECT name, type, snapshot_id, min_snapshots_to_keep FROM {t}.refs"))
    assert {row["name"] for row in rows} == {"main", "audit", "passing", "b", "g"}
    same(Table.open(busy.spark, busy.location, ref="b").to_df(), collected(busy.rows("b")))


def test_upgrade(iceberg_table):
    """Iceberg-Spark reads and writes the table after the upgrade, and gives its rows ids."""
    table = iceberg_table("upkeep_upgrade")
    table.create("id int, s string", 2)
    table.sql("INSERT INTO {t} SELECT id, 'a' FROM range(20)")
    table.sql("DELETE FROM {t} WHERE id % 4 = 1")
    with put_back(table):
        table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
        expected = metadata_of(table).raw
    open_table(table.location).upgrade(3)
    raw = metadata_of(table).raw
    changing = ("last-updated-ms", "metadata-log")
    assert {k: v for k, v in raw.items() if k not in changing} == \
        {k: v for k, v in expected.items() if k not in changing}  # fmt: skip
    table.sql("REFRESH TABLE {t}")
    table.sql("DELETE FROM {t} WHERE id = 3")
    table.sql("INSERT INTO {t} VALUES (100, 'b')")
    same(Table.open(table.spark, table.location).to_df(), collected(table.rows()))
    ids = [row["_row_id"] for row in collected(table.sql("SELECT _row_id FROM {t}"))]
    assert len(set(ids)) == len(ids) == 15
    assert None not in ids
