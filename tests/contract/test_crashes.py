"""A writer that dies, a store that fails, at each storage call of each verb: the old version or the new one.

Points are counted in storage calls (`writers.crashing`). Afterwards the table reads as before or as after
the statement, as its writer was told; another writer repeats the statement and gets the right rows; and
``verify`` finds nothing.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from dataclasses import dataclass, replace
from functools import reduce

import pytest

from contract.kinds import CHANGE_FILES, FREQUENT_CHECKPOINTS, VECTORS_OFF
from delvec.errors import TableNotFoundError
from writers import client, processes
from writers.client import Place, row_text
from writers.crashing import DIE, DIED, points_of
from writers.judge import Judge
from writers.serial import State, after
from writers.statements import (
    APPEND,
    CREATE,
    DELETE,
    DELETE_KEYS,
    MERGE,
    OPTIMIZE,
    OVERWRITE,
    PROPERTIES,
    PURGE,
    UPDATE,
    UPSERT,
    VACUUM,
    Statement,
    Term,
    row,
)

pytestmark = [pytest.mark.spark, pytest.mark.numbered]

SEED = 20_261
SAMPLED_CASES, SAMPLED_POINTS = 6, 3
SECONDS = 60
TRIES = 3
OWNER = "owner"


def rows(first, last, token=1):
    return tuple(row(number, token) for number in range(first, last))


def created(**options):
    return Statement(CREATE, 0, rows=rows(0, 12, 0), **options)


def where(*terms):
    return tuple(Term(*term) for term in terms)


SECOND = Statement(APPEND, 1, rows=rows(12, 18))
SOME = where(("id", "IN", (1, 2, 13)))
TABLE = (created(), SECOND)
BY_P = {"partition_by": ("p",)}
CASES = {
    "create": ((), created()),
    "create, partitioned": ((), created(**BY_P)),
    "append": (TABLE, Statement(APPEND, 2, rows=rows(20, 23, 2))),
    "append, partitioned": ((created(**BY_P),), Statement(APPEND, 2, rows=rows(20, 24, 2))),
    "append, counted by an application": (TABLE, Statement(APPEND, 2, rows=rows(20, 23, 2), app_version=1)),
    "append, with a new column": (
        TABLE,
        Statement(APPEND, 2, rows=tuple({**one, "s": "new"} for one in rows(20, 23, 2)), merge_schema=True),
    ),
    "delete": (TABLE, Statement(DELETE, 2, where=SOME)),
    "delete, vectors there": (
        (*TABLE, Statement(DELETE, 2, where=where(("id", "IN", (0, 17))))),
        Statement(DELETE, 3, where=SOME),
    ),
    "delete, whole files": (TABLE, Statement(DELETE, 2, where=where(("id", "<", 12)))),
    "delete, all rows": (TABLE, Statement(DELETE, 2)),
    "delete, files written again": (TABLE, Statement(DELETE, 2, where=SOME)),
    "delete, a checkpoint due": (TABLE, Statement(DELETE, 2, where=SOME)),
    "update": (TABLE, Statement(UPDATE, 2, where=SOME, moves=True)),
    "update, change files": (TABLE, Statement(UPDATE, 2, where=SOME)),
    "merge": (TABLE, Statement(MERGE, 2, rows=(row(1, 2), row(14, 2), row(30, 2)))),
    "delete keys": (TABLE, Statement(DELETE_KEYS, 2, rows=(row(1, 2), row(13, 2), row(99, 2)))),
    "delete keys, partitioned": (
        (created(**BY_P), SECOND),
        Statement(DELETE_KEYS, 2, rows=(row(1, 2), row(13, 2))),
    ),
    "upsert": (TABLE, Statement(UPSERT, 2, rows=(row(1, 2), row(14, 2), row(30, 2)))),
    "overwrite": (TABLE, Statement(OVERWRITE, 2, rows=rows(5, 8, 2))),
    "overwrite, where": (TABLE, Statement(OVERWRITE, 2, where=SOME, rows=(row(2, 2),))),
    "vacuum": (
        (*TABLE, Statement(DELETE, 2, where=SOME), Statement(UPDATE, 3, where=where(("id", "<", 4)))),
        Statement(VACUUM, 4),
    ),
    "optimize": ((*TABLE, Statement(DELETE, 2, where=SOME)), Statement(OPTIMIZE, 3)),
    "optimize, partitioned": ((created(**BY_P), SECOND), Statement(OPTIMIZE, 3)),
    "purge": ((*TABLE, Statement(DELETE, 2, where=SOME)), Statement(PURGE, 3)),
    "properties": (TABLE, Statement(PROPERTIES, 2, properties={OWNER: "me"})),
}
FEATURES = {
    "delete, files written again": [VECTORS_OFF],
    "delete, a checkpoint due": [FREQUENT_CHECKPOINTS],
    "update, change files": [CHANGE_FILES],
}
"""What the table of a case has beside what all tables of its kind have."""


@dataclass(frozen=True)
class Case:
    """A statement, and the table it is for: as it is stored, and as it is before and after."""

    name: str
    statement: Statement
    template: object
    before: State
    after: State
    calls: tuple[str, ...]

    def points(self):
        return points_of(self.calls)


@pytest.fixture(scope="module")
def servant(server):
    """The survivor."""
    with processes.servant(server) as one:
        yield one


@pytest.fixture(scope="module")
def prepared(kind, servant, tmp_path_factory):
    """Makes cases: the table, and how many storage calls the statement takes when nothing happens."""
    root = tmp_path_factory.mktemp("templates")
    templates = []

    def template_of(setup):
        if not setup:
            return None
        for known, template in templates:
            if known == setup:
                return template
        template = root / f"template-{len(templates)}"
        for each in setup:
            performed(servant, template, each)
        templates.append((setup, template))
        return template

    def prepare(name):
        options = kind.options(*FEATURES.get(name, ()))
        setup, statement = CASES[name]
        setup = tuple(of_kind(each, options) for each in setup)
        statement = of_kind(statement, options)
        before = reduce(lambda state, each: after(state, each)[0], setup, State())
        expected, _ = after(before, statement)
        template = template_of(setup)
        whole = copied(kind, template, root / name)
        calls = performed(servant, whole, statement)["calls"]
        assert found_in(whole) == seen(expected), name
        return Case(name, statement, template, before, expected, tuple(calls))

    return prepare


def of_kind(statement, options):
    """The statement, which makes a table with these options if it makes one."""
    return replace(statement, **options) if statement.verb == CREATE else statement


def performed(servant, place, statement):
    answer = servant(place, statement)
    assert "version" in answer, answer
    return answer


def copied(kind, template, place):
    """The place of a table like the template; where none can be yet, if there is no template."""
    return kind.fresh(template, place) if template is not None else place


def seen(state):
    """What a reader sees of a state."""
    return None if state.rows is None else (Counter(map(row_text, state.rows)), state.properties.get(OWNER))


def found_in(place):
    """What a reader sees at a location."""
    try:
        judge = Judge(str(place))
        snapshot = judge.table.snapshot()
    except TableNotFoundError:
        return None
    return Counter(map(row_text, judge.rows())), snapshot.properties.get(OWNER)


def happened(server, servant, case, point, place):
    """Whether the point was met, and what the writer was told: None if it did not live to hear it."""
    if point.mode != DIE:
        answer = servant(place, case.statement, point)
        return answer["met"], answer
    process = processes.started(client.die, Place(server, str(place)), case.statement, point)
    return processes.joined([process], SECONDS) == [DIED], None


def met(kind, server, servant, case, point, place):
    """What the writer was told at the point, and where; the number of calls may differ by a few."""
    for _ in range(TRIES):
        found = copied(kind, case.template, place)
        was_met, outcome = happened(server, servant, case, point, found)
        if was_met:
            return outcome, found
        shutil.rmtree(found)
    raise AssertionError(f"{case.name}: {point} was not met")


def check(kind, server, servant, case, point, place):
    """One point: nothing but before and after, and a survivor who repeats the statement."""
    what = f"{case.name}: {point}: {case.calls[point.call]}"
    outcome, place = met(kind, server, servant, case, point, place)
    found = found_in(place)
    allowed = {id(state): state for state in told_states(case, outcome, what)}.values()
    left = next((state for state in allowed if seen(state) == found), None)
    assert left is not None, f"{what}: {outcome} and found {found}"
    again = servant(place, case.statement)
    if case.statement.verb == CREATE and left.rows is not None:
        assert "there" in again.get("message", "") or "exist" in again.get("message", ""), f"{what}: {again}"
        expected = left
    else:
        assert "version" in again, f"{what}: repeated: {again}"
        expected, _ = after(left, case.statement)
    assert found_in(place) == seen(expected), f"{what}: repeated: {again}"
    Judge(str(place)).check_sound()
    shutil.rmtree(place)
    return "as after" if left is case.after else "as before"


def told_states(case, outcome, what):
    """The states that may be found after what the writer was told."""
    if outcome is None:
        return [case.before, case.after]
    assert "bug" not in outcome, f"{what}: an error that is not ours: {outcome['bug']}"
    if "version" in outcome:
        return [case.after]
    if "cannot tell whether" in outcome["message"]:
        return [case.before, case.after]
    return [case.before]


def tell(checked):
    lines = [f"{case.name}: {point}: {case.calls[point.call]}: {left}" for case, point, left in checked]
    sys.stdout.write("\n".join([*lines, f"{len(lines)} points", ""]))


def test_a_sample_of_all_points(kind, server, servant, prepared, tmp_path):
    chance = random.Random(SEED)
    checked = []
    cases = [name for name in CASES if all(map(kind.has, FEATURES.get(name, ())))]
    for name in chance.sample(cases, SAMPLED_CASES):
        case = prepared(name)
        for point in chance.sample(case.points(), SAMPLED_POINTS):
            checked.append((case, point, check(kind, server, servant, case, point, tmp_path / "t")))
    tell(checked)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CASES)
def test_every_point(kind, server, servant, prepared, tmp_path, name):
    case = prepared(name)
    checked = [
        (case, point, check(kind, server, servant, case, point, tmp_path / "t")) for point in case.points()
    ]
    tell(checked)
    if case.before != case.after:
        assert {left for _, point, left in checked if point.mode == DIE} == {"as before", "as after"}
