"""Properties, features and columns: what a table may become, and what is refused by name."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pytest

from delta_log import LogWriter, add, column, metadata, protocol
from delta_writer import (
    LONG,
    NUMBERS,
    STRING,
    Blind,
    added,
    append,
    bodies,
    committed,
    delete,
    memory_location,
    numbers,
    put_file,
    read_by_delta_rs,
    read_by_duckdb,
)
from delvec import conflicts
from delvec.conflicts import Conflict, Rerun, Settled
from delvec.delta import snapshot as snapshot_module
from delvec.delta.features import Protocol
from delvec.delta.protocol_upgrade import INITIAL, upgraded
from delvec.delta.table import DeltaTable
from delvec.errors import DelvecError, FormatError, InvalidOperationError, UnsupportedFeatureError
from delvec.partition_spec import PartitionField
from delvec.plan import Base
from delvec.row_delta import (
    Constraint,
    DeleteForm,
    MetadataChange,
    Operation,
    Outcome,
    Read,
    Request,
    RowDelta,
    Verb,
)
from delvec.schema import Array, DataType, Decimal, Field, Fixed, Map, Primitive, Schema, Struct, varchar
from delvec.storage import open_storage
from delvec.transforms import parse_transform
from rows import multiset, read_rows

INT, SHORT, DOUBLE = Primitive("integer"), Primitive("short"), Primitive("double")


def new_table(schema: Schema = NUMBERS, **more: Any) -> DeltaTable:
    return DeltaTable.create(memory_location(), schema, **more)


def set_properties(table: DeltaTable, properties: dict[str, str | None]) -> Outcome:
    snapshot = table.snapshot()
    change = MetadataChange(properties=properties)
    delta = RowDelta(
        Base(snapshot.version), Request(Operation.SET_PROPERTIES), Read(blind=True), metadata=change
    )
    return table.commit(snapshot, delta)


def set_schema(table: DeltaTable, schema: Schema) -> Outcome:
    snapshot = table.snapshot()
    change = MetadataChange(schema=schema)
    delta = RowDelta(
        Base(snapshot.version), Request(Operation.ADD_COLUMNS), Read(blind=True), metadata=change
    )
    return table.commit(snapshot, delta)


def old_table(
    *fields: Any,
    properties: dict[str, str] | None = None,
    reader: int = 3,
    writer: int = 7,
    features: Any = (),
) -> DeltaTable:
    log = LogWriter(open_storage(memory_location()))
    log.commit(protocol(reader, writer, features), metadata(*fields, properties=properties), add("a.parquet"))
    return DeltaTable(log.storage)


# Properties and the features they switch on


@pytest.mark.parametrize(
    ("name", "value", "feature", "reads"),
    [
        ("delta.enableChangeDataFeed", "true", "changeDataFeed", False),
        ("delta.appendOnly", "true", "appendOnly", False),
        ("delta.enableInCommitTimestamps", "true", "inCommitTimestamp", False),
        ("delta.checkpointPolicy", "v2", "v2Checkpoint", True),
        ("delta.enableTypeWidening", "true", "typeWidening", True),
        ("delta.enableRowTracking", "true", "rowTracking", False),
        ("delta.columnMapping.mode", "name", "columnMapping", True),
        ("delta.enableMaterializePartitionColumnsFeature", "true", "materializePartitionColumns", False),
        ("delta.feature.clustering", "supported", "clustering", False),
    ],
)
def test_a_property_brings_its_feature(name: str, value: str, feature: str, *, reads: bool) -> None:
    table = new_table()
    assert committed(set_properties(table, {name.upper() if "feature." not in name else name: value}))
    found = DeltaTable.open(table.location).snapshot()
    assert feature in found.protocol.writer_features
    assert (feature in found.protocol.reader_features) == reads
    assert (name in found.properties) == ("feature." not in name)
    if feature == "rowTracking":
        assert "domainMetadata" in found.protocol.writer_features


def test_old_versions_are_listed_as_features() -> None:
    assert upgraded(Protocol(1, 4), ["deletionVectors"]) == Protocol(
        3,
        7,
        frozenset({"deletionVectors"}),
        frozenset(
            {
                "appendOnly",
                "invariants",
                "checkConstraints",
                "changeDataFeed",
                "generatedColumns",
                "deletionVectors",
            }
        ),
    )
    mapped = upgraded(Protocol(2, 5), ["deletionVectors"])
    assert mapped.reader_features == {"columnMapping", "deletionVectors"}
    assert "columnMapping" in mapped.writer_features
    assert "columnMapping" not in upgraded(Protocol(1, 5), ["deletionVectors"]).writer_features
    assert upgraded(Protocol(2, 6), ["rowTracking"]).min_reader_version == 2
    assert upgraded(INITIAL, ["appendOnly"]) is INITIAL


def test_types_bring_their_features() -> None:
    table = new_table(
        Struct((Field("a", Array(Primitive("timestamp_ntz"))), Field("v", Primitive("variant"))))
    )
    assert {"timestampNtz", "variantType"} <= table.snapshot().protocol.reader_features


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("delta.enableIcebergCompatV2", "true", "property delta.enableIcebergCompatV2 cannot be set"),
        ("delta.columnMapping.maxColumnId", "9", "cannot be set"),
        ("delta.rowTracking.materializedRowIdColumnName", "x", "cannot be set"),
        ("delta.appendOnly", "maybe", "is 'maybe', expected true or false"),
        ("delta.checkpointInterval", "0", "is '0', expected a number above 0"),
        ("delta.isolationLevel", "WriteSerializable", "expected Serializable"),
        ("delta.logRetentionDuration", "soon", "expected an interval"),
        ("delta.columnMapping.mode", "both", "expected none, name or id"),
        ("delta.targetFileSize", "large", "expected a size"),
        *(
            ("delvec.rewriteDeletedShare", value, f"is '{value}', expected a number above 0 and below 1")
            for value in ("0", "0.0", "1", "1.0", "0.99999999999999999999", "-0.5", "8e-1", "nan", "80%", "")
        ),
        ("delta.compatibility.symlinkFormatManifest.enabled", "yes", "expected true or false"),
        ("delta.feature.icebergCompatV2", "supported", "icebergCompatV2 is not implemented"),
        ("delta.feature.clustering", "yes", "expected 'supported'"),
    ],
)
def test_properties_that_are_refused(name: str, value: str, message: str) -> None:
    table = new_table()
    with pytest.raises((UnsupportedFeatureError, InvalidOperationError), match=message):
        set_properties(table, {name: value})
    with pytest.raises((UnsupportedFeatureError, InvalidOperationError), match=message):
        new_table(properties={name: value})
    assert table.snapshot().version == 0


def test_properties_are_set_and_unset() -> None:
    table = new_table(properties={"Owner": "a", "other": "b"})
    committed(set_properties(table, {"Owner": None, "third": "c", "delta.targetFileSize": "1mb"}))
    found = table.snapshot()
    assert found.properties == {
        "delta.enableDeletionVectors": "true",
        "other": "b",
        "third": "c",
        "delta.targetFileSize": "1mb",
    }
    assert found.rules(Verb.APPEND).target_file_size == 1 << 20
    assert [name for name in ("protocol", "add") if bodies(table.storage, 1, name)] == []


@pytest.mark.parametrize(("text", "share"), [("0.8", 0.8), (".25", 0.25), (" 0.5 ", 0.5)])
def test_the_share_above_which_files_are_written_again(text: str, share: float) -> None:
    table = new_table()
    assert table.snapshot().rules(Verb.APPEND).rewrite_share is None
    committed(set_properties(table, {"DELVEC.rewritedeletedshare": text, "delvec.note": "any"}))
    assert table.snapshot().properties["delvec.rewriteDeletedShare"] == text
    assert table.snapshot().properties["delvec.note"] == "any"
    assert table.snapshot().rules(Verb.APPEND).rewrite_share == share
    committed(set_properties(table, {"delvec.rewriteDeletedShare": None}))
    assert table.snapshot().rules(Verb.APPEND).rewrite_share is None


def test_a_wrong_share_that_is_there_is_refused() -> None:
    table = old_table(properties={"delvec.rewriteDeletedShare": "2"})
    with pytest.raises(
        FormatError, match="rewriteDeletedShare is '2', expected a number above 0 and below 1"
    ):
        table.snapshot().rules(Verb.APPEND)


def test_no_file_is_written_again_where_new_files_would_be_refused() -> None:
    log = LogWriter(open_storage(memory_location()))
    body = protocol()
    body["protocol"]["writerFeatures"] = ["deletionVectors", "identityColumns"]
    on = {"delta.enableDeletionVectors": "true", "delvec.rewriteDeletedShare": "0.5"}
    log.commit(body, metadata(column("id", "long", metadata={"delta.identity.start": 1}), properties=on))
    rules = DeltaTable(log.storage).snapshot().rules(Verb.DELETE)
    assert (rules.deletes, rules.rewrite_share) == (DeleteForm.VECTOR, None)


def test_a_constraint_needs_a_table_without_rows() -> None:
    table = new_table(properties={"delta.constraints.positive": "id > 0"})
    assert table.snapshot().rules(Verb.APPEND).constraints == (Constraint("positive", "id > 0"),)
    assert "checkConstraints" in table.snapshot().protocol.writer_features
    committed(append(table, numbers(1, 2)))
    with pytest.raises(
        UnsupportedFeatureError,
        match=r"delta\.constraints\.small can only be set while the table has no rows",
    ):
        set_properties(table, {"delta.constraints.small": "id < 9"})
    committed(set_properties(table, {"delta.constraints.positive": None}))
    assert table.snapshot().rules(Verb.APPEND).constraints == ()


# In-commit timestamps


def test_times_ascend_whatever_the_clock_says(monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(properties={"delta.enableInCommitTimestamps": "true"})
    first = bodies(table.storage, 0, "commitInfo")[0]["inCommitTimestamp"]
    monkeypatch.setattr("delvec.delta.commit.time.time_ns", lambda: 5_000_000)
    committed(append(table, numbers(0, 1)))
    committed(append(table, numbers(0, 1)))
    times = [bodies(table.storage, version, "commitInfo")[0]["inCommitTimestamp"] for version in (1, 2)]
    assert times == [first + 1, first + 2]
    assert "delta.inCommitTimestampEnablementVersion" not in table.snapshot().properties


def test_times_switched_on_later() -> None:
    table = new_table()
    before = table.storage.head(f"_delta_log/{0:020d}.json").modified.timestamp() * 1000
    committed(set_properties(table, {"delta.enableInCommitTimestamps": "true"}))
    stated = bodies(table.storage, 1, "commitInfo")[0]["inCommitTimestamp"]
    found = table.snapshot().properties
    assert stated > before
    assert found["delta.inCommitTimestampEnablementVersion"] == "1"
    assert found["delta.inCommitTimestampEnablementTimestamp"] == str(stated)
    committed(append(table, numbers(0, 1)))
    assert table.committed_at(2) is not None
    committed(set_properties(table, {"delta.enableInCommitTimestamps": "false"}))
    assert "delta.inCommitTimestampEnablementVersion" not in table.snapshot().properties


# Row tracking


def test_rows_get_ids_above_those_given_out() -> None:
    table = new_table(properties={"delta.enableRowTracking": "true"})
    rules = table.snapshot().rules(Verb.APPEND)
    assert rules.row_id is not None
    assert rules.row_id.name.startswith("_row-id-col-")
    committed(append(table, numbers(0, 10), numbers(10, 15)))
    committed(delete(table, {0: [1]}))
    old = table.snapshot()
    committed(append(table, numbers(20, 23)))
    files = added([put_file(table.storage, numbers(30, 37))])
    late = RowDelta(Base(2), Request(Operation.APPEND), Read(blind=True), Verb.APPEND, added=files)
    found = conflicts.commit(table, old, late, Blind())
    assert isinstance(found, Settled)
    assert found.version == 4
    adds = [body for version in (1, 3, 4) for body in bodies(table.storage, version, "add")]
    assert [body["baseRowId"] for body in adds] == [0, 10, 15, 18]
    assert [body["defaultRowCommitVersion"] for body in adds] == [1, 1, 3, 4]
    (again,), (remove,) = bodies(table.storage, 2, "add"), bodies(table.storage, 2, "remove")
    assert (again["baseRowId"], again["defaultRowCommitVersion"]) in ((0, 1), (10, 1))
    assert (remove["baseRowId"], remove["defaultRowCommitVersion"]) == (again["baseRowId"], 1)
    assert bodies(table.storage, 2, "domainMetadata") == []
    assert json.loads(table.snapshot().domains["delta.rowTracking"].configuration) == {
        "rowIdHighWaterMark": 24
    }
    assert bodies(table.storage, 1, "commitInfo")[0]["tags"] == {"delta.rowTracking.preserved": "true"}


def test_row_tracking_on_a_table_whose_rows_have_no_ids_is_refused() -> None:
    table = new_table()
    committed(append(table, numbers(0, 1)))
    with pytest.raises(UnsupportedFeatureError, match=r"cannot be enabled: 1 files have no row ids"):
        set_properties(table, {"delta.enableRowTracking": "true"})
    with pytest.raises(InvalidOperationError, match="cannot both be true"):
        set_properties(new_table(), {"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "true"})


def test_suspended_row_tracking_gives_no_ids() -> None:
    table = new_table(
        properties={"delta.feature.rowTracking": "supported", "delta.rowTrackingSuspended": "true"}
    )
    committed(append(table, numbers(0, 1)))
    assert "baseRowId" not in bodies(table.storage, 1, "add")[0]


# Schemas


@pytest.mark.parametrize(
    ("schema", "partition_by", "message"),
    [
        (Struct(()), (), "no column"),
        (Struct((Field("a", LONG), Field("A", LONG))), (), "'A' appears twice"),
        (Struct((Field("a b", LONG),)), (), "contains one of the characters"),
        (Struct((Field("s", Struct((Field("x=y", LONG),))),)), (), r"column 's\.x=y'"),
        (Struct((Field("a", Array(Struct((Field("b", LONG), Field("B", LONG))))),)), (), r"a\.element\.B"),
        (Struct((Field("", LONG),)), (), "empty name"),
        (Struct((Field("a", Primitive("void")),)), (), "type void"),
        (NUMBERS, ("nope",), "'nope' is not in the schema, expected one of id, name"),
        (NUMBERS, ("id", "name"), r"all columns \(id, name\) are partition columns"),
        (NUMBERS, ("id", "id"), "named twice"),
        (Struct((Field("a", LONG), Field("m", Map(LONG, LONG)))), ("m",), "expected a primitive type"),
    ],
)
def test_schemas_that_are_refused(schema: Schema, partition_by: tuple[str, ...], message: str) -> None:
    location = memory_location()
    with pytest.raises(InvalidOperationError, match=message):
        DeltaTable.create(location, schema, partition_by=partition_by)
    assert open_storage(location).list() == []


@pytest.mark.parametrize(
    "data_type", [Primitive("uuid"), Primitive("time"), Primitive("timestamp_ns"), Fixed(4)]
)
def test_types_that_delta_does_not_have(data_type: DataType) -> None:
    location = memory_location()
    with pytest.raises(UnsupportedFeatureError, match=re.escape(f"Delta has no type {data_type}")):
        DeltaTable.create(location, Struct((Field("id", LONG), Field("a", Array(data_type)))))
    table = DeltaTable.create(location, NUMBERS)
    with pytest.raises(UnsupportedFeatureError, match=re.escape(f"Delta has no type {data_type}")):
        set_schema(table, Struct((*NUMBERS.fields, Field("x", data_type))))


@pytest.mark.parametrize("text", ["bucket[4]", "truncate[10]", "void"])
def test_transforms_that_delta_does_not_have(text: str) -> None:
    transform = parse_transform(text)
    field = PartitionField("p", ("id",), transform, transform.result_type(LONG))
    table = DeltaTable.open(memory_location())
    with pytest.raises(UnsupportedFeatureError, match="Delta tables cannot be partitioned by") as error:
        table.draft(NUMBERS, partition_by=[field])
    assert error.value.feature == f"partition transform {text}"


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_on_a_new_table(tmp_path: Any, mode: str) -> None:
    inner = Struct((Field("x y", LONG),))
    schema = Struct((Field("a b", LONG), Field("s", inner), Field("p", STRING)))
    table = DeltaTable.create(
        str(tmp_path), schema, partition_by=["p"], properties={"delta.columnMapping.mode": mode}
    )
    rules = table.snapshot().rules(Verb.APPEND)
    a, s, p = rules.schema
    assert rules.with_ids
    assert isinstance(s.type, Struct)
    assert [a.field_id, s.field_id, s.type.fields[0].field_id, p.field_id] == [1, 2, 3, 4]
    assert table.snapshot().properties["delta.columnMapping.maxColumnId"] == "4"

    def stored(field: Field, kind: pa.DataType) -> pa.Field:
        return pa.field(field.physical_name, kind, metadata={"PARQUET:field_id": str(field.field_id)})

    rows = pa.Table.from_arrays(
        [pa.array([1, 2], pa.int64()), pa.array([{s.type.fields[0].physical_name: 5}] * 2)],
        schema=pa.schema(
            [stored(a, pa.int64()), stored(s, pa.struct([stored(s.type.fields[0], pa.int64())]))]
        ),
    )
    files = added([put_file(table.storage, rows, partition={"p": "q"})], table.snapshot().spec)
    committed(
        table.commit(
            table.snapshot(), RowDelta(Base(0), Request(Operation.APPEND), Read(blind=True), added=files)
        )
    )
    expected = multiset([{"a b": i, "s": {"x y": 5}, "p": "q"} for i in (1, 2)])
    assert multiset(read_rows(table.snapshot().plan(), table.storage)) == expected
    assert bodies(table.storage, 1, "add")[0]["partitionValues"] == {p.physical_name: "q"}
    # DuckDB 1.5 finds no partition values under physical names.
    assert multiset(read_by_delta_rs(tmp_path)) == expected


def test_column_mapping_switched_on_keeps_the_names_in_files() -> None:
    table = new_table()
    committed(append(table, numbers(0, 3)))
    committed(set_properties(table, {"delta.columnMapping.mode": "name"}))
    found = table.snapshot()
    assert [(f.physical_name, f.field_id) for f in found.schema] == [("id", 1), ("name", 2)]
    for mode in ("id", "none", None):
        with pytest.raises(UnsupportedFeatureError, match=r"columnMapping\.mode cannot change from name to"):
            set_properties(table, {"delta.columnMapping.mode": mode})


def test_columns_are_added_nested_ones_too() -> None:
    inner = Struct((Field("x", LONG),))
    table = new_table(Struct((Field("id", LONG), Field("s", inner), Field("l", Array(inner)))))
    wider = Struct((Field("x", LONG), Field("y", STRING)))
    after = Struct((Field("id", LONG), Field("s", wider), Field("l", Array(wider)), Field("n", INT)))
    committed(set_schema(table, after))
    assert table.snapshot().schema == after


def test_added_columns_get_ids_and_names_before_they_are_committed() -> None:
    table = new_table(properties={"delta.columnMapping.mode": "name"})
    snapshot = table.snapshot()
    wanted = Struct((*NUMBERS.fields, Field("n", INT)))
    rules = snapshot.rules(Verb.APPEND, MetadataChange(schema=wanted))
    new = rules.schema.fields[-1]
    assert new.field_id == 3
    assert new.physical_name.startswith("col-")
    committed(set_schema(table, rules.schema))
    after = table.snapshot()
    assert after.schema == rules.schema
    assert after.properties["delta.columnMapping.maxColumnId"] == "3"
    assert after.schema.fields[0] == snapshot.schema.fields[0]


def test_an_id_of_a_dropped_column_is_refused() -> None:
    def marks(number: int) -> dict[str, Any]:
        return {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}

    table = old_table(
        column("id", "long", metadata=marks(1)),
        properties={"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"},
        features=("columnMapping",),
    )
    old = table.snapshot().schema
    with pytest.raises(InvalidOperationError, match=r"columnMapping\.id 5, expected one above 9"):
        set_schema(table, Struct((*old.fields, Field("n", INT, metadata=marks(5)))))
    assert (
        table.snapshot()
        .rules(Verb.APPEND, MetadataChange(schema=Struct((*old.fields, Field("n", INT)))))
        .schema.fields[1]
        .field_id
        == 10
    )


def test_rows_may_come_with_the_column_they_need() -> None:
    table = new_table()
    wider = Struct((*NUMBERS.fields, Field("n", LONG)))
    rows = numbers(0, 3).append_column("n", pa.array([7, 8, 9], pa.int64()))
    committed(append(table, rows, metadata=MetadataChange(schema=wider)))
    (body,) = bodies(table.storage, 1, "add")
    assert json.loads(body["stats"])["maxValues"]["n"] == 9
    assert table.snapshot().schema == wider


def test_marks_of_another_table_are_left_behind() -> None:
    marks = {"delta.columnMapping.id": 7, "delta.columnMapping.physicalName": "col-7", "comment": "hello"}
    field = Field("id", LONG, field_id=7, physical_name="col-7", metadata=marks)
    (found,) = new_table(Struct((field,))).snapshot().schema
    assert (found.field_id, found.physical_name, found.metadata) == (None, "id", {"comment": "hello"})


@pytest.mark.parametrize("key", ["CURRENT_DEFAULT", "delta.identity.start", "delta.generationExpression"])
def test_columns_that_no_new_table_may_have(key: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=f"column id has {key}"):
        new_table(Struct((Field("id", LONG, metadata={key: "1"}),)))


def test_an_id_of_another_column_is_refused() -> None:
    table = new_table(properties={"delta.columnMapping.mode": "name"})
    marks = {"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "x"}
    with pytest.raises(InvalidOperationError, match="expected one above 2, used once"):
        set_schema(table, Struct((*table.snapshot().schema.fields, Field("n", INT, metadata=marks))))


@pytest.mark.parametrize(
    ("after", "error", "message"),
    [
        ((Field("id", INT),), InvalidOperationError, "column n is missing"),
        (
            (Field("id", INT), Field("n", STRING)),
            InvalidOperationError,
            "n is of type string, expected short",
        ),
        ((Field("id", LONG), Field("n", SHORT)), UnsupportedFeatureError, "type widening is off"),
        (
            (Field("id", INT), Field("n", SHORT), Field("z", INT, nullable=False)),
            InvalidOperationError,
            "NOT NULL",
        ),
        (
            (Field("id", INT, nullable=False), Field("n", SHORT)),
            InvalidOperationError,
            "id cannot become NOT NULL",
        ),
        ((Field("id", INT), Field("n", SHORT), Field("N", SHORT)), InvalidOperationError, "appears twice"),
    ],
)
def test_changes_of_columns_that_are_refused(
    after: tuple[Field, ...], error: type[DelvecError], message: str
) -> None:
    table = new_table(Struct((Field("id", INT), Field("n", SHORT))))
    with pytest.raises(error, match=message):
        set_schema(table, Struct(after))
    assert table.snapshot().version == 0


def test_types_widen_where_the_table_allows(tmp_path: Any) -> None:
    before = Struct((Field("n", SHORT), Field("l", Map(STRING, Array(Decimal(6, 2))))))
    table = DeltaTable.create(str(tmp_path), before, properties={"delta.enableTypeWidening": "true"})
    rows = pa.table(
        {
            "n": pa.array([1, 2], pa.int16()),
            "l": pa.array([[("a", [1])]] * 2, pa.map_(pa.string(), pa.list_(pa.decimal128(6, 2)))),
        }
    )
    committed(append(table, rows))
    committed(set_schema(table, Struct((Field("n", INT), Field("l", Map(STRING, Array(Decimal(10, 4))))))))
    committed(set_schema(table, Struct((Field("n", LONG), Field("l", Map(STRING, Array(Decimal(10, 4))))))))
    found = table.snapshot().schema
    n, nested = found.fields
    assert n.widened_from == (SHORT, INT)
    assert n.metadata["delta.typeChanges"] == [
        {"fromType": "short", "toType": "integer"},
        {"fromType": "integer", "toType": "long"},
    ]
    assert nested.metadata["delta.typeChanges"] == [
        {"fromType": "decimal(6,2)", "toType": "decimal(10,4)", "fieldPath": "value.element"}
    ]
    assert [row["n"] for row in read_by_duckdb(tmp_path)] == [1, 2]


# What is refused by name


@pytest.mark.parametrize(
    "feature",
    ["icebergCompatV1", "icebergCompatV2", "icebergWriterCompatV1", "coordinatedCommits-preview", "someday"],
)
def test_writer_features_that_are_refused(feature: str) -> None:
    log = LogWriter(open_storage(memory_location()))
    body = protocol()
    body["protocol"]["writerFeatures"] += [feature]
    log.commit(body, metadata())
    table = DeltaTable(log.storage)
    with pytest.raises(UnsupportedFeatureError, match=f"writer feature {feature}") as caught:
        table.snapshot().rules(Verb.APPEND)
    assert caught.value.feature == feature
    with pytest.raises(UnsupportedFeatureError, match=feature):
        append(table, numbers(0, 1))
    with pytest.raises(UnsupportedFeatureError, match=feature):
        set_properties(table, {"a": "b"})


def test_a_writer_version_out_of_range() -> None:
    log = LogWriter(open_storage(memory_location()))
    log.commit({"protocol": {"minReaderVersion": 1, "minWriterVersion": 8}}, metadata())
    with pytest.raises(UnsupportedFeatureError, match="writer version 8, expected 1 to 7"):
        DeltaTable(log.storage).snapshot().rules(Verb.APPEND)


def test_symlink_manifests_beside_vectors() -> None:
    name = "delta.compatibility.symlinkFormatManifest.enabled"
    both = {name: "true", "delta.enableDeletionVectors": "true"}
    table = old_table(properties=both, features=("deletionVectors",))
    with pytest.raises(UnsupportedFeatureError, match="are both true, expected one of them"):
        table.snapshot().rules(Verb.APPEND)
    with pytest.raises(UnsupportedFeatureError, match="are both true, expected one of them"):
        append(table, numbers(0, 1))
    committed(set_properties(table, {name: None}))
    committed(append(table, numbers(0, 1).select(["id"])))


def test_identity_columns_get_no_new_rows() -> None:
    snapshot = old_table(
        column("id", "long", metadata={"delta.identity.start": 1}), reader=1, writer=6
    ).snapshot()
    with pytest.raises(
        UnsupportedFeatureError, match="column id is an identity column, which delvec cannot write"
    ):
        snapshot.rules(Verb.APPEND)
    assert snapshot.rules(Verb.DELETE).deletes is DeleteForm.REWRITE


def test_defaults_count_only_with_their_feature() -> None:
    field = column("id", "long", metadata={"CURRENT_DEFAULT": "1"})
    assert old_table(field, features=("timestampNtz",)).snapshot().rules(Verb.APPEND).defaults == {}
    log = LogWriter(open_storage(memory_location()))
    log.commit(
        {
            "protocol": {
                "minReaderVersion": 1,
                "minWriterVersion": 7,
                "writerFeatures": ["allowColumnDefaults"],
            }
        },
        metadata(field),
    )
    assert DeltaTable(log.storage).snapshot().rules(Verb.APPEND).defaults == {"id": "1"}


def test_old_writer_versions_imply_features_that_need_not_be_used() -> None:
    table = old_table(reader=2, writer=6)
    rules = table.snapshot().rules(Verb.APPEND)
    assert (rules.deletes, rules.constraints, rules.change_files) == (DeleteForm.REWRITE, (), False)


def test_properties_count_only_with_their_feature() -> None:
    on = {
        "delta.enableDeletionVectors": "true",
        "delta.appendOnly": "true",
        "delta.enableChangeDataFeed": "true",
        "delta.constraints.c": "id > 0",
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "r",
    }
    rules = old_table(properties=on, features=("timestampNtz",)).snapshot().rules(Verb.APPEND)
    assert (rules.deletes, rules.append_only, rules.change_files) == (DeleteForm.REWRITE, False, False)
    assert rules.constraints == ()
    assert rules.row_id is None
    features = ("deletionVectors", "appendOnly", "changeDataFeed", "checkConstraints", "rowTracking")
    log = LogWriter(open_storage(memory_location()))
    body = protocol()
    body["protocol"]["writerFeatures"] = list(features)
    log.commit(body, metadata(properties=on))
    rules = DeltaTable(log.storage).snapshot().rules(Verb.APPEND)
    assert rules.deletes is DeleteForm.VECTOR
    assert rules.append_only
    assert rules.change_files
    assert rules.constraints == (Constraint("c", "id > 0"),)
    assert rules.row_id == Field("r", LONG)


def test_vectors_need_the_feature_of_readers_too() -> None:
    log = LogWriter(open_storage(memory_location()))
    body = protocol(features=())
    body["protocol"]["writerFeatures"] = ["deletionVectors"]
    log.commit(body, metadata(properties={"delta.enableDeletionVectors": "true"}))
    assert DeltaTable(log.storage).snapshot().rules(Verb.DELETE).deletes is DeleteForm.REWRITE


def test_constraints_of_columns() -> None:
    found = old_table(
        column("a", "long", metadata={"delta.invariants": '{"expression":{"expression":"a > 3"}}'}),
        column("g", "long", metadata={"delta.generationExpression": "a + 1"}),
        reader=1,
        writer=4,
    )
    assert [c.condition for c in found.snapshot().rules(Verb.APPEND).constraints] == [
        "a > 3",
    ]
    assert not any(c.null_holds for c in found.snapshot().rules(Verb.APPEND).constraints)
    assert found.snapshot().rules(Verb.APPEND).generated == {"g": "a + 1"}


def test_declared_lengths_of_another_type_are_refused() -> None:
    marks = {"__CHAR_VARCHAR_TYPE_STRING": "array<varchar(5)>"}
    kind = {"type": "array", "elementType": "string", "containsNull": True}
    field = column("v", kind, metadata=marks)
    assert old_table(field).snapshot().schema.fields[0].type == Array(varchar(5))
    other = old_table(column("v", "string", metadata=marks)).snapshot()
    assert other.schema.fields[0].type == Primitive("string")
    with pytest.raises(UnsupportedFeatureError, match="declared array<varchar"):
        other.rules(Verb.APPEND)


def test_an_upgrade_that_lost_a_race_is_made_anew() -> None:
    table = new_table()
    old = table.snapshot()
    committed(append(table, numbers(0, 4)))
    change = MetadataChange(properties={"delta.enableInCommitTimestamps": "true"})
    delta = RowDelta(
        Base(0), Request(Operation.SET_PROPERTIES), Read(blind=True), Verb.ALTER, metadata=change
    )
    found = conflicts.commit(table, old, delta, Blind())
    assert isinstance(found, Settled)
    assert found.version == 2
    assert table.snapshot().properties["delta.inCommitTimestampEnablementVersion"] == "2"
    again = conflicts.commit(table, old, delta, Blind())
    assert isinstance(again, Rerun)
    assert again.conflict == Conflict(2, "SET TBLPROPERTIES", "it changed the protocol")
    assert again.message == (
        "SET TBLPROPERTIES at version 0 conflicts with version 2 (SET TBLPROPERTIES): "
        f"it changed the protocol: {table.location}"
    )


def test_readers_know_a_table_with_everything_on(tmp_path: Any) -> None:
    on = {
        "delta.enableChangeDataFeed": "true",
        "delta.enableInCommitTimestamps": "true",
        "delta.enableRowTracking": "true",
        "delta.checkpointPolicy": "v2",
        "delta.checkpointInterval": "2",
    }
    table = DeltaTable.create(str(tmp_path), NUMBERS, properties=on)
    for i in range(4):
        committed(append(table, numbers(i * 5, i * 5 + 5)))
    committed(delete(table, {0: [1]}))
    expected = multiset(read_rows(table.snapshot().plan(), table.storage))
    assert sum(expected.values()) == 19
    assert multiset(read_by_duckdb(tmp_path)) == expected
    assert multiset(read_by_delta_rs(tmp_path)) == expected


def test_the_state_after_a_change_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are written with the names of new columns that the commit records."""
    table = new_table(properties={"delta.columnMapping.mode": "name"})
    snapshot, calls = table.snapshot(), []
    compute = snapshot_module.state_after

    def counted(*given: Any) -> Any:
        calls.append(1)
        return compute(*given)

    monkeypatch.setattr(snapshot_module, "state_after", counted)
    wider = Struct((*snapshot.schema.fields, Field("n", INT)))
    rules = snapshot.rules(Verb.APPEND, MetadataChange(schema=wider))
    request = Request(Operation.ADD_COLUMNS)
    committed(
        table.commit(snapshot, RowDelta(snapshot.base, request, Read(blind=True), metadata=rules.change))
    )
    assert len(calls) == 1
    assert table.snapshot().schema == rules.schema


