"""Snapshots: which tables are read, and the plans made from them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_log import LogWriter, add, column, metadata, protocol, vector
from delvec.delta.actions import parse_protocol
from delvec.delta.features import READABLE, verify_readable
from delvec.delta.snapshot import Snapshot
from delvec.delta.table import DeltaTable
from delvec.errors import (
    CorruptVectorError,
    FormatError,
    InvalidOperationError,
    UnsupportedFeatureError,
)
from delvec.plan import DELETES_SCHEMA, FILES_SCHEMA
from delvec.predicate import SqlSettings
from delvec.storage import open_storage
from plans import plan_where

_NUMBERS = itertools.count()


def new_log() -> LogWriter:
    return LogWriter(open_storage(f"memory://snapshot-{next(_NUMBERS)}/a table"))


def snapshot_of(*actions: dict[str, Any]) -> Snapshot:
    log = new_log()
    log.commit(*actions)
    return DeltaTable(log.storage).snapshot()


def stats(low: int, high: int, *, records: int = 10, nulls: int = 0, **more: Any) -> str:
    return json.dumps(
        {
            "numRecords": records,
            "minValues": {"id": low},
            "maxValues": {"id": high},
            "nullCount": {"id": nulls},
            **more,
        }
    )


@pytest.mark.parametrize("feature", sorted(READABLE))
def test_known_reader_features(feature: str) -> None:
    found = parse_protocol(protocol(features=(feature,))["protocol"])
    verify_readable(found, "t")


@pytest.mark.parametrize("feature", ["someday", "geospatial", "adaptiveMetadata-preview", "DeletionVectors"])
def test_an_unknown_reader_feature_is_refused_by_name(feature: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=rf"reader feature {feature}.*memory://") as caught:
        snapshot_of(protocol(features=("deletionVectors", feature)), metadata())
    assert caught.value.feature == feature


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
def test_a_catalogs_table_is_never_read_by_path(feature: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=rf"managed by a catalog \(feature {feature}\)"):
        snapshot_of(protocol(features=(feature,)), metadata())


def test_a_writer_feature_asks_nothing_of_readers() -> None:
    body = protocol()
    body["protocol"]["writerFeatures"] += ["rowTracking", "clustering", "tomorrow"]
    assert snapshot_of(body, metadata()).version == 0


@pytest.mark.parametrize("version", [0, 4])
def test_a_reader_version_out_of_range_is_refused(version: int) -> None:
    with pytest.raises(UnsupportedFeatureError, match=f"reader version {version}, expected 1 to 3"):
        snapshot_of(protocol(reader=version), metadata())


@pytest.mark.parametrize("missing", ["protocol", "metaData"])
def test_a_log_without_protocol_or_metadata_is_refused(missing: str) -> None:
    actions = [action for action in (protocol(), metadata()) if missing not in action]
    with pytest.raises(FormatError, match=f"version 0 has no {missing} action"):
        snapshot_of(*actions, add("1.parquet"))


def test_a_vector_without_the_feature_is_refused() -> None:
    """Some readers ignore such a vector: its rows are neither deleted nor live."""
    with pytest.raises(CorruptVectorError, match=r"protocol lacks deletionVectors: 1\.parquet"):
        snapshot_of(
            protocol(reader=1, writer=2), metadata(), add("1.parquet", deletion_vector=vector("a" * 20))
        )


def test_data_files_other_than_parquet_are_refused() -> None:
    body = metadata()
    body["metaData"]["format"]["provider"] = "orc"
    with pytest.raises(UnsupportedFeatureError, match="data files are orc, expected parquet"):
        snapshot_of(protocol(), body)


def test_an_unknown_partition_column_is_refused() -> None:
    found = snapshot_of(protocol(), metadata(column("id", "long"), partition_by=["p"]))
    with pytest.raises(FormatError, match="partition column 'p' is not in the schema, expected one of id"):
        _ = found.partition_columns


def test_an_unknown_mapping_mode_is_refused() -> None:
    found = snapshot_of(
        protocol(features=("columnMapping",)), metadata(properties={"delta.columnMapping.mode": "both"})
    )
    with pytest.raises(FormatError, match="'both', expected none, name or id"):
        _ = found.schema


def test_reader_version_two_implies_column_mapping() -> None:
    ids = {"delta.columnMapping.id": 7, "delta.columnMapping.physicalName": "phys"}
    found = snapshot_of(
        protocol(reader=2, writer=5),
        metadata(column("id", "long", metadata=ids), properties={"delta.columnMapping.mode": "id"}),
    )
    assert found.by_id
    assert found.schema.fields[0].physical_name == "phys"


def test_an_empty_table_plans_no_files() -> None:
    plan = plan_where(snapshot_of(protocol(), metadata()), "id = 1")
    assert len(plan.files) == len(plan.deletes) == plan.skipped == 0


def test_the_columns_of_a_plan() -> None:
    partitioned = metadata(column("id", "long"), column("p q", "date"), partition_by=["p q"])
    where = "p%20q=2024-01-01/a%2520b.parquet"
    found = snapshot_of(
        protocol(),
        partitioned,
        add(
            where,
            partition={"p q": "2024-01-01"},
            stats=stats(1, 5),
            deletion_vector=vector("a" * 20, cardinality=3),
        ),
        add("x.parquet", partition={"p q": None}, size=7),
    )
    plan = found.plan()
    assert plan.files.schema.names == [*FILES_SCHEMA.names, "partition"]
    assert plan.deletes.schema == DELETES_SCHEMA
    rows = {row["raw_location"]: row for row in plan.files.to_pylist()}
    first, second = rows[where], rows["x.parquet"]
    assert first["location"] == f"{found.location}/p q=2024-01-01/a%20b.parquet"
    assert (first["record_count"], second["record_count"]) == (10, None)
    assert str(first["partition"]["p q"]) == "2024-01-01"
    assert second["partition"] == {"p q": None}
    assert (first["vector"], second["vector"]) == (0, None)
    assert plan.deletes.to_pylist()[0]["cardinality"] == 3
    assert plan.carry.column("path")[first["carry"]].as_py() == where
    assert plan.read_schemas[0].constants == ("p q",)
    assert [f.source for f in plan.specs[first["spec_id"]].fields] == [("p q",)]


def test_a_condition_prunes_by_partition_and_by_statistics() -> None:
    found = snapshot_of(
        protocol(),
        metadata(column("id", "long"), column("p", "string"), partition_by=["p"]),
        add("a.parquet", partition={"p": "x"}, stats=stats(0, 9)),
        add("b.parquet", partition={"p": "x"}, stats=stats(10, 19)),
        add("c.parquet", partition={"p": "y"}, stats=stats(0, 9)),
        add("d.parquet", partition={"p": None}, stats=stats(0, 9)),
        add("e.parquet", partition={"p": "x"}),
    )

    def planned(where: str) -> dict[str, str]:
        plan = plan_where(found, where)
        assert len(plan.files) + plan.skipped == 5
        assert plan.facts.count == len(plan.files) == len(plan.facts.record_count)
        names = [name.rpartition("/")[2] for name in plan.files.column("location").to_pylist()]
        return dict(zip(names, plan.files.column("match").to_pylist(), strict=True))

    assert planned("p = 'x' AND id < 5") == {"a.parquet": "some", "e.parquet": "some"}
    assert planned("p = 'x' AND id < 10") == {"a.parquet": "all", "e.parquet": "some"}
    assert planned("p IS NULL") == {"d.parquet": "all"}
    assert planned("p <> 'x'") == {"c.parquet": "all"}
    assert planned("id > 100") == {"e.parquet": "some"}
    assert planned("P = 'y' OR `id` = 19") == {"b.parquet": "some", "c.parquet": "all", "e.parquet": "some"}


def test_wide_bounds_of_a_file_with_a_vector() -> None:
    wide = {"tightBounds": False}
    gone = vector("a" * 20, cardinality=5)
    found = snapshot_of(
        protocol(),
        metadata(column("id", "long")),
        add("some-null.parquet", stats=stats(0, 9, nulls=5, **wide), deletion_vector=gone),
        add("all-null.parquet", stats=stats(0, 9, nulls=10, **wide), deletion_vector=gone),
        add("no-null.parquet", stats=stats(0, 9, nulls=0, **wide), deletion_vector=gone),
    )
    nulls = plan_where(found, "id IS NULL")
    by_name = dict(
        zip(
            nulls.files.column("raw_location").to_pylist(),
            nulls.files.column("match").to_pylist(),
            strict=True,
        )
    )
    # Five of ten rows are null and five are deleted: which ones, nobody knows.
    assert by_name == {"some-null.parquet": "some", "all-null.parquet": "all"}
    assert set(plan_where(found, "id >= 0").files.column("raw_location").to_pylist()) == {
        "some-null.parquet",
        "no-null.parquet",
    }


def test_an_unknown_column_in_a_condition_is_refused() -> None:
    with pytest.raises(InvalidOperationError, match="nope"):
        plan_where(snapshot_of(protocol(), metadata()), "nope = 1")


def test_case_sensitivity_is_passed_in() -> None:
    found = snapshot_of(protocol(), metadata(column("Id", "long")))
    assert plan_where(found, "iD = 1").skipped == 0
    with pytest.raises(InvalidOperationError):
        plan_where(found, "iD = 1", SqlSettings(case_sensitive=True))


@pytest.mark.parametrize("path", ["../x.parquet", "a/../../x.parquet", "%2e%2e/x.parquet"])
def test_a_path_that_leaves_the_table_is_refused(path: str) -> None:
    with pytest.raises(FormatError, match=r"\.\.|%2e"):
        snapshot_of(protocol(), metadata(), add(path)).plan()


def test_an_absolute_path_is_taken_as_it_is() -> None:
    plan = snapshot_of(
        protocol(), metadata(), add("s3a://other/a%20b.parquet"), add("file:/x/y.parquet")
    ).plan()
    assert sorted(plan.files.column("location").to_pylist()) == ["/x/y.parquet", "s3://other/a b.parquet"]


def test_a_checkpoint_with_parsed_statistics_only() -> None:
    log = new_log()
    log.create(column("id", "long"))
    log.commit(add("1.parquet", stats=stats(5, 6)))
    table = pq.read_table(pa.BufferReader(_checkpoint(log)))
    log.put("00000000000000000001.checkpoint.parquet", _without_texts(table))
    log.delete("00000000000000000001.json", "00000000000000000000.json")
    found = DeltaTable(log.storage).snapshot()
    assert found.plan().files.column("record_count").to_pylist() == [10]
    assert plan_where(found, "id = 7").skipped == 1
    assert plan_where(found, "id = 5").skipped == 0
    log.commit(add("2.parquet", stats=stats(7, 8)))
    later = DeltaTable(log.storage).snapshot()
    assert plan_where(later, "id = 7").files.column("raw_location").to_pylist() == ["2.parquet"]


def _checkpoint(log: LogWriter) -> bytes:
    log.classic(1)
    return log.storage.read("_delta_log/00000000000000000001.checkpoint.parquet")


def _without_texts(table: pa.Table) -> bytes:
    """The checkpoint with ``stats_parsed`` in the place of ``stats``."""
    parsed = {"numRecords": 10, "minValues": {"id": 5}, "maxValues": {"id": 6}, "nullCount": {"id": 0}}
    kind = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", pa.struct([("id", pa.int64())])),
            ("maxValues", pa.struct([("id", pa.int64())])),
            ("nullCount", pa.struct([("id", pa.int64())])),
        ]
    )
    adds = table.column("add").to_pylist()
    fields = [f for f in table.schema.field("add").type if f.name != "stats"] + [
        pa.field("stats_parsed", kind)
    ]
    rows = [None if row is None else {**row, "stats_parsed": parsed} for row in adds]
    place = table.schema.get_field_index("add")
    table = table.set_column(place, "add", pa.array(rows, pa.struct(fields)))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()
