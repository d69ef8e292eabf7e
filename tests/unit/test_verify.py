"""Each thing that `verify` checks, found where it is wrong and only there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from delvec import detect, verify
from delvec.bitmap import Bitmap
from delvec.blob import encode_bare
from delvec.errors import InvalidOperationError, StorageError
from delvec.z85 import encode

FILE = "region=us/part-00002.parquet"


@pytest.fixture
def orders(tmp_path):
    detect.write_sample_table(str(tmp_path / "orders"))
    return tmp_path / "orders"


def check(table, **arguments) -> verify.Report:
    return verify.verify_table(detect.open_table(str(table)), **arguments)


def the_finding(table) -> verify.Finding:
    (finding,) = check(table).findings
    return finding


def change_add(table, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the add of FILE in the newest commit."""
    commit = table / "_delta_log" / f"{2:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            change(line["add"])
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))


def change_stats(table, **changes: Any) -> None:
    def change(add: dict[str, Any]) -> None:
        add["stats"] = json.dumps(json.loads(add["stats"]) | changes)

    change_add(table, change)


def vector_of(table, size_rank: int):
    return sorted(table.glob("deletion_vector_*.bin"), key=lambda path: path.stat().st_size)[size_rank]


def test_a_sound_table(orders):
    report = check(orders)
    assert report == verify.Report(str(orders), 2, 4, 4, 17, ())
    assert (report.errors, report.warnings) == (0, 0)


@pytest.mark.parametrize(("version", "vectors", "deleted"), [(0, 0, 0), (1, 4, 13)])
def test_an_older_version(orders, version, vectors, deleted):
    report = check(orders, version=version)
    assert (report.version, report.vectors, report.deleted_rows) == (version, vectors, deleted)
    assert report.findings == ()


def test_a_flipped_bit(orders):
    path = vector_of(orders, 0)
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(data)
    finding = the_finding(orders)
    assert (finding.severity, finding.check, finding.path) == ("error", "vector", f"{orders}/{FILE}")
    assert finding.message.startswith("vector CRC is ")
    assert finding.message.endswith(f"{path} at 1")


def test_one_bad_vector_of_a_shared_file(orders):
    path = vector_of(orders, 1)
    data = bytearray(path.read_bytes())
    data[47 + 20] ^= 1
    path.write_bytes(data)
    finding = the_finding(orders)
    assert finding.path == f"{orders}/region=eu/part-00001.parquet"
    assert finding.message.endswith("at 47")


def test_a_missing_vector_file(orders):
    vector_of(orders, 1).unlink()
    report = check(orders)
    assert report.errors == 3
    assert all("vector file is missing" in finding.message for finding in report.findings)


def test_a_vector_file_cut_short(orders):
    path = vector_of(orders, 1)
    path.write_bytes(path.read_bytes()[:-10])
    finding = the_finding(orders)
    assert finding.path == f"{orders}/region=us/part-00003.parquet"
    assert "vector file has 177 bytes, expected at least 187" in finding.message


def test_a_wrong_cardinality(orders):
    change_add(orders, lambda add: add["deletionVector"].update(cardinality=5))
    assert "vector has 7 positions, expected 5" in the_finding(orders).message


def test_a_wrong_size(orders):
    change_add(orders, lambda add: add["deletionVector"].update(sizeInBytes=34))
    assert "declares a length of 35, expected 34" in the_finding(orders).message


def inline(*positions: int) -> dict[str, Any]:
    data = encode_bare(Bitmap.of(*positions))
    padded = data + bytes(-len(data) % 4)
    return {
        "storageType": "i",
        "pathOrInlineDv": encode(padded),
        "sizeInBytes": len(data),
        "cardinality": len(positions),
    }


def test_an_inline_vector(orders):
    change_add(orders, lambda add: add.update(deletionVector=inline(0, 9)))
    assert check(orders).findings == ()
    change_add(orders, lambda add: add["deletionVector"].update(cardinality=3))
    assert f"inline vector of {orders}/{FILE}" in the_finding(orders).message


