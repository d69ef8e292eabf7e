"""The change feed: what every verb did, in every range of versions, as a list of rows says."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from contract.kinds import ANY_COLUMN_NAMES, CHANGE_FILES, NUMBERED, ROW_IDS, VECTORS_OFF, Kind
from contract.test_model import random_table
from delvec import sql
from delvec.errors import InvalidOperationError
from delvec.spark import scan, vector_words
from rows import multiset
from scanning import collected, is_scan, nodes, plain
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

pytestmark = [pytest.mark.spark, pytest.mark.needs(NUMBERED)]

CHANGE, VERSION, TIME = "_change_type", "_commit_version", "_commit_timestamp"
ORDINARY, SLOW, STEPS = 1, 16, 7


class History:
    """A table with a change feed, and what each of its versions changed."""

    def __init__(self, kind: Kind, spark: Any, root: Path, seed: int) -> None:
        self.kind, self.spark, self.rng = kind, spark, random.Random(seed)
        odds = {VECTORS_OFF: 0.3, ROW_IDS: 0.3, ANY_COLUMN_NAMES: 0.4}
        features = [CHANGE_FILES, *(name for name, share in odds.items() if self.rng.random() < share)]
        self.model: Model = random_table(kind, self.rng, features)
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


DDL = "id bigint, name string, p int"


def told(frame: Any, *names: str) -> list[tuple[Any, ...]]:
    """The changes, in the order of commits: kind, version and the columns named."""
    chosen = [CHANGE, VERSION, *(names or ("id",))]
    return sorted(tuple(row[name] for name in chosen) for row in collected(frame.select(*chosen)))


@pytest.fixture(scope="module")
def fed(kind: Kind, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Version 1 has the rows 0 to 9 in a file for each p; 2 and 3 delete rows, 4 updates one."""
    place = tmp_path_factory.mktemp("fed") / "t"
    table = kind.table(
        spark,
        place,
        DDL,
        [(i, f"n{i}", i % 2) for i in range(10)],
        having=[CHANGE_FILES],
        partition_by=["p"],
        properties={"delvec.rewriteDeletedShare": "0.9"},
    )
    table.delete("id = 2")
    table.delete("id IN (3, 4)")
    table.update({"name": "'new'"}, "id = 5")
    table.register("fed")
    return table


def test_each_version_and_the_columns(fed: Any) -> None:
    table = fed
    assert told(table.changes(2, 2)) == [("delete", 2, 2)]
    assert told(table.changes(3, 3)) == [("delete", 3, 3), ("delete", 3, 4)]
    assert told(table.changes(2, 4), "id", "name", "p") == [
        ("delete", 2, 2, "n2", 0),
        ("delete", 3, 3, "n3", 1),
        ("delete", 3, 4, "n4", 0),
        ("update_postimage", 4, 5, "new", 1),
        ("update_preimage", 4, 5, "n5", 1),
    ]
    assert told(table.changes(1).where("p = 0 AND id < 4")) == [
        ("delete", 2, 2),
        ("insert", 1, 0),
        ("insert", 1, 2),
    ]
    kinds = dict(table.changes(0).dtypes)
    own = {CHANGE: "string", VERSION: "bigint", TIME: "timestamp"}
    assert kinds == {"id": "bigint", "name": "string", "p": "int"} | own
    assert not collected(table.changes(0, 0))


def test_the_end_may_be_after_the_newest_version(fed: Any) -> None:
    assert told(fed.changes(4, 400)) == told(fed.changes(4))


