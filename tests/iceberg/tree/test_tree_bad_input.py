"""Trees with damaged, missing and foreign files: an error that names the file, and no rows."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import naive_tree
from delvec import blob
from delvec.bitmap import Bitmap
from delvec.detect import open_table
from delvec.errors import DelvecError, FormatError, InvalidOperationError, UnsupportedFeatureError
from delvec.iceberg.tree.entries import (
    CONTENT_STATS,
    DATA_CONTENT,
    DATA_MANIFEST,
    MANIFEST_DV,
    ROOT_CONTENT,
    united,
    with_columns,
    with_value,
)
from delvec.iceberg.tree.manifest_file import ManifestFile, read_manifest, write_manifest
from delvec.iceberg.tree.mark import MARK
from delvec.iceberg.tree.stored_tree import TREE_MANIFESTS
from delvec.row_delta import MetadataChange, Verb
from iceberg_tables.rest_server import rest_server
from iceberg_tables.trees import TreeModel
from iceberg_tables.writer import IcebergWriter


@pytest.fixture
def model(tmp_path):
    """A leaf of three files, of which one is masked."""
    model = TreeModel(tmp_path / "t", root_data_files=0)
    files = [model.new_file(4) for _ in range(3)]
    model.commit(add=files, verb=Verb.APPEND)
    model.commit(remove=[files[1][0]])
    return model


def leaf_of(model):
    return next(e["location"] for e in model.root_entries() if e["content_type"] == naive_tree.DATA_MANIFEST)


def refused(model, match, error=FormatError):
    TREE_MANIFESTS.clear()
    with pytest.raises(error, match=match) as raised:
        open_table(str(model.root)).snapshot().plan()
    return str(raised.value)


def edited_root(model, change):
    """Replace the entries of the root."""
    path = Path(model.root_file)
    entries = read_manifest(path.read_bytes(), str(path)).entries
    path.write_bytes(write_manifest(ManifestFile(ROOT_CONTENT, change(entries))))


def vectors(entries):
    return entries.filter(pc.equal(entries.column("content_type"), MANIFEST_DV))


def test_a_leaf_that_is_missing(model):
    Path(leaf_of(model)).unlink()
    assert leaf_of(model) in refused(model, "is missing")


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_truncated_leaf(model, kept):
    path = Path(leaf_of(model))
    path.write_bytes(path.read_bytes()[:kept])
    assert str(path) in refused(model, "leaf has .* bytes, expected")


def test_a_truncated_root(model):
    path = Path(model.root_file)
    path.write_bytes(path.read_bytes()[:-9])
    assert str(path) in refused(model, "Parquet")


def test_a_root_that_is_missing(model):
    Path(model.root_file).unlink()
    assert model.root_file in refused(model, "is missing")


def test_a_manifest_vector_that_is_longer_than_its_leaf(model):
    def longer(entries):
        is_vector = pc.equal(entries.column("content_type"), MANIFEST_DV)
        new = pa.scalar(blob.encode(Bitmap.from_iterable([7])), pa.binary())
        return with_columns(
            entries, {"dv_inline": pc.if_else(is_vector, new, entries.column("dv_inline").combine_chunks())}
        )

    edited_root(model, longer)
    assert leaf_of(model) in refused(model, "masks position 7, expected positions below 3")


def test_two_live_manifest_vectors_on_one_leaf(model):
    edited_root(model, lambda entries: pa.concat_tables([entries, vectors(entries)]))
    assert model.root_file in refused(model, "has two live manifest vectors, expected one")


def test_three_levels(model):
    path = Path(leaf_of(model))
    root = read_manifest(Path(model.root_file).read_bytes(), "root").entries
    leaf = root.filter(pc.equal(root.column("content_type"), DATA_MANIFEST))
    path.write_bytes(write_manifest(ManifestFile(DATA_CONTENT, leaf)))
    edited_root(model, lambda entries: with_sizes(entries, path))
    refused(model, "leaf has an entry that only the root may have")
    path.write_bytes(write_manifest(ManifestFile(ROOT_CONTENT, leaf)))
    edited_root(model, lambda entries: with_sizes(entries, path))
    refused(model, "manifests have two levels")


def with_sizes(entries, path):
    is_leaf = pc.equal(entries.column("content_type"), DATA_MANIFEST)
    sizes = pc.if_else(is_leaf, path.stat().st_size, entries.column("file_size_in_bytes"))
    return with_columns(entries, {"file_size_in_bytes": sizes})


def test_a_root_of_another_snapshot(model):
    edited_root(model, lambda entries: with_value(entries, "snapshot_id", 5))
    refused(model, "snapshot_id of an ADDED entry is 5")


def edited_metadata(model, change):
    hint = (model.root / "metadata/version-hint.text").read_text()
    path = model.root / f"metadata/v{hint}.metadata.json"
    members = json.loads(path.read_text())
    change(members)
    path.write_text(json.dumps(members))


def test_another_writers_table_of_version_4(tmp_path):
    """Upstream's version 4 still has manifest lists, and no mark."""
    writer = IcebergWriter(tmp_path / "t", pa.schema([("id", pa.int64())]), format_version=3)
    writer.append([{"id": 1}])
    model = TreeModel.__new__(TreeModel)
    model.root = tmp_path / "t"
    edited_metadata(model, lambda members: members.update({"format-version": 4}))
    with pytest.raises(UnsupportedFeatureError, match=f"without the property {MARK}=seed-1") as raised:
        open_table(str(model.root)).snapshot()
    assert raised.value.feature == "format version 4 with manifest lists"


