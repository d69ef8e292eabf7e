"""``verify`` on Iceberg tables: each check finds its damage, and nothing in sound tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from delvec.iceberg.manifest_cache import MANIFESTS
from delvec.iceberg.table import IcebergTable
from delvec.storage import open_storage
from delvec.verify import verify_table
from iceberg_tables import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32())])


@pytest.fixture(autouse=True)
def _empty_cache():
    MANIFESTS.clear()


def rows(*ids, p=1):
    return [{"id": number, "p": p} for number in ids]


def report_of(table, version=None):
    return verify_table(IcebergTable(open_storage(str(table.root))), version=version)


def findings(table):
    return [(found.severity, found.check, found.message) for found in report_of(table).findings]


def only_finding(table):
    (found,) = report_of(table).findings
    return found


@pytest.fixture
def table(tmp_path):
    """Files a and b of version 3, which have a vector each, in one Puffin file."""
    table = IcebergWriter(tmp_path, COLUMNS, format_version=3)
    table.files = [table.add_file(rows(1, 2, 3), name=f"data/{name}.parquet") for name in "ab"]
    table.commit()
    table.vectors = table.delete_by_vectors({table.files[0]: [0], table.files[1]: [1, 2]})
    return table


@pytest.mark.parametrize("version", [1, 2, 3])
def test_sound_tables(tmp_path, version):
    table = IcebergWriter(tmp_path, COLUMNS, format_version=version, partition_by=["p"])
    first, second = table.add_file(rows(1, 2, 3)), table.add_file(rows(4, 5, p=2))
    table.commit()
    if version > 1:
        table.delete_rows(first, [0])
        table.commit()
        table.delete_rows(first, [1])
        table.commit()
    table.remove_file(second)
    table.commit()
    assert findings(table) == []
    for snapshot in table.snapshots:
        assert report_of(table, snapshot).findings == ()


def test_counts_of_a_sound_table(table):
    table.commit()
    report = report_of(table)
    assert (report.files, report.vectors, report.deleted_rows, report.findings) == (2, 2, 3, ())


def test_a_table_without_a_snapshot(tmp_path):
    assert report_of(IcebergWriter(tmp_path, COLUMNS)).findings == ()


def tamper(table, old: bytes, new: bytes):
    """Change bytes of the Puffin file, which keeps its size."""
    assert len(old) == len(new)
    place = table.place(table.vectors[0].path)
    data = place.read_bytes()
    assert data.count(old) == 1
    place.write_bytes(data.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"/data/a.parquet", b"/data/b.parquet", "footer says data file {root}/data/b.parquet of the vector"),
        (b'"cardinality": "2"', b'"cardinality": "3"', "footer says number of deleted rows 3 of the vector"),
        (
            b'"offset": 4,',
            b'"offset": 5,',
            "manifest names a vector at 4, expected one of the footer's blobs",
        ),
    ],
    ids=["data file", "cardinality", "offset"],
)
def test_a_footer_that_disagrees_with_the_manifest(table, old, new, message):
    table.commit()
    tamper(table, old, new)
    found = only_finding(table)
    assert (found.severity, found.check) == ("error", "puffin")
    assert found.message.startswith(message.format(root=table.root))
    assert found.path == str(table.place(table.vectors[0].path))


def test_a_blob_of_another_type(table):
    table.commit()
    place = table.place(table.vectors[0].path)
    place.write_bytes(place.read_bytes().replace(b"deletion-vector-v1", b"deletion-vector-v9"))
    assert [check for _, check, _ in findings(table)] == ["puffin", "puffin"]
    assert "is a deletion-vector-v9, expected a deletion-vector-v1" in findings(table)[0][2]


def test_a_vector_whose_bytes_are_damaged(table):
    table.commit()
    place = table.place(table.vectors[0].path)
    data = bytearray(place.read_bytes())
    data[table.vectors[1].offset + 20] ^= 1
    place.write_bytes(bytes(data))
    found = only_finding(table)
    assert (found.check, found.path) == ("vector", f"{table.root}/data/b.parquet")
    assert "vector CRC is" in found.message


def test_an_offset_of_the_manifest_that_is_another_ones_vector(table):
    first = table.vectors[0]

    def edit(record):
        if record["data_file"]["referenced_data_file"] == table.files[1].path:
            record["data_file"] |= {"content_offset": first.offset, "content_size_in_bytes": first.length}
        return record

    table.edit_entry = edit
    table.commit()
    found = findings(table)
    assert [check for _, check, _ in found] == ["vector", "puffin", "puffin"]
    of_footer = [text for _, check, text in found if check == "puffin"]
    assert any("footer says number of deleted rows" in text for text in of_footer)
    assert any("footer says data file" in text for text in of_footer)


def test_a_missing_and_a_cut_puffin_file(table):
    table.commit()
    place = table.place(table.vectors[0].path)
    data = place.read_bytes()
    place.write_bytes(data[:-4])
    cut = findings(table)
    assert [check for _, check, _ in cut] == ["delete-file", "puffin"]
    assert f"delete file has {len(data) - 4} bytes, expected {len(data)}" in cut[0][2]
    place.unlink()
    assert sorted(check for _, check, _ in findings(table)) == ["delete-file", "vector", "vector"]


def test_two_live_vectors_of_one_file(table):
    table.commit()
    table.delete_by_vectors({table.files[0]: [2]}, united=False)
    table.commit()
    found = only_finding(table)
    assert (found.severity, found.check) == ("error", "metadata")
    assert "a.parquet" in found.message
    assert report_of(table).files == 0


def test_a_row_beyond_the_end_of_the_file(table):
    table.commit()
    table.delete_by_vectors({table.files[0]: [7]})
    table.commit()
    assert "vector deletes row 7, but the file has 3 rows" in findings(table)[0][2]


@pytest.mark.parametrize("version", [2, 3])
def test_orphaned_deletes_are_warnings(tmp_path, version):
    table = IcebergWriter(tmp_path, COLUMNS, format_version=version)
    file, _ = table.add_file(rows(1, 2)), table.add_file(rows(3))
    table.commit()
    table.delete_rows(file, [0])
    table.commit()
    table._removed.add(file.key)  # and not its delete
    table.commit()
    found = only_finding(table)
    assert (found.severity, found.check) == ("warning", "orphan")
    assert found.message.endswith(f"data file is not live: {file.path}")
    assert report_of(table).errors == 0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("added_files_count", 3, "manifest list says 3 added files, expected 2, as the manifest has"),
        ("added_rows_count", 5, "manifest list says 5 added rows, expected 6, as the manifest has"),
        ("existing_files_count", 1, "manifest list says 1 existing files, expected 0"),
        ("deleted_rows_count", 1, "manifest list says 1 deleted rows, expected 0"),
        ("manifest_length", 17, "manifest has"),
    ],
)
def test_a_manifest_list_that_disagrees_with_its_manifest(tmp_path, name, value, message):
    table = IcebergWriter(tmp_path, COLUMNS)
    table.add_file(rows(1, 2, 3))
    table.add_file(rows(4, 5, 6))
    table.edit_manifest = lambda record: record | {name: value}
    table.commit()
    found = only_finding(table)
    assert (found.severity, found.check) == ("error", "manifest")
    assert found.message.startswith(message)


@pytest.mark.parametrize(
    "name",
    [
        *("total-records", "total-data-files", "total-delete-files"),
        *("total-position-deletes", "total-equality-deletes"),
    ],
)
def test_a_summary_that_disagrees_with_the_manifests(table, name):
    table.commit(summary={name: "77"})
    found = only_finding(table)
    assert (found.severity, found.check) == ("error", "summary")
    assert found.message.startswith(f"snapshot summary says {name} 77, expected ")


def test_a_missing_data_file(table):
    table.commit()
    table.place(table.files[0].path).unlink()
    found = only_finding(table)
    assert (found.check, found.message) == ("data-file", "data file is missing")


@pytest.fixture
def keys(tmp_path):
    """A table of version 2 with two equality files and a position file."""
    table = IcebergWriter(tmp_path, COLUMNS)
    file = table.add_file(rows(1, 2, 3))
    table.commit()
    table.keys = table.delete_keys([{"id": 1}, {"id": 9}], on=["id"])
    table.delete_keys([{"p": None}], on=["p"])
    (table.positions,) = table.delete_positions({file: [2]})
    return table


def test_equality_and_position_files_are_read(keys):
    keys.commit()
    report = report_of(keys)
    assert report.findings == ()
    assert (report.vectors, report.delete_files, report.deleted_rows) == (0, 3, 1)


@pytest.mark.parametrize("name", ["keys", "positions"])
def test_a_delete_file_with_other_rows_than_recorded(keys, name):
    path = getattr(keys, name).path

    def edit(record):
        if record["data_file"]["file_path"] == path:
            record["data_file"]["record_count"] = 7
        return record

    keys.edit_entry = edit
    keys.commit()
    found = findings(keys)
    assert ("equality" if name == "keys" else "vector") in {check for _, check, _ in found}
    assert any("rows, expected 7" in message for _, _, message in found)


def test_an_equality_file_without_its_column(keys):
    def edit(record):
        if record["data_file"]["file_path"] == keys.keys.path:
            record["data_file"]["equality_ids"] = [2]
        return record

    keys.edit_entry = edit
    keys.commit()
    found = only_finding(keys)
    assert (found.check, found.path) == ("equality", keys.keys.path)
    assert "equality file has no column p (field id 2)" in found.message


@pytest.mark.parametrize("name", ["keys", "positions"])
def test_a_damaged_and_a_missing_delete_file(keys, name):
    keys.commit()
    place = keys.place(getattr(keys, name).path)
    place.write_bytes(b"x" * place.stat().st_size)
    check = "equality" if name == "keys" else "vector"
    assert [found[1] for found in findings(keys)] == [check]
    place.unlink()
    assert sorted(found[1] for found in findings(keys)) == sorted([check, "delete-file"])