def test_times_round_inward(spark: Any, fed: Any) -> None:
    times = {row["version"]: row["timestamp"].astimezone(dt.UTC) for row in collected(fed.history())}
    second, tiny = dt.timedelta(seconds=1), dt.timedelta(microseconds=1)
    found = {row[VERSION]: row[TIME] for row in collected(fed.changes(1))}
    assert found == {version: times[version] for version in (1, 2, 3, 4)}
    assert told(fed.changes(from_timestamp=times[3])) == told(fed.changes(3))
    assert told(fed.changes(from_timestamp=times[2] + tiny)) == told(fed.changes(3))
    assert told(fed.changes(2, to_timestamp=times[3])) == told(fed.changes(2, 3))
    assert told(fed.changes(from_timestamp=times[0] - second, to_timestamp=times[3] - tiny)) == told(
        fed.changes(0, 2)
    )
    text = times[3].isoformat(sep=" ")
    assert told(fed.changes(from_timestamp=text, to_timestamp=text)) == told(fed.changes(3, 3))
    between = fed.changes(from_timestamp=times[3] + tiny, to_timestamp=times[3] + 2 * tiny)
    assert between.columns == fed.changes(3).columns
    assert not collected(between)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "no start, expected from_version or from_timestamp"),
        ({"from_version": 3, "to_version": 2}, "end at version 2, expected .* version 3"),
        ({"from_version": 5}, "start at version 5, expected 0 to 4"),
        ({"from_version": -1}, "start at version -1, expected 0 to 4"),
        ({"from_version": "1"}, "version is '1', expected a whole number"),
        ({"from_version": 1, "from_timestamp": "2025-01-01"}, "both from_version 1 and from_timestamp"),
        ({"from_version": 1, "to_version": 2, "to_timestamp": "2025-01-01"}, "both to_version 2"),
        ({"from_timestamp": "3025-01-01"}, "is after the last commit"),
        ({"from_version": 1, "to_timestamp": "2001-01-01"}, "is before the first commit"),
        ({"from_timestamp": "soon"}, "timestamp is 'soon', expected ISO 8601"),
    ],
)
def test_bad_ranges(fed: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOperationError, match=message):
        fed.changes(**arguments)


def test_every_version_needs_the_feed(kind: Kind, spark: Any, tmp_path: Path) -> None:
    on = kind.having(CHANGE_FILES)
    off = dict.fromkeys(on, "false")
    table = kind.table(spark, tmp_path / "t", DDL, [(1, "a", 0)])
    for properties in (on, off, on):
        table.set_properties(properties)
        table.append([(2, "b", 0)])
    assert table.version == 7
    assert told(table.changes(2, 3)) == [("insert", 3, 2)]
    assert told(table.changes(6)) == [("insert", 7, 2)]
    for first, last, named in ((0, 7, 0), (1, 3, 1), (2, 7, 4), (3, 5, 4), (5, 6, 5)):
        with pytest.raises(InvalidOperationError, match=f"version {named} has no change feed"):
            table.changes(first, last)


def test_in_queries(spark: Any, fed: Any) -> None:
    def rows(text: str, **args: Any) -> list[Any]:
        return [tuple(row) for row in sql(spark, text, args or None).collect()]

    place = fed.location
    query = f"SELECT id, {CHANGE} FROM table_changes({{}}) WHERE {VERSION} > 1 ORDER BY id, {CHANGE}"
    expected = [(2, "delete"), (3, "delete"), (4, "delete"), (5, "update_postimage"), (5, "update_preimage")]
    assert rows(query.format("'fed', 2, 4")) == expected
    assert rows(query.format(f"'delvec.`{place}`', 1")) == expected
    assert rows(query.format(":n, 2, :last").replace(":n", "'fed'"), last=3) == expected[:3]
    times = {row["version"]: row["timestamp"] for row in collected(fed.history())}
    assert rows(query.format(f"'fed', '{times[2].isoformat(sep=' ')}'")) == expected
    assert rows(query.format(f"'fed', 1 + 1, TIMESTAMP'{times[3].isoformat(sep=' ')}'")) == expected[:3]
    assert rows(f"SELECT count(*) FROM table_changes_by_path('{place}', 3, 3)") == [(2,)]
    assert rows(query.format("'fed', DATE'2000-01-01'")) == expected
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        wall = times[2].astimezone(ZoneInfo("America/New_York")).replace(tzinfo=None).isoformat(sep=" ")
        assert rows(query.format(f"'fed', TIMESTAMP_NTZ'{wall}'")) == expected
        assert rows(query.format(f"'fed', 2, TIMESTAMP_NTZ'{wall}'")) == expected[:1]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    joined = (
        "WITH gone AS (SELECT * FROM table_changes('fed', 2) AS c WHERE c._change_type = 'delete') "
        "SELECT g.id, t.name FROM gone g LEFT JOIN fed t ON t.id = g.id + 4 ORDER BY 1"
    )
    assert rows(joined) == [(2, "n6"), (3, "n7"), (4, "n8")]
    assert rows("SELECT fed.id FROM table_changes('fed', 2, 2)") == [(2,)]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("table_changes('fed')", "has 0 bounds, expected a start"),
        ("table_changes('fed', 1, 2, 3)", "has 3 bounds, expected a start"),
        ("table_changes('fed', NULL)", "NULL is None, expected a version"),
        ("table_changes('fed', 1.5)", "expected a version"),
        ("table_changes('fed', true)", "expected a version"),
        ("table_changes('fed', id)", "id is not a constant"),
        ("table_changes('fed', 3, 2)", "end at version 2"),
    ],
)
def test_bad_queries(spark: Any, fed: Any, function: str, message: str) -> None:
    with pytest.raises(InvalidOperationError, match=message):
        sql(spark, f"SELECT * FROM {function}")


