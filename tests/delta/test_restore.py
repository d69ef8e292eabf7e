"""RESTORE on Delta tables: what the log says afterwards. Without Spark."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deleted_rows import deleted_rows
from delta_log import LogWriter, column, metadata, protocol
from delta_writer import (
    NUMBERS,
    append,
    bodies,
    committed,
    delete_ids,
    memory_location,
    numbers,
    read_by_delta_rs,
    read_by_duckdb,
)
from delvec.delta import restore as delta_restore
from delvec.delta.action_writer import add_body, metadata_body, protocol_body
from delvec.delta.file_actions import live_adds
from delvec.delta.row_ids import high_water_mark
from delvec.delta.table import DeltaTable
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.restore import restore
from delvec.row_delta import (
    MetadataChange,
    Operation,
    Read,
    Request,
    RowDelta,
    Txn,
    Verb,
    VersionTaken,
)
from delvec.schema import Field, Primitive, Struct

VECTORS = "delta.enableDeletionVectors"
ROW_TRACKING = "delta.enableRowTracking"
TIMES = "delta.enableInCommitTimestamps"
TIMES_SINCE = "delta.inCommitTimestampEnablementVersion"
MAPPING = "delta.columnMapping.mode"
HIGHEST_COLUMN = "delta.columnMapping.maxColumnId"


@pytest.fixture
def table() -> DeltaTable:
    """Two files in version 1; rows 1, 2 deleted in version 2, row 3 and the second file in version 3."""
    made = DeltaTable.create(memory_location(), NUMBERS)
    append(made, numbers(0, 10), numbers(10, 15))
    delete_ids(made, [1, 2])
    delete_ids(made, [3, *range(10, 15)])
    return made


def ids(table: DeltaTable) -> list[int]:
    snapshot = table.snapshot()
    deleted = deleted_rows(table.storage, snapshot.plan())
    found: list[int] = []
    for file in snapshot.plan().files.to_pylist():
        with table.storage.open_input(file["location"]) as source:
            held = pq.read_table(source).column("id").to_pylist()
        found += [number for row, number in enumerate(held) if row not in deleted[file["file_id"]]]
    return sorted(found)


def live(table: DeltaTable, version: int | None = None) -> set[tuple[str, str | None]]:
    adds = table.snapshot(version).adds
    return set(zip(adds.column("path").to_pylist(), adds.column("dv_path").to_pylist(), strict=True))


def alter(table: DeltaTable, change: MetadataChange) -> None:
    snapshot = table.snapshot()
    change = snapshot.rules(Verb.ALTER, change).change or change
    request = Request(Operation.SET_PROPERTIES, properties=change.properties)
    committed(
        table.commit(
            snapshot, RowDelta(snapshot.base, request, Read(blind=True), Verb.ALTER, metadata=change)
        )
    )


def set_properties(table: DeltaTable, **properties: str) -> None:
    alter(table, MetadataChange(properties=properties))


def properties_of(table: DeltaTable) -> dict[str, str]:
    return dict(table.snapshot().properties)


@pytest.mark.parametrize(("version", "left"), [(0, []), (1, [*range(15)]), (2, [0, *range(3, 15)])])
def test_files_go_back_by_path_and_vector(table: DeltaTable, version: int, left: list[int]) -> None:
    result = restore(table, version=version)
    assert (result.version, result.restored_version) == (4, version)
    assert ids(table) == left
    assert live(table) == live(table, version)
    adds, removes = bodies(table.storage, 4, "add"), bodies(table.storage, 4, "remove")
    for each in (adds, removes):
        assert len({body["path"] for body in each}) == len(each)
        assert all(body["dataChange"] for body in each)
    assert len(removes) == 1, "the first file, which has another vector; the second one is not live"
    assert removes[0]["deletionVector"] == bodies(table.storage, 3, "add")[0]["deletionVector"]


def test_a_file_comes_back_as_it_was(table: DeltaTable) -> None:
    restore(table, version=2)
    old = {body["path"]: body for body in bodies(table.storage, 1, "add")}
    old |= {body["path"]: body for body in bodies(table.storage, 2, "add")}
    new = {body["path"]: body for body in bodies(table.storage, 4, "add")}
    assert new == old


def test_history_has_the_metrics_and_parameters_of_delta(table: DeltaTable) -> None:
    result = restore(table, version=2)
    (info,) = bodies(table.storage, 4, "commitInfo")
    sizes = {body["path"]: body["size"] for body in bodies(table.storage, 1, "add")}
    first, total = bodies(table.storage, 2, "add")[0]["size"], sum(sizes.values())
    expected = {
        "tableSizeAfterRestore": total,
        "numOfFilesAfterRestore": 2,
        "numRemovedFiles": 1,
        "numRestoredFiles": 2,
        "removedFilesSize": first,
        "restoredFilesSize": total,
    }
    assert info["operation"] == "RESTORE"
    assert info["operationParameters"] == {"version": 2, "timestamp": None}
    assert {name: int(value) for name, value in info["operationMetrics"].items()} == expected
    assert result.metrics == expected
    assert info["isBlindAppend"] is False
    (commit,) = table.history(1).to_pylist()
    assert dict(commit["parameters"]) == {"version": "2", "timestamp": None}


def test_a_time_chooses_the_version(table: DeltaTable) -> None:
    times = {row["version"]: row["timestamp"] for row in table.history().to_pylist()}
    newest = max(version for version, time in times.items() if time <= times[2])
    result = restore(table, timestamp=times[2])
    assert result.restored_version == newest
    (info,) = bodies(table.storage, table.snapshot().version, "commitInfo") if result.version == 4 else [None]
    if info is not None:
        assert info["operationParameters"]["version"] is None
        recorded = dt.datetime.fromisoformat(info["operationParameters"]["timestamp"] + "+00:00")
        assert recorded == times[2]


@pytest.mark.parametrize("version", [3, 1])
def test_nothing_to_restore_commits_nothing(table: DeltaTable, version: int) -> None:
    if version != 3:
        restore(table, version=version)
    before = table.snapshot().version
    result = restore(table, version=version)
    assert result.version == table.snapshot().version == before
    assert result.metrics["numRestoredFiles"] == result.metrics["numRemovedFiles"] == 0
    assert result.metrics["numOfFilesAfterRestore"] == len(live(table))


def test_a_dry_run_commits_nothing(table: DeltaTable) -> None:
    result = restore(table, version=1, dry_run=True)
    assert (result.version, result.restored_version, result.dry_run) == (3, 1, True)
    assert result.counts.restored_files == 2
    assert table.snapshot().version == 3
    assert restore(table, version=1).metrics == result.metrics


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({}, "expected one of them"),
        ({"version": 1, "timestamp": dt.datetime(2024, 1, 1, tzinfo=dt.UTC)}, "expected one of them"),
        ({"version": 4}, "version 4 does not exist, expected 0 to 3"),
        ({"version": -1}, "version -1 does not exist"),
        ({"timestamp": dt.datetime(2999, 1, 1, tzinfo=dt.UTC)}, "2999"),
        ({"timestamp": dt.datetime(1999, 1, 1, tzinfo=dt.UTC)}, "1999"),
    ],
)
def test_a_version_that_cannot_be_chosen_is_refused(
    table: DeltaTable, choice: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidOperationError, match=message):
        restore(table, **choice)
    assert table.snapshot().version == 3


def test_a_version_whose_log_was_cleaned_up_is_refused(table: DeltaTable) -> None:
    for number in range(4, 12):
        append(table, numbers(number * 100, number * 100 + 1))
    names = [f"_delta_log/{version:020d}.json" for version in range(8)]
    table.storage.delete(names)
    with pytest.raises(InvalidOperationError, match="version 2 can no longer be read, expected 10 to 11"):
        restore(DeltaTable(table.storage), version=2)


def test_missing_files_are_named_and_nothing_is_committed(table: DeltaTable) -> None:
    paths = [body["path"] for body in bodies(table.storage, 1, "add")]
    table.storage.delete(paths[:1])
    with pytest.raises(
        InvalidOperationError, match=f"1 of the 2 files .* no longer exist .{paths[0]}."
    ) as info:
        restore(table, version=1)
    assert "version 1 cannot be restored" in str(info.value)
    table.storage.delete(paths)
    with pytest.raises(InvalidOperationError, match="2 of the 2 files"):
        restore(table, version=1)
    assert table.snapshot().version == 3


def test_missing_vector_files_are_named_too(table: DeltaTable) -> None:
    vectors = [entry.path for entry in table.storage.list() if entry.path.endswith(".bin")]
    needed = delta_restore.state_at(table.snapshot(), table.snapshot(2), Request(Operation.RESTORE)).needed
    (old,) = (name for name in vectors if f"{table.location}/{name}" in needed.to_pylist())
    table.storage.delete([old])
    with pytest.raises(InvalidOperationError, match=f"no longer exist .{old}"):
        restore(table, version=2)
    restore(table, version=1)
    assert ids(table) == [*range(15)]


def test_many_missing_files_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    table = DeltaTable.create(memory_location(), NUMBERS)
    append(table, *(numbers(number, number + 1) for number in range(6)))
    delete_ids(table, range(6))
    paths = [body["path"] for body in bodies(table.storage, 1, "add")]
    monkeypatch.setattr("delvec.missing_files._LIST_FROM", 3)
    table.storage.delete(paths[1:])
    with pytest.raises(InvalidOperationError, match=f"5 of the 6 files .*{paths[3]} and 2 more"):
        restore(table, version=1)
    assert table.snapshot().version == 2


def test_the_protocol_stays_across_the_version_that_enabled_vectors() -> None:
    table = DeltaTable.create(memory_location(), NUMBERS, properties={VECTORS: "false"})
    append(table, numbers(0, 5))
    set_properties(table, **{VECTORS: "true"})
    delete_ids(table, [1])
    restore(table, version=1)
    assert ids(table) == [*range(5)]
    assert table.snapshot().protocol == table.snapshot(3).protocol != table.snapshot(1).protocol
    assert properties_of(table) == {VECTORS: "false"}
    restore(table, version=3)
    assert ids(table) == [0, 2, 3, 4]
    assert properties_of(table) == {VECTORS: "true"}


def test_a_feature_that_was_dropped_since_comes_back() -> None:
    table = DeltaTable.create(memory_location(), NUMBERS)
    append(table, numbers(0, 5))
    delete_ids(table, [1])
    restore(table, version=0)
    lowered = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly"]}}
    table.storage.put("_delta_log/00000000000000000004.json", json.dumps(lowered).encode())
    assert table.snapshot().protocol.min_reader_version == 1
    restore(table, version=2)
    assert ids(table) == [0, 2, 3, 4]
    assert table.snapshot().protocol.min_reader_version == 3
    assert "deletionVectors" in table.snapshot().protocol.reader_features


def test_columns_and_properties_go_back() -> None:
    table = DeltaTable.create(memory_location(), NUMBERS, properties={"owner": "me", "comment": "first"})
    append(table, numbers(0, 5))
    wider = Struct((*NUMBERS.fields, Field("note", Primitive("string"))))
    alter(table, MetadataChange(schema=wider, properties={"owner": "you", "other": "x", "comment": "second"}))
    append(table, numbers(5, 7))
    restore(table, version=1)
    snapshot = table.snapshot()
    assert snapshot.schema == table.snapshot(1).schema
    assert snapshot.metadata == table.snapshot(1).metadata
    assert ids(table) == [*range(5)]
    restore(table, version=2)
    assert table.snapshot().metadata == table.snapshot(2).metadata


def test_an_append_only_table_keeps_its_rows() -> None:
    """Delta-Spark removes them; the protocol forbids it."""
    table = DeltaTable.create(memory_location(), NUMBERS, properties={"delta.appendOnly": "true"})
    append(table, numbers(0, 5))
    with pytest.raises(InvalidOperationError, match="append-only"):
        restore(table, version=0)
    assert ids(table) == [*range(5)]


def test_columns_lose_their_ids_with_the_mapping() -> None:
    table = DeltaTable.create(memory_location(), NUMBERS)
    append(table, numbers(0, 5))
    set_properties(table, **{MAPPING: "name"})
    restore(table, version=1)
    assert HIGHEST_COLUMN not in properties_of(table)
    assert table.snapshot().mapping == "none"


def test_transactions_are_kept(table: DeltaTable) -> None:
    append(table, numbers(20, 21), txn=Txn("app", 7))
    restore(table, version=1)
    assert table.snapshot().txns == {"app": 7}


def test_ids_of_columns_are_never_used_again() -> None:
    table = DeltaTable.create(memory_location(), NUMBERS, properties={MAPPING: "name"})
    wider = Struct((*table.snapshot().schema.fields, Field("note", Primitive("string"))))
    alter(table, MetadataChange(schema=wider))
    restore(table, version=0)
    assert properties_of(table)[HIGHEST_COLUMN] == "3"
    assert len(table.snapshot().schema.fields) == 2
    alter(
        table, MetadataChange(schema=Struct((*table.snapshot().schema.fields, Field("n", Primitive("long")))))
    )
    assert table.snapshot().schema.fields[-1].metadata["delta.columnMapping.id"] == 4


def test_row_ids_stay_unique_and_the_high_water_mark_never_falls() -> None:
    table = DeltaTable.create(memory_location(), NUMBERS, properties={ROW_TRACKING: "true"})
    append(table, numbers(0, 5))
    append(table, numbers(5, 9))
    restore(table, version=1)
    snapshot = table.snapshot()
    assert high_water_mark(snapshot.domains) == 8
    assert snapshot.adds.column("base_row_id").to_pylist() == [0]
    append(table, numbers(9, 12))
    assert sorted(table.snapshot().adds.column("base_row_id").to_pylist()) == [0, 9]
    restore(table, version=2)
    assert sorted(table.snapshot().adds.column("base_row_id").to_pylist()) == [0, 5]
    assert sorted(table.snapshot().adds.column("default_row_commit_version").to_pylist()) == [1, 2]
    assert high_water_mark(table.snapshot().domains) == 11


def test_files_from_before_row_ids_get_new_ones() -> None:
    table = DeltaTable.create(memory_location(), NUMBERS)
    append(table, numbers(0, 5), numbers(5, 8))
    committed(
        table.commit(
            table.snapshot(),
            RowDelta(
                table.snapshot().base, Request(Operation.DELETE), Read(), Verb.REPLACE, removed=_all(table)
            ),
        )
    )
    set_properties(table, **{"delta.feature.rowTracking": "supported"})
    append(table, numbers(8, 10))
    restore(table, version=1)
    adds = table.snapshot().adds
    assert sorted(adds.column("base_row_id").to_pylist()) in ([2, 5], [2, 7])
    assert adds.column("default_row_commit_version").to_pylist() == [5, 5]
    assert high_water_mark(table.snapshot().domains) == 9


def drop_row_tracking(table: DeltaTable) -> None:
    """As Delta-Spark does: files without ids, no domain, no feature."""
    snapshot = table.snapshot()
    features = sorted(snapshot.protocol.features_to_write - {"rowTracking", "domainMetadata"})
    lowered = protocol_body(snapshot.protocol) | {"writerFeatures": features}
    about = metadata_body(snapshot.metadata)
    kept = {name: text for name, text in about["configuration"].items() if "rowTracking" not in name}
    kept.pop(ROW_TRACKING)
    removed = {"domain": "delta.rowTracking", "configuration": "{}", "removed": True}
    actions = [{"protocol": lowered}, {"metaData": about | {"configuration": kept}}]
    actions.append({"domainMetadata": removed})
    for row in live_adds(snapshot, _all(table)):
        add = add_body(row | {"base_row_id": None, "default_row_commit_version": None})
        actions.append({"add": add | {"dataChange": False}})
    text = "\n".join(map(json.dumps, actions))
    table.storage.put(f"_delta_log/{snapshot.version + 1:020d}.json", text.encode())


def row_ids_of(table: DeltaTable) -> list[int | None]:
    found: list[int | None] = table.snapshot().adds.column("base_row_id").to_pylist()
    return sorted(found, key=lambda number: (number is None, number))


def test_row_ids_of_a_deleted_file_are_not_given_again_after_the_feature_was_dropped() -> None:
    table = DeltaTable.create(memory_location(), NUMBERS, properties={ROW_TRACKING: "true"})
    append(table, numbers(0, 5))
    delete_ids(table, range(5))
    drop_row_tracking(table)
    restore(table, version=1)
    assert properties_of(table)[ROW_TRACKING] == "true"
    assert (row_ids_of(table), high_water_mark(table.snapshot().domains)) == ([0], 4)
    append(table, numbers(5, 7))
    assert (row_ids_of(table), high_water_mark(table.snapshot().domains)) == ([0, 5], 6)


def test_live_files_get_back_the_row_ids_that_were_dropped() -> None:
    table = DeltaTable.create(memory_location(), NUMBERS, properties={ROW_TRACKING: "true"})
    append(table, numbers(0, 5))
    append(table, numbers(5, 9))
    drop_row_tracking(table)
    assert row_ids_of(table) == [None, None]
    restore(table, version=2)
    assert (row_ids_of(table), high_water_mark(table.snapshot().domains)) == ([0, 5], 8)
    assert sorted(table.snapshot().adds.column("default_row_commit_version").to_pylist()) == [1, 2]
    assert [body["dataChange"] for body in bodies(table.storage, 4, "add")] == [False, False]
    assert ids(table) == [*range(9)]
    restore(table, version=1)
    assert (row_ids_of(table), high_water_mark(table.snapshot().domains)) == ([0], 8)
    assert not restore(table, version=1).metrics["numRestoredFiles"]
    assert table.snapshot().version == 5


def test_row_ids_stay_unique_where_the_feature_was_dropped_and_added_again() -> None:
    table = DeltaTable.create(memory_location(), NUMBERS, properties={ROW_TRACKING: "true"})
    append(table, numbers(0, 5))
    append(table, numbers(5, 9))
    drop_row_tracking(table)
    delete_ids(table, range(5))
    set_properties(table, **{"delta.feature.rowTracking": "supported"})
    append(table, numbers(20, 32))
    assert row_ids_of(table) == [0, None]
    # The live file has ids again, and these are those that the deleted file had.
    (row,) = (row for row in live_adds(table.snapshot(), _all(table)) if row["base_row_id"] is None)
    again = add_body(row | {"base_row_id": 0, "default_row_commit_version": 6}) | {"dataChange": False}
    domain = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":15}', "removed": False}
    lines = [{"domainMetadata": domain}, {"add": again}]
    table.storage.put("_delta_log/00000000000000000007.json", "\n".join(map(json.dumps, lines)).encode())
    restore(table, version=2)
    assert (row_ids_of(table), high_water_mark(table.snapshot().domains)) == ([0, 5], 15)


def test_a_file_of_now_gets_new_ids_where_its_ids_are_those_of_other_rows() -> None:
    """In version 3, one file has ids and the other one has none: the feature was just added."""
    table = DeltaTable.create(memory_location(), NUMBERS)
    append(table, numbers(0, 5))
    set_properties(table, **{"delta.feature.rowTracking": "supported"})
    append(table, numbers(5, 9))
    (old,) = (row for row in live_adds(table.snapshot(), _all(table)) if row["base_row_id"] is None)
    again = add_body(old | {"base_row_id": 2, "default_row_commit_version": 4}) | {"dataChange": False}
    table.storage.put("_delta_log/00000000000000000004.json", json.dumps({"add": again}).encode())
    restore(table, version=3)
    assert (row_ids_of(table), high_water_mark(table.snapshot().domains)) == ([0, 4], 8)
    assert ids(table) == [*range(9)]


def test_row_ids_without_a_mark_are_counted_or_refused() -> None:
    for counted in (True, False):
        log = LogWriter(memory_location())
        features = protocol()
        features["protocol"]["writerFeatures"] += ["domainMetadata", "rowTracking"]
        log.commit(features, metadata())
        add = {"path": "a.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1}
        add |= {"dataChange": True, "baseRowId": 7, "defaultRowCommitVersion": 1}
        log.commit({"add": add | ({"stats": '{"numRecords":3}'} if counted else {})})
        table = DeltaTable(log.storage)
        table.storage.put("a.parquet", b"")
        set_properties(table, owner="me")
        if counted:
            restore(table, version=1)
            assert high_water_mark(table.snapshot().domains) == 9
        else:
            with pytest.raises(InvalidOperationError, match=r"file a\.parquet with row ids and without"):
                restore(table, version=1)


def _all(table: DeltaTable) -> Any:
    return table.snapshot().plan().files.column("file_id").combine_chunks()


def test_the_start_of_commit_times_stays_true() -> None:
    table = DeltaTable.create(memory_location(), NUMBERS, properties={TIMES: "true"})
    set_properties(table, **{TIMES: "false"})
    set_properties(table, **{TIMES: "true"})
    set_properties(table, owner="me")
    assert properties_of(table)[TIMES_SINCE] == "2"
    restore(table, version=0)
    assert properties_of(table)[TIMES_SINCE] == "2", "commit 1 states no time"
    restore(table, version=1)
    assert TIMES_SINCE not in properties_of(table)
    assert "inCommitTimestamp" not in bodies(table.storage, 5, "commitInfo")[0]
    restore(table, version=3)
    assert properties_of(table)[TIMES_SINCE] == "6"
    assert table.committed_at(6) is not None


def test_identity_columns_keep_their_highest_value() -> None:
    def table_with(mark: int, step: int) -> dict[str, Any]:
        about = {"delta.identity.start": 1, "delta.identity.step": step, "delta.identity.highWaterMark": mark}
        return metadata(column("id", "long", metadata=about))

    for step, marks in ((1, (3, 9, 9)), (-1, (-3, -9, -9))):
        log = LogWriter(memory_location())
        first, second, kept = marks
        log.commit(protocol(1, 6, ()), table_with(first, step))
        log.commit(table_with(second, step))
        table = DeltaTable(log.storage)
        restore(table, version=0)
        (field,) = json.loads(table.snapshot().metadata.schema_string)["fields"]
        assert field["metadata"]["delta.identity.highWaterMark"] == kept


def test_clustering_goes_back_and_other_domains_stay() -> None:
    def domain(name: str, text: str) -> dict[str, Any]:
        return {"domainMetadata": {"domain": name, "configuration": text, "removed": False}}

    log = LogWriter(memory_location())
    features = protocol()
    features["protocol"]["writerFeatures"] += ["domainMetadata", "clustering"]
    log.commit(features, metadata())
    log.commit(domain("delta.clustering", '{"clusteringColumns":[["id"]]}'), domain("mine", "1"))
    log.commit(domain("delta.clustering", '{"clusteringColumns":[]}'), domain("mine", "2"))
    table = DeltaTable(log.storage)
    restore(table, version=1)
    domains = {name: one.configuration for name, one in table.snapshot().domains.items()}
    assert domains == {"delta.clustering": '{"clusteringColumns":[["id"]]}', "mine": "2"}
    restore(table, version=0)
    assert json.loads(table.snapshot().domains["delta.clustering"].configuration)["clusteringColumns"] == []


def test_a_statement_that_lost_against_a_restore_runs_again(table: DeltaTable) -> None:
    """Its vectors may be smaller or larger than before: every concurrent writer must see that."""
    loser = table.snapshot()
    restore(table, version=2)
    newest = table.snapshot()
    (won,) = table.won(loser, newest)
    assert won.changed is not None


def test_commits_that_are_first_are_undone_too(table: DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if they were committed before: the state is that of the version, whatever came between."""
    others = iter(
        [
            lambda: append(table, numbers(50, 55)),
            lambda: set_properties(table, owner="you"),
            lambda: delete_ids(table, [0]),
        ]
    )
    commit = DeltaTable.commit
    results = []

    def interrupted(self: DeltaTable, snapshot: Any, delta: RowDelta) -> Any:
        if delta.request.operation is Operation.RESTORE:
            other = next(others, None)
            if other is not None:
                other()
        outcome = commit(self, snapshot, delta)
        results.append(outcome)
        return outcome

    monkeypatch.setattr(DeltaTable, "commit", interrupted)
    result = restore(table, version=2)
    assert sum(isinstance(outcome, VersionTaken) for outcome in results) == 3
    assert result.version == table.snapshot().version == 7
    assert live(table) == live(table, 2)
    assert "owner" not in properties_of(table)
    assert table.snapshot().protocol == table.snapshot(3).protocol


def test_other_readers_see_the_restored_rows(tmp_path: Path) -> None:
    table = DeltaTable.create(str(tmp_path / "a table"), NUMBERS)
    append(table, numbers(0, 10))
    delete_ids(table, [1, 2])
    delete_ids(table, [3])
    for version, left in ((2, [0, *range(3, 10)]), (1, [*range(10)]), (3, [0, *range(4, 10)])):
        restore(table, version=version)
        for read in (read_by_delta_rs, read_by_duckdb):
            assert sorted(row["id"] for row in read(tmp_path / "a table")) == left


def test_a_checkpoint_after_a_restore_has_its_state(table: DeltaTable) -> None:
    for version in (1, 2, 1, 2, 1, 2, 3, 2):
        restore(table, version=version)
    assert table.snapshot().version == 11
    assert live(DeltaTable(table.storage)) == live(table, 2)


def test_a_format_without_restore_refuses(table: DeltaTable) -> None:
    class Other:
        format = "other"
        location = "/x"

    with pytest.raises(UnsupportedFeatureError, match="RESTORE is not implemented for other tables: /x"):
        restore(Other(), version=1)  # type: ignore[arg-type]
