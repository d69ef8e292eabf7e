"""Tables of the test writer whose manifests and manifest list delvec has written again."""

from __future__ import annotations

import pyarrow as pa

from delvec.iceberg.live_files import LiveFiles
from delvec.iceberg.manifest import EXISTING
from delvec.iceberg.manifest_list import MANIFESTS_SCHEMA
from delvec.iceberg.manifest_list_writer import write_manifest_list
from delvec.iceberg.manifest_writer import manifest_row, write_manifest
from delvec.iceberg.table import IcebergTable
from delvec.storage import open_storage


def live_files(table):
    """The live files of the current snapshot of a test writer's table."""
    snapshot = IcebergTable(open_storage(str(table.root))).snapshot()
    return LiveFiles(snapshot.storage, snapshot.locations, snapshot.record, snapshot.specs)


def rewrite(table, version=None):
    """Write each manifest again, its files as existing ones, and the manifest list in its old place."""
    version = version or table.format_version
    snapshot = IcebergTable(open_storage(str(table.root))).snapshot()
    live = live_files(table)
    rows = []
    for at, old in enumerate(live.manifests.to_pylist()):
        entries = existing(live.entries(pa.array([at]).to_numpy()))
        data = write_manifest(
            entries, **wire(table, old["spec_id"]), format_version=version, content=old["content"]
        )
        path = f"{table.location}/metadata/rewritten-{at}.avro"
        snapshot.storage.put(path, data)
        row = manifest_row(
            entries,
            path=path,
            length=len(data),
            spec=snapshot.specs[old["spec_id"]],
            content=old["content"],
            sequence_number=snapshot.record.sequence_number,
            snapshot_id=snapshot.record.snapshot_id,
            first_row_id=old["first_row_id"],
        )
        rows.append(row)
    manifests = pa.Table.from_pylist(rows, schema=MANIFESTS_SCHEMA)
    data = write_manifest_list(
        manifests,
        snapshot_id=snapshot.version,
        parent_id=snapshot.record.parent_id,
        sequence_number=snapshot.record.sequence_number,
        first_row_id=snapshot.record.first_row_id,
        format_version=version,
    )
    snapshot.storage.put(snapshot.record.manifest_list, data)


def existing(entries):
    at = entries.schema.get_field_index("status")
    return entries.set_column(at, "status", pa.repeat(pa.scalar(EXISTING, pa.int32()), len(entries)))


def wire(table, spec_id):
    """What a manifest of the spec has of the table's metadata."""
    metadata = IcebergTable(open_storage(str(table.root))).snapshot().metadata
    schemas = {schema["schema-id"]: schema for schema in metadata.raw["schemas"]}
    specs = {spec["spec-id"]: spec for spec in metadata.raw["partition-specs"]}
    return {
        "spec": metadata.specs[spec_id],
        "schema_json": schemas[metadata.current_schema_id],
        "spec_json": specs[spec_id],
    }
