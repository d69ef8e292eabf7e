"""Branches, tags and time travel, and the schema that each of them shows."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from delvec import detect, formats
from delvec.errors import FormatError, InvalidOperationError
from delvec.plan import Base
from iceberg_tables.writer import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64())])
SECOND = 1000


@pytest.fixture
def writer(tmp_path):
    """Snapshots a, b and c of main at 10, 20 and 30 s; d on the branch audit, from a, at 40 s."""
    table = IcebergWriter(tmp_path / "t", COLUMNS)
    table.append([{"id": 1}], at=10 * SECOND)
    table.set_tag("start", table.head.id)
    table.set_branch("audit", table.head.id)
    table.append([{"id": 2}], at=20 * SECOND)
    table.append([{"id": 3}], at=30 * SECOND)
    table.append([{"id": 4}], at=40 * SECOND, branch="audit")
    return table


@pytest.fixture
def names(writer):
    return dict(zip("abcd", writer.snapshots, strict=True))


def opened(writer):
    return detect.open_table(str(writer.root))


def at(seconds):
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def test_snapshots(writer, names):
    table = opened(writer)
    assert table.snapshot().version == names["c"]
    assert table.snapshot(names["a"]).version == names["a"]
    assert table.snapshot(names["d"]).version == names["d"]
    with pytest.raises(InvalidOperationError, match="snapshot 17 does not exist or has expired, expected"):
        table.snapshot(17)
    with pytest.raises(InvalidOperationError, match="both version 17 and timestamp"):
        table.snapshot(17, at(1))


def test_branches_and_tags(writer, names):
    table = opened(writer)
    versions = {ref: formats.snapshot_of(table, ref=ref).version for ref in ("main", "audit", "start")}
    assert versions == {"main": names["c"], "audit": names["d"], "start": names["a"]}
    assert table.on_ref("audit").snapshot().base.ref == "audit"
    with pytest.raises(InvalidOperationError, match="'x' does not exist, expected one of audit, main, start"):
        table.on_ref("x")
    with pytest.raises(InvalidOperationError, match="both ref 'audit' and version 5 are given"):
        formats.snapshot_of(table, version=5, ref="audit")
    with pytest.raises(InvalidOperationError, match="both ref 'audit' and timestamp"):
        formats.snapshot_of(table, timestamp=at(1), ref="audit")


def test_a_branch_moves_and_a_tag_does_not(writer, names):
    audit, start = opened(writer).on_ref("audit"), opened(writer).on_ref("start")
    writer.append([{"id": 5}], branch="audit")
    assert audit.snapshot().version == list(writer.snapshots)[-1]
    assert start.snapshot().version == names["a"]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(10, "a"), (19.999, "a"), (20, "b"), (29, "b"), (30, "c"), (1e9, "c")]
)
def test_times(writer, names, seconds, expected):
    assert opened(writer).snapshot(timestamp=at(seconds)).version == names[expected]


def test_times_out_of_range(writer):
    table = opened(writer)
    with pytest.raises(
        InvalidOperationError, match="before the first snapshot, expected 1970-01-01T00:00:10"
    ):
        table.snapshot(timestamp=at(9.999))
    with pytest.raises(InvalidOperationError, match="in the future, after the last"):
        table.snapshot(timestamp=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
    with pytest.raises(InvalidOperationError, match="expected ISO 8601"):
        table.snapshot(timestamp="yesterday")


def test_times_on_a_branch_go_by_its_ancestors(writer, names):
    audit = opened(writer).on_ref("audit")
    assert audit.snapshot(timestamp=at(35)).version == names["a"]
    assert audit.snapshot(timestamp=at(41)).version == names["d"]


def test_times_go_by_the_log_not_by_parents(writer, names):
    """After a rollback b is the current one again. At 30 s it was c, which is no ancestor of b."""
    writer.last_updated = 50 * SECOND
    writer.roll_back(names["b"])
    table = opened(writer)
    assert table.snapshot().version == names["b"]
    assert table.snapshot(timestamp=at(31)).version == names["c"]
    assert table.snapshot(timestamp=at(52)).version == names["b"]


def test_times_of_writers_whose_clocks_differ(writer, names):
    """b was written after a third snapshot by a clock that is behind. Now b is the newest one."""

    def skewed(metadata):
        first, second, third = metadata["snapshot-log"]
        return {**metadata, "snapshot-log": [first, {**third, "timestamp-ms": 30 * SECOND}, second]}

    writer.roll_back(names["b"])
    writer.snapshot_log.pop()
    writer.edit_metadata = skewed
    writer.write_metadata()
    table = opened(writer)
    assert table.snapshot(timestamp=at(25)).version == names["b"]
    assert table.snapshot(timestamp=at(35)).version == table.snapshot().version == names["b"]


def test_times_without_a_log(writer, names):
    writer.edit_metadata = lambda metadata: {**metadata, "snapshot-log": []}
    writer.write_metadata()
    assert opened(writer).snapshot(timestamp=at(25)).version == names["b"]


def test_times_of_a_snapshot_that_has_expired(writer, names):
    def expired(metadata):
        kept = [each for each in metadata["snapshots"] if each["snapshot-id"] != names["b"]]
        return {**metadata, "snapshots": kept}

    writer.edit_metadata = expired
    writer.write_metadata()
    with pytest.raises(InvalidOperationError, match=f"snapshot {names['b']} was the current one .* expired"):
        opened(writer).snapshot(timestamp=at(25))


def test_schemas(writer, names):
    """The newest and a branch show the table's columns of now; a snapshot and a tag those of then."""
    writer.add_column(pa.field("note", pa.string()))
    table = opened(writer)

    def columns(snapshot):
        return [field.name for field in snapshot.schema]

    assert columns(table.snapshot()) == ["id", "note"]
    assert columns(table.on_ref("audit").snapshot()) == ["id", "note"]
    assert columns(table.on_ref("start").snapshot()) == ["id"]
    assert columns(table.snapshot(names["c"])) == ["id"]
    assert columns(table.snapshot(timestamp=at(30))) == ["id"]
    newest = table.snapshot()
    assert newest.base == Base(names["c"], None, 1)
    assert columns(table.snapshot_at(newest.base)) == ["id", "note"]
    assert columns(table.snapshot_at(table.snapshot(names["c"]).base)) == ["id"]