def test_rows_deleted_by_many_commits_are_read_by_one_scan(kind: Kind, spark: Any, tmp_path: Path) -> None:
    table = kind.table(spark, tmp_path / "t", DDL, [(i, "x", 0) for i in range(300)], having=[CHANGE_FILES])
    for i in range(5):
        table.delete(f"id = {i * 30}")
        table.append([(1000 + i, "y", 1)])
    assert told(table.changes(2)) == sorted(
        [("delete", 2 + 2 * i, 30 * i) for i in range(5)]
        + [("insert", 3 + 2 * i, 1000 + i) for i in range(5)]
    )
    plan = table.changes(2)._jdf.queryExecution().executedPlan()
    assert len([node for node in nodes(plan) if is_scan(node)]) == 2  # one for inserts, one for deletes


def test_rows_that_are_restored_are_inserted(kind: Kind, spark: Any, tmp_path: Path) -> None:
    rows = [(i, "x", 0) for i in range(4)]
    table = kind.table(spark, tmp_path / "t", DDL, rows, having=[CHANGE_FILES])
    table.delete("id = 1")
    table.delete("id = 2")
    table.restore(version=2)  # the file has its earlier deletes again
    table.overwrite([(9, "y", 0)])
    table.restore(version=3)  # the file is there again
    assert told(table.changes(4, 4)) == [("insert", 4, 2)]
    assert told(table.changes(6, 6)) == [("delete", 6, 9), ("insert", 6, 0), ("insert", 6, 3)]
    expected = [("insert", 1, i) for i in range(4)] + [("delete", 2, 1), ("delete", 3, 2), ("insert", 4, 2)]
    expected += [*(("delete", 5, i) for i in (0, 2, 3)), ("insert", 5, 9), ("delete", 6, 9)]
    assert told(table.changes(1)) == sorted([*expected, ("insert", 6, 0), ("insert", 6, 3)])


def test_large_delete_sets_are_compared_on_the_executors(
    kind: Kind, spark: Any, fed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = told(fed.changes(1), "id", "name", "p")
    monkeypatch.setattr(scan, "DRIVER_CHUNK_BYTES", -1)
    assert told(fed.changes(1), "id", "name", "p") == expected


def test_differences_as_chunks(fed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = told(fed.changes(2, 2), "id", "name", "p")
    monkeypatch.setattr(vector_words, "FEW_FILES", 0)
    assert told(fed.changes(2, 2), "id", "name", "p") == expected


def test_a_file_that_is_gone_is_named(kind: Kind, spark: Any, tmp_path: Path) -> None:
    table = kind.table(spark, tmp_path / "t", DDL, [(1, "a", 0), (2, "b", 0)], having=[CHANGE_FILES])
    table.overwrite([(3, "c", 0)])
    (old,) = table._table.snapshot(1).plan().files.column("location").to_pylist()
    Path(old).unlink()
    message = f"changes of version 2 can no longer be read.*{Path(old).name}"
    with pytest.raises(InvalidOperationError, match=message):
        table.changes(2)


def test_the_command_line(fed: Any, delvec: Any, in_spark: Any) -> None:
    shown = delvec("changes", fed.location, "--from", 2, "--to", 3, "--json").json
    columns = [column["name"] for column in shown["columns"]]
    assert columns[-3:] == [CHANGE, VERSION, TIME]
    rows = sorted(row[:4] for row in shown["rows"])
    assert rows == [[2, "n2", 0, "delete"], [3, "n3", 1, "delete"], [4, "n4", 0, "delete"]]
    few = delvec("changes", fed.location, "--from", 1, "--limit", 1)
    assert (few.code, "more not shown" in few.out) == (0, True)
    for options, message in (
        ((), "expected one of --from and --from-timestamp"),
        (("--from", 1, "--to", 1, "--to-timestamp", "2025-01-01"), "at most one of --to"),
        (("--from", 9), "start at version 9, expected 0 to 4"),
    ):
        run = delvec("changes", fed.location, *options)
        assert (run.code, message in run.err) == (2, True), run
