"""Numbers that all values of a file share, such as buckets: they prune ``=`` and IN, and never too much."""

from __future__ import annotations

import random
import zlib
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal as Number

import pyarrow as pa
import pytest

from condition_cases import (
    KINDS,
    SCHEMA,
    ZONES,
    DataFile,
    Facts,
    random_case,
    random_facts,
    random_file,
    value_of,
)
from delvec.file_facts import ColumnStats, HashedColumn
from delvec.predicate import SqlSettings, parse
from delvec.schema import Field, Primitive, Struct

HASHED = ("i", "l", "s", "z", "d", "t", "n", "m", "g.c")


def number_of(value):
    """Of a value as literals have it: days and microseconds, decimals without zeros at the end."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        value = round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
    elif isinstance(value, date):
        value = (value - date(1970, 1, 1)).days
    text = value if isinstance(value, str | bytes) else format(Number(value).normalize() + 0, "f")
    return zlib.crc32(text.encode() if isinstance(text, str) else text) % 5


def hashed_file(rng, name):
    """A file in which all values of the column have one number."""
    file = random_file(rng)
    numbers = {number_of(value_of(row, name)) for row in file.rows if value_of(row, name) is not None}
    chosen = min(numbers, default=None)

    def belongs(row):
        return value_of(row, name) is None or number_of(value_of(row, name)) == chosen

    rows = [row for row in file.rows if belongs(row)]
    live = [row for row in file.live if belongs(row)] or rows
    return DataFile(rows, live), chosen


def with_numbers(facts, name, numbers, rng):
    path = tuple(name.split("."))
    stats = facts.columns.get(path)
    if not isinstance(stats, ColumnStats):
        return facts
    known = [None if rng.random() < 0.2 else number for number in numbers]
    columns = [HashedColumn(pa.array(known, pa.int32()), number_of)]
    if rng.random() < 0.3:
        columns.append(HashedColumn(pa.nulls(len(numbers), pa.int32()), lambda _: None))
    return replace(facts, columns=facts.columns | {path: replace(stats, hashed=tuple(columns))})


def test_no_matching_row_is_pruned_and_no_other_row_deleted():
    helped = 0
    for seed in range(40):
        rng = random.Random(seed)
        name = rng.choice(HASHED)
        files, numbers = zip(*(hashed_file(rng, name) for _ in range(10)), strict=True)
        plain = random_facts(list(files), rng)
        facts = with_numbers(plain, name, numbers, rng)
        for _ in range(15):
            zone = rng.choice(ZONES)
            case = random_case(rng, zone)
            condition = parse(case.text, SCHEMA, SqlSettings(time_zone=zone, ansi=True))
            matches = condition.match(facts)
            for number, file in enumerate(files):
                answers = [case.truth(row) is True for row in file.live]
                where = (
                    f"seed {seed}, {name} has {numbers[number]} in file {number}: {case.text}\n{file.live}"
                )
                assert matches.may[number] or not any(answers), f"a matching row is pruned: {where}"
                assert not matches.only[number] or all(answers), f"not all rows match: {where}"
            helped += int((condition.match(plain).may & ~matches.may).sum())
    assert helped > 0, f"numbers pruned {helped} files that bounds did not"
    assert set(HASHED) < set(KINDS)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a = 7", [7]),
        ("a <=> 7", [7]),
        ("a IN (7, 9)", [7, 9]),
        ("a IN (7, NULL)", [7]),
        (f"a IN ({', '.join(str(10 * n + 3) for n in range(40))})", [3]),
        ("a <> 7", range(10)),
        ("a < 7", range(10)),
        ("NOT a = 7", range(10)),
        ("a = 7 OR a = 8", [7, 8]),
        ("a = 7 AND a = 8", []),
        ("a = 7.5", []),
    ],
)
def test_equal_and_in_compare_numbers(text, kept):
    count = 10
    unknown, counts = pa.nulls(count, pa.int64()), pa.array([4] * count)
    hashed = HashedColumn(pa.array(range(count), pa.int32()), lambda value: value % 10)
    column = ColumnStats(unknown, unknown, pa.array([0] * count), counts, hashed=(hashed,))
    facts = Facts(counts, pa.array([False] * count), {("a",): column})
    matches = parse(text, Struct((Field("a", Primitive("long")),))).match(facts)
    assert matches.may.nonzero()[0].tolist() == list(kept)
    is_other = "<>" in text or "NOT" in text
    assert matches.only.nonzero()[0].tolist() == ([n for n in range(count) if n != 7] if is_other else [])