def test_a_schema_that_is_missing(writer):
    def with_another(metadata):
        return {**metadata, "snapshots": [{**each, "schema-id": 9} for each in metadata["snapshots"]]}

    writer.edit_metadata = with_another
    writer.write_metadata()
    with pytest.raises(FormatError, match=r"schema of snapshot .* is 9"):
        opened(writer).snapshot(next(iter(writer.snapshots)))


def test_a_table_without_snapshots(tmp_path):
    table = detect.open_table(str(IcebergWriter(tmp_path / "t", COLUMNS).root))
    snapshot = table.snapshot()
    assert snapshot.version == -1
    assert [field.name for field in snapshot.schema] == ["id"]
    assert len(snapshot.plan().files) == 0
    assert table.snapshot_at(snapshot.base).version == -1
    assert len(table.history()) == 0
    with pytest.raises(InvalidOperationError, match="'main' does not exist, the table has no snapshot yet"):
        table.on_ref("main")
    with pytest.raises(InvalidOperationError, match="the table has no snapshot yet"):
        table.snapshot(timestamp=at(1))


def test_history(writer, names):
    rows = opened(writer).history().to_pylist()
    assert [row["version"] for row in rows] == [names[name] for name in "dcba"]
    assert [row["read_version"] for row in rows] == [names["a"], names["b"], names["a"], None]
    assert [row["operation"] for row in rows] == ["append"] * 4
    assert rows[1]["timestamp"] == at(30)
    assert dict(rows[1]["metrics"])["added-records"] == "1"
    assert dict(rows[0]["parameters"]) == {"refs": "audit", "is_current_ancestor": "false"}
    assert dict(rows[1]["parameters"]) == {"refs": "main"}
    assert dict(rows[2]["parameters"]) == {}
    assert dict(rows[3]["parameters"]) == {"refs": "start"}
    assert [row["version"] for row in opened(writer).history(2).to_pylist()] == [names["d"], names["c"]]
    audit = opened(writer).on_ref("audit").history().to_pylist()
    assert dict(audit[0]["parameters"]) == {"refs": "audit"}


def test_times_of_commits(writer, names):
    table = opened(writer)
    assert table.committed_at(names["b"]) == at(20)
    assert table.committed_at(17) is None
    assert table.created_at() is None  # the log of metadata files is empty, and the newest is not the first
    first = [{"timestamp-ms": 5 * SECOND, "metadata-file": f"{writer.root}/metadata/v1.metadata.json"}]
    writer.edit_metadata = lambda metadata: {**metadata, "metadata-log": first}
    writer.write_metadata()
    assert table.created_at() == at(5)


def test_details(writer):
    details = opened(writer).on_ref("audit").snapshot().details()
    assert details["format version"] == 2
    assert details["ref"] == "audit"
    assert [text.split(":")[0] for text in details["branches and tags"]] == [
        "audit (branch)",
        "main (branch)",
        "start (tag)",
    ]
    assert "recorded location" not in details


def test_details_say_how_rows_are_deleted(writer, tmp_path):
    """Tables of others have no property, and then Iceberg's default."""
    default = [f"{verb} copy-on-write (default)" for verb in ("DELETE", "UPDATE", "MERGE")]
    assert opened(writer).snapshot().details()["deletes"] == default
    writer.set_properties({"write.update.mode": "merge-on-read", "write.merge.mode": "copy-on-write"})
    assert opened(writer).snapshot().details()["deletes"] == [
        "DELETE copy-on-write (default)",
        "UPDATE merge-on-read",
        "MERGE copy-on-write",
    ]
    old = IcebergWriter(tmp_path / "old", pa.schema([("id", pa.int64())]), format_version=1)
    assert "deletes" not in opened(old).snapshot().details()


def test_delta_tables_have_no_refs(tmp_path):
    table = detect.write_sample_table(str(tmp_path / "d"))
    with pytest.raises(InvalidOperationError, match="delta tables have no branches and tags"):
        formats.snapshot_of(table, ref="main")
    assert table.snapshot().format_version is None
