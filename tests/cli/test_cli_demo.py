from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from golden_data import golden


def test_demo_is_quick_and_leaves_nothing(delvec, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    started = time.monotonic()
    run = delvec("demo", "--no-spark")
    assert run.code == 0
    assert time.monotonic() - started < 3
    assert list(tmp_path.iterdir()) == []
    for title in ("Files on disk", "its bytes", "The rows that it deletes", "sound", "A damaged vector"):
        assert title in run.out
    assert "error: vector CRC is" in run.out
    assert "d1 d3 39 64" in run.out


def test_demo_as_json(delvec):
    shown = delvec("demo", "--no-spark", "--json").json
    steps = {step["title"]: step for step in shown["steps"]}
    assert len(steps) == 8
    assert steps["A damaged vector"]["error"]["kind"] == "CorruptVectorError"
    assert steps["Verification"]["sound"] is True
    assert steps["The rows that it deletes"]["deleted"] == [False, *[True] * 6, False, True, False]
    pruned = steps["Files that may match a condition"]
    assert (pruned["total"], pruned["skipped"]) == (1, 3)


def test_demo_keeps_the_table_where_told(delvec, tmp_path):
    assert delvec("demo", "--no-spark", "--path", tmp_path / "kept").code == 0
    assert delvec("show", tmp_path / "kept", "--json").json["rows"]["live"] == 23
    again = delvec("demo", "--no-spark", "--path", tmp_path / "kept", "--where", "id < 5")
    assert again.code == 0
    assert "1 file may match, 3 files skipped" in again.out


def test_demo_of_another_table_changes_nothing(delvec, tmp_path):
    table = tmp_path / "large"
    shutil.copytree(golden("delta/table-with-dv-large"), table)
    before = {path: path.read_bytes() for path in table.rglob("*") if path.is_file()}
    run = delvec("demo", "--no-spark", "--path", table)
    assert run.code == 0
    assert "A damaged vector" in run.out
    assert {path: path.read_bytes() for path in table.rglob("*") if path.is_file()} == before


def test_demo_writes_nothing_among_other_files(delvec, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    run = delvec("demo", "--no-spark", "--path", tmp_path)
    assert run.code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.spark
def test_demo_and_show_read_rows_in_spark(tmp_path):
    """As processes of their own: each starts its session and ends it."""
    delvec = [str(Path(sys.executable).with_name("delvec"))]
    demo = [*delvec, "demo", "--path", str(tmp_path / "orders"), "--json"]
    done = subprocess.run(demo, capture_output=True, text=True, check=True)
    steps = {step["title"]: step for step in json.loads(done.stdout)["steps"]}
    assert [row["id"] for row in steps["The rows in Spark"]["rows"]] == [36, 38, 39]
    assert done.stderr == ""
    show = [*delvec, "show", str(tmp_path / "orders"), "--rows", "50", "--json"]
    done = subprocess.run(show, capture_output=True, text=True, check=True)
    sample = json.loads(done.stdout)["sample"]
    assert len(sample) == 23
    assert {"id": 20, "customer": "gus", "amount": 33.5, "placed": "2024-12-10", "region": "us"} in sample
    assert done.stderr == ""


def test_show_says_what_is_missing_to_read_rows(delvec, orders, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    run = delvec("show", orders, "--rows", "1")
    assert run.code == 5
    assert "reading rows needs PySpark: pip install 'pyspark>=4.0,<4.4'" in run.err
