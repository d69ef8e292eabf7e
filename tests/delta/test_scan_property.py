"""Over random tables with random vectors, a scan gives the rows of the model, whatever is asked of it."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from lake import BY_ID, BY_NAME, FLAT, FOLDERS, PREFIX, Lake
from rows import multiset
from scanning import collected, opened

pytestmark = pytest.mark.spark

TABLES = 40
ORDINARY = 14  # the others are slow
TEXTS = [
    "",
    "a",
    "a b",
    "é",
    "漢",
    "50%",
    "%41",
    "x/y",
    "k=v",
    "it's",
    '"',
    "\\",
    "[a]*?",
    "#",
    "null",
    "\t",
    "A",
]
ODD = [
    "plain",
    "with space",
    "dot.ted",
    "tick`ed",
    "_metadata",
    "__delvec_words",
    "Ünï",
    "select",
    "row_index",
]
PARTITIONS = {
    "int": (pa.int32(), [None, -1, 0, 7]),
    "string": (pa.string(), [None, *TEXTS[1:]]),
    "date": (pa.date32(), [None, dt.date(2024, 2, 29), dt.date(1950, 1, 1)]),
    "timestamp": (pa.timestamp("us", tz="UTC"), [None, dt.datetime(2024, 1, 1, 5, 30, tzinfo=dt.UTC)]),
    "decimal": (pa.decimal128(8, 2), [None, Decimal("1.50"), Decimal("-20.25")]),
    "boolean": (pa.bool_(), [None, True, False]),
}
COLUMNS = {
    "long": (pa.int64(), lambda rng: rng.randrange(-50, 50)),
    "text": (pa.string(), lambda rng: rng.choice(TEXTS)),
    "double": (pa.float64(), lambda rng: rng.choice([0.5, -1.25, float("inf"), float("nan")])),
    "moment": (
        pa.timestamp("us", tz="UTC"),
        lambda rng: dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=rng.randrange(10**6)),
    ),
    "struct": (
        pa.struct([("a", pa.int32()), ("b c", pa.list_(pa.string()))]),
        lambda rng: {"a": maybe(rng, rng.randrange(9)), "b c": maybe(rng, [rng.choice(TEXTS), None])},
    ),
    "map": (
        pa.map_(pa.string(), pa.struct([("v", pa.float64())])),
        lambda rng: [(text, maybe(rng, {"v": 0.5})) for text in rng.sample(TEXTS, rng.randrange(3))],
    ),
    "structs": (
        pa.list_(pa.struct([("n", pa.int64())])),
        lambda rng: [maybe(rng, {"n": n}) for n in range(rng.randrange(3))],
    ),
}


def maybe(rng, value):
    return None if rng.random() < 0.2 else value


def random_lake(root, rng):
    """A table of a few small files: any layout, mapping, sizes, row groups, kinds of vectors."""
    odd = iter(rng.sample(ODD, len(ODD)))
    columns = {next(odd): rng.choice(list(COLUMNS)) for _ in range(rng.randrange(1, 4))}
    parts = {next(odd): rng.choice(list(PARTITIONS)) for _ in range(rng.choice([0, 1, 1, 2]))}
    fields = [("id", pa.int64()), *((name, COLUMNS[kind][0]) for name, kind in columns.items())]
    fields += [(name, PARTITIONS[kind][0]) for name, kind in parts.items()]
    rng.shuffle(fields)
    lake = Lake(
        root,
        pa.schema(fields),
        partition_by=list(parts),
        layout=rng.choice([FOLDERS, FOLDERS, FLAT, PREFIX]),
        mapping=rng.choice([None, None, BY_NAME, BY_ID]),
        stats=rng.random() < 0.7,
        inline=rng.random() < 0.3,
        row_group_size=rng.choice([None, 3, 10]),
    )
    size = rng.choice([None, 12_000])
    for number in range(rng.choice([1, 4, 7, 36])):
        values = {name: rng.choice(PARTITIONS[kind][1]) for name, kind in parts.items()}
        count = rng.randrange(1, 30)
        rows = [
            {"id": number * 100 + i, **values}
            | {name: maybe(rng, COLUMNS[kind][1](rng)) for name, kind in columns.items()}
            for i in range(count)
        ]
        deleted = rng.sample(range(count), rng.choice([0, 0, 1, min(3, count), count]))
        lake.write(rows, deleted=deleted, size=size)
    lake.commit()
    return lake


def random_condition(rng, lake):
    """A condition as SQL, and the same in Python."""
    bound = rng.randrange(0, 800)
    number = rng.randrange(2, 5)
    cases = [
        (f"id < {bound}", lambda row: row["id"] < bound),
        (f"id % {number} = 1", lambda row: row["id"] % number == 1),
        (f"id BETWEEN {bound} AND {bound + 150}", lambda row: bound <= row["id"] <= bound + 150),
    ]
    for name in lake.schema.names:
        if name != "id":
            quoted = "`" + name.replace("`", "``") + "`"
            cases.append((f"{quoted} IS NULL", lambda row, name=name: row[name] is None))
            cases.append((f"{quoted} IS NOT NULL", lambda row, name=name: row[name] is not None))
    return rng.choice(cases)


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.slow] if n >= ORDINARY else []) for n in range(TABLES)]
)
def test_a_scan_is_its_model(spark, tmp_path, monkeypatch, seed):
    rng = random.Random(seed)
    if seed % 2:  # as vectors of large tables are applied
        monkeypatch.setattr("delvec.spark.vector_words.MOST_BYTES", -1)
    lake = random_lake(tmp_path / rng.choice(["t", "a b", "é%41", "[x]"]), rng)
    table = opened(spark, lake)
    live = lake.live
    where, holds = random_condition(rng, lake)
    matching = [row for row in live if holds(row)]
    others = [name for name in lake.schema.names if name != "id"]
    columns = ["id", *rng.sample(others, rng.randrange(len(others) + 1))]

    assert multiset(collected(table.to_df())) == multiset(live)
    chosen = [{name: row[name] for name in columns} for row in matching]
    assert multiset(collected(table.to_df(where=where, columns=columns))) == multiset(chosen), where
    limit = rng.randrange(1, 20)
    some = multiset(collected(table.to_df().where(where).limit(limit)))
    assert some <= multiset(matching), where
    assert some.total() == min(limit, len(matching)), where