def test_a_snapshot_with_a_manifest_list_that_is_newer_than_the_trees(model):
    def with_list(members):
        newest = dict(members["snapshots"][-1])
        del newest["root-manifest"]
        newest |= {"snapshot-id": 77, "sequence-number": 9, "manifest-list": "snap-77.avro"}
        members["snapshots"].append(newest)

    edited_metadata(model, with_list)
    with pytest.raises(UnsupportedFeatureError, match="snapshot 77 has a manifest list, but is newer"):
        open_table(str(model.root)).snapshot()


def test_the_mark_cannot_be_changed(model):
    for change in ({MARK: "other"}, {MARK: None}):
        with pytest.raises(InvalidOperationError, match=f"property {MARK} is reserved"):
            model.commit(metadata=MetadataChange(properties=change))
    assert model.metadata()["properties"][MARK] == "seed-1"


def test_other_catalogs(tmp_path):
    from pyiceberg.catalog.rest import RestCatalog

    from delvec.iceberg.catalogs import IcebergCatalog
    from delvec.schema import Field, Primitive, Struct

    with rest_server(tmp_path / "lake") as server:
        catalog = IcebergCatalog("rest", RestCatalog("rest", uri=server.uri))
        schema = Struct((Field("id", Primitive("long")),))
        with pytest.raises(
            UnsupportedFeatureError, match=r"format version 4 .* in a SqlCatalog only, but rest.db.t"
        ):
            catalog.draft_table(("db", "t"), schema, lambda _: {}, format_version=4)


@pytest.mark.parametrize("name", ["status", "content_type"])
def test_entries_that_break_a_rule(model, name):
    edited_root(model, lambda entries: with_value(entries, name, 9))
    refused(model, f"{name} is 9", DelvecError)


def messages(model):
    TREE_MANIFESTS.clear()
    return [finding.message for finding in model.table.findings(open_table(str(model.root)).snapshot())]


def test_verify_compares_counts_with_the_leaf(model):
    def miscounted(entries):
        recorded = entries.column("added_rows_count")
        return with_columns(entries, {"added_rows_count": pc.if_else(recorded.is_valid(), 1, recorded)})

    edited_root(model, miscounted)
    assert messages(model) == ["root says added_rows_count 1, expected 12, as the leaf has"]


def test_verify_compares_statistics_with_the_leaf(model):
    """The leaf in which nothing is masked says of its bounds what its entries do not."""

    def narrower(entries):
        rows = entries.to_pylist()
        for row in rows:
            found = row[CONTENT_STATS] and row[CONTENT_STATS]["1"]
            if found and found["upper_bound"] is not None:
                found["upper_bound"] -= 1
        return pa.Table.from_pylist(rows, schema=entries.schema)

    edited_root(model, narrower)
    assert messages(model) == ["upper_bound of field 1 does not contain those of all entries of the leaf"]


def test_verify_finds_a_file_that_is_live_twice(model):
    """In the root, and in a leaf."""
    path = Path(leaf_of(model))
    file = read_manifest(path.read_bytes(), str(path)).entries.slice(0, 1)

    def twice(entries):
        explicit = {name: entries.column(name).slice(0, 1) for name in ("snapshot_id", "sequence_number")}
        explicit["file_sequence_number"] = explicit["sequence_number"]
        own = with_value(with_columns(file, {**explicit, "first_row_id": pa.array([0])}), "status", 0)
        stats = entries.schema.field(CONTENT_STATS).type
        return united([entries, own], stats)

    edited_root(model, twice)
    assert any("has several live entries in the tree" in message for message in messages(model))
