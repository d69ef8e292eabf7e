"""Commits of appends and deletes: what the log says afterwards, and who can read it."""

from __future__ import annotations

import datetime as dt
import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from delta_writer import (
    LONG,
    NUMBERS,
    STRING,
    Blind,
    actions,
    added,
    append,
    append_delta,
    bodies,
    committed,
    delete,
    delete_delta,
    delete_ids,
    memory_location,
    numbers,
    put_file,
    read_by_delta_rs,
    read_by_duckdb,
)
from delvec import blob, conflicts
from delvec.bitmap import Bitmap
from delvec.delta import vector_writer
from delvec.delta.action_reader import parse_actions, verify_commit
from delvec.delta.table import DeltaTable
from delvec.errors import CorruptVectorError, FormatError, InvalidOperationError, UnsupportedFeatureError
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.plan import Base
from delvec.row_delta import (
    ADDED_DELETES_SCHEMA,
    REMOVED_DELETES_SCHEMA,
    VECTORS_SCHEMA,
    DeleteForm,
    Operation,
    Read,
    Request,
    RowCounts,
    RowDelta,
    Txn,
    Verb,
    VersionTaken,
)
from delvec.schema import Field, Primitive, Struct
from delvec.transforms import IDENTITY
from plans import plan_where
from rows import multiset, read_rows


def new_table(**more: Any) -> DeltaTable:
    return DeltaTable.create(memory_location(), NUMBERS, **more)


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


def test_readers_agree_after_appends_and_deletes(tmp_path: Path) -> None:
    table = DeltaTable.create(str(tmp_path / "t"), NUMBERS)
    committed(append(table, numbers(0, 10), numbers(10, 20)))
    committed(delete_ids(table, [0, 9, 13]))
    committed(delete_ids(table, [4]))
    committed(delete_ids(table, range(10, 20)))
    snapshot = table.snapshot()
    expected = multiset(numbers(0, 10).filter(pa.array([i not in (0, 4, 9) for i in range(10)])).to_pylist())
    assert multiset(read_rows(snapshot.plan(), table.storage)) == expected
    assert len(snapshot.adds) == 1
    assert multiset(read_by_delta_rs(tmp_path / "t")) == expected
    assert multiset(read_by_duckdb(tmp_path / "t")) == expected
    for version in range(5):
        verify_commit(parse_actions(table.storage.read(f"_delta_log/{version:020d}.json")), version)


def test_the_first_version() -> None:
    table = new_table(partition_by=["name"], properties={"owner": "us", "delta.checkpointInterval": "3"})
    kinds = [name for name, _ in actions(table.storage, 0)]
    assert kinds == ["commitInfo", "protocol", "metaData"]
    (info,) = bodies(table.storage, 0, "commitInfo")
    assert info["operation"] == "CREATE TABLE"
    assert "readVersion" not in info
    assert json.loads(info["operationParameters"]["partitionBy"]) == ["name"]
    (protocol,) = bodies(table.storage, 0, "protocol")
    assert protocol == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["appendOnly", "deletionVectors", "invariants"],
    }
    snapshot = table.snapshot()
    assert snapshot.properties == {
        "delta.enableDeletionVectors": "true",
        "owner": "us",
        "delta.checkpointInterval": "3",
    }
    assert snapshot.partition_columns == ("name",)
    assert snapshot.schema == NUMBERS


def test_rows_in_the_first_version() -> None:
    table = DeltaTable.open(memory_location())
    draft = table.draft(NUMBERS)
    assert draft.rules(Verb.DELETE).deletes is DeleteForm.VECTOR
    files = added([put_file(table.storage, numbers(0, 3))])
    delta = RowDelta(Base(draft.version), Request(Operation.CREATE_WITH_ROWS), Read(blind=True), added=files)
    assert committed(table.commit(draft, delta)).version == 0
    assert table.snapshot().plan().files.column("record_count").to_pylist() == [3]
    assert isinstance(table.commit(draft, delta), VersionTaken)


def test_a_table_that_is_there_is_refused() -> None:
    table = new_table()
    with pytest.raises(InvalidOperationError, match="a table already exists"):
        DeltaTable.create(table.location, NUMBERS)


