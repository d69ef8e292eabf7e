"""Drafts of new tables: their metadata beside that of pyiceberg's new tables, and what is refused."""

from __future__ import annotations

import json

import pytest

from delvec import detect
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.iceberg.pointers import FolderPointer
from delvec.iceberg.swaps import Swapped, Taken
from delvec.iceberg.table import IcebergTable
from delvec.partition_spec import PartitionField
from delvec.schema import COMMENT, Array, Decimal, Field, Map, Primitive, Struct, varchar
from delvec.storage import Storage
from delvec.transforms import parse_transform

LONG, STRING, TIMESTAMP = Primitive("long"), Primitive("string"), Primitive("timestamp")
SCHEMA = Struct(
    (
        Field("id", LONG, nullable=False, metadata={COMMENT: "a key"}),
        Field("at", TIMESTAMP),
        Field("place", Struct((Field("x", Primitive("double")), Field("tags", Array(STRING))))),
        Field("prices", Map(STRING, Struct((Field("amount", Decimal(10, 2)),)), value_contains_null=False)),
        Field("name", STRING),
    )
)


def partition(name, source, transform, data_type=STRING):
    return PartitionField(name, tuple(source.split(".")), parse_transform(transform), data_type)


PARTITIONS = [
    partition("at_day", "at", "day", TIMESTAMP),
    partition("id_bucket", "id", "bucket[16]", LONG),
    partition("name", "name", "identity"),
    partition("x", "place.x", "identity", Primitive("double")),
]


def draft(tmp_path, schema=SCHEMA, **options):
    return IcebergTable(Storage(str(tmp_path / "t"))).draft(schema, **options)


def created(snapshot):
    outcome = FolderPointer().commit(snapshot.storage, None, snapshot.opened.creation)
    assert isinstance(outcome, Swapped)
    return detect.open_table(snapshot.location)


def test_a_draft_is_a_table_without_rows(tmp_path):
    snapshot = draft(tmp_path)
    assert (snapshot.is_draft, snapshot.version, snapshot.format_version) == (True, -1, 3)
    assert [(field.name, field.field_id) for field in snapshot.schema] == [
        ("id", 1),
        ("at", 2),
        ("place", 3),
        ("prices", 4),
        ("name", 5),
    ]
    assert len(snapshot.plan().files) == 0
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("version", [2, 3])
def test_the_same_metadata_as_pyiceberg_s(tmp_path, version):
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.partitioning import PartitionField as TheirField
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import StaticTable
    from pyiceberg.transforms import parse_transform as their_transform

    table = created(draft(tmp_path, partition_by=PARTITIONS, format_version=version))
    ours = StaticTable.from_metadata(table.location).metadata
    assert ours.format_version == version
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "lake"))
    catalog.create_namespace("db")
    schema = ours.schema()
    source = {field.name: schema.find_field(".".join(field.source)).field_id for field in PARTITIONS}
    spec = PartitionSpec(
        *(
            TheirField(source[field.name], 1000 + at, their_transform(str(field.transform)), field.name)
            for at, field in enumerate(PARTITIONS)
        )
    )
    theirs = catalog.create_table("db.t", schema, partition_spec=spec).metadata
    assert schema.model_dump() == theirs.schema().model_dump()
    assert ours.spec().model_dump() == theirs.spec().model_dump()
    assert ours.last_column_id == theirs.last_column_id
    assert ours.last_partition_id == theirs.last_partition_id
    assert ours.sort_orders == theirs.sort_orders
    assert ours.current_snapshot_id is theirs.current_snapshot_id is None
    catalog.engine.dispose()


def test_properties(tmp_path):
    table = created(draft(tmp_path, properties={"write.update.mode": "copy-on-write", "owner": "us"}))
    properties = dict(table.snapshot().properties)
    mapping = json.loads(properties.pop("schema.name-mapping.default"))
    assert properties == {
        "write.delete.mode": "merge-on-read",
        "write.update.mode": "copy-on-write",
        "write.merge.mode": "merge-on-read",
        "owner": "us",
    }
    assert [item["field-id"] for item in mapping] == [1, 2, 3, 4, 5, 2147483540, 2147483539]


