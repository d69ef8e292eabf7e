"""What an Iceberg table is between commits: columns, partitionings, references, and the metadata file."""

from __future__ import annotations

import gzip
import json
import random
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from iceberg_tables.columns import (
    Column,
    StructType,
    children,
    columns_of,
    name_mapping,
    replaced,
    schema_json,
    without,
)
from iceberg_tables.files import File, Spec, SpecField
from iceberg_tables.snapshots import Snapshot

MAIN = "main"
_PARTITION_IDS = 1000

Edit = Callable[[dict[str, Any]], dict[str, Any]]


def _as_it_is(record: dict[str, Any]) -> dict[str, Any]:
    return record


@dataclass
class TableState:
    """A table at ``root``. ``location``: the place that its metadata records, by default ``root``.

    partition_by  columns, or transforms of columns: ``p``, ``bucket[4](id)``, ``day(ts)``
    ids           whether data files have field ids; if not, the table has a name mapping
    numbered      metadata files are ``NNNNN-<uuid>.metadata.json``, as of catalogs, without a hint
    compressed    metadata files are gzip
    inline_manifests  snapshots list their manifests themselves, as old v1 tables do
    """

    root: Path
    columns: pa.Schema
    format_version: int = 2
    partition_by: Sequence[str] = ()
    properties: dict[str, str] = field(default_factory=dict)
    location: str = ""
    ids: bool = True
    stats: bool = True
    row_group_size: int | None = None
    codec: str = "deflate"
    numbered: bool = False
    compressed: bool = False
    inline_manifests: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        self.location = self.location or str(self.root)
        self.edit_entry: Edit = _as_it_is
        self.edit_manifest: Edit = _as_it_is
        self.edit_metadata: Edit = _as_it_is
        self._rng = random.Random(self.seed)
        self.uuid = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        self._last_column, self._last_field = 0, _PARTITION_IDS - 1
        self.schemas = [columns_of(self.columns, self._next_column)]
        self.schema_id = 0
        self.specs: list[Spec] = []
        self.snapshots: dict[int, Snapshot] = {}
        self.refs: dict[str, dict[str, Any]] = {}
        self.snapshot_log: list[dict[str, Any]] = []
        self.last_sequence, self.next_row_id = 0, 0
        self.last_updated = 1_700_000_000_000
        self.metadata_version = 0
        self._added: list[tuple[File, int | None]] = []
        self._removed: set[tuple[str, int | None]] = set()
        self._names = count()
        if not self.ids:
            self._map_names()
        self.replace_spec(self.partition_by)

    # Columns and partitioning

    @property
    def schema(self) -> StructType:
        return self.schemas[self.schema_id]

    @property
    def spec(self) -> Spec:
        return self.specs[self._default_spec]

    def _next_column(self) -> int:
        self._last_column += 1
        return self._last_column

    def replace_spec(self, partition_by: Sequence[str]) -> Spec:
        """New files are partitioned in this way; older ones stay as they are."""
        fields = tuple(self._spec_field(text) for text in partition_by)
        known = next((spec for spec in self.specs if spec.fields == fields), None)
        if known is None:
            known = Spec(len(self.specs), fields)
            self.specs.append(known)
        self._default_spec = known.id
        self.write_metadata()
        return known

    def _spec_field(self, text: str) -> SpecField:
        transform, _, name = text.rstrip(")").rpartition("(")
        transform = transform or "identity"
        column = self.schema.find(name)
        known = [part for spec in self.specs for part in spec.fields]
        for part in known:
            if (part.source_id, part.transform) == (column.id, transform):
                return part
        self._last_field += 1
        suffix = "" if transform == "identity" else f"_{transform.partition('[')[0]}"
        if f"{name}{suffix}" in {part.name for part in known}:
            suffix += f"_{self._last_field}"
        return SpecField(column.id, self._last_field, f"{name}{suffix}", transform, str(column.type))

    def add_column(
        self, added: pa.Field, *, default: Any = None, first: bool = False, within: str | None = None
    ) -> Column:
        """``default``: the initial default, which older files have. ``within``: the path of a struct."""
        (column,) = columns_of([added], self._next_column)
        column = replace(column, initial_default=default)
        if within is None:
            self._new_schema((column, *self.schema) if first else (*self.schema, column))
        else:
            struct = self.schema.find(within)
            nested = StructType((*children(struct.type), column))
            self._replace_column(replace(struct, type=nested))
        return column

    def drop_column(self, name: str) -> None:
        gone = self.schema.find(name).id
        self._new_schema(without(self.schema, gone))

    def rename_column(self, name: str, new: str) -> None:
        self._replace_column(replace(self.schema.find(name), name=new))

    def promote_column(self, name: str, kind: str) -> None:
        self._replace_column(replace(self.schema.find(name), type=kind))

    def reorder_columns(self, names: Sequence[str]) -> None:
        self._new_schema([self.schema.find(name) for name in names])

    def replace_columns(self, columns: Iterable[Column]) -> None:
        self._new_schema(columns)

    def _replace_column(self, column: Column) -> None:
        self._new_schema(replaced(self.schema, column))

    def _new_schema(self, columns: Iterable[Column]) -> None:
        self.schemas.append(StructType(tuple(columns)))
        self.schema_id = len(self.schemas) - 1
        if not self.ids:
            self._map_names()
        self.write_metadata()

    def _map_names(self) -> None:
        """The mapping keeps the columns that were dropped: older snapshots have them, as Java does."""
        known = {column.id: column for schema in self.schemas for column in schema}
        mapping = name_mapping(StructType(tuple(known.values())))
        self.properties["schema.name-mapping.default"] = json.dumps(mapping)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self.properties |= properties
        self.write_metadata()

    def upgrade(self, version: int) -> None:
        """The next format version; older manifests stay as they are."""
        self.format_version = version
        self.write_metadata()

    def _head(self, branch: str) -> Snapshot:
        ref = self.refs.get(branch) or self.refs.get(MAIN)
        return self.snapshots[ref["snapshot-id"]] if ref else Snapshot(0, {}, 0, ())

    @property
    def head(self) -> Snapshot:
        """The current snapshot."""
        return self._head(MAIN)

    # The metadata file

    def write_metadata(self) -> Path:
        """The next metadata file."""
        self.metadata_version += 1
        ending = ".gz.metadata.json" if self.compressed else ".metadata.json"
        data = json.dumps(self.edit_metadata(self.metadata()), indent=1).encode()
        name = f"v{self.metadata_version}"
        if self.numbered:
            name = f"{self.metadata_version - 1:05d}-{self._uuid()}"
        self._put(f"metadata/{name}{ending}", gzip.compress(data) if self.compressed else data)
        if not self.numbered:
            self._put("metadata/version-hint.text", str(self.metadata_version).encode())
        return self.root / f"metadata/{name}{ending}"

    def metadata(self) -> dict[str, Any]:
        version, current = self.format_version, self.refs.get(MAIN, {}).get("snapshot-id")
        found: dict[str, Any] = {
            "format-version": version,
            "table-uuid": self.uuid,
            "location": self.location,
            "last-updated-ms": self.last_updated,
            "last-column-id": self._last_column,
            "schemas": [schema_json(schema, number) for number, schema in enumerate(self.schemas)],
            "current-schema-id": self.schema_id,
            "partition-specs": [spec.json() for spec in self.specs],
            "default-spec-id": self._default_spec,
            "last-partition-id": self._last_field,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": self.properties,
            "current-snapshot-id": current,
            "refs": self.refs,
            "snapshots": [snapshot.json for snapshot in self.snapshots.values()],
            "snapshot-log": self.snapshot_log,
            "metadata-log": [],
        }
        if version == 1:
            found["schema"] = schema_json(self.schema, self.schema_id)
            found["partition-spec"] = self.spec.json()["fields"]
            found["current-snapshot-id"] = -1 if current is None else current
        else:
            found["last-sequence-number"] = self.last_sequence
        if version > 2:
            found["next-row-id"] = self.next_row_id
        return found

    def _put(self, name: str, data: bytes) -> str:
        """Writes a file below the table; returned is its path as metadata records it."""
        place = self.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        return f"{self.location}/{name}"

    def place(self, path: str) -> Path:
        """Where a file is that the metadata records by this path."""
        return self.root / path.removeprefix(f"{self.location}/")

    def _file_name(self, folder: str, ending: str) -> str:
        return f"{folder}/{next(self._names):05d}-{self._uuid()}.{ending}"

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
