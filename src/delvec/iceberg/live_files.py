"""The live files of a snapshot: the entries of its manifests, with what they inherit from the manifest list.

snapshot_id            of the manifest, where the entry has none
sequence numbers       of the manifest, where an added entry has none; 0 in version 1
first_row_id           where a data file has none: that of the manifest, plus the rows of the live files
before it that have none either; null if the manifest has none
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Rows, one_chunk, rows_of
from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg import manifest_list
from delvec.iceberg.avro_fields import typed
from delvec.iceberg.delete_manifests import needed_for
from delvec.iceberg.live_entries import FILE_ID, MANIFEST_SHIFT, SPEC_ID, LiveEntries
from delvec.iceberg.locations import Locations
from delvec.iceberg.manifest import ADDED, ENTRIES_SCHEMA, POSITION, Manifest, read_manifest
from delvec.iceberg.manifest_cache import MANIFESTS
from delvec.iceberg.manifest_facts import ManifestFacts
from delvec.iceberg.metadata import SnapshotRecord
from delvec.iceberg.single_values import decimals_of_bytes
from delvec.iceberg.stats import PARTITION, EntryFacts
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.predicate import Condition
from delvec.schema import Decimal, Fixed, Primitive, Schema, arrow_type
from delvec.storage import Storage, in_parallel

_MAX_POSITION = 2**MANIFEST_SHIFT - 1


class LiveFiles(LiveEntries):
    """The live files of a snapshot that has a manifest list."""

    def __init__(
        self,
        storage: Storage,
        locations: Locations,
        record: SnapshotRecord | None,
        specs: Mapping[int, PartitionSpec],
    ) -> None:
        self._storage = storage
        self._locations = locations
        super().__init__(listed_manifests(storage, locations, record), specs)
        self._verify_specs()

    def facts(self, entries: pa.Table, schema: Schema) -> EntryFacts:
        return EntryFacts(entries, schema, self._specs)

    def needed_data(self, condition: Condition, schema: Schema) -> tuple[Rows, int]:
        numbers = self.data_manifests
        manifests = rows_of(self.manifests, numbers)
        files = pc.add(manifests.column("added_files"), manifests.column("existing_files"))
        may = condition.match(ManifestFacts(manifests, schema, self._specs)).may
        may |= files.is_null().to_numpy()  # read it, to say how many files were skipped
        return numbers[may], int(pc.fill_null(files, 0).to_numpy()[~may].sum())

    def needed_deletes(self, data: pa.Table) -> Rows:
        numbers = self.delete_manifests
        return numbers[needed_for(rows_of(self.manifests, numbers), data, self._specs)]

    def _read(self, number: int) -> pa.Table:
        row = self.manifests.slice(number, 1).to_pylist()[0]
        location = self._locations.resolve(row["path"])
        try:
            manifest = self._parsed(location, row["length"], row["content"])
            return self._inherited(manifest, row, number)
        except FormatError as error:
            raise error.at(location) from None
        except UnsupportedFeatureError as error:
            raise UnsupportedFeatureError(f"{error}: {location}", feature=error.feature) from None

    def _parsed(self, location: str, length: int | None, content: int) -> Manifest:
        key = location, length
        manifest = MANIFESTS.get(key)
        if manifest is None:
            data = self._storage.read(location)
            if length is not None and len(data) < length:
                raise FormatError(f"manifest has {len(data)} bytes, expected {length}")
            manifest = read_manifest(data, content=content).live()
            MANIFESTS.put(key, manifest)
        return manifest

    def _inherited(self, manifest: Manifest, row: Mapping[str, Any], number: int) -> pa.Table:
        entries = manifest.entries
        count = len(entries)
        if count and entries.column(POSITION)[-1].as_py() > _MAX_POSITION:
            raise FormatError(f"manifest has more than {_MAX_POSITION} entries")
        columns = {name: entries.column(name) for name in ENTRIES_SCHEMA.names}
        columns["snapshot_id"] = _filled(columns["snapshot_id"], row["added_snapshot_id"])
        for name in ("sequence_number", "file_sequence_number"):
            columns[name] = _sequence_numbers(columns[name], columns["status"], row["sequence_number"], name)
        if row["content"] == manifest_list.DATA:
            columns["first_row_id"] = _row_ids(
                columns["first_row_id"], columns["record_count"], row["first_row_id"]
            )
        positions = one_chunk(columns[POSITION]).to_numpy()
        columns[FILE_ID] = pa.array((number << MANIFEST_SHIFT) + positions)
        columns[SPEC_ID] = pa.repeat(pa.scalar(row["spec_id"], pa.int32()), count)
        columns |= self._partition_columns(manifest, self._specs[row["spec_id"]])
        return pa.table(columns, schema=self.schema)

    def _partition_columns(self, manifest: Manifest, spec: PartitionSpec) -> dict[str, pa.Array]:
        of_spec = {field.name: field for field in spec.fields}
        columns = {}
        for name, field in self._fields.items():
            kind = arrow_type(field.type)
            values = pa.nulls(len(manifest.entries), kind)
            if name in of_spec and field.field_id in manifest.partition_ids:
                values = typed_partition(manifest.entries.column(str(field.field_id)), field)
            elif name in of_spec:
                raise FormatError(f"manifest has no partition field {field.field_id} ({name})")
            columns[PARTITION + name] = values
        return columns

    def _verify_specs(self) -> None:
        for spec_id in self.manifests.column("spec_id").unique().to_pylist():
            if spec_id not in self._specs:
                path = self.manifests.filter(pc.equal(self.manifests.column("spec_id"), spec_id)).column(
                    "path"
                )[0]
                raise FormatError(
                    f"partition spec of a manifest is {spec_id}, expected one of "
                    f"{', '.join(map(str, sorted(self._specs)))}",
                    path=path.as_py(),
                )


def listed_manifests(storage: Storage, locations: Locations, record: SnapshotRecord | None) -> pa.Table:
    """The manifests of a snapshot, as ``manifest_list.MANIFESTS_SCHEMA``; none for a table without one."""
    if record is None:
        return manifest_list.MANIFESTS_SCHEMA.empty_table()
    if record.manifest_list is None:
        return _listed_in_metadata(storage, locations, record)
    location = locations.resolve(record.manifest_list)
    try:
        return manifest_list.read_manifest_list(storage.read(location))
    except FormatError as error:
        raise error.at(location) from None
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(f"{error}: {location}", feature=error.feature) from None


def _listed_in_metadata(storage: Storage, locations: Locations, record: SnapshotRecord) -> pa.Table:
    """Version 1: only the paths are recorded, so that the manifests themselves say their specs."""

    def spec_id(path: str) -> int:
        location = locations.resolve(path)
        try:
            manifest = MANIFESTS.get((location, None))
            if manifest is None:
                manifest = read_manifest(storage.read(location), content=manifest_list.DATA).live()
                MANIFESTS.put((location, None), manifest)
        except FormatError as error:
            raise error.at(location) from None
        return manifest.spec_id or 0

    spec_ids = in_parallel(spec_id, record.manifests)
    return manifest_list.of_paths(record.manifests, spec_ids, record.snapshot_id)


def _filled(column: pa.ChunkedArray, value: int | None) -> pa.ChunkedArray:
    return column if value is None or not column.null_count else pc.fill_null(column, value)


def _sequence_numbers(
    column: pa.ChunkedArray, status: pa.ChunkedArray, sequence: int, name: str
) -> pa.ChunkedArray:
    if not column.null_count:
        return column
    missing = pc.is_null(column)
    if sequence and pc.any(pc.and_(missing, pc.not_equal(status, ADDED))).as_py():
        raise FormatError(f"an entry of an existing file has no {name}, expected a number")
    return pc.fill_null(column, sequence)


def _row_ids(
    column: pa.ChunkedArray, counts: pa.ChunkedArray, first: int | None
) -> pa.ChunkedArray | pa.Array:
    if first is None:
        return pa.nulls(len(column), pa.int64())
    if not column.null_count:
        return column
    missing = pc.is_null(column).to_numpy()
    rows = np.where(missing, counts.to_numpy(), 0)
    inherited = pa.array(first + np.cumsum(rows) - rows)
    return pc.coalesce(one_chunk(column), inherited)


def typed_partition(column: pa.ChunkedArray, field: PartitionField) -> pa.Array:
    """Partition values in the type of the field, from the type that the Avro file has."""
    values, kind = one_chunk(column), arrow_type(field.type)
    place = f"{field.field_id} ({field.name})"
    match field.type:
        case Decimal() if pa.types.is_large_binary(values.type):
            return decimals_of_bytes(values, kind)
        case Primitive("date" | "time" | "timestamp" | "timestamp_ntz" | "timestamp_ns" | "timestamp_ntz_ns"):
            return _typed_time(values, kind, place)
        case Primitive("string") if pa.types.is_large_binary(values.type) and not field.transform.is_known:
            return pa.array([None if value is None else value.hex() for value in values.to_pylist()], kind)
        case Primitive("uuid") | Fixed():
            return (
                typed(values.cast(pa.binary()), kind, place)
                if not pa.types.is_null(values.type)
                else pa.nulls(len(values), kind)
            )
    return typed(values, kind, place)


def _typed_time(values: pa.Array, kind: pa.DataType, place: str) -> pa.Array:
    if pa.types.is_int32(values.type):
        dates = values.view(pa.date32())
        return dates if pa.types.is_date32(kind) else typed(dates, kind, place)
    if pa.types.is_int64(values.type) and not pa.types.is_date32(kind):
        return values.view(kind)
    return typed(values, kind, place)
