"""Deletes by key beside other writers: the rows are those of the two statements one after the other."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from delvec import detect
from delvec.table import Table
from delvec.verify import verify_table
from racing import log_messages, losing
from verbs import rows_of

pytestmark = pytest.mark.spark

DDL = "id bigint, v bigint"
Row = tuple[int, int]
BASE: list[Row] = [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50), (6, 60), (7, 70), (8, 80)]


@dataclass(frozen=True)
class Statement:
    run: Callable[[Any], Any]
    model: Callable[[list[Row]], list[Row]]


def frame(table: Any, rows: Any) -> Any:
    return table._spark.createDataFrame(list(rows), DDL).coalesce(1)


def deleting_keys(*ids: int) -> Statement:
    return Statement(
        lambda t: t.delete_keys([{"id": one} for one in ids], on="id"),
        lambda held: [row for row in held if row[0] not in ids],
    )


def upserting(*rows: Row) -> Statement:
    ids = {one for one, _ in rows}
    return Statement(
        lambda t: t.upsert(frame(t, rows), on="id"),
        lambda held: [row for row in held if row[0] not in ids] + list(rows),
    )


def deleting(where: str, hit: Callable[[Row], bool]) -> Statement:
    return Statement(lambda t: t.delete(where), lambda held: [row for row in held if not hit(row)])


def updating(
    set_: dict[str, str], where: str, hit: Callable[[Row], bool], new: Callable[[Row], Row]
) -> Statement:
    return Statement(
        lambda t: t.update(set_, where), lambda held: [new(row) if hit(row) else row for row in held]
    )


def merging(*rows: Row) -> Statement:
    """Rows with an even new value are left as they are; rows that are not there are inserted."""
    source = dict(rows)

    def run(table: Any) -> Any:
        merge = table.merge(frame(table, rows), "target.id = source.id")
        merge = merge.when_matched_update({"v": "source.v"}, condition="source.v % 2 = 1")
        return merge.when_not_matched_insert_all().execute()

    def model(held: list[Row]) -> list[Row]:
        after = [(i, source[i]) if source.get(i, 0) % 2 else (i, v) for i, v in held]
        return after + [(i, v) for i, v in rows if i not in {i for i, _ in held}]

    return Statement(run, model)


APPEND = Statement(lambda t: t.append(frame(t, [(2, 99)])), lambda held: [*held, (2, 99)])
COMPACT = Statement(lambda t: t.optimize(), list)
PURGE = Statement(lambda t: t.purge(), list)
DELETE = deleting("v = 20", lambda row: row[1] == 20)
UPDATE = updating({"v": "v + 1"}, "id = 2", lambda row: row[0] == 2, lambda row: (2, row[1] + 1))
MOVE = updating({"id": "id + 10"}, "id = 2", lambda row: row[0] == 2, lambda row: (12, row[1]))
REWRITE = Statement(lambda t: t.rewrite_deletes(), list)


def then_rewriting(first: Statement) -> Statement:
    """The statement, and the rewriting of its deletes to vectors of positions."""

    def run(table: Any) -> Any:
        first.run(table)
        return REWRITE.run(table)

    return Statement(run, first.model)


REPLACE = Statement(lambda t: t.overwrite(frame(t, [(5, 5)])), lambda _: [(5, 5)])

TOP, AGAIN = "top", "again"

CASES: dict[str, tuple[Statement, Statement, str]] = {
    "delete, key deleted": (deleting_keys(2), DELETE, TOP),
    "delete, key elsewhere": (deleting_keys(7), DELETE, TOP),
    "delete, key upserted to a match": (upserting((7, 20)), DELETE, AGAIN),
    "update, key deleted": (deleting_keys(2), UPDATE, AGAIN),
    "update, key elsewhere": (deleting_keys(3, 7), UPDATE, TOP),
    "update of the key, key deleted": (deleting_keys(2), MOVE, AGAIN),
    "update to a key that is deleted": (deleting_keys(12), MOVE, TOP),
    "update, key upserted": (upserting((2, 21)), UPDATE, AGAIN),
    "merge, key deleted": (deleting_keys(2), merging((2, 25), (10, 100)), AGAIN),
    "merge that reads, key deleted": (deleting_keys(2), merging((2, 24), (10, 100)), AGAIN),
    "merge, key elsewhere": (deleting_keys(3), merging((2, 25), (10, 100)), TOP),
    "merge, key upserted": (upserting((10, 1)), merging((2, 25), (10, 100)), AGAIN),
    "append, key deleted": (deleting_keys(2), APPEND, TOP),
    "compaction, key deleted": (deleting_keys(2, 6), COMPACT, TOP),
    "compaction, key upserted": (upserting((2, 21), (9, 90)), COMPACT, TOP),
    "compaction, key deleted and rewritten": (then_rewriting(deleting_keys(2, 6)), COMPACT, TOP),
    "merge that reads, key deleted and rewritten": (
        then_rewriting(deleting_keys(2)),
        merging((2, 24), (10, 100)),
        AGAIN,
    ),
    "update, key deleted and rewritten": (then_rewriting(deleting_keys(2)), UPDATE, AGAIN),
    "delete, key deleted and rewritten": (then_rewriting(deleting_keys(2)), DELETE, TOP),
    "key delete, deletes rewritten": (REWRITE, deleting_keys(2, 4), TOP),
    "overwrite of all, key upserted": (upserting((2, 21), (9, 90)), REPLACE, TOP),
    "key delete, key deleted": (deleting_keys(2, 3), deleting_keys(3, 4), TOP),
    "key delete, row deleted": (DELETE, deleting_keys(2, 4), TOP),
    "key delete, row updated": (UPDATE, deleting_keys(2), TOP),
    "key delete, row appended": (APPEND, deleting_keys(2), TOP),
    "key delete, compaction": (COMPACT, deleting_keys(2), TOP),
    "upsert, upsert": (upserting((2, 21), (9, 90)), upserting((2, 22), (9, 91), (3, 31)), TOP),
    "upsert, row merged": (merging((2, 25), (10, 100)), upserting((2, 22), (10, 1)), TOP),
    "upsert, compaction": (COMPACT, upserting((2, 22), (10, 1)), TOP),
}
SLOW = (
    "delete, key elsewhere",
    "update to a key that is deleted",
    "merge, key elsewhere",
    "overwrite of all, key upserted",
    "key delete, row updated",
    "upsert, row merged",
    "append, key deleted",
    "update, key deleted and rewritten",
    "delete, key deleted and rewritten",
    "key delete, deletes rewritten",
)


@pytest.fixture(scope="module")
def templates(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Two files: ids 1 to 4, and 5 to 8."""
    made: dict[tuple[int, str, str], Path] = {}

    def template(version: int, mode: str, gate: str = "false") -> Path:
        if (version, mode, gate) not in made:
            place = tmp_path_factory.mktemp("keys") / "t"
            rows = spark.createDataFrame(BASE[:4], DDL).coalesce(1)
            # Only DELETE writes files again: key deletes of such a table would find their rows first.
            properties = {"write.update.mode": mode, "write.delete.equality-vector.enabled": gate}
            table = Table.create(
                spark, str(place), rows, format="iceberg", format_version=version, properties=properties
            )
            table.append(spark.createDataFrame(BASE[4:], DDL).coalesce(1))
            made[version, mode, gate] = place
        return made[version, mode, gate]

    return template


