"""Tables that delvec writes with every verb: Iceberg-Spark, DuckDB and pyiceberg read each snapshot alike."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from iceberg_engines import Row, Watched

pytestmark = [pytest.mark.interop, pytest.mark.spark]

SPECIAL = ["a b", "", "é", "x/y", "k=v", "50%", "%41", "it's", "null", "a:b", "?*[x]", "#", '"', "\\", None]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
COPY_ON_WRITE = {f"write.{verb}.mode": "copy-on-write" for verb in ("delete", "update", "merge")}


@dataclass(frozen=True)
class Case:
    """``row``: the row with an id. ``change``: what UPDATE sets, in SQL and in Python."""

    schema: pa.Schema
    row: Callable[[int], Row]
    change: tuple[Mapping[str, str], Callable[[Row], Row]]
    partition_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    def rows(self, first: int, last: int) -> list[Row]:
        return [{"id": number, **self.row(number)} for number in range(first, last)]


def special(number: int) -> Row:
    return {"s": SPECIAL[number % len(SPECIAL)], "v": number * 0.5}


TEXTS = Case(
    pa.schema([("id", pa.int64()), ("s", pa.string()), ("v", pa.float64())]),
    special,
    (
        {"s": "concat(s, '/')", "v": "-v"},
        lambda row: {"s": None if row["s"] is None else row["s"] + "/", "v": -row["v"]},
    ),
    ["s"],
)


def moments(number: int) -> Row:
    past = number % 3 == 1
    moment = EPOCH + dt.timedelta(hours=7 * number, microseconds=number) * (-1 if past else 1)
    return {
        "t": moment,
        "d": moment.date(),
        "s": None if number % 8 == 5 else f"ab{chr(0xE9)}{number % 3}",
        "n": (Decimal(number * 3 - 20) / 4).quantize(Decimal("0.01")),
        "b": None if number % 7 == 4 else bytes([number % 2, 255, number % 3]),
        "i": number % 5 - 2,
    }


TRANSFORMS = Case(
    pa.schema(
        [
            ("id", pa.int64()),
            ("t", pa.timestamp("us", tz="UTC")),
            ("d", pa.date32()),
            ("s", pa.string()),
            ("n", pa.decimal128(9, 2)),
            ("b", pa.binary()),
            ("i", pa.int32()),
        ]
    ),
    moments,
    (
        {"t": "t + INTERVAL 1 DAY", "i": "i + 1", "s": "'é'"},
        lambda row: {"t": row["t"] + dt.timedelta(days=1), "i": row["i"] + 1, "s": "é"},
    ),
    ["bucket(3, id)", "days(t)", "truncate(3, s)", "i"],
)
MORE_TRANSFORMS = Case(
    TRANSFORMS.schema,
    moments,
    TRANSFORMS.change,
    ["hours(t)", "months(d)", "truncate(5, n)", "truncate(2, b)", "truncate(2, i)"],
)
YEARS = Case(TRANSFORMS.schema, moments, TRANSFORMS.change, ["years(t)", "days(d)", "bucket(2, i)"])


def nested(number: int) -> Row:
    return {
        "l": None if number % 5 == 4 else [{"a": number, "b": f"b{number}"}, {"a": None, "b": None}],
        "m": None if number % 4 == 3 else [(f"k{number}", [number, None]), ("other", None)],
        "st": None if number % 6 == 5 else {"x": number, "y": {"z": f"z{number}"}},
        "p": SPECIAL[number % 3],
    }


LISTS = Case(
    pa.schema(
        [
            ("id", pa.int64()),
            ("l", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))),
            ("m", pa.map_(pa.string(), pa.list_(pa.int32()))),
            ("st", pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])),
            ("p", pa.string()),
        ]
    ),
    nested,
    ({"l": "array()", "p": "'moved'"}, lambda _: {"l": [], "p": "moved"}),
    ["p"],
)
STRUCTS = Case(
    pa.schema([("id", pa.int64()), LISTS.schema.field("st"), ("p", pa.string())]),
    lambda number: {name: nested(number)[name] for name in ("st", "p")},
    ({"`st`.y.z": "'new'"}, lambda row: {"st": {"x": (row["st"] or {}).get("x"), "y": {"z": "new"}}}),
)
REWRITTEN = Case(TEXTS.schema, special, TEXTS.change, ["bucket(2, id)"], COPY_ON_WRITE)

CASES = {
    "special texts": TEXTS,
    "transforms": TRANSFORMS,
    "more transforms": MORE_TRANSFORMS,
    "years": YEARS,
    "lists": LISTS,
    "structs": STRUCTS,
    "rewritten": REWRITTEN,
}
ORDINARY = {
    ("special texts", 3),
    ("special texts", 2),
    ("transforms", 3),
    ("more transforms", 2),
    ("lists", 3),
    ("lists", 2),
    ("structs", 3),
    ("rewritten", 3),
}


@pytest.mark.parametrize(
    ("name", "version"),
    [
        pytest.param(name, version, marks=[] if (name, version) in ORDINARY else [pytest.mark.slow])
        for name in CASES
        for version in (2, 3)
    ],
)
def test_every_verb(iceberg_table: Any, name: str, version: int) -> None:
    case = CASES[name]
    place = iceberg_table(f"{name.replace(' ', '_')}_{version}")
    options = {"partition_by": case.partition_by, "properties": case.properties}
    table = Watched.create(place, case.schema, version, **options)
    table.append(case.rows(0, 16))
    table.delete("id % 5 = 1", lambda row: row["id"] % 5 == 1)
    values, new = case.change
    table.update(values, "id IN (2, 4, 9)", new, lambda row: row["id"] in (2, 4, 9))
    table.upsert(case.rows(13, 18))
    table.delete("id IN (2, 3, 17)", lambda row: row["id"] in (2, 3, 17))
    added(table)
    table.upsert([row | {"more": {"c": row["id"]}} for row in case.rows(15, 20)])
    table.compact()
    overwritten(table, [row for row in case.rows(40, 44) if row["id"] != 42])
    table.check()


def added(table: Watched) -> None:
    table.mine.add_columns("more struct<c: bigint>")
    table.schema = table.schema.append(pa.field("more", pa.struct([("c", pa.int64())])))
    table.update(
        {"more": "named_struct('c', id)"},
        "id < 6",
        lambda row: {"more": {"c": row["id"]}},
        lambda row: row["id"] < 6,
    )


def overwritten(table: Watched, rows: list[Row]) -> None:
    table.mine.overwrite(table.arrow(rows), where="id < 8 OR id >= 40")
    table.now([*(row for row in table.rows if 8 <= row["id"] < 40), *rows])
