"""`delvec vacuum`, and the advice of `delvec show`."""

from __future__ import annotations

import os
import time

import pytest

from delta_log import LogWriter, add, remove
from delvec.advice import FEWER_FILES

OLD = time.time() - 30 * 86_400


@pytest.fixture
def place(tmp_path):
    """A table with one live file, one expired one and one that nobody knows."""
    root = tmp_path / "t"
    root.mkdir()
    for name in ("live", "gone", "crashed"):
        (root / name).write_bytes(b"x" * 2048)
        os.utime(root / name, (OLD, OLD))
    log = LogWriter(str(root))
    log.create()
    log.commit(add("live", size=2048), add("gone", size=2048))
    removed = remove("gone", timestamp=int(OLD * 1000))
    removed["remove"]["size"] = 2048
    log.commit(removed)
    return root


def test_dry_run(delvec, place):
    run = delvec("vacuum", place, "--dry-run")
    assert run.code == 0
    assert sorted(run.out.splitlines()) == ["VACUUM would delete 2 files (4.0 KiB)", "crashed", "gone"]
    document = delvec("vacuum", place, "--dry-run", "--json", "--limit", "1").json
    assert document.pop("paths")[0] in ("crashed", "gone")
    assert document == {
        "dry_run": True,
        "location": str(place),
        "operation": "VACUUM",
        "version": 2,
        "files": 2,
        "bytes": 4096,
        "folders": 0,
        "expired_versions": 0,
        "expired_refs": [],
        "metrics": {},
    }
    assert "1 more not shown (--limit)" in delvec("vacuum", place, "--dry-run", "--limit", "1").out
    assert (place / "gone").exists()


def test_vacuum(delvec, place):
    run = delvec("vacuum", place, "--yes")
    assert run.code == 0
    assert "2 files (4.0 KiB)" in run.out
    assert sorted(path.name for path in place.iterdir()) == ["_delta_log", "live"]
    assert delvec("vacuum", place, "--yes", "--json").json == {
        "dry_run": False,
        "location": str(place),
        "operation": "VACUUM",
        "version": 6,
        "files": 0,
        "bytes": 0,
        "folders": 0,
        "expired_versions": 0,
        "expired_refs": [],
        "metrics": {"numDeletedFiles": 0, "numVacuumedDirectories": 1},
    }


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        ([], 2, "no terminal to confirm on: pass --yes"),
        (["--json"], 2, "--json does not ask for confirmation"),
        (["--yes", "--retain-hours", "1"], 2, "retain_hours is 1, expected at least 168"),
        (["--yes", "--retain-hours", "-1", "--force"], 2, "retain_hours is -1.0, expected a number of hours"),
        (["--yes", "--retain-hours", "x"], 2, "'--retain-hours': Input should be a valid number"),
    ],
)
def test_bad_input(delvec, place, arguments, code, problem):
    run = delvec("vacuum", place, *arguments)
    assert run.code == code
    assert problem in run.err + run.out
    assert (place / "gone").exists()


def test_force(delvec, place):
    (place / "young").write_bytes(b"1")
    os.utime(place / "young", (time.time() - 5, time.time() - 5))
    assert delvec("vacuum", place, "--yes", "--retain-hours", "0", "--force", "--json").json["files"] == 3


def test_no_table(delvec, tmp_path):
    assert delvec("vacuum", tmp_path, "--yes").code == 3


def test_show_advises_vacuum_until_it_ran(delvec, place):
    expected = "vacuum: 1 file (2,048 bytes) that were removed longer ago than the table's retention"
    assert expected in delvec("show", place).out
    assert delvec("show", place, "--version", 1, "--json").json["advice"] == []
    delvec("vacuum", place, "--yes")
    assert delvec("show", place, "--json").json["advice"] == []


def test_show_advises_optimize_of_small_files(delvec, tmp_path):
    log = LogWriter(str(tmp_path))
    log.create(partition_by=["id"])
    log.commit(*(add(f"a{n}", partition={"id": "1"}) for n in range(FEWER_FILES)))
    assert delvec("show", tmp_path, "--json").json["advice"] == []
    log.commit(add("b", partition={"id": "1"}), add("c", partition={"id": "2"}))
    assert delvec("show", tmp_path, "--json").json["advice"] == [
        {
            "verb": "optimize",
            "reason": "11 files below 128 MiB fit in 1",
            "small_files": 11,
            "combined_files": 1,
        }
    ]
