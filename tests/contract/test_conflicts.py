"""Verb against verb: every winner before every loser, on real tables.

How each race is resolved is written down in ``GRID``; whatever it is, the rows must be those of the two
statements one after the other, which a model in plain Python says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contract.kinds import NUMBERED, REQUESTS, Kind
from delvec import detect
from delvec.verify import verify_table
from racing import compact, log_messages, losing
from verbs import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.numbered]

DDL = "id bigint, v bigint"
Row = tuple[int, int]
BASE: list[Row] = [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50), (6, 60), (7, 70), (8, 80)]


@dataclass(frozen=True)
class Statement:
    run: Callable[[Any], Any]
    model: Callable[[list[Row]], list[Row]]


def frame(table: Any, *rows: Row) -> Any:
    return table._spark.createDataFrame(list(rows), DDL).coalesce(1)


def appending(*rows: Row) -> Statement:
    return Statement(lambda t: t.append(frame(t, *rows)), lambda held: [*held, *rows])


def deleting(where: str, gone: Callable[[Row], bool]) -> Statement:
    return Statement(lambda t: t.delete(where), lambda held: [row for row in held if not gone(row)])


def updating(
    new: Mapping[str, str], where: str, hit: Callable[[Row], bool], change: Callable[[Row], Row]
) -> Statement:
    return Statement(
        lambda t: t.update(new, where), lambda held: [change(row) if hit(row) else row for row in held]
    )


def upserting(*rows: Row) -> Statement:
    """Matched rows with an even new value are left as they are."""
    source = dict(rows)

    def run(table: Any) -> Any:
        merge = table.merge(frame(table, *rows), "target.id = source.id")
        merge = merge.when_matched_update({"v": "source.v"}, condition="source.v % 2 = 1")
        return merge.when_not_matched_insert_all().execute()

    def model(held: list[Row]) -> list[Row]:
        after = [(i, source[i]) if source.get(i, 0) % 2 else (i, v) for i, v in held]
        return after + [(i, v) for i, v in rows if i not in {i for i, _ in held}]

    return Statement(run, model)


def overwriting(where: str, gone: Callable[[Row], bool], *rows: Row) -> Statement:
    return Statement(
        lambda t: t.overwrite(frame(t, *rows), where=where),
        lambda held: [row for row in held if not gone(row)] + list(rows),
    )


def replacing(*rows: Row) -> Statement:
    return Statement(lambda t: t.overwrite(frame(t, *rows)), lambda _: list(rows))


def compacting(key: int) -> Statement:
    """The file that holds the key is written again, as it is, without a change of data."""

    return Statement(lambda table: compact(table.location, f"id = {key}"), list)


def is_id(*ids: int) -> Callable[[Row], bool]:
    return lambda row: row[0] in ids


WINNERS = {
    "append elsewhere": appending((20, 1)),
    "append of a match": appending((2, 20)),
    "delete in another file": deleting("id = 6", is_id(6)),
    "delete in the file": deleting("id = 3", is_id(3)),
    "delete of the row": deleting("id = 2", is_id(2)),
    "delete of the file": deleting("id < 5", lambda row: row[0] < 5),
    "update in the file": updating({"v": "31"}, "id = 3", is_id(3), lambda _: (3, 31)),
    "update into a match": updating({"id": "2", "v": "20"}, "id = 6", is_id(6), lambda _: (2, 20)),
    "update of the row": updating({"v": "21"}, "id = 2", is_id(2), lambda _: (2, 21)),
    "merge in the file": upserting((3, 33), (30, 1)),
    "merge of a match": upserting((2, 23)),
    "overwrite in the file": overwriting("id = 3", is_id(3), (3, 32)),
    "overwrite of all": replacing((40, 4)),
    "delete of all": Statement(lambda t: t.delete(), lambda _: []),
    "compaction of the file": compacting(2),
    "compaction elsewhere": compacting(6),
    "properties": Statement(lambda t: t.set_properties({"owner": "me"}), list),
}
LOSERS = {
    "append": appending((9, 90)),
    "delete": deleting("v = 20", lambda row: row[1] == 20),
    "overwrite where": overwriting("id = 2", is_id(2), (2, 22)),
    "update": updating({"v": "v + 1"}, "id = 2", is_id(2), lambda row: (2, row[1] + 1)),
    "merge": upserting((2, 25), (10, 100)),
    "merge that reads": upserting((2, 24), (10, 100)),
    "delete()": Statement(lambda t: t.delete(), lambda _: []),
    "overwrite()": replacing((50, 5)),
    "properties": Statement(lambda t: t.set_properties({"team": "us"}), list),
}

TOP, UNITED, AGAIN, DONE = "top", "united", "again", "done"
"""On top; on top with united vectors; run again; nothing left to do, so no commit.

