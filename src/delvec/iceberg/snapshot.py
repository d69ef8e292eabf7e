"""One snapshot of an Iceberg table. It is immutable; plans come from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from delvec.commit_retries import CommitRetries
from delvec.deletes.write_options import DeleteWriteOptions
from delvec.errors import FormatError, ObjectNotFoundError
from delvec.iceberg import commit_retry, planning, write_properties
from delvec.iceberg.delete_properties import delete_options, may_have_vectors_of_keys
from delvec.iceberg.file_index import FileIndex
from delvec.iceberg.live_entries import LiveEntries
from delvec.iceberg.live_snapshots import live_entries, needs_tree
from delvec.iceberg.locations import Locations
from delvec.iceberg.metadata import SnapshotRecord, TableMetadata
from delvec.iceberg.metadata_change import state_after
from delvec.iceberg.metadata_updates import Update
from delvec.iceberg.name_mapping import NameMapping, table_name_mapping
from delvec.iceberg.pointers import Pointer
from delvec.iceberg.read_schema import ReadSchemas, read_schemas
from delvec.iceberg.refs import NO_SNAPSHOT
from delvec.iceberg.rules import write_rules
from delvec.iceberg.transactions import txn_versions
from delvec.iceberg.tree.carried_tree import CarriedTree
from delvec.partition_spec import PartitionSpec
from delvec.plan import Base, ScanPlan
from delvec.predicate import Condition
from delvec.row_delta import Isolation, MetadataChange, Verb, WriteRules
from delvec.schema import Schema
from delvec.storage import Storage


@dataclass(frozen=True, slots=True)
class Opened:
    """How a table was opened: its files, its metadata, and where the metadata's locations are.

    metadata_path   the metadata file, relative to the storage's root or absolute
    source          where another process opens the same metadata
    ref             the branch or tag
    pointer         who takes commits
    creation        of a table that does not exist yet: the updates that create it
    """

    storage: Storage
    metadata: TableMetadata
    metadata_path: str
    source: str
    locations: Locations
    ref: str | None = None
    pointer: Pointer | None = None
    creation: tuple[Update, ...] = ()


class Snapshot:
    """A snapshot of the table, made by ``IcebergTable.snapshot``; without a ``record``, a table without rows.

    ``schema_id``: the schema in which the rows are shown. It can be newer than the snapshot.
    """

    format = "iceberg"
    passed_over: Sequence[FormatError] = ()

    def __init__(self, opened: Opened, record: SnapshotRecord | None, schema_id: int) -> None:
        self.opened = opened
        self.storage = opened.storage
        self.metadata = opened.metadata
        self.locations = opened.locations
        self.record = record
        self.schema_id = schema_id

    @property
    def delete_options(self) -> DeleteWriteOptions:
        """How deletes are written, by the table's properties."""
        return delete_options(self.properties, self.format_version)

    @property
    def is_draft(self) -> bool:
        """Whether the table does not exist yet."""
        return bool(self.opened.creation)

    @property
    def txns(self) -> Mapping[str, int]:
        """The last version of each idempotent writer, by its ``app_id``."""
        return txn_versions(self.properties)

    @property
    def format_version(self) -> int:
        return self.metadata.format_version

    @property
    def version(self) -> int:
        """The snapshot's id; -1 if the table has no snapshot yet."""
        return NO_SNAPSHOT if self.record is None else self.record.snapshot_id

    @property
    def base(self) -> Base:
        return Base(self.version, self.opened.ref, self.schema_id)

    @property
    def location(self) -> str:
        return self.storage.root

    @property
    def source(self) -> str:
        return self.opened.source

    @property
    def schema(self) -> Schema:
        return self.metadata.schemas[self.schema_id]

    @property
    def properties(self) -> Mapping[str, str]:
        return self.metadata.properties

    @cached_property
    def specs(self) -> Mapping[int, PartitionSpec]:
        """All partition specs of the table, bound to this snapshot's schema."""
        return self.metadata.specs_in(self.schema)

    @property
    def spec(self) -> PartitionSpec:
        return self.specs[self.metadata.default_spec_id]

    @cached_property
    def files(self) -> FileIndex:
        """The live files. Manifests are read when a plan needs them."""
        return FileIndex(self.live_at(self.record), self.schema, self.specs)

    def to_commit_to(self) -> Snapshot:
        """The snapshot as the base of a commit. If the table got trees since, it has one too: its files have
        the same ids.
        """
        if self.record is None or not needs_tree(self.record, self.metadata):
            return self
        live = CarriedTree(self.storage, self.locations, self.record, self.metadata, self.schema)
        base = Snapshot(self.opened, self.record, self.schema_id)
        base.files = FileIndex(live, self.schema, self.specs)
        return base

    def live_at(self, record: SnapshotRecord | None) -> LiveEntries:
        """The live entries of another snapshot of the table, in this one's schema."""
        return live_entries(self.storage, self.locations, record, self.metadata, self.schema)

    @cached_property
    def name_mapping(self) -> NameMapping | None:
        """The field ids of columns in data files that record none."""
        try:
            return table_name_mapping(self.properties)
        except FormatError as error:
            raise error.at(self.location) from None

    @cached_property
    def read_schemas(self) -> ReadSchemas:
        """How the data files store the columns."""
        return read_schemas(self.metadata, self.schema, self.specs, self.name_mapping)

    def plan(
        self,
        where: Condition | None = None,
        *,
        time_zone: str = "UTC",
        among: pa.Array | None = None,
    ) -> ScanPlan:
        """The files that may have a row for which ``where`` is true; all files without it."""
        try:
            return planning.plan(self, where, time_zone=time_zone, among=among)
        except ObjectNotFoundError as error:
            raise self._missing(error) from error

    def live_deletes(self) -> pa.Table:
        """All live deletes as rows of ``ScanPlan.deletes``, also those that apply to no live data file."""
        return planning.live_deletes(self)

    def names(self, file_ids: pa.Array) -> pa.Array:
        """The recorded locations of files by their ids."""
        return planning.names(self, file_ids)

    def file_ids(self, names: pa.Array) -> pa.Array:
        """The ids of files by their recorded locations; null for a file that is not live."""
        return planning.file_ids(self, names)

    def isolation(self, verb: Verb) -> Isolation:
        """The isolation level that the table's properties set."""
        return write_properties.isolation(self.properties, verb)

    def commit_retries(self) -> CommitRetries:
        """How often the table's properties let commits be tried again."""
        return commit_retry.commit_retries(self.properties)

    def rules(self, verb: Verb, change: MetadataChange | None = None) -> WriteRules:
        """How a statement of this kind must write rows; with ``change``, how after this change of metadata.

        ``WriteRules.change`` is the change to commit: its new columns have their ids.
        """
        if change is None:
            return write_rules(self, verb)
        state = state_after(self.metadata, change)
        metadata = self.metadata.changed_to(
            format_version=state.format_version, schema=state.schema, properties=state.properties
        )
        opened = replace(self.opened, metadata=metadata)
        after = Snapshot(opened, self.record, metadata.current_schema_id)
        resolved = change if change.schema is None else replace(change, schema=state.schema)
        return replace(write_rules(after, verb), change=resolved)

    def details(self) -> Mapping[str, Any]:
        """Facts about the snapshot by Iceberg's names."""
        metadata = self.metadata
        record = self.record
        details = {
            "format version": metadata.format_version,
            "table uuid": metadata.table_uuid,
            "metadata file": self.opened.metadata_path,
            "recorded location": None if self.is_at_home else metadata.location,
            "ref": self.opened.ref,
            "sequence number": None if record is None else record.sequence_number,
            "parent snapshot": None if record is None else record.parent_id,
            "schema id": self.schema_id,
            "partition spec id": metadata.default_spec_id,
            "snapshots": len(metadata.snapshots),
            "branches and tags": self._refs(),
            "deletes": write_properties.mode_texts(self.properties) if metadata.format_version > 1 else [],
            "vectors of keys": self._vectors_of_keys(),
            "identifier columns": self._identifier_columns(),
            "next row id": metadata.next_row_id,
        }
        return {name: value for name, value in details.items() if value not in (None, [])}

    def _missing(self, error: ObjectNotFoundError) -> FormatError:
        """The error for a manifest or manifest list that is gone."""
        hint = ""
        if not self.is_at_home and self.locations.root is None:
            hint = (
                f"; the metadata records the location {self.metadata.location}: if the table was copied from "
                "there, open it with relocate=True"
            )
        return FormatError(
            f"a file that the metadata of snapshot {self.version} needs is missing{hint}", path=error.path
        )

    @property
    def is_at_home(self) -> bool:
        """Whether the table is where its metadata says."""
        return Locations(self.metadata.location).home == self.location

    def _refs(self) -> list[str]:
        refs = sorted(self.metadata.refs.values(), key=lambda ref: ref.name)
        return [f"{ref.name} ({ref.kind}): {ref.snapshot_id}" for ref in refs]

    def _vectors_of_keys(self) -> str | None:
        """A mark of tables that no other engine can read once they have a vector of keys."""
        has_vectors = may_have_vectors_of_keys(self.properties, self.format_version)
        return "on: only delvec can read the table when it has one" if has_vectors else None

    def _identifier_columns(self) -> list[str]:
        ids = self.metadata.identifier_ids.get(self.schema_id, frozenset())
        return [field.name for field in self.schema if field.field_id in ids]
