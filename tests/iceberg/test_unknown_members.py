"""Members of metadata.json that delvec does not know survive every kind of commit, wherever they are."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from delvec import conflicts, formats
from delvec.detect import open_table
from delvec.ref_changes import NewRef
from delvec.row_delta import MetadataChange, Operation, Read, Request, RowDelta, Verb
from delvec.schema import Field, Primitive, Struct
from delvec.vacuum import vacuum
from iceberg_tables import IcebergWriter
from iceberg_tables.readers import newest_metadata

UNKNOWN = {"future-member": {"x": [1, None, "ü", 2**60, 1.5]}}
PLACES = ("schemas", "partition-specs", "sort-orders", "snapshots", "refs")


@pytest.fixture
def writer(tmp_path):
    writer = IcebergWriter(tmp_path / "t", pa.schema([("id", pa.int64()), ("p", pa.int32())]),
                           partition_by=["p"], format_version=2)  # fmt: skip
    writer.append([{"id": 1, "p": 1}], at=1)
    writer.append([{"id": 2, "p": 1}])

    def edit(metadata):
        metadata["sort-orders"] = [{"order-id": 0, "fields": []}]
        for name in PLACES:
            for item in items(metadata, name):
                item.update(UNKNOWN)
        for schema in metadata["schemas"]:
            schema["fields"][0] |= UNKNOWN
        statistics = {"snapshot-id": writer.head.id, "statistics-path": f"{writer.root}/x.puffin", **UNKNOWN}
        statistics |= {"file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": []}
        return {**metadata, **UNKNOWN, "statistics": [statistics]}

    writer.edit_metadata = edit
    writer.write_metadata()
    return writer


def items(metadata, name):
    found = metadata[name]
    return list(found.values()) if isinstance(found, dict) else found


def commit(table, verb=Verb.ALTER, **parts):
    base = table.snapshot()
    delta = RowDelta(base.base, Request(Operation.SET_PROPERTIES), Read(blind=True), verb, **parts)
    conflicts.commit(table, base, delta, conflicts.ReadsNoRows())


def removed_rows(table):
    file_ids = table.snapshot().plan().files.column("file_id").combine_chunks()
    commit(table, Verb.DELETE, removed=file_ids.slice(0, 1))


COMMITS = {
    "properties": lambda table: commit(table, metadata=MetadataChange(properties={"a": "b"})),
    "columns": lambda table: commit(
        table,
        metadata=MetadataChange(schema=Struct((*table.snapshot().schema, Field("w", Primitive("long"))))),
    ),
    "rows": removed_rows,
    "branch": lambda table: table.create_ref(NewRef("b")),
    "upgrade": lambda table: formats.upgrade(table, 3),
    "expiry": vacuum,
}


@pytest.mark.parametrize("name", COMMITS)
def test_they_survive(writer, name):
    table = open_table(str(writer.root))
    before = newest_metadata(writer.root)
    old = set(table.snapshot().metadata.snapshots)
    COMMITS[name](table)
    metadata = json.loads(Path(newest_metadata(writer.root)).read_bytes())
    assert newest_metadata(writer.root) != before
    assert metadata["future-member"] == UNKNOWN["future-member"]
    for place in PLACES:
        known = [item for item in items(metadata, place) if "future-member" in item]
        assert all(item["future-member"] == UNKNOWN["future-member"] for item in known)
        expected = 1 if place != "snapshots" else len(old & {s["snapshot-id"] for s in metadata["snapshots"]})
        # The branch that a commit moves is a new ref, as in Iceberg's own library.
        assert len(known) == (0 if (place, name) == ("refs", "rows") else expected), place
    assert all(schema["fields"][0]["future-member"] for schema in metadata["schemas"])
    assert metadata["statistics"][0]["future-member"] == UNKNOWN["future-member"]
