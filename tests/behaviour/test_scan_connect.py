"""The native scan over Spark Connect: the same rows as classic, and nothing that only classic has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from delvec.delta.table import DeltaTable
from golden_data import GOLDEN
from lake import BY_ID, FLAT, Lake
from rows import multiset, read_rows

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).resolve().parents[1] / "connect_scan.py"
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


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Every scan of this module, made by one session in another process; by the request's name."""
    if shutil.which("java") is None:
        pytest.skip("Java is absent: Spark needs it")
    pytest.importorskip("grpc", reason="grpcio is absent: Spark Connect needs it")
    root = tmp_path_factory.mktemp("connect")
    asked, expected = requests(root)
    (root / "request.json").write_text(json.dumps(list(asked.values())))
    environment = os.environ | {"PYTHONPATH": str(SCRIPT.parent), "PYSPARK_PYTHON": sys.executable}
    environment.pop("SPARK_REMOTE", None)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(root / "request.json"), str(root / "answer.json")],
        env=environment,
        cwd=root,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    if done.returncode and "Unable to bind" in done.stderr:
        pytest.skip("a Spark Connect server cannot be started here")
    assert done.returncode == 0, done.stderr[-5000:]
    found = json.loads((root / "answer.json").read_text())
    return {name: (answer, expected.get(name)) for name, answer in zip(asked, found, strict=True)}


def requests(root):
    by_size = written(root / "by size")
    by_path = written(root / "by path", size=4000, layout=FLAT)
    by_id = written(root / "by id", mapping=BY_ID)
    many = written(root / "many", files=45)
    broken = written(root / "broken")
    next(broken.root.glob("*.bin")).unlink()
    tables = {"by size": by_size, "by path": by_path, "by id": by_id, "many": many}
    asked = {name: {"table": str(lake.root)} for name, lake in tables.items()}
    expected = {name: multiset(lake.live) for name, lake in tables.items()}
    asked["distributed"] = {"table": str(by_path.root), "distributed": True}
    expected["distributed"] = expected["by path"]
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
        "table": str(by_size.root),
        "conf": {"spark.sql.parquet.enableVectorizedReader": "false"},
    }
    expected["row based"] = expected["by size"]
    asked["broken"] = {"table": str(broken.root)}
    asked["unknown"] = {"table": str(by_size.root), "where": "nothing = 1"}
    for place in GOLDEN_TABLES:
        table = DeltaTable.open(str(place))
        asked[place.name] = {"table": str(place)}
        expected[place.name] = multiset(read_rows(table.snapshot().plan(), table.storage))
    return asked, expected


OWN = ["by size", "by path", "by id", "many", "distributed", "chosen", "row based"]


@pytest.mark.parametrize("name", [*OWN, *(place.name for place in GOLDEN_TABLES)])
def test_the_same_rows(answers, name):
    found, expected = answers[name]
    assert Counter(found["rows"]) == expected


def test_errors_name_what_is_wrong(answers):
    assert "CorruptVectorError: vector file is missing" in answers["broken"][0]["error"]
    assert "InvalidOperationError" in answers["unknown"][0]["error"]
    assert "nothing" in answers["unknown"][0]["error"]
