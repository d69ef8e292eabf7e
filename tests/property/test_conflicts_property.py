"""Statements that all began at one version, committed one after the other: the table must be as if each had
run alone, in the order of the versions, and each must have counted what it did there.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delvec.row_delta import Verb
from plain_verbs import Row, Statement, pairs_table, rows_of, settle

IDS = st.integers(0, 11)
VALUES = st.integers(0, 4)
PAIR = st.tuples(IDS, VALUES)

conditions = st.one_of(
    st.sets(IDS, min_size=1, max_size=4).map(lambda ids: lambda row: row[0] in ids),
    VALUES.map(lambda value: lambda row: row[1] == value),
)
changes = st.one_of(
    VALUES.map(lambda value: lambda row: (row[0], value)),
    st.just(lambda row: (row[0], (row[1] + 1) % 5)),
    IDS.map(lambda i: lambda row: (i, row[1])),
)
FLAG = st.booleans()
statements = st.one_of(
    st.builds(lambda rows: Statement(Verb.APPEND, rows=rows), st.lists(PAIR, min_size=1, max_size=3)),
    st.builds(lambda c, again: Statement(Verb.DELETE, c, rewrites=again), conditions, FLAG),
    st.builds(lambda c, rows: Statement(Verb.DELETE, c, rows=rows), conditions, st.lists(PAIR, max_size=2)),
    st.builds(lambda c, f, again: Statement(Verb.UPDATE, c, f, rewrites=again), conditions, changes, FLAG),
    st.builds(
        lambda source: Statement(Verb.MERGE, source=source),
        st.dictionaries(IDS, st.one_of(st.none(), VALUES), min_size=1, max_size=4),
    ),
    st.builds(lambda rows: Statement(Verb.REPLACE, rows=rows), st.lists(PAIR, max_size=2)),
    st.builds(lambda c: Statement(Verb.COMPACT, c), st.one_of(conditions, st.just(lambda _: True))),
)
tables = st.lists(st.lists(PAIR, min_size=1, max_size=5), min_size=1, max_size=3)


@given(
    files=tables,
    racing=st.lists(statements, min_size=2, max_size=5),
    fresh=st.lists(st.booleans(), min_size=5, max_size=5),
)
@settings(max_examples=120, deadline=None)
def test_writers_of_one_version_are_as_one_after_the_other(
    files: list[list[Row]], racing: list[Statement], fresh: list[bool]
) -> None:
    """``fresh`` statements begin at the newest version: so one winner can change what another brought."""
    table = pairs_table(*files)
    base = table.snapshot()
    model = [row for rows in files for row in rows]
    for statement, newest in zip(racing, fresh, strict=False):
        settled, _ = settle(table, statement, None if newest else base)
        model, changed = statement.apply(model)
        assert rows_of(table) == sorted(model)
        if statement.verb in {Verb.DELETE, Verb.REPLACE, Verb.UPDATE, Verb.MERGE}:
            assert settled.delta.counts.deleted == changed


@given(files=tables, racing=st.lists(statements, min_size=3, max_size=4))
@settings(max_examples=60, deadline=None)
def test_another_writer_at_each_pause(files: list[list[Row]], racing: list[Statement]) -> None:
    """The last statement loses to all others, one by one, between its tries."""
    table = pairs_table(*files)
    base = table.snapshot()
    model = [row for rows in files for row in rows]
    *others, last = racing
    order = iter(others)

    def another(_: float = 0) -> None:
        nonlocal model
        statement = next(order, None)
        if statement is not None:
            settle(table, statement)
            model, _ = statement.apply(model)

    another()
    settle(table, last, base, pause=another)
    model, _ = last.apply(model)
    assert rows_of(table) == sorted(model)


@pytest.mark.parametrize("first", [Statement(Verb.DELETE, lambda row: row[0] == 0), Statement(Verb.COMPACT)])
def test_a_merge_that_loses_twice_still_sees_that_a_row_it_read_is_gone(first: Statement) -> None:
    """The first winner gives files other ids, or moves the row to another file; the second deletes it."""
    table = pairs_table([(0, 0), (1, 0)], [(2, 0), (3, 0)])
    base = table.snapshot()
    merge = Statement(Verb.MERGE, source={2: None, 9: 5})
    second = Statement(Verb.DELETE, lambda row: row[0] == 2)
    settle(table, first)
    commit, attempts = table.commit, itertools.count(1)

    def lose_twice(snapshot: Any, delta: Any) -> Any:
        if next(attempts) == 2:
            table.commit = commit
            settle(table, second)
        return commit(snapshot, delta)

    table.commit = lose_twice
    settle(table, merge, base)
    model = [(0, 0), (1, 0), (2, 0), (3, 0)]
    for statement in (first, second, merge):
        model, _ = statement.apply(model)
    assert rows_of(table) == sorted(model)
