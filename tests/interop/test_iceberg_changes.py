"""The change feed of tables that Iceberg-Spark writes: as its changelog view and its row ids show it."""

from __future__ import annotations

from typing import Any

import pytest

from delvec.table import Table
from rows import multiset
from scanning import collected

pytestmark = [pytest.mark.interop, pytest.mark.spark]

STEPS = (
    "INSERT INTO {t} SELECT id, concat('s', id % 7), id % 3 FROM range(60)",
    "INSERT INTO {t} VALUES (500, 'twice', 1), (500, 'twice', 1), (501, NULL, NULL)",
    "DELETE FROM {t} WHERE id % 10 = 3",
    "UPDATE {t} SET s = concat('u', s) WHERE id BETWEEN 20 AND 30",
    "UPDATE {t} SET s = s WHERE id < 4",
    "MERGE INTO {t} USING (SELECT id FROM range(50, 70)) n ON {t}.id = n.id "
    "WHEN MATCHED AND n.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET s = 'm' "
    "WHEN NOT MATCHED THEN INSERT (id, s, p) VALUES (n.id, 'new', 0)",
    "CALL ice.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))",
    "DELETE FROM {t} WHERE id = 500",
    "INSERT OVERWRITE {t} SELECT id, s, p FROM {t} WHERE id < 40 OR id > 60",
    "DELETE FROM {t} WHERE p = 2",
)
IMAGES = {"update_preimage": "delete", "update_postimage": "insert"}


def history(table: Any, version: int, mode: str, more: str) -> Any:
    """The table with all steps; ``mode`` is merge-on-read or copy-on-write."""
    modes = {f"write_{verb}_mode": mode for verb in ("delete", "update", "merge")}
    table.create("id int, s string, p int", version, more, **modes)
    for step in STEPS:
        table.sql(step)
    return Table.open(table.spark, table.location)


def ids_and_rows(table: Any, snapshot: int) -> dict[int, tuple[int, dict[str, Any]]]:
    """The rows of a snapshot as Iceberg-Spark sees them: the version and the values, by the row's id."""
    query = f"SELECT _row_id AS i, _last_updated_sequence_number AS v, * FROM {{t}} VERSION AS OF {snapshot}"
    return {row.pop("i"): (row.pop("v"), row) for row in collected(table.sql(query))}


def by_row_ids(table: Any) -> list[dict[str, Any]]:
    """The changes of all snapshots, by what Iceberg-Spark says of the rows before and after each."""
    operations = table.sql("SELECT snapshot_id, operation FROM {t}.snapshots ORDER BY committed_at").collect()
    found: list[dict[str, Any]] = []
    before: dict[int, tuple[int, dict[str, Any]]] = {}
    for snapshot, operation in operations:
        after = ids_and_rows(table, snapshot)
        for kind, image, rows, others in (
            ("delete", "update_preimage", before, after),
            ("insert", "update_postimage", after, before),
        ):
            for number, (version, row) in rows.items():
                other = others.get(number)
                if other is None:
                    found.append({**row, "_change_type": kind, "_commit_version": snapshot})
                elif other[0] != version and other[1] != row:
                    found.append({**row, "_change_type": image, "_commit_version": snapshot})
        if operation == "replace":
            assert {n: row for n, (_, row) in before.items()} == {n: row for n, (_, row) in after.items()}
        before = after
    return found


def changelog(table: Any) -> list[dict[str, Any]]:
    """The changes by Iceberg-Spark's own changelog view, with our names."""
    view = f"changes_of_{table.name}"
    table.sql(
        f"CALL ice.system.create_changelog_view(table => '{table.full_name}', changelog_view => '{view}')"
    )
    rows = collected(table.spark.table(view))
    return [
        {name: row[name] for name in ("id", "s", "p")}
        | {"_change_type": row["_change_type"].lower(), "_commit_version": row["_commit_snapshot_id"]}
        for row in rows
    ]


