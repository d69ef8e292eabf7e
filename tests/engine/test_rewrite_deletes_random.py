"""Random tables with every kind of delete, rewritten: the newest and every older version keep their rows."""

from __future__ import annotations

import random

import pytest

from connector_rows import connector_rows
from delvec.detect import open_table
from delvec.plan import POSITION_FILE, POSITION_VECTOR
from iceberg_tables.histories import History
from rows import multiset
from scanning import opened, plain, same

pytestmark = pytest.mark.spark

SEEDS = [pytest.param(seed, marks=[pytest.mark.slow] if seed >= 3002 else []) for seed in range(3000, 3040)]


def made(root, seed, version):
    """A table of this format version with some deletes by value."""
    history = History(root, random.Random(seed), 2)
    for _ in range(history.rng.randrange(2, 8)):
        history.step()
    for _ in range(2):
        history.delete_rows()
        history.delete_keys()
    if history.table.format_version < version:
        history.table.upgrade(version)
    history.append()
    history.delete_keys()
    return history


def deletes(table):
    return open_table(str(table.root)).snapshot().live_deletes().to_pylist()


@pytest.mark.parametrize("seed", SEEDS)
def test_all_deletes_become_vectors(spark, tmp_path, seed):
    table = made(tmp_path / "t", seed, 3).table
    versions = list(table.snapshots)
    found = opened(spark, table)
    before = deletes(table)
    result = found.rewrite_deletes()
    after = deletes(table)
    others = [delete for delete in before if delete["kind"] != POSITION_VECTOR]
    assert bool(others) == (result.version != versions[-1])
    assert sum(result.removed.values()) >= len(others)
    assert {delete["kind"] for delete in after} <= {POSITION_VECTOR}
    assert len({delete["referenced_file"] for delete in after}) == len(after)
    assert result.kept == 0
    same(found.to_df(), table.rows())
    for version in versions:
        assert multiset(map(plain, connector_rows(table.root, version=version))) == multiset(
            table.rows(version)
        )
    again = found.rewrite_deletes()
    assert (again.version, again.files, again.removed) == (result.version, 0, {})


@pytest.mark.parametrize("seed", SEEDS)
def test_equality_deletes_become_position_files(spark, tmp_path, seed):
    history = made(tmp_path / "t", seed, 2)
    table = history.table
    if table.format_version != 2:
        pytest.skip("the history upgraded the table")
    found, versions = opened(spark, table), list(table.snapshots)
    result = found.rewrite_deletes(to="position-deletes")
    assert {delete["kind"] for delete in deletes(table)} <= {POSITION_FILE}
    assert result.kept == 0 or {delete["kind"] for delete in deletes(table)} == {POSITION_FILE}
    for version in (result.version, *versions):
        rows = table.rows() if version == result.version else table.rows(version)
        assert multiset(map(plain, connector_rows(table.root, version=version))) == multiset(rows)
    assert found.rewrite_deletes(to="position-deletes").version == result.version