@pytest.fixture
def restored(templates: Callable[..., Path]) -> Any:
    """The templates are put back after each test."""
    copies: list[tuple[Path, Path]] = []

    def keep(place: Path, copy: Path) -> None:
        shutil.copytree(place, copy)
        copies.append((place, copy))

    yield keep
    for place, copy in copies:
        shutil.rmtree(place)
        shutil.copytree(copy, place)


def race(spark: Any, place: str, first: Statement, second: Statement) -> tuple[str, Any]:
    table = losing(spark, place, first.run)
    with log_messages() as messages:
        result = second.run(table)
    assert rows_of(table) == sorted(second.model(first.model(BASE)), key=str)
    assert not verify_table(detect.open_table(place)).errors
    return (AGAIN if any(one.startswith("run 1:") for one in messages) else TOP), result


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in CASES]
)
def test_the_second_writer(spark, templates, restored, tmp_path, case):
    first, second, how = CASES[case]
    place = templates(3, "merge-on-read")
    restored(place, tmp_path / "copy")
    assert race(spark, str(place), first, second)[0] == how


@pytest.mark.parametrize("case", ["update, key deleted", "delete, key deleted", "compaction, key deleted"])
def test_position_files(spark, templates, restored, tmp_path, case):
    place = templates(2, "merge-on-read")
    restored(place, tmp_path / "copy")
    first, second, how = CASES[case]
    assert race(spark, str(place), first, second)[0] == how


