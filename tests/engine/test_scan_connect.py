"""Native scan and connector over Spark Connect: the same rows as classic, nothing that only classic has."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import scan_process
from delvec.delta.table import DeltaTable
from golden_data import GOLDEN
from iceberg_tables.avro import DATA
from iceberg_tables.writer import IcebergWriter
from lake import BY_ID, FLAT, Lake
from rows import multiset, read_rows

pytestmark = pytest.mark.spark

GOLDEN_TABLES = sorted((GOLDEN / "delta").glob("*")) if GOLDEN.is_dir() else []
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.struct([("a b", pa.int32())])),
        ("p q", pa.string()),
        ("_metadata", pa.int32()),
    ]
)


def rows(p, first, count):
    return [
        {"id": first + i, "s": {"a b": i} if i % 3 else None, "p q": p, "_metadata": i} for i in range(count)
    ]


def written(root, *, size=None, files=6, **options):
    lake = Lake(root, SCHEMA, partition_by=["p q"], **options)
    for n in range(files):
        deleted = [n % 5] if n % 2 else ()
        lake.write(rows(["x", "y/z", None][n % 3], n * 100, 8), deleted=deleted, size=size)
    lake.commit()
    return lake


def written_iceberg(root, version):
    """Deletes of every kind, and other columns since."""
    columns = pa.schema([("id", pa.int64()), ("a b", pa.string()), ("p", pa.int32())])
    table = IcebergWriter(root, columns, format_version=version, partition_by=["p"])
    for first in range(0, 60, 20):
        table.append([{"id": n, "a b": f"v{n % 7}", "p": n % 2} for n in range(first, first + 20)])
    for entry in table.head.entries(DATA):
        table.delete_rows(entry.file, [0, 3])
    table.delete_keys([{"a b": "v3"}, {"a b": None}], on=["a b"], partition={"p": 1})
    table.commit()
    everywhere = table.replace_spec([])
    table.delete_keys([{"id": 8}, {"id": 9}], on=["id"], spec=everywhere)
    table.commit()
    table.rename_column("a b", "c")
    table.append([{"id": 9, "c": None, "p": 1}])
    return table


def by_connector(name):
    return f"{name}, by the connector"


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Every scan of this module, made by one session in another process; by the request's name."""
    root = tmp_path_factory.mktemp("connect")
    asked, expected = requests(root)
    found = scan_process.answers(root / "process", asked, remote=True)
    return {name: (answer, expected.get(name)) for name, answer in found.items()}


