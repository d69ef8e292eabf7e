"""Many writers of one table, each a process of its own, with all verbs: nothing lost, nothing twice."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace

import pytest

from contract.kinds import FREQUENT_CHECKPOINTS, VECTORS_OFF
from writers import client, processes
from writers.client import CLASSIC, Place, Task, row_text
from writers.judge import Judge, Told, Verdict, told_in
from writers.schedule import KEYS, first_rows
from writers.serial import State, after
from writers.statements import APPEND, CREATE, DELETE, MERGE, OVERWRITE, UPDATE, Statement, Term, row
from writers.vacuuming import vacuumed

pytestmark = [pytest.mark.spark, pytest.mark.numbered]

SEED = 20_260
WRITERS, STATEMENTS = 4, 6
SECONDS = 240
PARTITIONED = {"partition_by": ("p",)}
TABLES = {
    "plain": ([], {}),
    "partitioned, files written again": ([VECTORS_OFF], PARTITIONED),
}
MORE_TABLES = TABLES | {
    "files written again": ([VECTORS_OFF], {}),
    "partitioned": ([], PARTITIONED),
    "checkpoints": ([FREQUENT_CHECKPOINTS], {}),
}


@pytest.fixture(scope="module")
def servant(server):
    with processes.servant(server) as one:
        yield one


def made(servant, location, kind, having=(), **options):
    """A table of one file, and its state."""
    statement = Statement(CREATE, 0, rows=first_rows(), **kind.options(*having), **options)
    answer = servant(location, statement)
    assert "version" in answer, answer
    return after(State(), statement)[0]


def raced(folder, place, *, writers=WRITERS, statements=STATEMENTS, seed=SEED, seconds=SECONDS):
    """What each writer told, once all have ended."""
    tasks = [Task(seed, writer, folder / f"{writer}.journal", statements) for writer in range(writers)]
    start = processes.meeting(writers, seconds)
    started = [processes.started(client.write, place, task, start) for task in tasks]
    assert processes.joined(started, seconds) == [0] * writers
    return told_in(tasks)


def judged(kind, place, first, told):
    judge = Judge(place.location, place.options)
    verdict = judge.judge(first, told)
    sys.stdout.write(f"{verdict}\n")
    judge.check_sound()
    for read in kind.readers[:1]:
        theirs = Counter(row_text({name: r[name] for name in r}) for r in read(place.location))
        assert theirs == Counter(map(row_text, judge.rows()))
    return verdict


@pytest.mark.parametrize("table", TABLES)
def test_the_table_is_what_the_successes_give_one_by_one(kind, server, servant, tmp_path, table):
    place = Place(server, str(tmp_path / "table"))
    having, options = TABLES[table]
    kind.having(*having)
    first = made(servant, place.location, kind, having, **options)
    with vacuumed(place.location) as runs:
        told = raced(tmp_path, place)
    verdict = judged(kind, place, first, told)
    assert len(told) == WRITERS * STATEMENTS
    assert verdict.commits >= WRITERS
    assert runs


@pytest.mark.slow
@pytest.mark.core
@pytest.mark.parametrize("table", MORE_TABLES)
def test_more_writers_of_more_tables(kind, server, servant, tmp_path, table):
    place = Place(server, str(tmp_path / "table"))
    having, options = MORE_TABLES[table]
    first = made(servant, place.location, kind, having, **options)
    told = raced(tmp_path, place, writers=8, statements=12, seconds=5 * SECONDS)
    assert judged(kind, place, first, told).commits >= 12


def test_classic_sessions(kind, tmp_path):
    """A JVM for each writer."""
    place = Place(CLASSIC, str(tmp_path / "table"))
    statement = Statement(CREATE, 0, rows=first_rows(), **kind.options())
    tasks = [Task(SEED, writer, tmp_path / f"{writer}.journal", 3) for writer in range(2)]
    start = processes.meeting(2, SECONDS)
    started = [
        processes.started(client.create_and_write, place, tasks[0], statement, start),
        processes.started(client.write_when_created, place, tasks[1], start),
    ]
    assert processes.joined(started, SECONDS) == [0, 0]
    assert judged(kind, place, after(State(), statement)[0], told_in(tasks)).commits >= 2


def test_the_judge_notices(kind, servant, tmp_path):
    """What the tests above would say of writers that lose, repeat, hide or miscount."""
    location = str(tmp_path / "table")
    first = made(servant, location, kind)
    given = [
        Statement(UPDATE, 1, where=(Term("id", "<", 5),)),
        Statement(DELETE, 2, where=(Term("id", "=", 900),)),
        Statement(APPEND, 3, rows=(row(3, 3),)),
    ]
    told = [Told(writer, one, servant(location, one)) for writer, one in enumerate(given)]
    judge = Judge(location)
    assert judge.judge(first, told) == Verdict(commits=2, nothing=1)
    update, delete, append = told

    def told_otherwise(old, **outcome):
        return [replace(one, outcome=outcome) if one is old else one for one in told]

    metrics = update.outcome["metrics"]
    wrong = {
        "did not report it": told_otherwise(update, error="CommitConflictError", message=""),
        "two claim it": told_otherwise(append, version=1, metrics=append.outcome["metrics"]),
        "not in the log": [*told, replace(update, outcome={"version": 3, "metrics": metrics})],
        "6 reported|'numUpdatedRows': 6": told_otherwise(update, version=1, metrics={"numUpdatedRows": 6}),
        "went back": [*told, replace(delete, writer=2)],
        "something to do": [*told, Told(3, given[0], {"version": 2, "metrics": {"numUpdatedRows": 0}})],
        "not ours": told_otherwise(delete, bug="KeyError"),
    }
    for message, falsified in wrong.items():
        with pytest.raises(AssertionError, match=message):
            judge.judge(first, falsified)
    stale = replace(first, rows=(*first.rows[1:], {**first.rows[0], "n": 7}))
    with pytest.raises(AssertionError, match="version 1: lost"):
        judge.judge(stale, told)
    assert judge.judge(first, [update, delete, replace(append, outcome=None)]) == Verdict(
        commits=2, nothing=1, dead_done=1
    )


def test_three_deleters_of_rows_of_one_file(kind, server, servant, tmp_path):
    """All have read before the first commits; all commit, and the file stays."""
    place = Place(server, str(tmp_path / "table"))
    first = made(servant, place.location, kind)
    meeting = processes.meeting(3, 60)
    deletes = [Statement(DELETE, n + 1, where=(Term("id", "IN", (n, n + 10)),)) for n in range(3)]
    tasks = [Task(0, n, tmp_path / f"{n}.journal", given=(one,)) for n, one in enumerate(deletes)]
    started = [processes.started(client.write, place, task, None, meeting) for task in tasks]
    assert processes.joined(started, SECONDS) == [0, 0, 0]
    told = told_in(tasks)
    assert [one.outcome.get("error") for one in told] == [None] * 3
    assert judged(kind, place, first, told).commits == 3
    judge = Judge(place.location)
    assert judge.table.snapshot().plan().files.column("record_count").to_pylist() == [KEYS]
    assert len(judge.rows()) == KEYS - 6


def test_a_reader_that_started_before_finishes_on_its_version(kind, server, servant, tmp_path):
    """In a process of its own: DataFrames made before, read after others deleted, moved and replaced rows."""
    place = Place(server, str(tmp_path / "table"))
    state = made(servant, place.location, kind, **PARTITIONED)
    changes = [
        Statement(DELETE, 1, where=(Term("id", "<", 9),)),
        Statement(UPDATE, 2, where=(Term("id", "<", 30),), moves=True),
        Statement(MERGE, 3, rows=(row(20, 3), row(500, 3))),
        Statement(OVERWRITE, 4, where=(Term("p", "=", 1),), rows=(row(1, 4),)),
        Statement(APPEND, 5, rows=(row(7, 5),)),
        Statement(OVERWRITE, 6, rows=(row(8, 6),)),
    ]
    states = []
    with processes.conversation(client.read_late, place) as reader:
        for statement in changes:
            assert reader.ask("make") == "made"
            states.append(state)
            answer = servant(place.location, statement)
            assert "version" in answer, answer
            state, _ = after(state, statement)
        found = reader.ask("read")
    assert [Counter(rows) for rows in found] == [
        Counter(map(row_text, before.rows)) for before in states for _ in range(2)
    ]
