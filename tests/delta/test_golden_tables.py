"""Delta tables that other engines wrote, at every version, row for row."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from deleted_rows import deleted_rows
from delvec.delta.table import DeltaTable
from golden_data import golden
from plans import plan_where
from rows import read_rows

LARGE_0 = set(range(2000))
LARGE_1 = LARGE_0 - {0, 180, 300, 700, 1800}
LARGE_2 = LARGE_1 | {300, 700}
LARGE_3 = LARGE_2 - {300, 250, 350, 900, 1353, 1567, 1800}
LARGE_4 = LARGE_3 | {900, 1567}

CHANGED = set(range(10))

VALUES = {
    ("table-with-dv-small", 0): set(range(10)),
    ("table-with-dv-small", 1): set(range(1, 9)),
    ("table-with-dv-large", 0): LARGE_0,
    ("table-with-dv-large", 1): LARGE_1,
    ("table-with-dv-large", 2): LARGE_2,
    ("table-with-dv-large", 3): LARGE_3,
    ("table-with-dv-large", 4): LARGE_4,
    ("basic-dv-no-checkpoint", None): set(range(2, 10)),
    ("basic-dv-with-checkpoint", None): {i for i in range(500) if i % 11},
    ("log-replay-dv-key-cases", None): set(range(50)) - {0, 7, 14},
    # The change feed of this one, added up.
    ("cdf-table-with-dv", 0): CHANGED,
    ("cdf-table-with-dv", 1): CHANGED - {0, 9},
    ("cdf-table-with-dv", 2): CHANGED,
    ("cdf-table-with-dv", 3): CHANGED - {0, 1, 4, 5},
    ("cdf-table-with-dv", 4): CHANGED - {0, 5},
    ("cdf-table-with-dv", 5): CHANGED - {3},
    ("cdf-table-with-dv", 6): CHANGED,
}


@pytest.mark.parametrize(("name", "version"), VALUES, ids=str)
def test_values(name: str, version: int | None) -> None:
    table = DeltaTable.open(str(golden(f"delta/{name}")))
    rows = read_rows(table.snapshot(version).plan(), table.storage)
    (column,) = {key for row in rows for key in row}
    values = [row[column] for row in rows]
    assert sorted(values) == sorted(VALUES[name, version])


def test_partitioned_with_checkpoint() -> None:
    table = DeltaTable.open(str(golden("delta/dv-partitioned-with-checkpoint")))
    rows = read_rows(table.snapshot().plan(), table.storage)
    numbers = [x for x in range(50) if x >= 30 or x % 2]
    assert sorted(rows, key=lambda row: row["col1"]) == [
        {"part": x % 10, "col1": x, "col2": f"foo{x % 5}"} for x in numbers
    ]


def test_partitioned_is_pruned_by_a_condition() -> None:
    table = DeltaTable.open(str(golden("delta/dv-partitioned-with-checkpoint")))
    plan = plan_where(table.snapshot(), "part = 3 AND col1 >= 40")
    rows = read_rows(plan, table.storage)
    assert {row["part"] for row in rows} == {3}
    assert {row["col1"] for row in rows if row["col1"] >= 40} == {43}
    assert plan.skipped == len(table.snapshot().adds) - len(plan.files) > 0


def test_vectors_share_a_file_and_are_read_with_one_request_a_file() -> None:
    table = DeltaTable.open(str(golden("delta/table-with-dv-large")))
    plan = table.snapshot().plan()
    files = set(plan.deletes.column("location").to_pylist())
    assert len(files) < len(plan.deletes)
    table.storage.requests.clear()
    loaded = deleted_rows(table.storage, plan)
    assert sum(map(bool, loaded)) == len(plan.deletes)
    assert sum(table.storage.requests.values()) == len(files)


ALL = sorted({name for name, _ in VALUES} | {"dv-partitioned-with-checkpoint"})


@pytest.mark.parametrize("name", ALL)
def test_every_version_reads_and_the_hint_does_not_matter(name: str, tmp_path: Path) -> None:
    copied = tmp_path / "a table"
    shutil.copytree(golden(f"delta/{name}"), copied)
    with_hint = DeltaTable.open(str(copied))
    versions = range(with_hint.snapshot().version + 1)
    rows = [read_rows(with_hint.snapshot(v).plan(), with_hint.storage) for v in versions]
    (copied / "_delta_log" / "_last_checkpoint").unlink(missing_ok=True)
    without = DeltaTable.open(str(copied))
    assert [read_rows(without.snapshot(v).plan(), without.storage) for v in versions] == rows
    for checkpoint in (copied / "_delta_log").glob("*.checkpoint.*"):
        checkpoint.unlink()
    commits_alone = DeltaTable.open(str(copied))
    for version, expected in zip(versions, rows, strict=True):
        found = read_rows(commits_alone.snapshot(version).plan(), commits_alone.storage)
        assert sorted(map(str, found)) == sorted(map(str, expected))