KEY_STATEMENT = deleting("id IN (2, 7)", lambda row: row[0] in (2, 7))
VECTOR_CASES: dict[str, tuple[Statement, Statement, str]] = {
    "position delete, key deleted": (deleting_keys(2), DELETE, TOP),
    "key delete, row deleted": (DELETE, deleting_keys(2, 4), TOP),
    "upsert, upsert": CASES["upsert, upsert"],
    "compaction, key deleted": (deleting_keys(2, 6), COMPACT, TOP),
    "compaction, DELETE of keys": (KEY_STATEMENT, COMPACT, TOP),
    "DELETE of keys, row appended": (APPEND, KEY_STATEMENT, TOP),
    "DELETE of keys, row updated": (UPDATE, KEY_STATEMENT, TOP),
    "DELETE of keys, compaction": (COMPACT, KEY_STATEMENT, TOP),
    "update, DELETE of keys": (KEY_STATEMENT, UPDATE, AGAIN),
    "merge, DELETE of keys": (KEY_STATEMENT, merging((2, 25), (10, 100)), AGAIN),
}


@pytest.mark.parametrize("case", VECTOR_CASES)
def test_vectors_of_keys(spark, templates, restored, tmp_path, case):
    """On tables whose DELETE statements store keys."""
    place = templates(3, "merge-on-read", "true")
    restored(place, tmp_path / "copy")
    first, second, how = VECTOR_CASES[case]
    assert race(spark, str(place), first, second)[0] == how


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize(("key", "how"), [(2, AGAIN), (3, AGAIN), (7, TOP)])
def test_files_that_are_written_again_bring_no_row_back(
    spark, templates, restored, tmp_path, key, how, rewritten
):
    """The copies of rows have a larger sequence number than the delete of their key; if that became a vector,
    it is gone.
    """
    place = templates(3, "copy-on-write")
    restored(place, tmp_path / "copy")
    first = then_rewriting(deleting_keys(key)) if rewritten else deleting_keys(key)
    assert race(spark, str(place), first, UPDATE)[0] == how


def test_rows_that_are_deleted_by_both_are_counted_once(spark, templates, restored, tmp_path):
    place = templates(3, "merge-on-read")
    restored(place, tmp_path / "copy")
    statement = deleting("id < 4", lambda row: row[0] < 4)
    _, result = race(spark, str(place), deleting_keys(2, 3, 7), statement)
    assert result.metrics["numDeletedRows"] == 1
    assert result.metrics["numFilesUnited"] == 1


def test_an_equality_delete_and_a_position_delete_of_the_same_row(spark, templates, restored, tmp_path):
    place = templates(3, "merge-on-read")
    restored(place, tmp_path / "copy")
    first, second = deleting_keys(2), deleting("id = 2", lambda row: row[0] == 2)
    how, result = race(spark, str(place), first, second)
    assert (how, result.metrics["numDeletedRows"]) == (TOP, 0)
    table = Table.open(spark, str(place))
    assert table.version == result.version
    table.append(frame(table, [(2, 22)]))
    assert (2, 22) in rows_of(table)