def test_vectors_can_be_left_off() -> None:
    table = new_table(properties={"delta.enableDeletionVectors": "false"})
    assert table.snapshot().rules(Verb.DELETE).deletes is DeleteForm.REWRITE
    (protocol,) = bodies(table.storage, 0, "protocol")
    assert protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
    committed(append(table, numbers(0, 3)))
    with pytest.raises(UnsupportedFeatureError, match="does not allow new vectors"):
        delete(table, {0: [1]})


def test_an_added_file() -> None:
    table = new_table()
    outcome = committed(append(table, numbers(5, 9), counts=RowCounts(inserted=4)))
    assert outcome.version == 1
    assert outcome.metrics["numFiles"] == 1
    (add,) = bodies(table.storage, 1, "add")
    assert add["dataChange"] is True
    assert add["partitionValues"] == {}
    assert json.loads(add["stats"])["numRecords"] == 4
    assert json.loads(add["stats"])["minValues"]["id"] == 5
    (info,) = bodies(table.storage, 1, "commitInfo")
    assert info["isBlindAppend"] is True
    assert info["readVersion"] == 0
    assert info["operationMetrics"]["numOutputRows"] == "4"
    assert info["engineInfo"].startswith("delvec/")
    assert info["isolationLevel"] == "Serializable"
    assert actions(table.storage, 1)[0][0] == "commitInfo"


def test_a_vector_replaced_by_a_larger_one() -> None:
    """The remove names the old vector, or the file would be live twice."""
    table = new_table()
    committed(append(table, numbers(0, 10)))
    assert committed(delete(table, {0: [1]})).metrics["numDeletionVectorsUpdated"] == 0
    outcome = committed(delete(table, {0: [2]}))
    assert (outcome.metrics["numDeletionVectorsAdded"], outcome.metrics["numDeletionVectorsRemoved"]) == (
        1,
        1,
    )
    assert outcome.metrics["numDeletionVectorsUpdated"] == 1
    first, second = (bodies(table.storage, version, "add")[0] for version in (2, 3))
    (remove,) = bodies(table.storage, 3, "remove")
    assert remove["deletionVector"] == first["deletionVector"]
    assert remove["extendedFileMetadata"] is True
    assert (remove["size"], remove["partitionValues"]) == (second["size"], {})
    assert second["deletionVector"]["cardinality"] == 2
    (original,) = bodies(table.storage, 1, "add")
    same = ("path", "partitionValues", "size", "modificationTime")
    assert [second[key] for key in same] == [original[key] for key in same]
    assert json.loads(second["stats"])["tightBounds"] is False
    assert json.loads(second["stats"])["numRecords"] == 10
    assert len(table.snapshot().adds) == 1
    (info,) = bodies(table.storage, 3, "commitInfo")
    assert json.loads(info["operationParameters"]["predicate"]) == ["id >= 0"]
    assert info["isBlindAppend"] is False


def test_a_file_left_without_rows_is_removed() -> None:
    table = new_table()
    committed(append(table, numbers(0, 4)))
    committed(delete(table, {0: [0, 1]}))
    before = {entry.path for entry in table.storage.list() if entry.path.endswith(".bin")}
    outcome = committed(delete(table, {0: [2, 3]}))
    assert outcome.metrics["numRemovedFiles"] == 1
    assert bodies(table.storage, 3, "add") == []
    (remove,) = bodies(table.storage, 3, "remove")
    assert remove["deletionVector"]["cardinality"] == 2
    assert {entry.path for entry in table.storage.list() if entry.path.endswith(".bin")} == before


def test_whole_files_are_removed_with_their_vector() -> None:
    table = new_table()
    committed(append(table, numbers(0, 4), numbers(4, 8)))
    committed(delete(table, {0: [0]}))
    snapshot = table.snapshot()
    everything = RowDelta(
        Base(snapshot.version), Request(Operation.DELETE), Read(), removed=pa.array([0, 1], pa.int64())
    )
    committed(table.commit(snapshot, everything))
    removes = bodies(table.storage, 3, "remove")
    assert sorted("deletionVector" in remove for remove in removes) == [False, True]
    assert len(table.snapshot().adds) == 0


