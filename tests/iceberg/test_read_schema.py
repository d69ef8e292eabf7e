"""When columns are found by name, and when by id; which columns equality deletes still need."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connector_rows import connector_rows
from delvec.detect import open_table
from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg.read_schema import BY_ID, BY_NAME
from iceberg_tables import IcebergWriter
from rows import multiset

SCHEMA = pa.schema(
    [("id", pa.int64()), ("s", pa.struct([("x", pa.int32()), ("y", pa.int32())])), ("v", pa.string())]
)


def plan(table):
    return open_table(str(table.root)).snapshot().plan()


def way(table):
    (found,) = set(plan(table).files.column("read_schema").to_pylist())
    return found


@pytest.fixture
def table(tmp_path):
    table = IcebergWriter(tmp_path / "t", SCHEMA, format_version=3)
    table.append([{"id": n, "s": {"x": n, "y": n}, "v": f"v{n}"} for n in range(4)])
    return table


BY_NAME_STILL = {
    "unchanged": lambda _: None,
    "added": lambda table: table.add_column(pa.field("w", pa.int32())),
    "dropped": lambda table: table.drop_column("v"),
    "reordered": lambda table: table.reorder_columns(["v", "s", "id"]),
    "promoted": lambda table: table.promote_column("s.x", "long"),
}


def readded(table):
    table.drop_column("v")
    table.add_column(pa.field("V", pa.string()))


def readded_in_struct(table):
    table.drop_column("s.y")
    table.add_column(pa.field("y", pa.int32()), within="s")


def forgotten(table):
    """Schemas that no snapshot needs are removed from the metadata; files still have their names."""
    table.rename_column("v", "w")

    def without_old(metadata):
        return {**metadata, "schemas": metadata["schemas"][-1:]}

    table.edit_metadata = without_old
    table.write_metadata()


BY_ID_NOW = {
    "renamed": lambda table: table.rename_column("v", "w"),
    "nested renamed": lambda table: table.rename_column("s.x", "z"),
    "re-added": readded,
    "re-added in a struct": readded_in_struct,
    "default": lambda table: table.add_column(pa.field("w", pa.int32()), default=3),
    "nested default": lambda table: table.add_column(pa.field("w", pa.int32()), default=3, within="s"),
    "unusual name": lambda table: table.add_column(pa.field("a b", pa.int32())),
    "name mapping": lambda table: table.set_properties({"schema.name-mapping.default": "[]"}),
    "old schemas are gone": forgotten,
}


@pytest.mark.parametrize("change", [*BY_NAME_STILL, *BY_ID_NOW])
def test_by_name_only_where_no_name_misleads(table, change):
    {**BY_NAME_STILL, **BY_ID_NOW}[change](table)
    assert way(table) == (BY_NAME if change in BY_NAME_STILL else BY_ID)
    assert multiset(connector_rows(table.root)) == multiset(table.rows())


def test_by_id_if_the_schema_of_a_file_may_be_gone(table):
    """A column is renamed and gets its old name back: the first schema is the current one again. When the
    snapshot between expires, Iceberg can remove its schema, and nothing in the metadata tells of the name.
    """
    table.rename_column("v", "w")
    renamed = table.append([{"id": 7, "s": None, "w": "renamed"}])
    table.schema_id = 0
    table.append([{"id": 8, "s": None, "v": "again"}])

    def cleaned(metadata):
        snapshots = [each for each in metadata["snapshots"] if each["snapshot-id"] != renamed]
        return {**metadata, "snapshots": snapshots, "schemas": metadata["schemas"][:1], "snapshot-log": []}

    table.edit_metadata = cleaned
    table.write_metadata()
    assert plan(table).files.column("read_schema").to_pylist() == [BY_NAME, BY_ID, BY_NAME]
    assert multiset(connector_rows(table.root)) == multiset(table.rows())


def test_files_without_ids_and_without_a_mapping(tmp_path):
    """They are read by name, unless a name may mean another column."""
    table = IcebergWriter(tmp_path / "t", SCHEMA)
    table.add_file([{"id": 1, "s": {"x": 2, "y": 3}, "v": "a"}], ids=False)
    table.commit()
    assert multiset(connector_rows(table.root)) == multiset(table.rows())
    table.add_column(pa.field("a b", pa.int32()))
    with pytest.raises(FormatError, match=r"no field ids, but the columns are mapped by id: .*\.parquet"):
        connector_rows(table.root)


def test_a_mapping_with_several_names(tmp_path):
    """Each file has one of the names; a name that the mapping lacks is not read."""
    table = IcebergWriter(tmp_path / "t", SCHEMA, ids=False)
    table.add_file([{"id": 1, "s": {"x": 2, "y": 3}, "v": "a"}])
    table.add_file([{"id": 4, "s": {"x": 5, "y": 6}, "v": "b"}], names=lambda name: f"old_{name}")
    table.commit()
    inner = [{"field-id": 4, "names": ["x", "old_x"]}, {"field-id": 5, "names": ["old_y"]}]
    mapping = [
        {"field-id": 1, "names": ["id", "old_id"]},
        {"field-id": 2, "names": ["s", "old_s"], "fields": inner},
        {"field-id": 3, "names": ["v"]},
    ]
    table.set_properties({"schema.name-mapping.default": json.dumps(mapping)})
    ids = {field.name: field.field_id for field in plan(table).schema}
    assert ids == {"id": 1, "s": 2, "v": 3}
    rows = [{"id": 1, "s": {"x": 2, "y": None}, "v": "a"}, {"id": 4, "s": {"x": 5, "y": 6}, "v": None}]
    assert multiset(connector_rows(table.root)) == multiset(rows)


def test_a_mapping_with_both_names_of_a_file(tmp_path):
    table = IcebergWriter(tmp_path / "t", SCHEMA, ids=False)
    table.add_file([{"id": 1, "s": None, "v": "a"}])
    table.commit()
    mapping = [{"field-id": 1, "names": ["id", "v"]}]
    table.set_properties({"schema.name-mapping.default": json.dumps(mapping)})
    with pytest.raises(
        FormatError, match=r"columns 'id' and 'v' of the file are both column 'id'.*\.parquet"
    ):
        connector_rows(table.root)


def test_a_column_of_another_shape(table):
    file = next(table.root.rglob("*.parquet"))
    stored = pq.read_table(file)
    changed = stored.set_column(
        1, stored.schema.field("s").with_type(pa.int32()), pa.array([1] * 4, pa.int32())
    )
    pq.write_table(changed, file)
    table.rename_column("v", "w")
    with pytest.raises(FormatError, match=r"column s is int32 in the file, expected struct.*\.parquet"):
        connector_rows(table.root)


def test_dropped_columns_of_equality_deletes(table):
    table.delete_keys([{"v": "v1"}], on=["v"])
    table.delete_keys([{"s": {"y": 2}}], on=["s.y"])
    table.commit()
    table.drop_column("v")
    table.drop_column("s.y")
    table.add_column(pa.field("v", pa.int32()))
    found = plan(table)
    assert [str(field.name) for field in found.schema] == ["id", "s", "v"]
    assert {field.field_id for field in found.dropped} == {2, 3}
    (struct,) = (field.type for field in found.dropped if field.field_id == 2)
    assert [field.physical_name for field in struct] == ["y"]
    assert multiset(connector_rows(table.root)) == multiset(table.rows())
    assert [row["id"] for row in table.rows()] == [0, 3]


def test_a_compared_column_that_no_schema_has(table):
    table.edit_entry = lambda entry: _with_ids(entry, [99])
    table.delete_keys([{"v": "v1"}], on=["v"])
    table.commit()
    with pytest.raises(FormatError, match="compares the column with field id 99, which is in no schema"):
        connector_rows(table.root)


@pytest.mark.parametrize("kind", ["AVRO", "ORC"])
def test_equality_files_of_other_formats(table, kind):
    def other(entry):
        entry["data_file"]["file_format"] = kind
        return entry

    table.edit_entry = other
    table.delete_keys([{"v": "v1"}], on=["v"])
    table.commit()
    with pytest.raises(UnsupportedFeatureError, match=f"has the file format '{kind.lower()}'") as refused:
        connector_rows(table.root)
    assert refused.value.feature == kind.lower()


def _with_ids(entry, ids):
    entry["data_file"]["equality_ids"] = ids
    return entry
