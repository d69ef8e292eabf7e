"""The change feed: what every verb did, in every range of versions, as a list of rows says."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from contract.kinds import ANY_COLUMN_NAMES, CHANGE_FILES, ROW_IDS, VECTORS_OFF, Kind
from contract.test_model import random_table
from rows import multiset
from scanning import collected, plain
from verbs_model import (
    Effect,
    Model,
    Row,
    SetProperties,
    arrow_rows,
    random_append,
    random_rows,
    random_step,
    run_by_delvec,
)

pytestmark = pytest.mark.spark

CHANGE, VERSION, TIME = "_change_type", "_commit_version", "_commit_timestamp"
ORDINARY, SLOW, STEPS = 3, 30, 7


class History:
    """A table with a change feed, and what each of its versions changed."""

    def __init__(self, kind: Kind, spark: Any, root: Path, seed: int) -> None:
        self.kind, self.spark, self.rng = kind, spark, random.Random(seed)
        odds = {VECTORS_OFF: 0.3, ROW_IDS: 0.3, ANY_COLUMN_NAMES: 0.4}
        features = [CHANGE_FILES, *(name for name, share in odds.items() if self.rng.random() < share)]
        self.model: Model = random_table(self.rng, features)
        first = random_rows(self.rng, self.model.columns, 20)
        self.table = kind.create(
            spark,
            root / self.rng.choice(["t", "a b", "é%41"]),
            spark.createDataFrame(arrow_rows(first, self.model.columns)).repartition(2),
            having=features,
            partition_by=self.model.partition_by,
            properties={**kind.random_properties(self.rng), "delvec.rewriteDeletedShare": "0.9"},
        )
        self.model.rows = [self.model.stored(row) for row in first]
        self.changes: list[list[tuple[str, Row]]] = [[("insert", row) for row in self.model.rows]]
        self.done: list[object] = [features, self.model.columns.copy(), self.model.partition_by]

    def step(self) -> None:
        if not self.model.rows:
            step: Any = random_append(self.rng, self.model)
        elif self.rng.random() < 0.1:
            step = SetProperties(self.kind.switch_vectors(on=self.rng.random() < 0.7))
        else:
            step = random_step(self.rng, self.model)
        self.done.append(step)
        effect: Effect = self.model.apply(step)
        if effect.refused:
            return
        run_by_delvec(self.spark, self.table, step, files=self.rng.choice([1, 2]))
        if effect.commits:
            self.changes.append(effect.changes)

    def verify(self, first: int, last: int) -> None:
        frame = self.table.changes(first, last)
        assert frame.columns[-3:] == [CHANGE, VERSION, TIME]
        found = multiset({k: v for k, v in row.items() if k != TIME} for row in collected(frame))
        expected = multiset(
            {name: plain(row.get(name)) for name in frame.columns[:-3]} | {CHANGE: change, VERSION: version}
            for version in range(first, last + 1)
            for change, row in self.changes[version]
        )
        assert found == expected, (
            f"{first} to {last} lost {expected - found}, gained {found - expected}\n{self.done}"
        )


def run(kind: Kind, spark: Any, root: Path, seed: int) -> None:
    history = History(kind, spark, root, seed)
    for _ in range(STEPS):
        history.step()
    newest = history.table.version
    assert newest == len(history.changes) - 1
    history.verify(0, newest)
    for _ in range(3):
        history.verify(*sorted(history.rng.choices(range(newest + 1), k=2)))


@pytest.mark.parametrize("seed", range(ORDINARY))
def test_changes_are_those_of_the_model(kind: Kind, spark: Any, tmp_path: Path, seed: int) -> None:
    run(kind, spark, tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ORDINARY, ORDINARY + SLOW))
def test_changes_are_those_of_the_model_in_many_runs(
    kind: Kind, spark: Any, tmp_path: Path, seed: int
) -> None:
    run(kind, spark, tmp_path, seed)