def requests(root):
    in_folders = written(root / "in folders")
    flat = written(root / "flat", layout=FLAT)
    by_id = written(root / "by id", mapping=BY_ID)
    many = written(root / "many", files=45)
    older = written(root / "older")
    older_rows = older.live
    older.delete(older.files[0], [0, 1])
    older.commit()
    broken = written(root / "broken")
    next(broken.root.glob("*.bin")).unlink()
    tables = {"in folders": in_folders, "flat": flat, "by id": by_id, "many": many}
    asked = {name: {"table": str(lake.root)} for name, lake in tables.items()}
    expected = {name: multiset(lake.live) for name, lake in tables.items()}
    plain = Lake(root / "plain", pa.schema([("id", pa.int64()), ("v", pa.string())]))
    for n in range(5):
        plain.write(
            [{"id": n * 1000 + i, "v": f"v{i}"} for i in range(500)],
            deleted=range(n, 500, 7),
            size=[None, 9000][n % 2],
        )
    plain.commit()
    asked["words"] = {"table": str(plain.root), "later": "id % 2 = 1"}
    asked["joined"] = {**asked["words"], "joined": True}
    expected["words"] = expected["joined"] = multiset(row for row in plain.live if row["id"] % 2 == 1)
    asked["distributed"] = {"table": str(flat.root), "distributed": True}
    expected["distributed"] = expected["flat"]
    asked["chosen"] = {
        "table": str(many.root),
        "where": "id < 2000",
        "columns": ["_metadata", "p q"],
        "later": "`p q` = 'x'",
    }
    expected["chosen"] = multiset(
        {"_metadata": r["_metadata"], "p q": r["p q"]}
        for r in many.live
        if r["id"] < 2000 and r["p q"] == "x"
    )
    asked["row based"] = {
        "table": str(in_folders.root),
        "conf": {"spark.sql.parquet.enableVectorizedReader": "false"},
    }
    expected["row based"] = expected["in folders"]
    for name in ("in folders", "flat", "by id"):
        asked[by_connector(name)] = {**asked[name], "connector": True}
        expected[by_connector(name)] = expected[name]
    asked[by_connector("chosen")] = {**asked["chosen"], "connector": True}
    asked[by_connector("chosen")]["columns"] = ["id", "_metadata", "p q"]
    expected[by_connector("chosen")] = multiset(
        {"id": r["id"], "_metadata": r["_metadata"], "p q": r["p q"]}
        for r in many.live
        if r["id"] < 2000 and r["p q"] == "x"
    )
    asked[by_connector("version")] = {"table": str(older.root), "version": 0, "connector": True}
    expected[by_connector("version")] = multiset(older_rows)
    asked[by_connector("broken")] = {"table": str(broken.root), "connector": True}
    asked[by_connector("unknown")] = {
        "table": str(in_folders.root),
        "columns": ["nothing"],
        "connector": True,
    }
    asked["broken"] = {"table": str(broken.root)}
    asked["unknown"] = {"table": str(in_folders.root), "where": "nothing = 1"}
    for version in (2, 3):
        iceberg = written_iceberg(root / f"iceberg {version}", version)
        name = f"iceberg-{version}"
        older = list(iceberg.snapshots)[2]
        asked[name] = {"table": str(iceberg.root)}
        asked[f"{name} distributed"] = {**asked[name], "distributed": True}
        asked[by_connector(name)] = {**asked[name], "connector": True}
        asked[f"{name} older"] = {**asked[name], "version": older}
        expected |= dict.fromkeys([name, f"{name} distributed", by_connector(name)], multiset(iceberg.rows()))
        expected[f"{name} older"] = multiset(iceberg.rows(older))
    for place in GOLDEN_TABLES:
        table = DeltaTable.open(str(place))
        asked[place.name] = {"table": str(place)}
        asked[by_connector(place.name)] = {"table": str(place), "connector": True}
        wanted = multiset(read_rows(table.snapshot().plan(), table.storage))
        expected[place.name] = expected[by_connector(place.name)] = wanted
    return asked, expected


OWN = ["in folders", "flat", "by id", "many", "words", "joined", "distributed", "chosen", "row based"]
ICEBERG = [f"iceberg-{v}{how}" for v in (2, 3) for how in ("", " distributed", " older")]
CONNECTED = ["iceberg-2", "iceberg-3", "in folders", "flat", "by id", "chosen", "version"]
NAMES = [place.name for place in GOLDEN_TABLES]


@pytest.mark.parametrize("name", [*OWN, *ICEBERG, *NAMES, *map(by_connector, [*CONNECTED, *NAMES])])
def test_the_same_rows(answers, name):
    found, expected = answers[name]
    assert Counter(found["rows"]) == expected


def test_errors_name_what_is_wrong(answers):
    assert "CorruptVectorError: vector file is missing" in answers["broken"][0]["error"]
    assert "InvalidOperationError" in answers["unknown"][0]["error"]
    assert "nothing" in answers["unknown"][0]["error"]


def test_errors_of_the_connector_name_what_is_wrong(answers):
    assert "CorruptVectorError: vector file is missing" in answers[by_connector("broken")][0]["error"]
    assert "unknown column `nothing` in option columns" in answers[by_connector("unknown")][0]["error"]
