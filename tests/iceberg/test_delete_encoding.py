"""The field ``encoding`` of delete files in manifests: written behind the gate, optional, and never trusted
above the blob's own type.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from delvec.cli.dv import list_blobs
from delvec.cli.show import summarize
from delvec.deletes.equality import EqualityDeletes
from delvec.deletes.loader import DeleteLoader
from delvec.detect import open_vector_file
from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.file_nodes import file_nodes
from delvec.iceberg import stored_deletes
from delvec.iceberg.manifest import ENCODING_ID
from delvec.iceberg.snapshot import Snapshot
from delvec.row_delta import MetadataChange
from delvec.verify import verify_table
from iceberg_tables.key_deletes import KeyLake


@pytest.fixture
def lake(tmp_path):
    return KeyLake(tmp_path / "t")


def manifests(lake):
    """The delete manifests of the newest snapshot, as fastavro reads them."""
    for path in (
        lake.snapshot.files.live.manifests.filter(
            pa.compute.equal(lake.snapshot.files.live.manifests.column("content"), 1)
        )
        .column("path")
        .to_pylist()
    ):
        yield fastavro.reader(io.BytesIO(Path(path).read_bytes()))


def recorded(lake):
    return sorted(
        entry["data_file"].get("encoding", "no field")
        for reader in manifests(lake)
        for entry in reader
        if entry["status"] != 2
    )


def keys(snapshot: Snapshot):
    """All keys of the snapshot's equality deletes."""
    loader = DeleteLoader(snapshot.storage)
    layers = EqualityDeletes.of(snapshot.plan()).layers
    return sorted(key for layer in layers for key in loader.load_keys(layer).keys.column(0).to_pylist())


def test_tables_with_vectors_of_keys_record_it(lake):
    lake.commit(lake.vector(1, 2), lake.rows(3))
    assert recorded(lake) == [0, 1]
    (reader,) = manifests(lake)
    (record,) = (f["type"] for f in reader.writer_schema["fields"] if f["name"] == "data_file")
    (own,) = (f for f in record["fields"] if f["name"] == "encoding")
    assert own["field-id"] == ENCODING_ID == 170
    assert own["type"] == ["null", "int"]
    assert own["default"] is None
    others = {f["field-id"] for f in record["fields"]} - {ENCODING_ID}
    assert ENCODING_ID not in others
    assert ENCODING_ID < 1000  # where partition fields start
    data = lake.snapshot.files.live.data_manifests
    assert "encoding" not in str(manifest_schema(lake, data[0]))
    assert keys(lake.snapshot) == [1, 2, 3]


def manifest_schema(lake, number):
    path = lake.snapshot.files.live.manifests.column("path")[int(number)].as_py()
    return fastavro.reader(io.BytesIO(Path(path).read_bytes())).writer_schema


@pytest.mark.parametrize(("version", "gate"), [(3, "false"), (2, "true"), (2, "false")])
def test_other_tables_do_not(tmp_path, version, gate):
    lake = KeyLake(tmp_path / "t", version, gate=gate)
    lake.commit(lake.rows(3))
    assert recorded(lake) == ["no field"]
    assert keys(lake.snapshot) == [3]


def test_the_field_goes_when_the_gate_is_closed_and_is_inferred_then(lake):
    """As when another engine rewrites the manifests, which drops the field."""
    lake.commit(lake.vector(1, 2), lake.rows(3))
    properties = {
        "write.delete.equality-vector.enabled": "false",
        "commit.manifest.min-count-to-merge": "2",
    }
    lake.commit(metadata=MetadataChange(properties=properties))
    lake.commit(lake.rows(4))
    assert recorded(lake) == ["no field"] * 3
    assert keys(lake.snapshot) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("encoding", "name"), [(2, "hash-map"), (7, "unknown encoding 7"), (-1, "unknown encoding -1")]
)
@pytest.mark.parametrize("kind", ["vector", "rows"])
def test_an_encoding_that_delvec_does_not_apply_stops_the_read(lake, monkeypatch, encoding, name, kind):
    with_encoding(monkeypatch, encoding)
    lake.commit(getattr(lake, kind)(5))
    with pytest.raises(UnsupportedFeatureError, match=f"has the encoding '{name}', expected") as refused:
        EqualityDeletes.of(lake.snapshot.plan())
    assert refused.value.feature == name


