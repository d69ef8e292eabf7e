"""Random histories read by Spark's own scan: the rows of the model, by conditions too."""

from __future__ import annotations

import random

import pytest

from iceberg_tables.histories import History
from scanning import opened, same

pytestmark = pytest.mark.spark

SEEDS = [pytest.param(seed, marks=[pytest.mark.slow] if seed >= 1003 else []) for seed in range(1000, 1040)]


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_a_random_history(spark, tmp_path, seed):
    history = History(tmp_path / "t", random.Random(seed))
    for _ in range(history.rng.randrange(4, 14)):
        history.step()
    table = history.table
    found = opened(spark, table)
    same(found.to_df(), table.rows())
    assert found.count() == len(table.rows())
    older = history.rng.choice(list(table.snapshots))
    same(found.to_df(version=older), table.rows(older))
    least = history.rng.randrange(60)
    (first,) = (column.name for column in table.schema if column.id == 1)
    same(found.to_df(where=f"`{first}` >= {least}"), [row for row in table.rows() if row[first] >= least])