def test_names_for_row_tracking_are_chosen_once() -> None:
    table = new_table()
    snapshot = table.snapshot()
    rules = snapshot.rules(Verb.ALTER, MetadataChange(properties={"delta.enableRowTracking": "true"}))
    request = Request(Operation.SET_PROPERTIES)
    committed(
        table.commit(snapshot, RowDelta(snapshot.base, request, Read(blind=True), metadata=rules.change))
    )
    assert table.snapshot().rules(Verb.APPEND).row_id == rules.row_id


def test_a_draft_and_its_first_version() -> None:
    table = DeltaTable.open(memory_location())
    draft = table.draft(NUMBERS)
    assert draft.is_draft
    request = Request(Operation.CREATE)
    assert committed(table.commit(draft, RowDelta(draft.base, request, Read(blind=True)))).version == 0
    assert not table.snapshot().is_draft
    assert table.created_at() == table.committed_at(0)


def test_ids_of_files_by_their_names() -> None:
    table = new_table()
    committed(append(table, numbers(0, 1), numbers(1, 2), numbers(2, 3)))
    snapshot = table.snapshot()
    first, second, third = snapshot.names(pa.array([0, 1, 2], pa.int64())).to_pylist()
    names = pa.array([third, "no-such-file", first, third], pa.string())
    assert snapshot.file_ids(names).to_pylist() == [2, None, 0, 2]
    assert snapshot.file_ids(pa.array([], pa.string())).to_pylist() == []
    plan = snapshot.plan(among=pa.array([2, 1], pa.int64()))
    assert plan.files.column("raw_location").to_pylist() == [second, third]
