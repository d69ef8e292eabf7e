"""delvec and Iceberg-Spark take turns on one table: every verb and every maintenance verb of the one after
those of the other. After each step the rows, and the row ids in version 3, are those of a model.
"""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pytest

from iceberg_turns import (
    COPY_ON_WRITE,
    LISTS,
    MERGE_ON_READ,
    PLAIN,
    Turns,
    id_in,
    merged_by_delvec,
    merged_by_iceberg_spark,
    set_modes,
)

pytestmark = [pytest.mark.interop, pytest.mark.spark]

DAYS_OLD = 10 * 86_400


def verbs_and_rewrites(t: Turns, first: int) -> None:
    """Rewrites by delvec after each verb of Iceberg-Spark, and by Iceberg-Spark after each verb of delvec.

    The keys are ``first`` to ``first`` + 26.
    """
    keys = [first + number for number in range(27)]
    rows = t.new_rows(*keys[:18])
    t.mine(lambda table: table.append(t.arrow(rows)), added=rows)
    t.theirs(
        f"DELETE FROM {{t}} WHERE id IN ({keys[1]}, {keys[2]}, {keys[8]})",
        gone=id_in(keys[1], keys[2], keys[8]),
    )
    t.mine(lambda table: table.optimize())
    t.theirs(
        f"UPDATE {{t}} SET v = v + 1, p = 'new p' WHERE id IN ({keys[3]}, {keys[4]}, {keys[7]})",
        hit=id_in(keys[3], keys[4], keys[7]),
        new=lambda row: {"v": row["v"] + 1, "p": "new p"},
    )
    t.mine(
        lambda table: table.delete(f"id = {keys[0]} OR p = 'new p' AND id = {keys[3]}"),
        gone=id_in(keys[0], keys[3]),
    )
    merged_by_iceberg_spark(t, t.new_rows(keys[5], keys[6], keys[9], keys[18], v=100), gone=keys[6])
    t.mine(lambda table: table.purge())
    t.mine(
        lambda table: table.update({"v": "v * 2"}, "p IS NULL OR p = ''"),
        hit=lambda row: row["p"] in (None, ""),
        new=lambda row: {"v": row["v"] * 2},
    )
    t.their_call("rewrite_data_files", options="map('rewrite-all', 'true')")
    merged_by_delvec(t, t.new_rows(keys[10], keys[12], keys[19], keys[20], v=200))
    t.their_call("rewrite_position_delete_files", options="map('rewrite-all', 'true')")
    gone = t.rows.keys() & {keys[11], keys[13], keys[19]}
    t.mine(lambda table: table.delete(f"id IN ({', '.join(map(str, gone))})"), gone=id_in(*gone))
    t.their_call("rewrite_manifests")
    rows = t.new_rows(*keys[21:25])
    t.source(rows)
    t.theirs("INSERT INTO {t} SELECT * FROM source", added=rows)


def histories_and_upkeep(t: Turns) -> None:
    """Rollback and restore; expiry and orphans, by each of both after verbs of the other."""
    before = t.table.open().version
    keys = sorted(t.rows)
    t.mine(lambda table: table.delete(f"id IN ({keys[0]}, {keys[-1]})"), gone=id_in(keys[0], keys[-1]))
    deleted = t.table.open().version
    t.table.call("rollback_to_snapshot", snapshot_id=str(before))
    t.back(before)
    t.mine(
        lambda table: table.update({"v": "-1"}, f"id = {keys[1]}"),
        hit=id_in(keys[1]),
        new=lambda _: {"v": -1},
    )
    t.theirs(f"DELETE FROM {{t}} WHERE id = {keys[2]}", gone=id_in(keys[2]))
    t.table.open().restore(version=deleted)
    t.back(deleted)
    t.theirs(f"DELETE FROM {{t}} WHERE id = {keys[3]}", gone=id_in(keys[3]))
    t.mine(lambda table: table.vacuum(0, force=True))
    assert len(t.table.metadata()["snapshots"]) == 1
    merged_by_delvec(t, t.new_rows(keys[4], keys[-1] + 1, v=300))
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    t.their_call("expire_snapshots", older_than=f"TIMESTAMP '{now}'", retain_last="1")
    assert len(t.table.metadata()["snapshots"]) == 1
    orphan = Path(t.table.open().location, "data", "orphan.parquet")
    orphan.write_bytes(b"x")
    at = dt.datetime.now().timestamp() - DAYS_OLD
    os.utime(orphan, (at, at))
    t.their_call("remove_orphan_files")
    assert not orphan.exists()
    t.theirs(f"UPDATE {{t}} SET v = 7 WHERE id = {keys[5]}", hit=id_in(keys[5]), new=lambda _: {"v": 7})
    rows = t.new_rows(500, 501)
    t.mine(
        lambda table: table.overwrite(t.arrow(rows), where=f"id < {keys[7]} OR id >= 500"),
        gone=lambda row: row["id"] < keys[7],
        added=rows,
    )


CASES = [
    # where, version, schema, modes, who creates it
    ("path", 3, "lists", (MERGE_ON_READ, COPY_ON_WRITE), "delvec"),
    ("sqlite", 2, "plain", (COPY_ON_WRITE, MERGE_ON_READ), "Iceberg-Spark"),
]
MORE_CASES = [
    ("sqlite", 3, "lists", (COPY_ON_WRITE, MERGE_ON_READ), "delvec"),
    ("rest", 3, "lists", (MERGE_ON_READ, COPY_ON_WRITE), "delvec"),
    ("rest", 2, "lists", (MERGE_ON_READ, COPY_ON_WRITE), "delvec"),
    ("rest", 3, "plain", (COPY_ON_WRITE, MERGE_ON_READ), "Iceberg-Spark"),
    ("path", 2, "lists", (MERGE_ON_READ, COPY_ON_WRITE), "Iceberg-Spark"),
    ("path", 3, "plain", (COPY_ON_WRITE, MERGE_ON_READ), "Iceberg-Spark"),
]


@pytest.mark.parametrize(
    ("place", "version", "columns", "modes", "creator"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE_CASES)],
    ids=lambda value: value[0] if isinstance(value, tuple) else str(value),
)
def test_in_turns(
    shared_catalog: Any, place: str, version: int, columns: str, modes: tuple[str, str], creator: str
) -> None:
    schema = {"plain": PLAIN, "lists": LISTS}[columns]
    table = shared_catalog(place).table(f"turns_{version}_{columns}_{creator[0].lower()}")
    t = Turns(table, schema, version)
    create(t, creator)
    for number, mode in enumerate(modes):
        set_modes(t, mode)
        verbs_and_rewrites(t, 100 * number)
    histories_and_upkeep(t)
    report = t.table.open().verify()
    assert report.findings == ()
    assert t.table.open().count() == len(t.rows)
    t.check_by_pyiceberg()


def create(t: Turns, creator: str) -> None:
    columns = t.columns()
    if creator == "delvec":
        t.table.create(columns, t.format_version, partition_by=["p"])
    else:
        ddl = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in columns)
        t.table.sql(
            f"CREATE TABLE {{t}} ({ddl}) USING iceberg PARTITIONED BY (p) "
            f"TBLPROPERTIES ('format-version' = '{t.format_version}')"
        )
