"""Equality deletes of random tables in native scans, beside a plain Python model that compares row by row.

Null, negative and huge keys, texts; vectors of keys beside full rows; several sets of columns; files and
deletes of one sequence; deletes of one partition and of all.
"""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pytest

from delvec.schema import Field, Primitive, Struct
from delvec.spark.scan import scan
from delvec.storage import open_storage
from equality_tables import EqualityTable, by_connector, ordered

pytestmark = pytest.mark.spark

SCHEMA = Struct(
    (
        Field("a", Primitive("long"), field_id=1),
        Field("b", Primitive("string"), field_id=2),
        Field("c", Primitive("double"), field_id=3),
        Field("d", Primitive("date"), field_id=4),
    )
)
KEYS = [["a"], ["a"], ["a"], ["d"], ["b"], ["a", "b"], ["b", "c", "a"]]
LONGS = [
    list(range(40)),
    [*range(30), *range(4090, 4100), 2**40, 2**56 - 1],
    [-3, -1, *range(20)],
    [*range(20), 2**56, 2**63 - 1, -(2**63)],
]
DAYS = [dt.date(1970, 1, 1), dt.date(1970, 1, 2), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
OLD_DAYS = [*DAYS, dt.date(1969, 12, 31), dt.date(1, 1, 1)]


def random_table(root: Path, seed: int) -> EqualityTable:
    rng = random.Random(seed)
    longs, days = rng.choice(LONGS), rng.choice([DAYS, OLD_DAYS])
    nulls = rng.choice([0, 0.1])

    def row() -> dict[str, Any]:
        values = {
            "a": rng.choice(longs),
            "b": rng.choice(["", "x", "y", "é"]),
            "c": rng.choice([0.0, -0.0, float("nan"), 1.5]),
            "d": rng.choice(days),
        }
        return {name: None if rng.random() < nulls else value for name, value in values.items()}

    table = EqualityTable(root, SCHEMA)
    for _ in range(rng.randrange(1, 7)):
        rows = [row() for _ in range(rng.randrange(1, 60))]
        table.data(rows, rng.choice([None, *range(6)]), rng.randrange(3))
    for _ in range(rng.randrange(1, 9)):
        columns = rng.choice(KEYS)
        rows = [{name: row()[name] for name in columns} for _ in range(rng.randrange(1, 5))]
        scope = rng.choice([None, 0, 1, 2])
        table.delete(rows, columns, rng.randrange(1, 6), scope, as_vector=rng.random() < 0.6)
    if rng.random() < 0.5:  # exact bounds, where the files have values
        stored = [[row["a"] for row in rows if row["a"] is not None] for rows, _, _ in table.model]
        counts = [len(rows) for rows, _, _ in table.model]
        table.bounds["a"] = [
            (min(values, default=None), max(values, default=None), count - len(values))
            for values, count in zip(stored, counts, strict=True)
        ]
    return table


SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))]


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_a_random_table(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    table = random_table(tmp_path, seed)
    plan, expected = table.plan(), ordered(table.live())
    storage = open_storage(plan.location)
    assert ordered(by_connector(plan)) == expected
    for name in (None, "CHUNKS_BYTES", "DRIVER_ROWS"):  # chunks, keys, keys that the executors read
        if name is not None:
            monkeypatch.setattr(f"delvec.spark.equality_join.{name}", -1)
        found = [row.asDict() for row in scan(spark, plan, storage).collect()]
        assert ordered(found) == expected, name