def test_many_vectors_share_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_writer, "TARGET_SIZE", 100)
    table = new_table()
    committed(append(table, *(numbers(i, i + 5) for i in range(7))))
    committed(delete(table, {i: [i % 5] for i in range(7)}))
    found = [add["deletionVector"] for add in bodies(table.storage, 2, "add")]
    names = {vector["pathOrInlineDv"] for vector in found}
    assert {vector["storageType"] for vector in found} == {"u"}
    assert len(names) == sum(entry.path.endswith(".bin") for entry in table.storage.list()) == 4
    assert table.snapshot().plan().deletes.column("cardinality").to_pylist() == [1] * 7


def test_vectors_with_random_prefixes(tmp_path: Path) -> None:
    table = DeltaTable.create(
        str(tmp_path),
        NUMBERS,
        properties={"delta.randomizeFilePrefixes": "true", "delta.randomPrefixLength": "4"},
    )
    committed(append(table, numbers(0, 10)))
    committed(delete(table, {0: [1, 2]}))
    (file,) = tmp_path.rglob("*.bin")
    assert len(file.parent.name) == 4
    assert len(read_rows(table.snapshot().plan(), table.storage)) == 8
    assert len(read_by_delta_rs(tmp_path)) == 8


@pytest.mark.parametrize("inside", [True, False])
def test_vectors_that_an_executor_stored(tmp_path: Path, *, inside: bool) -> None:
    table = DeltaTable.create(str(tmp_path / "t"), NUMBERS)
    committed(append(table, numbers(0, 10)))
    framed = blob.encode(Bitmap.of(2, 3))
    name = "deletion_vector_6f7264e5-7200-5000-8000-64656c766563.bin"
    where = str(tmp_path / "t" / name if inside else tmp_path / "else where.bin")
    table.storage.put(where, b"\x01" + framed)
    snapshot = table.snapshot()
    row = {
        "file_id": 0,
        "location": where,
        "offset": 1,
        "length": len(framed),
        "cardinality": 2,
        "deleted": 2,
    }
    vectors = pa.Table.from_pylist([row], schema=VECTORS_SCHEMA)
    committed(
        table.commit(snapshot, RowDelta(Base(1), Request(Operation.DELETE), Read("id > 1"), vectors=vectors))
    )
    (add,) = bodies(table.storage, 2, "add")
    assert add["deletionVector"]["storageType"] == ("u" if inside else "p")
    assert ids(read_rows(table.snapshot().plan(), table.storage)) == [0, 1, 4, 5, 6, 7, 8, 9]
    assert len(read_by_duckdb(tmp_path / "t")) == 8


def test_a_file_without_statistics_gets_its_number_of_rows(tmp_path: Path) -> None:
    table = DeltaTable.create(str(tmp_path), NUMBERS)
    committed(append(table, numbers(0, 6)))
    path = tmp_path / "_delta_log" / f"{1:020d}.json"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    path.write_text("\n".join(json.dumps(line) for line in lines))
    committed(delete(DeltaTable.open(str(tmp_path)), {0: [5]}))
    (add,) = bodies(table.storage, 2, "add")
    assert json.loads(add["stats"]) == {"numRecords": 6, "tightBounds": False}


def test_a_column_without_values_keeps_saying_so(tmp_path: Path) -> None:
    """Tight statistics count the nulls of live rows, wide ones those of all rows."""
    table = DeltaTable.create(str(tmp_path), NUMBERS)
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "name": pa.nulls(10, pa.string())})
    committed(append(table, rows))
    committed(delete(table, {0: [0, 1]}))
    path = tmp_path / "_delta_log" / f"{2:020d}.json"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    tight = {"numRecords": 10, "nullCount": {"id": 0, "name": 8}, "tightBounds": True}
    for line in lines:
        line.get("add", {})["stats"] = json.dumps(tight)
    path.write_text("\n".join(json.dumps(line) for line in lines))
    committed(delete(DeltaTable.open(str(tmp_path)), {0: [5]}))
    (add,) = bodies(table.storage, 3, "add")
    assert json.loads(add["stats"])["nullCount"] == {"id": 0, "name": 10}


