"""Exports of tables of version 4: other engines read the same rows, and nothing of the table is changed."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from pathlib import Path

import fastavro
import pytest

from delvec.detect import open_table
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.row_delta import MetadataChange, Verb
from iceberg_tables.commits import Model, avro
from iceberg_tables.key_deletes import KeyLake
from iceberg_tables.readers import read_by_duckdb, read_by_pyiceberg
from iceberg_tables.trees import LIMITS, TreeModel


def filled(root, seed=0, *, partitioned=True, **limits):
    """A table with data files, vectors, leaves and manifest vectors."""
    model, rng = TreeModel(root, partitioned=partitioned, **limits), random.Random(seed)
    for _ in range(6):
        live = sorted(model.files)
        chosen = rng.sample(live, min(len(live), 3))
        delete = {path: [0] for path in chosen[1:] if 0 not in model.files[path][1]}
        model.commit(
            add=[model.new_file(3, rng.randrange(3)) for _ in range(2)], remove=chosen[:1], delete=delete
        )
    return model


def rows(found):
    return Counter((row["id"], row["p"]) for row in found)


def files_of(root):
    return {path: path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}


def described(plan):
    names = ("raw_location", "data_sequence", "file_sequence", "first_row_id", "record_count", "size")
    return sorted(tuple(file[name] for name in names) for file in plan.files.to_pylist())


@pytest.mark.parametrize(
    ("seed", "partitioned", "limits"),
    [
        (0, True, {}),
        (1, False, {}),
        (2, True, {"root_data_files": 2, "root_deletes": 1, "leaf_entries": 2, "affiliated_entries": 1}),
    ],
)
def test_other_engines_read_the_same_rows(tmp_path, seed, partitioned, limits):
    model = filled(tmp_path / "t", seed, partitioned=partitioned, **limits)
    before = files_of(model.root)
    place = model.table.export(str(tmp_path / "view"))
    assert files_of(model.root) == before
    assert place == str(tmp_path / "view")
    for read in (read_by_duckdb, read_by_pyiceberg):
        assert rows(read(place)) == model.rows(), read.__name__
    exported = open_table(place)
    assert exported.snapshot().format_version == 3
    assert described(exported.snapshot().plan()) == described(model.snapshot.plan())
    assert list(exported.findings(exported.snapshot())) == []
    assert not [path for path in Path(place).rglob("*") if path.is_file() and path.parent.name != "metadata"]


def test_the_metadata_is_that_of_a_table_whose_files_must_stay(tmp_path):
    model = filled(tmp_path / "t", root_data_files=3)
    place = Path(model.table.export())
    assert place == tmp_path / "t-v3"
    metadata = json.loads((place / "metadata/v1.metadata.json").read_text())
    assert metadata["properties"]["gc.enabled"] == "false"
    assert not any(name.startswith("delvec.") for name in metadata["properties"])
    assert "expressions" not in metadata
    assert metadata["partition-specs"][0]["fields"][0]["transform"] == "identity"
    (snapshot,) = metadata["snapshots"]
    assert metadata["next-row-id"] >= model.metadata()["next-row-id"]
    assert snapshot["sequence-number"] == model.metadata()["last-sequence-number"]
    entries = [
        entry
        for manifest in avro(snapshot["manifest-list"])
        for entry in fastavro.reader(io.BytesIO(Path(manifest["manifest_path"]).read_bytes()))
    ]
    assert {entry["status"] for entry in entries} == {0}
    data = [entry["data_file"] for entry in entries if entry["data_file"]["content"] == 0]
    live = {one.name: one for one in model.live()}
    for file in data:
        assert file["first_row_id"] == live[file["file_path"]].first_row_id
        assert {item["key"]: item["value"] for item in file["value_counts"]} == {1: 3, 2: 3}
        assert {item["key"] for item in file["lower_bounds"]} == {1, 2}
        assert file["partition"] == {"p": file["partition"]["p"]}


def test_a_table_that_was_upgraded(tmp_path):
    model = Model(tmp_path / "t", 2)
    files = [model.new_file(4, p) for p in (1, 2)]
    model.commit(add=files, verb=Verb.APPEND)
    model.commit(delete={files[0][0]: [1, 2]}, verb=Verb.DELETE)  # a position-delete file
    model.table.upgrade(4)
    model.commit(
        metadata=MetadataChange(properties={LIMITS["root_data_files"]: "1"}), add=[model.new_file(2)]
    )
    model.commit(remove=[files[1][0]], verb=Verb.DELETE)
    place = model.table.export(str(tmp_path / "view"))
    for read in (read_by_duckdb, read_by_pyiceberg):
        assert rows(read(place)) == model.rows(), read.__name__


def test_an_empty_table(tmp_path):
    model = TreeModel(tmp_path / "t")
    place = model.table.export(str(tmp_path / "view"))
    assert open_table(place).snapshot().plan().files.num_rows == 0


def test_a_location_with_a_table_or_in_the_table_is_refused(tmp_path):
    model = filled(tmp_path / "t")
    place = tmp_path / "view"
    model.table.export(str(place))
    before = files_of(tmp_path)
    with pytest.raises(InvalidOperationError, match="has files already"):
        model.table.export(str(place))
    for inside in (model.root, model.root / "view", tmp_path):
        with pytest.raises(InvalidOperationError, match="expected one outside of the table"):
            model.table.export(str(inside))
    (tmp_path / "delta/_delta_log").mkdir(parents=True)
    (tmp_path / "delta/_delta_log/00000000000000000000.json").write_text("{}")
    with pytest.raises(InvalidOperationError, match="has files already"):
        model.table.export(str(tmp_path / "delta"))
    (tmp_path / "delta/_delta_log/00000000000000000000.json").unlink()
    assert files_of(tmp_path) == before


def test_other_versions_are_refused_by_name(tmp_path):
    model = filled(tmp_path / "t")
    with pytest.raises(UnsupportedFeatureError, match="format_version of an export is 2, expected 3"):
        model.table.export(str(tmp_path / "view"), format_version=2)
    old = Model(tmp_path / "old", 3)
    with pytest.raises(InvalidOperationError, match="has format version 3, which other engines read"):
        old.table.export(str(tmp_path / "view"))
    assert not (tmp_path / "view").exists()


def test_vectors_of_keys_become_full_rows(tmp_path):
    lake = KeyLake(tmp_path / "t")
    lake.commit(lake.vector(1, 4))
    lake.table.upgrade(4)
    lake.commit(lake.vector(2, 7))
    place = lake.table.export(str(tmp_path / "view"))
    found = sorted(row["id"] for row in read_by_duckdb(place))
    assert found == [0, 3, 5, 6, 8, 9]
    exported = open_table(place).snapshot()
    deletes = exported.live_deletes().to_pylist()
    assert [(row["encoding"], row["cardinality"]) for row in deletes] == [("full-row", 2), ("full-row", 2)]
    assert all(row["location"].startswith(f"{place}/data/") for row in deletes)
    assert "write.delete.equality-vector.enabled" not in exported.properties