def test_a_table_without_lists_needs_no_name_mapping(tmp_path):
    snapshot = draft(tmp_path, Struct((Field("id", LONG),)))
    assert "schema.name-mapping.default" not in snapshot.properties


def test_types_that_iceberg_does_not_have(tmp_path):
    columns = Struct((Field("b", Primitive("byte")), Field("s", Primitive("short")), Field("v", varchar(5))))
    types = [str(field.type) for field in draft(tmp_path, columns).schema]
    assert types == ["integer", "integer", "string"]


def test_the_format_version_as_a_property(tmp_path):
    snapshot = draft(tmp_path, properties={"format-version": "2"})
    assert snapshot.format_version == 2
    assert "format-version" not in snapshot.properties
    assert draft(tmp_path, properties={"format-version": "2"}, format_version=2).format_version == 2


def test_a_table_is_created_once(tmp_path):
    first, second = draft(tmp_path), draft(tmp_path)
    created(first)
    assert FolderPointer().commit(second.storage, None, second.opened.creation) == Taken()


@pytest.mark.parametrize("version", [1, 5, "three"])
def test_other_format_versions(tmp_path, version):
    with pytest.raises(InvalidOperationError, match=f"format_version is {version!r}, expected 2, 3 or 4"):
        draft(tmp_path, format_version=version)
    with pytest.raises(InvalidOperationError, match="expected 2, 3 or 4"):
        draft(tmp_path, properties={"format-version": str(version)})


def test_two_format_versions(tmp_path):
    with pytest.raises(InvalidOperationError, match="format_version is 3, but the property"):
        draft(tmp_path, properties={"format-version": "2"}, format_version=3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([partition("name", "id", "bucket[4]")], "named 'name', expected a name that no column has"),
        ([partition("n", "name", "day")], "partition transform day is not defined for type string"),
        ([partition("n", "name", "zorder")], "partition transform zorder is unknown"),
        ([partition("t", "place.tags", "identity")], "not defined"),
        ([partition("y", "place.y", "identity")], "'place.y' is not in the schema"),
        (
            [partition("d", "at", "day"), partition("h", "at", "hour")],
            r"hours\(at\) twice \(as 'd'\)",
        ),
        (
            [partition("b", "id", "bucket[4]"), partition("b", "id", "bucket[8]")],
            r"bucket\(8, id\) twice",
        ),
    ],
)
def test_partitionings_that_are_refused(tmp_path, fields, message):
    with pytest.raises(InvalidOperationError, match=message):
        draft(tmp_path, partition_by=fields)


def test_two_buckets_of_one_column(tmp_path):
    fields = [partition("a", "id", "bucket[4]"), partition("b", "id", "bucket[8]")]
    assert len(draft(tmp_path, partition_by=fields).spec.fields) == 2


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "no columns"),
        ([Field("a", LONG), Field("A", LONG)], "appears twice"),
        ([Field("_row_id", LONG)], "row lineage"),
    ],
)
def test_columns_that_are_refused(tmp_path, columns, message):
    with pytest.raises((InvalidOperationError, UnsupportedFeatureError), match=message):
        draft(tmp_path, Struct(tuple(columns)))


def test_types_of_version_3(tmp_path):
    columns = Struct((Field("v", Primitive("variant")),))
    assert draft(tmp_path, columns).schema.fields[0].type == Primitive("variant")
    with pytest.raises(UnsupportedFeatureError, match="format version 3"):
        draft(tmp_path, columns, format_version=2)


def test_delta_has_no_format_versions(tmp_path):
    table = detect.new_table(str(tmp_path / "t"), "delta")
    with pytest.raises(InvalidOperationError, match="format_version is 2, expected none for delta"):
        table.draft(SCHEMA, format_version=2)
