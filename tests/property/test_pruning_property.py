"""Pruning is sound: over random files, facts and conditions no wrong "no" and no wrong "all"."""

from __future__ import annotations

import random

import pytest

from condition_cases import SCHEMA, ZONES, random_case, random_facts, random_file
from delvec.predicate import SqlSettings, parse

FILE_SETS = 200
CONDITIONS = 25
FILES = 12


def test_no_matching_row_is_pruned_and_no_other_row_deleted():
    skippable = skipped = deletable = deleted = 0
    for seed in range(FILE_SETS):
        rng = random.Random(seed)
        files = [random_file(rng) for _ in range(FILES)]
        facts = random_facts(files, rng)
        for _ in range(CONDITIONS):
            zone = rng.choice(ZONES)
            case = random_case(rng, zone)
            matches = parse(case.text, SCHEMA, SqlSettings(time_zone=zone, ansi=rng.random() < 0.5)).match(
                facts
            )
            for number, file in enumerate(files):
                answers = [case.truth(row) is True for row in file.live]
                may, only = matches.may[number], matches.only[number]
                where = f"seed {seed}, zone {zone}, file {number}: {case.text}\n{file.live}"
                assert may or not any(answers), f"a matching row is pruned: {where}"
                assert not only or all(answers), f"a row that does not match is deleted: {where}"
                skippable, skipped = skippable + (not any(answers)), skipped + (not may)
                deletable, deleted = deletable + all(answers), deleted + only
    # Facts are left out and bounds are wide on purpose: not all that could be decided can be.
    assert skipped / skippable > 0.5, f"{skipped} of {skippable} files without a match are skipped"
    assert deleted / deletable > 0.35, f"{deleted} of {deletable} files that match whole are found"


@pytest.mark.parametrize("seed", range(3))
def test_no_facts_decide_nothing_about_columns(seed):
    rng = random.Random(seed)
    files = [random_file(rng) for _ in range(FILES)]
    facts = random_facts(files, rng)
    facts.columns.clear()
    for column in ("i = 5", "s LIKE 'a%'", "g.c IS NULL", "pb", "x IN (1, NULL)", "t > '2020-01-01'"):
        matches = parse(column, SCHEMA).match(facts)
        assert matches.may.all()
        assert not matches.only.any()