def test_clustering_columns_have_statistics_whatever_the_properties_say() -> None:
    table = new_table(
        properties={"delta.dataSkippingNumIndexedCols": "1", "delta.feature.clustering": "supported"}
    )
    clustered = {"domain": "delta.clustering", "removed": False}
    clustered["configuration"] = json.dumps({"clusteringColumns": [["name"]]})
    line = json.dumps({"domainMetadata": clustered}).encode()
    table.storage.put(f"_delta_log/{1:020d}.json", line)
    committed(append(table, numbers(0, 3)))
    (add,) = bodies(table.storage, 2, "add")
    assert json.loads(add["stats"])["minValues"] == {"id": 0, "name": "n0"}


def test_an_invalid_statistics_property_is_refused_only_for_new_files() -> None:
    table = new_table(properties={"delta.dataSkippingNumIndexedCols": "1"})
    committed(append(table, numbers(0, 10)))
    first = f"_delta_log/{0:020d}.json"
    valid, invalid = (f'"delta.dataSkippingNumIndexedCols":"{value}"'.encode() for value in ("1", "x"))
    table.storage.put(first, table.storage.read(first).replace(valid, invalid))
    table = DeltaTable.open(table.location)
    assert table.snapshot().rules(Verb.APPEND).measured == ()
    committed(delete(table, {0: [3]}))
    with pytest.raises(FormatError, match="dataSkippingNumIndexedCols is 'x', expected a number"):
        append(table, numbers(10, 20))


@pytest.mark.parametrize(
    ("positions", "message"),
    [([10], "deletes row 10, expected rows below 10"), (range(11), "deletes 11 rows, expected 1 to 10")],
)
def test_rows_that_the_file_does_not_have(positions: Any, message: str) -> None:
    table = new_table()
    committed(append(table, numbers(0, 10)))
    with pytest.raises(CorruptVectorError, match=message):
        delete(table, {0: positions})
    assert table.snapshot().version == 1


def test_a_vector_smaller_than_the_old_one_is_refused() -> None:
    table = new_table()
    committed(append(table, numbers(0, 10)))
    committed(delete(table, {0: [1, 2]}))
    row = {"file_id": 0, "rows": blob.encode(Bitmap.of(1)), "cardinality": 1, "deleted": 1}
    vectors = pa.Table.from_pylist([row], schema=VECTORS_SCHEMA)
    with pytest.raises(CorruptVectorError, match="deletes 1 rows, expected the 2 of the old vector"):
        table.commit(table.snapshot(), RowDelta(Base(2), Request(Operation.DELETE), Read(), vectors=vectors))


def test_a_vector_whose_cardinality_lies_is_refused() -> None:
    table = new_table()
    committed(append(table, numbers(0, 10)))
    row = {"file_id": 0, "rows": blob.encode(Bitmap.of(1)), "cardinality": 2, "deleted": 2}
    vectors = pa.Table.from_pylist([row], schema=VECTORS_SCHEMA)
    with pytest.raises(CorruptVectorError):
        table.commit(table.snapshot(), RowDelta(Base(1), Request(Operation.DELETE), Read(), vectors=vectors))


def test_a_file_both_removed_and_changed_is_refused() -> None:
    table = new_table()
    committed(append(table, numbers(0, 10)))
    with pytest.raises(InvalidOperationError, match="expected each file once"):
        delete(table, {0: [1]}, removed=pa.array([0], pa.int64()))


def test_file_ids_beyond_the_snapshot_are_refused() -> None:
    table = new_table()
    delta = RowDelta(Base(0), Request(Operation.DELETE), Read(), removed=pa.array([3], pa.int64()))
    with pytest.raises(InvalidOperationError, match="file ids go from 3 to 3, expected 0 to -1"):
        table.commit(table.snapshot(), delta)


def test_a_delta_of_another_version_is_refused() -> None:
    table = new_table()
    with pytest.raises(InvalidOperationError, match="made from version 7, expected 0"):
        table.commit(table.snapshot(), RowDelta(Base(7), Request(Operation.APPEND), Read(blind=True)))