def test_0_may_stand_for_not_recorded(lake, monkeypatch):
    """The blob's type has the last word: a Puffin file is never read as full rows."""
    with_encoding(monkeypatch, 0)
    lake.commit(lake.vector(1, 2))
    assert recorded(lake) == [0]
    assert keys(lake.snapshot) == [1, 2]


def test_null_is_inferred(lake, monkeypatch):
    with_encoding(monkeypatch, None)
    lake.commit(lake.vector(1, 2), lake.rows(3))
    assert [entry["encoding"] for entry in lake.entries()] == [None, None]
    assert keys(lake.snapshot) == [1, 2, 3]


def test_a_vector_must_be_in_a_puffin_file(lake, monkeypatch):
    with_encoding(monkeypatch, 1)
    lake.commit(lake.rows(3))
    with pytest.raises(FormatError, match=r"vector is in a file of format 'parquet', expected 'puffin'"):
        lake.snapshot.plan()


def with_encoding(monkeypatch, encoding):
    """Commits record this encoding for all delete files."""
    original = stored_deletes._columns

    def columns(files, base):
        return original(files, base) | {"encoding": pa.array([encoding] * len(files), pa.int32())}

    monkeypatch.setattr(stored_deletes, "_columns", columns)


def test_opening_the_gate_is_told_and_shown(tmp_path, caplog):
    lake = KeyLake(tmp_path / "t", gate="false")
    assert "vectors of keys" not in lake.snapshot.details()
    assert "only delvec can read it" not in caplog.text
    for value in ("true", "true"):
        change = MetadataChange(properties={"write.delete.equality-vector.enabled": value})
        lake.commit(metadata=change)
    assert caplog.text.count("only delvec can read it") == 1
    assert lake.snapshot.details()["vectors of keys"] == "on: only delvec can read the table when it has one"


def test_vectors_of_keys_in_commands(lake):
    lake.commit(lake.vector(1, 2), lake.rows(3))
    summary = summarize(lake.table, lake.snapshot)
    assert (summary.delete_files.equality, summary.delete_files.key_vectors) == (2, 1)
    assert "2 equality files (1 vector of keys), 3 rows" in dict(summary._facts())["delete files"]
    tree = as_text(lake.snapshot.plan())
    assert {"vector of keys", "equality deletes"} <= tree
    report = verify_table(lake.table)
    assert (report.findings, report.delete_files) == ((), 2)
    place = next(path for path in lake.root.rglob("*.puffin"))
    (blob,) = open_vector_file(str(place))
    (listed,) = list_blobs(str(place), [blob], ranges=5, limit=10).vectors
    assert (listed["cardinality"], listed["min"], listed["max"]) == (2, 1, 2)
    assert listed["attributes"]["equality-field-id"] == "1"


def as_text(plan):
    return {child.kind for node in file_nodes(plan, np.arange(2)) for child in node.children(9)}


@pytest.mark.parametrize(
    ("field_ids", "message"), [((9,), "which is in no schema"), ((2,), "footer says column 1 of the vector")]
)
def test_a_vector_of_another_column_is_found(lake, field_ids, message):
    lake.commit(replace(lake.vector(1), field_ids=field_ids))
    findings = [finding.message for finding in verify_table(lake.table).findings]
    assert any(message in found for found in findings), findings


def test_a_vector_that_is_gone_or_has_another_size_is_found(lake):
    lake.commit(lake.vector(1, 2))
    place = next(path for path in lake.root.rglob("*.puffin"))
    data = place.read_bytes()
    place.write_bytes(data + b" ")
    assert any("delete file has" in f.message for f in verify_table(lake.table).findings)
    place.unlink()
    messages = " ".join(f.message for f in verify_table(lake.table).findings)
    assert "delete file is missing" in messages
    assert "vector of keys is missing" in messages
