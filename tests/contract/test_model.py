"""Random sequences of all verbs on random tables: after each step a table is what a list of rows would be."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions

from contract.kinds import (
    ANY_COLUMN_NAMES,
    CHANGE_FILES,
    EMPTY_PARTITIONS,
    NUMBERED,
    POSITION_FILES,
    ROW_IDS,
    VECTORS_OFF,
    Kind,
)
from delvec import detect
from delvec.errors import InvalidOperationError
from delvec.spark import find_rows
from delvec.verify import verify_table
from rows import multiset
from scanning import collected, plain
from verbs_model import (
    KEY,
    KINDS,
    PLAIN,
    Model,
    SetProperties,
    Step,
    arrow_rows,
    random_append,
    random_rows,
    random_step,
    run_by_delvec,
    schema_text,
)

pytestmark = pytest.mark.spark

STEPS = 6
COMMON, ORDINARY, SLOW = 2, 6, 30
NAMES = ["plain", "dot.ted", "tick`ed", "Ünï", "select", "target", "source", "row_index", "file_path", "_x"]
# Only tables whose columns may have any name allow these.
SPACED = ["with space", "a,b", "p=q", "(x)"]
# How often a table has a feature.
FEATURES = {VECTORS_OFF: 0.33, CHANGE_FILES: 0.5, ROW_IDS: 0.33, ANY_COLUMN_NAMES: 0.4}


def random_table(kind: Kind, rng: random.Random, features: Sequence[str]) -> Model:
    """A model with random columns and partitions, and no rows yet."""
    names = iter(rng.sample([*NAMES, *SPACED] if ANY_COLUMN_NAMES in features else NAMES, 7))
    parts = [(next(names), rng.choice([*PLAIN, "text"])) for _ in range(rng.choice([0, 1, 1, 2]))]
    others = [(next(names), rng.choice(list(KINDS))) for _ in range(rng.randrange(1, 5))]
    fields = [*parts, *others]
    rng.shuffle(fields)
    empty_is_null = EMPTY_PARTITIONS not in kind.abilities
    return Model({KEY: "long", **dict(fields)}, tuple(name for name, _ in parts), empty_is_null=empty_is_null)


class Run:
    """A table, its model, and what was done to both."""

    def __init__(self, kind: Kind, spark: Any, root: Path, seed: int) -> None:
        self.kind, self.spark, self.rng = kind, spark, random.Random(seed)
        drawn = tuple(name for name, odds in FEATURES.items() if self.rng.random() < odds)
        self.features = tuple(name for name in drawn if kind.has(name))
        self.model = random_table(kind, self.rng, self.features)
        properties = kind.random_properties(self.rng)
        properties["delvec.rewriteDeletedShare"] = self.rng.choice(["0.99", "0.5", "0.1"])
        self.done: list[object] = [self.model.columns.copy(), self.model.partition_by]
        self.done += [self.features, properties]
        self.location = str(root / self.rng.choice(["t", "a b", "é%41", "[x]"]))
        first = random_rows(self.rng, self.model.columns, 30) if self.rng.random() < 0.5 else None
        given: Any = schema_text(self.model.columns)
        if first is not None:
            given = spark.createDataFrame(arrow_rows(first, self.model.columns)).repartition(3)
            self.model.rows = [self.model.stored(row) for row in first]
        self.table = kind.create(
            spark,
            self.location,
            given,
            having=self.features,
            partition_by=self.model.partition_by,
            properties=properties,
        )
        self.versions = {kind.version(self.table, 0): list(self.model.rows)}
        self.verify()

    def compact(self) -> None:
        """Rows stay as they are."""
        size = self.rng.choice([None, 1, 3000])
        verbs: dict[str, Callable[[], Any]] = {
            "optimize": lambda: self.table.optimize(target_file_size=size),
            "optimize, z-order": lambda: self.table.optimize(zorder_by=KEY, target_file_size=size),
            "optimize, part by part": lambda: self.table.optimize(bytes_per_commit=1),
            "purge": self.table.purge,
        }
        verb = self.rng.choice(list(verbs))
        self.done.append((verb, size))
        before = self.kind.commits(self.table)
        result = verbs[verb]()
        self.verify()
        assert result.version == self.table.version, self
        assert self.kind.commits(self.table) == before + len(result.versions), self
        for version in result.versions:
            self.versions[version] = list(self.model.rows)

    def step(self) -> None:
        if self.rng.random() < 0.15:
            self.compact()
            return
        if self.rng.random() < 0.5 and (properties := self.kind.random_deletes(self.rng)):
            self.done.append(properties)
            self.table.set_properties(properties)
        if not self.model.rows and self.rng.random() < 0.7:
            step: Step = random_append(self.rng, self.model)
        elif self.rng.random() < 0.1:
            step = SetProperties(self.kind.switch_vectors(on=self.rng.random() < 0.5))
        else:
            step = random_step(self.rng, self.model)
        self.done.append(step)
        before = self.kind.commits(self.table)
        effect = self.effect = self.model.apply(step)
        if isinstance(step, SetProperties) and NUMBERED not in self.kind.abilities:
            effect.commits = any(self.table.properties.get(k) != v for k, v in step.properties.items())
        if effect.refused:
            with pytest.raises(InvalidOperationError):
                run_by_delvec(self.spark, self.table, step)
            assert self.kind.commits(self.table) == before, self
            return
        result = run_by_delvec(
            self.spark,
            self.table,
            step,
            files=self.rng.choice([1, 2, 4]),
            condition=self.rng.choice([str, functions.expr]),
        )
        self.verify()
        if result.metrics.get("numDeletedRows", 0) is None:  # keys were stored, and rows are not counted
            effect.metrics.pop("numDeletedRows")
            effect.commits = True
        if POSITION_FILES in self.kind.features and "numDeletedRows" not in result.metrics:
            effect.metrics.pop("numDeletedRows", None)  # not without reading the deletes
        assert result.version == self.table.version, self
        assert self.kind.commits(self.table) == before + effect.commits, self
        assert {name: result.metrics.get(name) for name in effect.metrics} == effect.metrics, self
        self.versions[result.version] = list(self.model.rows)

    def verify(self) -> None:
        self.same(collected(self.table.to_df()), self.model.rows)
        report = verify_table(detect.open_table(self.location))
        assert not report.findings, self

    def verify_versions(self) -> None:
        """All versions, read without Spark."""
        table = detect.open_table(self.location)
        for version, rows in self.versions.items():
            names = table.snapshot(version).schema
            held = [{field.name: row[field.name] for field in names} for row in rows]
            self.same(self.kind.rows_at(table, version), held)

    def verify_by_others(self) -> None:
        from delvec.table import Table

        readable = self.kind.copied(self.table, f"{self.location}-copy")
        for read in self.kind.readers_of(Table.open(self.spark, readable)):
            self.same(read(readable), self.model.rows, read.__name__)

    def same(self, found: list[Any], expected: list[Any], reader: str = "delvec") -> None:
        order = list(self.model.columns)
        mine, theirs = (
            multiset({name: plain(row[name]) for name in order if name in row} for row in rows)
            for rows in (expected, found)
        )
        assert mine == theirs, f"{reader} lost {mine - theirs}, gained {theirs - mine}\n{self}"

    def __repr__(self) -> str:
        return "\n".join(map(str, self.done))


@pytest.fixture(autouse=True)
def found_as_bits(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Half of the sequences find rows as they are found in large files."""
    if seed % 2:
        monkeypatch.setattr(find_rows, "FEW_ROWS", 0)


def run(kind: Kind, spark: Any, root: Path, seed: int) -> None:
    sequence = Run(kind, spark, root, seed)
    for _ in range(STEPS):
        sequence.step()
    sequence.verify_versions()
    sequence.verify_by_others()


@pytest.mark.parametrize("seed", range(COMMON))
def test_verbs_do_what_the_model_does(kind: Kind, spark: Any, tmp_path: Path, seed: int) -> None:
    run(kind, spark, tmp_path, seed)


@pytest.mark.parametrize("seed", range(COMMON, ORDINARY))
def test_verbs_do_what_the_model_does_in_more_runs(kind: Kind, spark: Any, tmp_path: Path, seed: int) -> None:
    run(kind, spark, tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ORDINARY, ORDINARY + SLOW))
def test_verbs_do_what_the_model_does_in_many_runs(kind: Kind, spark: Any, tmp_path: Path, seed: int) -> None:
    run(kind, spark, tmp_path, seed)