What is replanned counts as on top: the statement ran once.
"""

# A row for each winner, a column for each loser.
GRID = {
    "append elsewhere": (TOP, TOP, TOP, TOP, TOP, TOP, TOP, TOP, TOP),
    "append of a match": (TOP, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN, TOP, TOP, TOP),
    "delete in another file": (TOP, TOP, TOP, TOP, TOP, TOP, TOP, TOP, TOP),
    "delete in the file": (TOP, UNITED, UNITED, UNITED, UNITED, TOP, TOP, TOP, TOP),
    "delete of the row": (TOP, DONE, TOP, AGAIN, AGAIN, AGAIN, TOP, TOP, TOP),
    "delete of the file": (TOP, DONE, TOP, AGAIN, AGAIN, AGAIN, TOP, TOP, TOP),
    "update in the file": (TOP, UNITED, UNITED, UNITED, UNITED, TOP, TOP, TOP, TOP),
    "update into a match": (TOP, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN, TOP, TOP, TOP),
    "update of the row": (TOP, DONE, AGAIN, AGAIN, AGAIN, AGAIN, TOP, TOP, TOP),
    "merge in the file": (TOP, UNITED, UNITED, UNITED, UNITED, TOP, TOP, TOP, TOP),
    "merge of a match": (TOP, DONE, AGAIN, AGAIN, AGAIN, AGAIN, TOP, TOP, TOP),
    "overwrite in the file": (TOP, UNITED, UNITED, UNITED, UNITED, TOP, TOP, TOP, TOP),
    "overwrite of all": (TOP, DONE, TOP, AGAIN, AGAIN, AGAIN, TOP, TOP, TOP),
    "delete of all": (TOP, DONE, TOP, AGAIN, AGAIN, AGAIN, DONE, TOP, TOP),
    "compaction of the file": (TOP, AGAIN, AGAIN, AGAIN, AGAIN, TOP, TOP, TOP, TOP),
    "compaction elsewhere": (TOP, TOP, TOP, TOP, TOP, TOP, TOP, TOP, TOP),
    "properties": (AGAIN,) * len(LOSERS),
}
CELLS = [(winner, loser, how) for winner, row in GRID.items() for loser, how in zip(LOSERS, row, strict=True)]
# Some winners are enough for losers that nearly always commit on top, and for twins of other losers: random
# statements also test the rules, without Spark (`property/test_conflicts_property.py`).
_EVERY_WINNER = ("delete", "update", "merge")
_SOME_WINNERS = ("append of a match", "delete in the file", "overwrite of all", "properties")
ORDINARY = [cell for cell in CELLS if cell[1] in _EVERY_WINNER or cell[0] in _SOME_WINNERS]
# One of each way to be resolved is an ordinary test on every format.
_COMMON = (
    ("append of a match", "merge"),
    ("delete in the file", "delete"),
    ("delete in the file", "update"),
    ("delete of the row", "delete"),
    ("update of the row", "delete"),
    ("update in the file", "merge"),
    ("merge of a match", "merge"),
    ("overwrite of all", "update"),
    ("compaction of the file", "delete"),
    ("compaction elsewhere", "update"),
    ("properties", "delete"),
)
COMMON = [cell for cell in ORDINARY if cell[:2] in _COMMON]


@pytest.fixture(scope="module")
def template(kind: Kind, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files: ids 1 to 4, and 5 to 8."""
    place = tmp_path_factory.mktemp("conflicts") / "t"
    table = kind.create(spark, place, spark.createDataFrame(BASE[:4], DDL).coalesce(1))
    table.append(spark.createDataFrame(BASE[4:], DDL).coalesce(1))
    return place


@pytest.fixture
def place(kind: Kind, template: Path, tmp_path: Path) -> Path:
    return kind.fresh(template, tmp_path / "t")


def how_resolved(commits: int, result: Any, messages: list[str]) -> str:
    if any(message.startswith("run 1:") for message in messages):
        return AGAIN
    if commits == 0:
        return DONE
    return UNITED if result.metrics.get("numFilesUnited") else TOP


@pytest.mark.common
@pytest.mark.parametrize(("winner", "loser", "how"), COMMON, ids=str)
def test_a_common_cell(kind: Kind, spark: Any, place: Path, winner: str, loser: str, how: str) -> None:
    run_cell(kind, spark, place, winner, loser, how)


@pytest.mark.parametrize(
    ("winner", "loser", "how"), [cell for cell in ORDINARY if cell not in COMMON], ids=str
)
def test_a_cell(kind: Kind, spark: Any, place: Path, winner: str, loser: str, how: str) -> None:
    run_cell(kind, spark, place, winner, loser, how)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("winner", "loser", "how"), [cell for cell in CELLS if cell not in ORDINARY], ids=str
)
def test_another_cell(kind: Kind, spark: Any, place: Path, winner: str, loser: str, how: str) -> None:
    run_cell(kind, spark, place, winner, loser, how)


def run_cell(kind: Kind, spark: Any, place: Path, winner: str, loser: str, how: str) -> None:
    if winner == "properties" and NUMBERED not in kind.abilities:
        how = TOP  # they are no part of a version
    first, second = WINNERS[winner], LOSERS[loser]
    table = losing(spark, str(place), first.run)
    with log_messages() as messages:
        result = second.run(table)
    assert rows_of(table) == sorted(second.model(first.model(BASE)), key=str)
    assert how_resolved(kind.commits(table) - 2, result, messages) == how
    if how in (TOP, UNITED):
        assert (result.version, result.metrics["numCommitTries"]) == (kind.version(table, 3), 2)
        if REQUESTS in kind.abilities:
            (row,) = table.history(1).collect()
            assert row["metrics"]["numCommitTries"] == "2"
    assert not verify_table(detect.open_table(str(place))).errors


def test_the_grid_shows_every_rule() -> None:
    """Each verb that delvec has, as winner and as loser, is a line of the grid."""
    assert set(GRID) == set(WINNERS)
    assert len(CELLS) == len(WINNERS) * len(LOSERS)
    assert len(COMMON) == len(_COMMON)
    assert {how for _, _, how in COMMON} == {TOP, UNITED, AGAIN, DONE}
    assert {winner for winner, _, _ in ORDINARY} == set(WINNERS)
    assert {loser for _, loser, _ in ORDINARY} == set(LOSERS)