def without_time(frame: Any, **kinds: str) -> list[dict[str, Any]]:
    """The rows of a feed; ``kinds`` are other names for some kinds of changes."""
    rows = [
        {name: value for name, value in row.items() if name != "_commit_timestamp"}
        for row in collected(frame)
    ]
    return [row | {"_change_type": kinds.get(row["_change_type"], row["_change_type"])} for row in rows]


def same_rows(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    was, should = multiset(found), multiset(expected)
    assert was == should, f"lost {should - was}, gained {was - should}"


def without_copies(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The changes without rows that a commit deletes and inserts with the same values.

    An INSERT OVERWRITE gives its rows new ids, so in version 3 a row that it writes again is another row. The
    changelog view compares values only.
    """
    left = multiset(rows)
    kept = []
    for row in rows:
        other = {"insert": "delete", "delete": "insert"}[row["_change_type"]]
        (text,) = multiset([row | {"_change_type": other}])
        if left[text] > 0:
            left[text] -= 1
        else:
            kept.append(row)
    return kept


@pytest.mark.parametrize("version", [1, 2, 3])
def test_copy_on_write(iceberg_table, version):
    table = iceberg_table(f"copied_{version}")
    mine = history(table, version, "copy-on-write", "PARTITIONED BY (p)" if version != 2 else "")
    feed = mine.changes(table.snapshots()[0])
    rows = without_time(feed, **IMAGES)
    same_rows(without_copies(rows) if version == 3 else rows, changelog(table))
    if version == 3:
        same_rows(without_time(feed), by_row_ids(table))
        assert IMAGES.keys() <= {row["_change_type"] for row in without_time(feed)}


def by_values(table: Any) -> list[dict[str, Any]]:
    """The changes of all snapshots: the rows that Iceberg-Spark sees only before or only after each."""
    found: list[dict[str, Any]] = []
    before: list[dict[str, Any]] = []
    for snapshot in table.snapshots():
        after = collected(table.rows(snapshot))
        for kind, rows, others in (("delete", before, after), ("insert", after, before)):
            left = multiset(others)
            for row in rows:
                (text,) = multiset([row])
                left[text] -= 1
                if left[text] < 0:
                    found.append({**row, "_change_type": kind, "_commit_version": snapshot})
        before = after
    return found


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_position_files(iceberg_table, granularity):
    table = iceberg_table(f"positions_{granularity}")
    table.create("id int, s string, p int", 2, "", write_delete_granularity=granularity)
    for step in STEPS:
        table.sql(step)
    mine = Table.open(table.spark, table.location)
    same_rows(without_time(mine.changes(table.snapshots()[0])), by_values(table))


def test_equality_files(iceberg_table):
    """Deletes by value of several commits, and rows that come back with the same keys."""
    table = iceberg_table("changed_keys")
    table.create("id int, s string, p int", 2, "PARTITIONED BY (p)")
    table.sql(STEPS[0])
    table.delete_keys([{"id": 1}, {"id": 4}, {"id": 5}], ["id"], partition={"p": 1})
    table.sql("INSERT INTO {t} VALUES (4, 'again', 1)")
    table.delete_keys([{"id": 4}, {"id": 7}], ["id"], partition={"p": 1})
    table.sql("DELETE FROM {t} WHERE id IN (7, 10, 11)")
    table.delete_keys([{"s": "s2"}, {"s": "s4"}], ["s"], partition={"p": 1})
    table.sql("UPDATE {t} SET s = 'u' WHERE id < 20")
    mine = Table.open(table.spark, table.location)
    snapshots = table.snapshots()
    expected = by_values(table)
    same_rows(without_time(mine.changes(snapshots[0])), expected)
    later = [row for row in expected if row["_commit_version"] in snapshots[3:]]
    same_rows(without_time(mine.changes(snapshots[3])), later)


def test_vectors(iceberg_table):
    table = iceberg_table("vectors")
    mine = history(table, 3, "merge-on-read", "PARTITIONED BY (p)")
    feed = mine.changes(table.snapshots()[0])
    same_rows(without_time(feed), by_row_ids(table))
    assert {row["_change_type"] for row in without_time(feed)} == {"insert", "delete", *IMAGES}
