"""Delta-Spark's statements and delvec's verbs in turns on one table: each reads what the other wrote."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from delvec import detect
from delvec.errors import InvalidOperationError
from delvec.verify import verify_table
from rows import multiset
from scanning import collected, plain
from verbs_model import (
    KEY,
    Append,
    Delete,
    Effect,
    Merge,
    Model,
    Overwrite,
    Step,
    Update,
    random_condition,
    random_merge,
    random_overwrite,
    random_rows,
    random_values,
    references,
    run_by_delvec,
    run_by_sql,
    schema_text,
)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    # PySpark leaves the sockets of its results to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

COLUMNS = {KEY: "long", "n": "int", "text": "text", "d": "double", "s": "struct", "p": "place"}
CHANGE_FEED = {"delta.enableChangeDataFeed": "true"}
OURS, THEIRS = "ours", "theirs"
OPTIMIZE, CHECKPOINT = "OPTIMIZE", "CHECKPOINT"
OPERATIONS = {Append: "WRITE", Overwrite: "WRITE", Delete: "DELETE", Update: "UPDATE", Merge: "MERGE"}
Turn = tuple[str, type] | str


@dataclass(slots=True)
class Both:
    """A table that two engines change, and its model."""

    spark: Any
    location: str
    rng: random.Random
    model: Model
    told: list[object] = field(default_factory=list)
    effects: dict[int, tuple[Step, Effect]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"delta.`{self.location}`"

    @property
    def table(self) -> Any:
        from delvec.table import Table

        return Table.open(self.spark, self.location)

    def turn(self, turn: Turn) -> None:
        self.told.append(turn)
        match turn:
            case str():
                self._maintain(turn)
            case (who, kind):
                self._change(who, self._step(kind))
        self.verify()

    def _maintain(self, what: str) -> None:
        if what == OPTIMIZE:
            self.spark.sql(f"OPTIMIZE {self.name}")
            return
        log = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog
        log.forTable(self.spark._jsparkSession, self.location).checkpoint()

    def _step(self, kind: type) -> Step:
        """One that changes something and leaves most rows, so that no turn is idle."""
        for _ in range(200):
            step = self._random(kind)
            trial = Model(dict(self.model.columns), self.model.partition_by, list(self.model.rows))
            effect = trial.apply(step)
            if effect.changes and not effect.refused and len(trial.rows) * 2 > len(self.model.rows):
                return step
        raise AssertionError(f"no {kind.__name__} changes anything")

    def _random(self, kind: type) -> Step:
        refs = references(self.model.columns, "target")
        if kind is Append:
            rows = random_rows(self.rng, self.model.columns, self.rng.randrange(5, 20))
            return Append(rows, dict(self.model.columns))
        if kind is Delete:
            return Delete(random_condition(self.rng, refs))
        if kind is Update:
            values = random_values(self.rng, self.model.columns, refs)
            return Update(values, random_condition(self.rng, refs))
        return random_merge(self.rng, self.model) if kind is Merge else random_overwrite(self.rng, self.model)

    def _change(self, who: str, step: Step) -> None:
        self.told.append(step)
        effect = self.model.apply(step)
        if who == OURS:
            result = run_by_delvec(self.spark, self.table, step, files=self.rng.choice([1, 2]))
            assert {name: result.metrics.get(name) for name in effect.metrics} == effect.metrics, self.told
            self.effects[result.version] = (step, effect)
        else:
            run_by_sql(self.spark, self.name, step)

    def verify(self) -> None:
        self.same(collected(self.table.to_df()), self.model.rows, "delvec")
        self.spark.sql(f"REFRESH TABLE {self.name}")
        self.same(
            collected(self.spark.read.format("delta").load(self.location)), self.model.rows, "Delta-Spark"
        )
        assert not verify_table(detect.open_table(self.location)).errors, self.told

    def verify_history(self) -> None:
        """Delta-Spark shows our operations, with their counts."""
        history = {row["version"]: row for row in self.spark.sql(f"DESCRIBE HISTORY {self.name}").collect()}
        for version, (step, effect) in self.effects.items():
            assert history[version]["operation"] == OPERATIONS[type(step)]
            shown = history[version]["operationMetrics"]
            assert {name: int(shown[name]) for name in effect.metrics} == effect.metrics, (step, shown)

    def verify_changes(self) -> None:
        """Delta-Spark reads our changes from the change feed."""
        feed = self.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
        rows = collected(feed.load(self.location).drop("_commit_timestamp"))
        for version, (step, effect) in self.effects.items():
            found = [row for row in rows if row["_commit_version"] == version]
            expected = [
                row | {"_change_type": kind, "_commit_version": version} for kind, row in effect.changes
            ]
            self.same(found, expected, f"the change feed of {step}")

    def same(self, found: list[Any], expected: list[Any], reader: str) -> None:
        order = [*self.model.columns, "_change_type", "_commit_version"]
        mine, theirs = (
            multiset({name: plain(row[name]) for name in order if name in row} for row in rows)
            for rows in (expected, found)
        )
        told = "\n".join(map(str, self.told))
        assert mine == theirs, f"{reader} lost {mine - theirs}, gained {theirs - mine}\n{told}"


def created_by_us(
    spark: Any, root: Path, seed: int, partition_by: tuple[str, ...], properties: Mapping[str, str]
) -> Both:
    from delvec.table import Table

    location = str(root / "a table %41")
    Table.create(spark, location, schema_text(COLUMNS), partition_by=partition_by, properties=properties)
    return _filled(Both(spark, location, random.Random(seed), Model(dict(COLUMNS), partition_by)))


def created_by_them(
    spark: Any, root: Path, seed: int, partition_by: tuple[str, ...], properties: Mapping[str, str]
) -> Both:
    both = Both(spark, str(root / "a table %41"), random.Random(seed), Model(dict(COLUMNS), partition_by))
    by = f" PARTITIONED BY ({', '.join(partition_by)})" if partition_by else ""
    given = properties | {"delta.enableDeletionVectors": "true"} | properties
    settings = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
    spark.sql(f"CREATE TABLE {both.name} ({schema_text(COLUMNS)}) USING delta{by} TBLPROPERTIES ({settings})")
    return _filled(both)


def _filled(both: Both) -> Both:
    both._change(OURS, Append(random_rows(both.rng, COLUMNS, 40), dict(COLUMNS)))
    return both


TABLES = {
    "vectors": (created_by_us, ("p",), CHANGE_FEED),
    "rewritten": (created_by_us, ("p",), CHANGE_FEED | {"delta.enableDeletionVectors": "false"}),
    "mapped": (created_by_us, ("p",), CHANGE_FEED | {"delta.columnMapping.mode": "name"}),
    "mapped by them": (created_by_them, (), CHANGE_FEED | {"delta.columnMapping.mode": "id"}),
    "v2 checkpoints": (
        created_by_us,
        (),
        {
            "delta.checkpointPolicy": "v2",
            "delta.checkpointInterval": "2",
            "delta.enableInCommitTimestamps": "true",
        },
    ),
    "times": (created_by_them, ("p",), {"delta.enableInCommitTimestamps": "true"}),
}
TURNS: dict[str, list[Turn]] = {
    "vectors": [
        (OURS, Delete), (THEIRS, Delete), (OURS, Update), (THEIRS, Merge), (OURS, Merge), OPTIMIZE,
        (OURS, Delete), (OURS, Overwrite),
    ],
    "rewritten": [(OURS, Delete), (OURS, Update), (THEIRS, Delete), (OURS, Merge), (OURS, Overwrite)],
    "mapped": [(OURS, Merge), (THEIRS, Update), (OURS, Delete), (OURS, Update)],
    "mapped by them": [
        (THEIRS, Append), (OURS, Update), (THEIRS, Delete), (OURS, Merge), CHECKPOINT, (OURS, Delete),
    ],
    "v2 checkpoints": [
        (OURS, Delete), (THEIRS, Update), (OURS, Merge), (OURS, Append), CHECKPOINT, (OURS, Delete),
    ],
    "times": [(OURS, Delete), (THEIRS, Append), (OURS, Update), CHECKPOINT, (OURS, Overwrite)],
}  # fmt: skip


# "v2 checkpoints" has times in its commits, too.
SLOW = {"times"}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind in SLOW else []) for kind in TABLES]
)
def test_in_turns(delta_spark: Any, tmp_path: Path, kind: str) -> None:
    create, partition_by, properties = TABLES[kind]
    both = create(delta_spark, tmp_path, len(kind), partition_by, properties)
    for turn in TURNS[kind]:
        both.turn(turn)
    both.verify_history()
    if "delta.enableChangeDataFeed" in properties:
        both.verify_changes()


def test_rows_that_a_constraint_of_theirs_forbids(delta_spark: Any, tmp_path: Path) -> None:
    both = created_by_them(delta_spark, tmp_path, 7, (), {})
    delta_spark.sql(f"ALTER TABLE {both.name} ADD CONSTRAINT small CHECK (id IS NULL OR id < 1000)")
    both.turn((OURS, Delete))
    before = both.table.version
    for forbidden in (
        lambda: both.table.update({"id": "id + 1000"}, "id >= 0"),
        lambda: run_by_delvec(delta_spark, both.table, Append([{KEY: 1000}], {KEY: "long"})),
    ):
        with pytest.raises(InvalidOperationError, match="small"):
            forbidden()
    assert both.table.version == before
    both.turn((THEIRS, Merge))
    both.turn((OURS, Update))


@pytest.mark.parametrize(
    "enabled", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["enabled", "supported"]
)
def test_row_ids_stay_unique(delta_spark: Any, tmp_path: Path, enabled: bool) -> None:
    """Supported alone, every file gets ids; enabled, Delta-Spark shows them, and no two rows share one."""
    wanted = {"delta.enableRowTracking": "true"} if enabled else {"delta.feature.rowTracking": "supported"}
    both = created_by_them(delta_spark, tmp_path, 8, ("p",), wanted)
    for turn in ((OURS, Delete), (THEIRS, Update), (OURS, Merge), (OURS, Update), (THEIRS, Append)):
        both.turn(turn)
    if enabled:
        ids = [row[0] for row in delta_spark.sql(f"SELECT _metadata.row_id FROM {both.name}").collect()]
        assert None not in ids
        assert len(set(ids)) == len(both.model.rows)


def test_a_field_set_inside_a_null_struct(delta_spark: Any, tmp_path: Path) -> None:
    """The struct is there afterwards, and its other fields are null: Delta-Spark does it so."""
    from delvec.table import Table

    table = Table.create(
        delta_spark, str(tmp_path / "t"), "id int, s struct<a: int, b: struct<c: int, d: int>>"
    )
    table.append(delta_spark.sql("SELECT id, NULL AS s FROM VALUES (1), (2) AS v(id)"))
    table.update({"s.b.c": "7"}, "id = 1")
    delta_spark.sql(f"UPDATE delta.`{table.location}` SET s.b.c = 7 WHERE id = 2")
    ours, theirs = (table.to_df(where=f"id = {key}", columns=["s"]).collect() for key in (1, 2))
    assert ours == theirs
    assert ours[0].s.b.c == 7


@pytest.mark.parametrize("vectors", ["true", "false"], ids=["vectors", "copy-on-write"])
def test_rows_keep_their_ids(delta_spark: Any, tmp_path: Path, vectors: str) -> None:
    """Through our updates, merges and rewrites, as Delta-Spark shows them."""
    from delvec.table import Table

    properties = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": vectors}
    rows = delta_spark.range(0, 20, 1, 2).selectExpr("id", "CAST(id AS DOUBLE) AS v")
    table = Table.create(delta_spark, str(tmp_path / "t"), rows, properties=properties)
    name = f"delta.`{table.location}`"

    def lineage() -> dict[int, tuple[int, int]]:
        columns = "id, _metadata.row_id, _metadata.row_commit_version"
        return {
            row[0]: (row[1], row[2]) for row in delta_spark.sql(f"SELECT {columns} FROM {name}").collect()
        }

    expected = lineage()
    assert sorted(row_id for row_id, _ in expected.values()) == list(range(20))

    def changed(version: int, *keys: int) -> None:
        expected.update({key: (expected[key][0], version) for key in keys})

    changed(table.update({"v": "v + 1"}, "id % 3 = 0").version, *range(0, 20, 3))
    assert lineage() == expected
    news = delta_spark.range(2, 5).selectExpr("id", "-1.0D AS v")
    changed(table.merge(news, "target.id = source.id").when_matched_update_all().execute().version, 2, 3, 4)
    assert lineage() == expected
    table.delete("id = 5")
    del expected[5]
    assert lineage() == expected
    delta_spark.sql(f"OPTIMIZE {name}")
    assert lineage() == expected
    changed(table.update({"v": "v + 1"}, "id < 4").version, 0, 1, 2, 3)
    assert lineage() == expected
    merging = table.merge(delta_spark.sql("SELECT 100L AS id, 0D AS v"), "target.id = source.id")
    added = merging.when_not_matched_insert_all().execute().version
    found = lineage()
    row_id, version = found.pop(100)
    assert (found, version) == (expected, added)
    assert row_id >= 20