def test_a_file_outside_the_table_is_refused(tmp_path: Path) -> None:
    table = DeltaTable.create(str(tmp_path / "t"), NUMBERS)
    file = put_file(DeltaTable.open(str(tmp_path / "other")).storage, numbers(0, 1))
    delta = RowDelta(Base(0), Request(Operation.APPEND), Read(blind=True), added=added([file]))
    with pytest.raises(InvalidOperationError, match="is not in the table"):
        table.commit(table.snapshot(), delta)


def test_a_file_added_twice_is_refused() -> None:
    table = new_table()
    file = put_file(table.storage, numbers(0, 1))
    delta = RowDelta(Base(0), Request(Operation.APPEND), Read(blind=True), added=added([file, file]))
    with pytest.raises(InvalidOperationError, match="added twice"):
        table.commit(table.snapshot(), delta)


def test_append_only_tables_keep_their_rows() -> None:
    table = new_table(properties={"delta.appendOnly": "true"})
    committed(append(table, numbers(0, 4)))
    assert table.snapshot().rules(Verb.APPEND).append_only
    with pytest.raises(InvalidOperationError, match="append-only"):
        delete(table, {0: [1]})
    removal = RowDelta(Base(1), Request(Operation.DELETE), Read(), removed=pa.array([0], pa.int64()))
    with pytest.raises(InvalidOperationError, match="append-only"):
        table.commit(table.snapshot(), removal)


def test_idempotent_writers() -> None:
    table = new_table()
    committed(append(table, numbers(0, 1), txn=Txn("stream", 7)))
    assert table.snapshot().txns == {"stream": 7}
    with pytest.raises(InvalidOperationError, match="version 7 of application 'stream' is committed already"):
        append(table, numbers(0, 1), txn=Txn("stream", 7))
    committed(append(table, numbers(0, 1), txn=Txn("stream", 8)))


PARTITIONED = Struct(
    (
        Field("id", LONG),
        Field("name", STRING),
        Field("a day", Primitive("date")),
        Field("at", Primitive("timestamp")),
        Field("local", Primitive("timestamp_ntz")),
        Field("n", Primitive("integer")),
        Field("f", Primitive("boolean")),
    )
)


def test_partition_values(tmp_path: Path) -> None:
    columns = ("a day", "at", "local", "n", "f", "name")
    table = DeltaTable.create(
        str(tmp_path), PARTITIONED, partition_by=columns, properties={"delta.columnMapping.mode": "name"}
    )
    schema = table.snapshot().rules(Verb.APPEND).schema
    physical = {field.name: field.physical_name for field in schema}
    noon = dt.datetime(2025, 1, 31, 12)
    values = (
        noon.date(),
        noon.replace(tzinfo=dt.UTC),
        noon.replace(microsecond=500_000),
        -3,
        True,
        "a/b=ü %",
    )
    rows = pa.table({physical["id"]: pa.array([1, 2], pa.int64())})
    files = [
        put_file(table.storage, rows, partition=dict(zip(columns, values, strict=True)), folder="x=1 %2F"),
        put_file(table.storage, rows, partition={"name": ""}),
    ]
    new = added(files, table.snapshot().spec)
    committed(
        table.commit(
            table.snapshot(), RowDelta(Base(0), Request(Operation.APPEND), Read(blind=True), added=new)
        )
    )
    adds = bodies(table.storage, 1, "add")
    assert adds[0]["path"].startswith("x=1%20%252F/part-")
    assert adds[0]["partitionValues"] == {
        physical["a day"]: "2025-01-31",
        physical["at"]: "2025-01-31T12:00:00.000000Z",
        physical["local"]: "2025-01-31 12:00:00.5",
        physical["n"]: "-3",
        physical["f"]: "true",
        physical["name"]: "a/b=ü %",
    }
    assert set(adds[1]["partitionValues"].values()) == {None}
    expected = multiset(read_rows(table.snapshot().plan(), table.storage))
    assert len(plan_where(table.snapshot(), "name = 'a/b=ü %' AND n = -3").files) == 1
    assert len(plan_where(table.snapshot(), "name IS NULL").files) == 1
    assert multiset(read_by_delta_rs(tmp_path)) == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n": "string"}, "struct<n: string>, expected struct<n: int32>"),
        ({}, r"struct<>, expected"),
        ({"n": "integer", "m": "integer"}, "struct<n: int32, m: int32>, expected"),
    ],
)
def test_partition_values_of_another_partitioning(fields: dict[str, str], message: str) -> None:
    schema = Struct((Field("id", LONG), Field("n", Primitive("integer"))))
    table = DeltaTable.create(memory_location(), schema, partition_by=["n"])
    file = put_file(table.storage, numbers(0, 1).select(["id"]))
    spec = PartitionSpec(
        0, tuple(PartitionField(name, (name,), IDENTITY, Primitive(kind)) for name, kind in fields.items())
    )
    delta = RowDelta(Base(0), Request(Operation.APPEND), Read(blind=True), added=added([file], spec))
    with pytest.raises(InvalidOperationError, match=message):
        table.commit(table.snapshot(), delta)


