"""Equality deletes in native scans: every way to apply them gives the rows of a plain Python model."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.deletes.equality import LAYER_SCHEMA, EqualityLayer, KeyColumn
from delvec.deletes.equality_set import EqualityDeleteSet
from delvec.plan import DELETION_VECTOR, POSITION_VECTOR
from delvec.schema import Decimal, Field, Fixed, Primitive, Struct
from delvec.spark.equality_join import MOST_CLASSES, MOST_KEY, _chunk_join
from delvec.spark.key_chunks import CLASS_SHIFT
from delvec.spark.scan import scan, scan_parts
from delvec.spark.vector_chunks import CHUNK_BITS
from delvec.storage import open_storage
from equality_tables import EqualityTable, by_connector, ordered

pytestmark = pytest.mark.spark

WAYS = ["chunks", "keys", "executors"]
S = Struct((Field("x", Primitive("integer"), field_id=11), Field("y", Primitive("string"), field_id=12)))
SCHEMA = Struct(
    (
        Field("id", Primitive("long"), field_id=1),
        Field("name", Primitive("string"), field_id=2),
        Field("v", Primitive("double"), field_id=3),
        Field("s", S, field_id=4),
    )
)


def use(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if way != "chunks":
        monkeypatch.setattr("delvec.spark.equality_join.CHUNKS_BYTES", -1)
    if way == "executors":
        monkeypatch.setattr("delvec.spark.equality_join.DRIVER_ROWS", -1)


def read(spark: Any, plan: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in scan(spark, plan, open_storage(plan.location)).collect()]


def row(number: int) -> dict[str, Any]:
    return {
        "id": None if number % 17 == 3 else number,
        "name": None if number % 11 == 4 else f"n{number % 7}",
        "v": [0.0, -0.0, float("nan"), 1.5, None][number % 5],
        "s": None if number % 13 == 5 else {"x": None if number % 6 == 5 else number % 3, "y": None},
    }


def keys(*numbers: int) -> list[dict[str, Any]]:
    return [row(number) for number in numbers]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> EqualityTable:
    """Data before, between and after deletes by four sets of columns, partitioned and global."""
    table = EqualityTable(tmp_path_factory.mktemp("equality"), SCHEMA)
    choose = random.Random(5)
    for sequence in (1, 2, 4, 4, 6, 9):
        numbers = choose.sample(range(10_000), 120) + choose.sample(range(60), 40)
        table.data([row(n) for n in numbers], sequence, partition=sequence % 3)
    table.delete([{"id": n} for n in range(0, 50, 3)], ["id"], 3)
    table.delete([{"id": n} for n in (*range(1, 9000, 2), 20)], ["id"], 5, partition=1)
    table.delete([{"id": None}, {"id": -5}, {"id": 2**56}], ["id"], 6, partition=2)
    table.delete(keys(4, 5, 6), ["id", "name"], 7)
    table.delete([{"v": -0.0}, {"v": float("nan")}], ["v"], 4)
    table.delete([{"v": None}], ["v"], 2)
    table.delete(
        [{"s": {"x": 2}, "id": 14}, {"s": None, "id": 5}, {"s": {"x": None}, "id": 18}], ["s.x", "id"], 6
    )
    table.delete(keys(40, 46), ["name", "v", "id"], 9)
    return table


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_same_rows(
    spark: Any, table: EqualityTable, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    use(monkeypatch, way)
    expected = ordered(table.live())
    assert 0 < len(expected) < sum(len(rows) for rows, _, _ in table.model)
    assert ordered(read(spark, table.plan())) == expected
    if way == "chunks":
        assert ordered(by_connector(table.plan())) == expected


@pytest.mark.parametrize("way", ["chunks", pytest.param("executors", marks=pytest.mark.slow)])
def test_places_of_live_rows(
    spark: Any, table: EqualityTable, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """With a vector on one file: verbs find the positions of rows that neither kind has deleted."""
    use(monkeypatch, way)
    plan = table.plan()
    deleted = Bitmap.of(*range(0, 160, 2))
    vector = {"kind": POSITION_VECTOR, "encoding": DELETION_VECTOR, "inline": blob.bare(blob.encode(deleted))}
    vector |= {"length": 100, "cardinality": len(deleted)}
    vectors = pa.Table.from_pylist([vector], schema=plan.deletes.schema)
    column = pa.array([len(plan.deletes)] + [None] * (len(plan.files) - 1), pa.int32())
    index = plan.files.schema.get_field_index("vector")
    plan = replace(
        plan,
        deletes=pa.concat_tables([plan.deletes, vectors]),
        files=plan.files.set_column(index, "vector", column),
    )
    found = [
        (int(row[part.names.path].rpartition("/")[2][5:-8]), row[part.names.row])
        for part in scan_parts(spark, plan, open_storage(plan.location))
        for row in part.live().collect()
    ]
    assert sorted(found) == [place for place in table.live_places() if place[0] != 0 or place[1] % 2]


def test_chunks_only_while_class_and_key_fit_in_a_long(spark: Any) -> None:
    """The chunks of class ``2**19 - 1`` and key ``2**56 - 1`` have the largest long."""
    assert (MOST_CLASSES - 1) << CLASS_SHIFT | MOST_KEY >> CHUNK_BITS == 2**63 - 1
    columns = (KeyColumn(1, ("id",), Primitive("long"), (("id",),)),)
    for key, classes, fits in (
        (MOST_KEY, MOST_CLASSES - 1, True),
        (MOST_KEY, MOST_CLASSES, False),
        (MOST_KEY + 1, 1, False),
        (-1, 1, False),
    ):
        sequences = np.arange(classes)
        layer = EqualityLayer(columns, LAYER_SCHEMA.empty_table(), np.zeros(classes, np.int64), sequences)
        deleted = pa.table({"key_0": pa.array([key]), "scope": pa.array([0]), "sequence": pa.array([5])})
        join = _chunk_join(spark, layer, EqualityDeleteSet(columns, deleted), "own_")
        assert (join is not None) == fits, (key, classes)


def test_files_newer_than_all_deletes_have_a_plain_scan(spark: Any, tmp_path: Path) -> None:
    table = EqualityTable(tmp_path, SCHEMA)
    table.data(keys(1, 2), 5)
    table.data(keys(3, 6), 6)
    table.delete([{"id": 1}], ["id"], 5)
    frame = scan(spark, table.plan(), open_storage(str(tmp_path)))
    assert "Join" not in explained(frame)
    assert frame.count() == 4


def test_bounds_leave_out_files_and_keys(spark: Any, tmp_path: Path, monkeypatch: Any) -> None:
    from delvec.spark import equality_join

    table = EqualityTable(tmp_path, SCHEMA)
    table.data([{"id": 1}, {"id": 5}], 1)
    table.data([{"id": 10}, {"id": 20}], 1)
    table.data([{"id": None}, {"id": 30}], 1)
    table.delete([{"id": 12}, {"id": 3}, {"id": 100}, {"id": 5}], ["id"], 2)
    table.bounds["id"] = [(1, 5, 0), (10, 11, 0), (30, 30, 1)]
    loaded: list[Any] = []
    original = equality_join.narrowed

    def narrowed(*given: Any) -> Any:
        loaded.append(original(*given))
        return loaded[-1]

    monkeypatch.setattr(equality_join, "narrowed", narrowed)
    live = read(spark, table.plan())
    ((layer, kept),) = loaded
    assert layer.scope.tolist() == [0, -1, -1]
    assert sorted(kept.keys.column("key_0").to_pylist()) == [3, 5]
    assert sorted(str(found["id"]) for found in live) == ["1", "10", "20", "30", "None"]


TYPES: dict[Any, list[Any]] = {
    Primitive("boolean"): [True, False],
    Primitive("integer"): [-5, 7, 2**31 - 1],
    Primitive("long"): [0, 2**56 - 1, 2**56, -(2**63)],
    Primitive("float"): [0.0, -0.0, float("nan"), 1.5],
    Primitive("date"): [dt.date(1969, 12, 31), dt.date(2024, 2, 29)],
    Primitive("timestamp"): [
        dt.datetime(1969, 1, 1, tzinfo=dt.UTC),
        dt.datetime(2024, 3, 31, 2, 30, tzinfo=dt.UTC),
    ],
    Primitive("timestamp_ntz"): [dt.datetime(2024, 3, 31, 2, 30), dt.datetime(1960, 1, 1, 0, 0, 0, 1)],
    Primitive("time"): [dt.time(1, 2, 3), dt.time(23, 59, 59, 999999)],
    Primitive("timestamp_ntz_ns"): [1, 2, -1],
    Primitive("uuid"): [b"a" * 16, b"\xff" * 16],
    Primitive("binary"): [b"", b"\x00", b"\xff"],
    Fixed(3): [b"abc", b"abd"],
    Decimal(20, 4): [decimal.Decimal("1.5000"), decimal.Decimal("-99999999999.1234")],
    Primitive("string"): ["", "é", "e\u0301"],
}


@pytest.mark.parametrize("way", ["chunks", pytest.param("executors", marks=pytest.mark.slow)])
def test_keys_of_every_type(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Of each column the first value and null are deleted. All other columns of a row have the last value."""
    names = [f"k{number}" for number in range(len(TYPES))]
    columns = [
        Field(name, kind, field_id=n) for n, (name, kind) in enumerate(zip(names, TYPES, strict=True), 2)
    ]
    table = EqualityTable(tmp_path, Struct((Field("n", Primitive("integer"), field_id=1), *columns)))
    filler = {name: values[-1] for name, values in zip(names, TYPES.values(), strict=True)}
    changes = [(name, v) for name, values in zip(names, TYPES.values(), strict=True) for v in [*values, None]]
    rows = [{"n": n, **filler, name: value} for n, (name, value) in enumerate(changes)]
    table.data(rows, 1)
    table.data(rows, 3)
    for name, values in zip(names, TYPES.values(), strict=True):
        table.delete([{name: values[0]}, {name: None}], [name], 2)
    expected = sorted(row["n"] for row in table.live())
    assert len(expected) == 2 * len(rows) - 2 * len(TYPES)
    assert sorted(row["n"] for row in by_connector(table.plan(), ["n"])) == expected
    use(monkeypatch, way)
    frame = scan(spark, table.plan(), open_storage(str(tmp_path)))
    assert sorted(found.n for found in frame.select("n").collect()) == expected


def explained(frame: Any) -> str:
    from contextlib import redirect_stdout
    from io import StringIO

    with redirect_stdout(StringIO()) as text:
        frame.explain()
    return text.getvalue()
