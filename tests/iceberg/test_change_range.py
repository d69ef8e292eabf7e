"""Ranges of change feeds: which snapshots they have, and which ranges are refused by name."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from delvec import detect, formats
from delvec.errors import InvalidOperationError
from iceberg_tables.writer import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64())])
SECOND = 1000


def rows(*ids):
    return [{"id": number} for number in ids]


@pytest.fixture
def writer(tmp_path):
    """Snapshots a, b and c of main at 10, 20 and 30 s; d on the branch audit, from a, at 40 s."""
    table = IcebergWriter(tmp_path / "t", COLUMNS)
    table.append(rows(1), at=10 * SECOND)
    table.set_branch("audit", table.head.id)
    table.append(rows(2), at=20 * SECOND)
    table.append(rows(3), at=30 * SECOND)
    table.append(rows(4), at=40 * SECOND, branch="audit")
    return table


@pytest.fixture
def names(writer):
    return dict(zip("abcd", writer.snapshots, strict=True))


def at(seconds):
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def found(writer, names, first, last=None, ref=None):
    """The names of the snapshots in a range, in order."""
    table = formats.on_ref(detect.open_table(str(writer.root)), ref)
    first, last = (names.get(bound, bound) if isinstance(bound, str) else bound for bound in (first, last))
    by_id = {number: name for name, number in names.items()}
    return "".join(by_id[number] for number in table.change_plan(first, last).commits["version"].to_pylist())


def refused(writer, names, *bounds, ref=None):
    with pytest.raises(InvalidOperationError) as info:
        found(writer, names, *bounds, ref=ref)
    text = str(info.value)
    for name, number in names.items():
        text = text.replace(str(number), name)
    return text


def test_snapshot_ids(writer, names):
    assert found(writer, names, "a") == "abc"
    assert found(writer, names, "b") == "bc"
    assert found(writer, names, "a", "b") == "ab"
    assert found(writer, names, "c", "c") == "c"
    assert found(writer, names, "a", ref="audit") == "ad"
    assert found(writer, names, "a", "d") == "ad"  # the history of the end


def test_times(writer, names):
    assert found(writer, names, at(10)) == "abc"
    assert found(writer, names, at(10.5)) == "bc"
    assert found(writer, names, at(20), at(29.999)) == "b"
    assert found(writer, names, at(20.001), at(29)) == ""
    assert found(writer, names, "a", at(25)) == "ab"
    assert found(writer, names, at(11), ref="audit") == "d"
    assert "is after the last snapshot" in refused(writer, names, at(31))
    assert "before the first snapshot" in refused(writer, names, at(1), at(2))


def test_commits_have_the_times_of_their_snapshots(writer, names):
    plan = detect.open_table(str(writer.root)).change_plan(names["a"])
    assert [moment.timestamp() for moment in plan.commits["timestamp"].to_pylist()] == [10, 20, 30]


def test_other_orders_and_branches(writer, names):
    message = refused(writer, names, "b", "a")
    assert "changes end at snapshot a, expected their start at snapshot b or a later one" in message
    message = refused(writer, names, "d")
    assert (
        "snapshot d is not an ancestor of snapshot c: the table was rolled back, or the snapshots" in message
    )
    assert "is not an ancestor of snapshot d" in refused(writer, names, "b", ref="audit")
    assert "snapshot 17 does not exist or has expired" in refused(writer, names, 17)
    assert "snapshot 17 does not exist or has expired" in refused(writer, names, "a", 17)


def test_a_rollback(writer, names):
    """At 41 s the table is at a again; e follows at 50 s."""
    writer.roll_back(names["a"])
    names["e"] = writer.append(rows(5), at=50 * SECOND)
    assert found(writer, names, "a") == "ae"
    assert found(writer, names, "b", "c") == "bc"  # what was undone
    assert "snapshot b is not an ancestor of snapshot e: the table was rolled back" in refused(
        writer, names, "b"
    )
    assert found(writer, names, at(10)) == "ae"
    assert found(writer, names, at(42)) == "e"
    message = refused(writer, names, at(35))
    assert "when snapshot c was the current one, expected an ancestor of snapshot e" in message


def without(writer, number):
    del writer.snapshots[number]
    writer.snapshot_log = [entry for entry in writer.snapshot_log if entry["snapshot-id"] != number]
    writer.write_metadata()


def test_expired_snapshots(writer, names):
    writer.append(rows(6), at=50 * SECOND)
    names["e"] = writer.head.id
    without(writer, names["b"])
    assert found(writer, names, "c") == "ce"  # c only added a file
    gone = "changes of snapshot c can no longer be read: snapshot b, which it was made from, has expired"
    assert gone in refused(writer, names, "a")
    assert gone in refused(writer, names, at(5))
    assert found(writer, names, at(31)) == "e"
    assert gone in refused(writer, names, at(30))  # who knows when b was
    assert "snapshot b does not exist or has expired" in refused(writer, names, "b")


def test_an_expired_parent_of_a_snapshot_that_deletes(writer, names):
    writer.delete_keys([{"id": 1}], on=["id"])
    names["e"] = writer.commit(at=50 * SECOND)
    without(writer, names["c"])
    message = refused(writer, names, "e")
    assert "changes of snapshot e can no longer be read: snapshot c, which it was made from" in message


def test_the_files_of_a_snapshot_whose_parent_has_expired(writer, names):
    """Only its own files are new. Later snapshots delete rows of older files, too."""
    writer.delete_keys([{"id": 1}], on=["id"])
    names["e"] = writer.commit(at=50 * SECOND)
    without(writer, names["b"])
    plan = detect.open_table(str(writer.root)).change_plan(names["c"])
    assert plan.added.plan.files["record_count"].to_pylist() == [1]
    assert plan.added.commit.tolist() == [0]
    assert (len(plan.removed), len(plan.before)) == (0, 0)
    assert sorted(zip(plan.by_value.first.tolist(), plan.by_value.end.tolist(), strict=True)) == [
        (0, 2),
        (0, 2),
        (1, 2),
    ]


def test_a_table_without_snapshots(tmp_path):
    table = IcebergWriter(tmp_path / "t", COLUMNS)
    with pytest.raises(InvalidOperationError, match="the table has no snapshot yet"):
        detect.open_table(str(table.root)).change_plan(at(1))
    with pytest.raises(InvalidOperationError, match="snapshot 5 does not exist"):
        detect.open_table(str(table.root)).change_plan(5)


def test_snapshots_that_only_move_rows(writer, names):
    file = writer.head.entries(0)[0].file
    writer.remove_file(file)
    writer.add_file(file.rows, sequence=1)
    names["e"] = writer.commit(operation="replace")
    assert found(writer, names, "a") == "abce"
    plan = detect.open_table(str(writer.root)).change_plan(names["e"])
    assert (len(plan.added), len(plan.removed)) == (0, 0)
