"""How Iceberg tables must be written, from their metadata and properties; what is refused by name."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal as Dec

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField as TheirField
from pyiceberg.partitioning import PartitionSpec as TheirSpec
from pyiceberg.schema import Schema as TheirSchema
from pyiceberg.transforms import parse_transform as their_transform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    NestedField,
    StringType,
    TimestampType,
)

from delvec.detect import open_table
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.iceberg.data_folders import partition_parts
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.row_delta import DeleteForm, Isolation, MetadataChange, Verb
from delvec.schema import Decimal, Primitive
from delvec.transforms import parse_transform
from iceberg_tables import IcebergWriter

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
NESTED = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))])


@pytest.fixture
def table_of(tmp_path):
    def create(schema=SCHEMA, version=3, properties=None, **options):
        writer = IcebergWriter(tmp_path / "t", schema, format_version=version, **options)
        writer.append([dict.fromkeys(schema.names)])
        if properties:
            writer.set_properties(properties)
        return writer

    return create


def snapshot(writer):
    return open_table(str(writer.root)).snapshot()


def rules(writer, verb=Verb.DELETE, **properties):
    change = MetadataChange(properties=properties) if properties else None
    return snapshot(writer).rules(verb, change)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("verb", [Verb.DELETE, Verb.UPDATE, Verb.MERGE])
def test_deletes_by_version_and_mode(table_of, version, verb):
    writer = table_of(version=version)
    assert rules(writer, verb).deletes is DeleteForm.REWRITE
    writer.set_properties({f"write.{verb}.mode": "Merge-On-Read"})
    expected = DeleteForm.VECTOR if version == 3 else DeleteForm.POSITION_FILE
    assert rules(writer, verb).deletes is expected
    others = {Verb.DELETE, Verb.UPDATE, Verb.MERGE} - {verb}
    assert {rules(writer, other).deletes for other in others} == {DeleteForm.REWRITE}
    assert (rules(writer, Verb.REPLACE).deletes is expected) == (verb is Verb.DELETE)


def test_a_mode_that_does_not_exist(table_of):
    writer = table_of(properties={"write.delete.mode": "never"})
    with pytest.raises(InvalidOperationError, match=r"write\.delete\.mode is 'never', expected copy"):
        rules(writer)
    with pytest.raises(InvalidOperationError, match=r"write\.merge\.mode is 'x', expected"):
        rules(writer, Verb.ALTER, **{"write.merge.mode": "x"})


def test_isolation_of_each_verb(table_of):
    levels = {"write.update.isolation-level": "SNAPSHOT", "write.merge.isolation-level": "chaos"}
    at = snapshot(table_of(properties=levels))
    assert at.isolation(Verb.DELETE) is Isolation.SERIALIZABLE
    assert at.isolation(Verb.UPDATE) is Isolation.SNAPSHOT
    with pytest.raises(InvalidOperationError, match="is 'chaos', expected serializable or snapshot"):
        at.isolation(Verb.MERGE)


def test_file_sizes_and_the_share_that_is_rewritten(table_of):
    writer = table_of()
    assert rules(writer).target_file_size == rules(writer).compacted_file_size == 512 << 20
    assert rules(writer).rewrite_share is None
    writer.set_properties({"write.target-file-size-bytes": "1048576", "delvec.rewriteDeletedShare": "0.5"})
    assert (rules(writer).target_file_size, rules(writer).rewrite_share) == (1 << 20, 0.5)
    for name, value in {"write.target-file-size-bytes": "128mb", "delvec.rewriteDeletedShare": "2"}.items():
        with pytest.raises(InvalidOperationError, match=f"property {name} is '{value}', expected a"):
            rules(writer, Verb.ALTER, **{name: value})


def test_row_lineage_since_version_3(table_of):
    found = rules(table_of())
    assert (found.row_id.name, found.row_id.field_id) == ("_row_id", 2147483540)
    assert (found.row_version.name, found.row_version.field_id) == (
        "_last_updated_sequence_number",
        2147483539,
    )


def test_no_row_lineage_before(table_of):
    found = rules(table_of(version=2))
    assert found.row_id is found.row_version is None


def test_field_ids_only_without_lists_and_maps(table_of, tmp_path):
    assert rules(table_of()).with_ids
    struct = pa.struct([("m", pa.map_(pa.string(), pa.int32()))])
    writer = IcebergWriter(tmp_path / "n", pa.schema([("s", struct)]), format_version=3)
    assert not snapshot(writer).rules(Verb.APPEND).with_ids


def test_version_1_is_read_only(table_of):
    writer = table_of(version=1)
    with pytest.raises(
        UnsupportedFeatureError, match=r"version is 1, .* expected 2, 3 or 4 \(upgrade\)"
    ) as found:
        rules(writer, Verb.DELETE)
    assert found.value.feature == "format version 1"
    after = rules(writer, Verb.ALTER, **{"format-version": "3"})
    assert after.row_id is not None


def test_a_copied_table_is_read_only(table_of, tmp_path):
    writer = table_of()
    writer.root.rename(tmp_path / "copy")
    with pytest.raises(UnsupportedFeatureError, match="a copied table can only be read"):
        open_table(str(tmp_path / "copy")).relocated().snapshot().rules(Verb.DELETE)


def test_a_table_whose_metadata_is_elsewhere_is_read_only_by_its_path(table_of, tmp_path):
    writer = table_of(properties={"write.metadata.path": str(tmp_path / "elsewhere")})
    with pytest.raises(InvalidOperationError, match=r"write\.metadata\.path is .* expected none"):
        rules(writer)
    assert rules(writer, Verb.ALTER, **{"write.metadata.path": None}).change


def test_a_tag_is_read_only(table_of):
    writer = table_of()
    writer.set_tag("v1", writer.head.id)
    with pytest.raises(InvalidOperationError, match="'v1' is a tag, expected a branch"):
        open_table(str(writer.root)).on_ref("v1").snapshot().rules(Verb.DELETE)


UNSTORED = {
    "uuid": "uuid",
    "fixed(4)": "fixed[4]",
    "time": "time",
    "timestamp_ns": "timestamptz_ns",
    "timestamp_ntz_ns": "timestamp_ns",
    "geometry": "geometry",
    "variant": "variant",
}


@pytest.mark.parametrize("name", UNSTORED)
def test_types_that_are_not_written(tmp_path, name):
    writer = IcebergWriter(
        tmp_path / "t", pa.schema([("s", pa.struct([("x", pa.int32())]))]), format_version=3
    )

    def edit(metadata):
        text = json.dumps(metadata["schemas"]).replace('"int"', json.dumps(UNSTORED[name]))
        return {**metadata, "schemas": json.loads(text)}

    writer.edit_metadata = edit
    writer.write_metadata()
    for verb in (Verb.APPEND, Verb.UPDATE, Verb.MERGE, Verb.COMPACT, Verb.REPLACE, Verb.DELETE):
        with pytest.raises(
            UnsupportedFeatureError, match=r"column s\.x is of type .* only be deleted"
        ) as found:
            rules(writer, verb)
        assert found.value.feature == f"type {name}"
    writer.set_properties({"write.delete.mode": "merge-on-read", "delvec.rewriteDeletedShare": "0.5"})
    assert rules(writer, Verb.DELETE).deletes is DeleteForm.VECTOR
    assert rules(writer, Verb.DELETE).rewrite_share is None
    assert rules(writer, Verb.ALTER)


def test_partition_transforms_that_delvec_does_not_know(table_of):
    writer = table_of(partition_by=["p"])

    def edit(metadata):
        return json.loads(json.dumps(metadata).replace('"identity"', '"zorder"'))

    writer.edit_metadata = edit
    writer.set_properties({"write.delete.mode": "merge-on-read"})
    with pytest.raises(
        UnsupportedFeatureError, match="transform zorder, which delvec does not know"
    ) as found:
        rules(writer, Verb.APPEND)
    assert found.value.feature == "partition transform zorder"
    assert rules(writer, Verb.DELETE)


def test_a_column_with_the_name_of_a_row_id(tmp_path):
    writer = IcebergWriter(tmp_path / "t", pa.schema([("_row_id", pa.int64())]), format_version=3)
    with pytest.raises(UnsupportedFeatureError, match="'_row_id' has the name of a column of row lineage"):
        snapshot(writer).rules(Verb.APPEND)


def folders(writer, values=None):
    found = rules(writer, Verb.APPEND)
    array = pa.array([values or {}], found.spec.value_type)
    return found.folders(array)[0]


def test_folders(table_of):
    writer = table_of(partition_by=["p"])
    assert folders(writer, {"p": "a/b c%"}) == "data/p=a%2Fb+c%25"
    assert folders(writer, {"p": None}) == "data/p=null"
    writer.set_properties({"write.folder-storage.path": f"{writer.root}/old"})
    assert folders(writer, {"p": "x"}) == "old/p=x"
    writer.set_properties({"write.data.path": f"file://{writer.root}/elsewhere/in"})
    assert folders(writer, {"p": "x"}) == "elsewhere/in/p=x"


def test_folders_of_object_stores(table_of):
    writer = table_of(partition_by=["p"], properties={"write.object-storage.enabled": "true"})
    data, *bits, last = folders(writer, {"p": "x"}).split("/")
    assert (data, last) == ("data", "p=x")
    assert list(map(len, bits)) == [4, 4, 4, 8]
    assert set("".join(bits)) <= {"0", "1"}
    writer.set_properties({"write.object-storage.partitioned-paths": "false"})
    assert folders(writer, {"p": "x"}).count("/") == 4
    assert folders(writer, {"p": "x"}) != folders(writer, {"p": "x"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("write.data.path", "s3://other/place"),
        ("write.data.path", "relative"),
        ("write.folder-storage.path", "/elsewhere"),
        ("write.location-provider.impl", "com.acme.Provider"),
    ],
)
def test_data_files_elsewhere_are_refused(table_of, name, value):
    writer = table_of(properties={name: value, "write.delete.mode": "merge-on-read"})
    with pytest.raises(UnsupportedFeatureError, match=f"property {name} is '{value}', expected") as found:
        rules(writer, Verb.APPEND)
    assert found.value.feature == name
    assert rules(writer, Verb.DELETE).deletes is DeleteForm.VECTOR


PARTS = [
    ("identity", "string", StringType(), ["a b/ü~*", "", None, "null"]),
    ("identity", "integer", IntegerType(), [-1, None]),
    ("identity", "boolean", BooleanType(), [True, False]),
    ("identity", "binary", BinaryType(), [b"\0\xff", b""]),
    ("identity", "date", DateType(), [dt.date(1969, 12, 31), dt.date(2024, 2, 29), None]),
    ("identity", "timestamp_ntz", TimestampType(), [dt.datetime(1969, 12, 31, 23, 59, 59, 1)]),
    ("truncate[2]", "string", StringType(), ["üx"]),
    ("bucket[4]", "string", StringType(), [3, None]),
    ("year", "date", DateType(), [-1, 54, None]),
    ("month", "date", DateType(), [-1, 0, 655]),
    ("day", "timestamp_ntz", TimestampType(), [dt.date(1969, 12, 31), None]),
    ("hour", "timestamp_ntz", TimestampType(), [-1, 0, 420034]),
    ("identity", Decimal(9, 2), DecimalType(9, 2), [Dec("-0.10"), Dec("10.00")]),
]


@pytest.mark.parametrize(("transform", "source", "their_source", "values"), PARTS)
def test_folders_as_pyiceberg_names_them(transform, source, their_source, values):
    kind = Primitive(source) if isinstance(source, str) else source
    ours = parse_transform(transform)
    field = PartitionField("f g", ("x",), ours, ours.result_type(kind))
    spec = PartitionSpec(0, (field,))
    schema = TheirSchema(NestedField(1, "x", their_source))
    theirs = TheirSpec(TheirField(1, 1000, their_transform(transform), "f g"))
    array = pa.array([{"f g": value} for value in values], spec.value_type)

    def internal(value):
        match value:
            case dt.datetime():
                return (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
            case dt.date():
                return (value - dt.date(1970, 1, 1)).days
        return value

    # Python's quote_plus keeps ~, Java's URLEncoder keeps *
    expected = [theirs.partition_to_path(Record(internal(value)), schema) for value in values]
    expected = [path.replace("~", "%7E").replace("%2A", "*") for path in expected]
    assert ["/".join(parts) for parts in partition_parts(spec, array)] == expected


def test_columns_are_measured_by_the_modes_of_the_table(table_of):
    writer = table_of(properties={"write.metadata.metrics.column.p": "none"})
    assert [column.path for column in rules(writer, Verb.APPEND).measured] == [("id",)]