def test_a_position_beyond_the_file(orders):
    change_add(orders, lambda add: add.update(deletionVector=inline(0, 10)))
    finding = the_finding(orders)
    assert (finding.check, finding.severity) == ("position", "error")
    assert finding.message == "vector deletes row 10, but the file has 10 rows"


def test_positions_of_a_file_whose_rows_are_not_counted(orders):
    change_add(orders, lambda add: add.pop("stats"))
    report = check(orders)
    assert {(finding.severity, finding.check) for finding in report.findings} == {
        ("warning", "statistics"),
        ("warning", "position"),
    }
    assert (report.errors, report.warnings) == (0, 2)


def test_a_missing_data_file(orders):
    (orders / FILE).unlink()
    finding = the_finding(orders)
    assert (finding.check, finding.path) == ("data-file", f"{orders}/{FILE}")
    assert finding.message == "data file is missing"


@pytest.mark.parametrize("list_from", [0, 1000], ids=["listed", "asked for one by one"])
def test_a_data_file_of_another_size(orders, monkeypatch, list_from):
    monkeypatch.setattr(verify, "_LIST_FROM", list_from)
    size = (orders / FILE).stat().st_size
    with (orders / FILE).open("ab") as file:
        file.write(b"more")
    (orders / "region=eu/part-00000.parquet").unlink()
    found = {finding.path: finding.message for finding in check(orders).findings}
    assert found == {
        f"{orders}/{FILE}": f"data file has {size + 4} bytes, expected {size}",
        f"{orders}/region=eu/part-00000.parquet": "data file is missing",
    }


def test_a_file_that_is_live_twice(orders):
    commit = orders / "_delta_log" / f"{2:020d}.json"
    lines = commit.read_text().splitlines()
    commit.write_text("".join(line + "\n" for line in lines if '"remove"' not in line))
    finding = the_finding(orders)
    assert (finding.check, finding.path) == ("duplicate", f"{orders}/{FILE}")
    assert finding.message == "data file is listed 2 times, expected once"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"minValues": {"id": 29}, "maxValues": {"id": 20}}, "lower bound of id is above its upper bound"),
        ({"nullCount": {"id": 11}}, "null count of id is not between 0 and the number of rows"),
        ({"nullCount": {"amount": -1}}, "null count of amount is not between 0 and the number of rows"),
    ],
)
def test_statistics_that_contradict_themselves(orders, changes, message):
    change_stats(orders, **changes)
    finding = the_finding(orders)
    assert (finding.severity, finding.check) == ("error", "statistics")
    assert finding.message == message


def test_a_negative_record_count(orders):
    change_stats(orders, numRecords=-1)
    assert "row count is negative" in {f.message for f in check(orders).findings}


def test_a_broken_log_is_a_finding(orders):
    (orders / "_delta_log" / f"{1:020d}.json").unlink()
    report = check(orders)
    assert (report.version, report.files) == (None, 0)
    (finding,) = report.findings
    assert (finding.severity, finding.check) == ("error", "metadata")
    assert "commit 1 is missing" in finding.message


def test_a_broken_descriptor_is_a_finding(orders):
    change_add(orders, lambda add: add["deletionVector"].update(storageType="x"))
    report = check(orders)
    assert (report.version, report.errors) == (2, 1)
    assert "storage type is 'x'" in report.findings[0].message


def test_no_such_version_is_raised(orders):
    with pytest.raises(InvalidOperationError, match="version 7 does not exist"):
        check(orders, version=7)


def test_a_store_that_fails_is_raised(orders, monkeypatch):
    table = detect.open_table(str(orders))

    def fail(*_: object) -> None:
        raise StorageError("cannot read: 503", path="x")

    monkeypatch.setattr(table.storage, "read_ranges", fail)
    with pytest.raises(StorageError, match="503"):
        verify.verify_table(table)


def test_progress_reaches_the_end(orders):
    told: list[tuple[str, int, int]] = []
    check(orders, progress=lambda *step: told.append(step))
    assert [step for step in told if step[0] == "vectors"] == [("vectors", n, 4) for n in (1, 2, 3, 4)]
    assert told[-1] == ("data files", 4, 4)
