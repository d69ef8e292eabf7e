"""The tree of a snapshot: manifests, their live files, the deletes of each file; as the commands show it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from delvec.browse import metadata_tree
from delvec.iceberg.table import IcebergTable
from delvec.storage import open_storage
from iceberg_tables import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32())])


def rows(*ids, p=1):
    return [{"id": number, "p": p} for number in ids]


def document(table, version=None, limit=0):
    found = IcebergTable(open_storage(str(table.root)))
    return metadata_tree(found, found.snapshot(version), limit=limit).document()["tree"]


def outline(node):
    """Kinds and names, without folders and names of metadata files."""
    name = node["name"].partition(" @ ")[0].rpartition("/")[2]
    head = node["kind"] if node["kind"].endswith("manifest") else f"{node['kind']} {name}"
    return (head, [outline(child) for child in node["children"]]) if node["children"] else head


def test_a_vector_replaces_the_position_files_of_its_file(tmp_path):
    table = IcebergWriter(tmp_path, COLUMNS, format_version=2, partition_by=["p"])
    first = table.add_file(rows(1, 2, 3), name="data/a.parquet")
    second = table.add_file(rows(4, 5, p=2), name="data/b.parquet")
    appended = table.commit()
    positions = table.delete_positions({first: [0], second: [1]})
    table.commit()
    table.upgrade(3)
    (vector,) = table.delete_by_vectors({first: [1]}, united=False)
    keys = table.delete_keys([{"id": 4}], on=["id"], partition={"p": 2})
    newest = table.commit()
    names = {file.path: file.path.rpartition("/")[2] for file in (first, second, *positions, vector, keys)}
    on_a, on_b = (f"position deletes {names[file.path]}" for file in positions)
    of_keys = f"equality deletes {names[keys.path]}"
    of_vector = f"vector {names[vector.path]}"
    found = document(table)
    assert outline(found) == (
        f"snapshot {newest}",
        [
            ("manifest", [("data file a.parquet", [of_vector]), ("data file b.parquet", [on_b, of_keys])]),
            ("delete manifest", [on_a, on_b]),
            ("delete manifest", [of_vector, of_keys]),
        ],
    )
    assert (found["facts"]["files"], found["facts"]["rows"], found["facts"]["deletes"]) == (2, 5, 4)
    assert found["facts"]["refs"] == ["main"]
    assert outline(document(table, appended)) == (
        f"snapshot {appended}",
        [("manifest", ["data file a.parquet", "data file b.parquet"])],
    )


def test_facts_of_manifests_files_and_deletes(tmp_path):
    table = IcebergWriter(tmp_path, COLUMNS, format_version=3, partition_by=["p"])
    file = table.add_file(rows(1, 2, 3, p=None))
    table.commit()
    vector = table.delete_rows(file, [0, 2])
    table.commit()
    manifest, deletes = document(table)["children"]
    assert manifest["facts"] | {"bytes": 0} == {
        "added files": 1,
        "existing files": 0,
        "deleted files": 0,
        "bytes": 0,
        "sequence": 1,
        "partition spec": 0,
        "first row id": 0,
    }
    (data,) = manifest["children"]
    assert data["facts"] == {"rows": 3, "bytes": file.size, "partition": {"p": None}, "sequence": 1}
    (of_file,), (listed,) = data["children"], deletes["children"]
    assert of_file["name"] == listed["name"] == f"data/{vector.path.rpartition('/')[2]} @ {vector.offset}"
    facts = {"deleted rows": 2, "bytes": vector.length, "field ids": None, "sequence": 2}
    assert of_file["facts"] == facts | {"of": None}
    assert listed["facts"] == facts | {"of": f"data/{file.path.rpartition('/')[2]}"}


def test_files_of_many_manifests_are_below_their_own(tmp_path):
    table = IcebergWriter(tmp_path, COLUMNS)
    files = [table.add_file(rows(number)) for number in range(4)]
    table.commit()
    more = [table.add_file(rows(number)) for number in range(3)]
    table.remove_file(files[1])
    table.commit()
    rewritten, new = document(table, limit=2)["children"]
    names = [file.path.rpartition("/")[2] for file in (files[0], files[2], more[0], more[1])]
    found = [child["name"].rpartition("/")[2] for node in (rewritten, new) for child in node["children"]]
    assert found == names
    assert (rewritten["count"], new["count"]) == (3, 3)
    assert (rewritten["facts"]["existing files"], rewritten["facts"]["deleted files"]) == (3, 1)


@pytest.mark.parametrize("inline", [False, True], ids=["list", "inline"])
def test_version_1(tmp_path, inline):
    table = IcebergWriter(tmp_path, COLUMNS, format_version=1, inline_manifests=inline)
    table.append(rows(1, 2))
    (manifest,) = document(table)["children"]
    assert [file["facts"]["rows"] for file in manifest["children"]] == [2]


def test_a_table_without_a_snapshot(tmp_path):
    found = document(IcebergWriter(tmp_path, COLUMNS))
    assert (found["kind"], found["children"]) == ("table without a snapshot", [])