def test_change_files() -> None:
    table = new_table(properties={"delta.enableChangeDataFeed": "true"})
    assert table.snapshot().rules(Verb.APPEND).change_files
    committed(append(table, numbers(0, 4)))
    snapshot = table.snapshot()
    change = put_file(table.storage, numbers(0, 1), folder="_change_data")
    delta = delete_delta(
        snapshot, {0: [0]}, operation=Operation.UPDATE, change_files=added([change]), moved=True
    )
    committed(table.commit(snapshot, delta))
    (cdc,) = bodies(table.storage, 2, "cdc")
    assert cdc["dataChange"] is False
    assert cdc["path"].startswith("_change_data/")
    assert len(table.snapshot().adds) == 1


def test_checkpoints_come_at_intervals() -> None:
    table = new_table(properties={"delta.checkpointInterval": "3"})
    for version in range(1, 8):
        assert committed(append(table, numbers(version, version + 1))).version == version
    found = [e.path for e in table.storage.list("_delta_log/") if ".checkpoint" in e.path]
    assert [path.rpartition("/")[2][:20] for path in found] == [f"{3:020d}", f"{6:020d}"]
    fresh = DeltaTable.open(table.location).snapshot()
    assert (fresh.version, len(fresh.adds)) == (7, 7)
    assert fresh.state.checkpoint is not None


def test_a_checkpoint_that_fails_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr("delvec.delta.table.write_checkpoint", refuse)
    table = new_table(properties={"delta.checkpointInterval": "1"})
    assert committed(append(table, numbers(0, 1))).version == 1
    assert "checkpoint of version 1 was not written" in caplog.text


def test_blind_appends_all_commit(tmp_path: Path) -> None:
    table = DeltaTable.create(str(tmp_path), NUMBERS)
    snapshot = table.snapshot()
    deltas = [append_delta(snapshot, numbers(i * 10, i * 10 + 10)) for i in range(12)]
    outcomes: list[Any] = []

    def run(delta: RowDelta) -> None:
        outcomes.append(conflicts.commit(DeltaTable.open(str(tmp_path)), snapshot, delta, Blind()))

    threads = [threading.Thread(target=run, args=(delta,)) for delta in deltas]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome.version for outcome in outcomes) == list(range(1, 13))
    assert ids(read_rows(table.snapshot().plan(), table.storage)) == list(range(120))


@pytest.mark.parametrize(
    ("name", "schema"),
    [("added_deletes", ADDED_DELETES_SCHEMA), ("removed_deletes", REMOVED_DELETES_SCHEMA)],
)
def test_delete_files_are_refused(name: str, schema: pa.Schema) -> None:
    table = new_table()
    delete = {"kind": "position-file", "encoding": "full-row", "location": "/d.parquet", "length": 1}
    deletes = pa.Table.from_pylist([{key: delete.get(key) for key in schema.names}], schema=schema)
    snapshot = table.snapshot()
    delta = RowDelta(snapshot.base, Request(Operation.DELETE), Read("x"), **{name: deletes})
    with pytest.raises(UnsupportedFeatureError, match=rf"{name} has /d\.parquet, expected none") as refused:
        table.commit(snapshot, delta)
    assert refused.value.feature == "delete files"
    assert table.snapshot().version == snapshot.version
