"""One version of a Delta table. It is immutable; plans and write rules come from it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.delta import planning
from delvec.delta.actions import DomainMetadata, Metadata
from delvec.delta.checkpoint_reader import DamagedCheckpointError
from delvec.delta.features import COLUMN_MAPPING, DELETION_VECTORS, Protocol, verify_readable
from delvec.delta.log_reader import LogState, tombstones
from delvec.delta.metadata_change import DRAFT_VERSION, TableState, state_after
from delvec.delta.partition_values import SPEC_ID, verify_partitions_writable
from delvec.delta.properties import MAPPING_MODE, isolation
from delvec.delta.recovery import load_version
from delvec.delta.rules import write_rules
from delvec.delta.schema import MAPPING_ID, MAPPING_NAME, MAPPING_NONE, parse_schema
from delvec.delta.stats.facts import SnapshotFacts
from delvec.delta.writer_features import verify_writable
from delvec.errors import CorruptVectorError, FormatError, UnsupportedFeatureError
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.plan import Base, ScanPlan
from delvec.predicate import Condition
from delvec.row_delta import Isolation, MetadataChange, Verb, WriteRules
from delvec.schema import Schema
from delvec.storage import Storage
from delvec.transforms import IDENTITY

_WITHOUT_NEW_ROWS = (Verb.DELETE, Verb.DELETE_KEYS, Verb.ALTER, Verb.COMPACT)
"""Verbs that compute no values: a compaction copies rows."""


class Snapshot:
    """A version of the table, made by ``DeltaTable.snapshot``. Refuses a table that delvec cannot read."""

    format = "delta"
    format_version = None

    def __init__(self, storage: Storage, state: LogState) -> None:
        self.storage = storage
        self.state = state
        self._seen_newest: float | None = None
        self._facts: dict[str, SnapshotFacts] = {}
        self._resolved_change: tuple[MetadataChange, TableState] | None = None
        protocol, metadata = state.small.protocol, state.small.metadata
        if protocol is None or metadata is None:
            missing = "protocol" if protocol is None else "metaData"
            raise FormatError(
                f"version {state.version} has no {missing} action, expected one: {storage.root}"
            )
        self.protocol: Protocol = protocol
        self.metadata: Metadata = metadata
        verify_readable(protocol, storage.root)
        _verify_provider(metadata, storage.root)
        self._verify_vectors_allowed()

    def saw_newest(self, at: float) -> None:
        """Record that this was the newest version at this time (of ``time.monotonic``)."""
        self._seen_newest = at

    def seen_newest_within(self, seconds: float) -> bool:
        """Whether this is known to have been the newest version at some time in the last ``seconds``."""
        return self._seen_newest is not None and time.monotonic() - self._seen_newest < seconds

    @property
    def version(self) -> int:
        return self.state.version

    @property
    def base(self) -> Base:
        return Base(self.version)

    @property
    def is_draft(self) -> bool:
        return self.version == DRAFT_VERSION

    @property
    def location(self) -> str:
        return self.storage.root

    @property
    def source(self) -> str:
        return self.storage.root

    @property
    def adds(self) -> pa.Table:
        """The live files, as ``actions.ADDS_SCHEMA``."""
        return self.state.adds

    @property
    def properties(self) -> Mapping[str, str]:
        return self.metadata.configuration

    @property
    def domains(self) -> Mapping[str, DomainMetadata]:
        """The domain metadata by domain, without removed ones."""
        return {name: domain for name, domain in self.state.small.domains.items() if not domain.removed}

    @property
    def txns(self) -> Mapping[str, int]:
        """The last version that each idempotent writer has written."""
        return {app_id: txn.version for app_id, txn in self.state.small.txns.items()}

    @property
    def passed_over(self) -> Sequence[FormatError]:
        """The damaged checkpoints that were skipped when the version was read."""
        return self.state.passed_over

    @cached_property
    def mapping(self) -> str:
        """The column mapping mode: ``none``, ``name`` or ``id``."""
        mode = self.properties.get(MAPPING_MODE, MAPPING_NONE)
        if mode not in (MAPPING_NONE, MAPPING_NAME, MAPPING_ID):
            raise FormatError(f"{MAPPING_MODE} is {mode!r}, expected none, name or id: {self.location}")
        # Without the feature in the protocol, the mode has no effect.
        return mode if COLUMN_MAPPING in self.protocol.features_to_read else MAPPING_NONE

    @property
    def by_id(self) -> bool:
        return self.mapping == MAPPING_ID

    @cached_property
    def schema(self) -> Schema:
        try:
            return parse_schema(self.metadata.schema_string, mapping=self.mapping)
        except FormatError as error:
            raise error.at(self.location) from None

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        names = {field.name for field in self.schema}
        for name in self.metadata.partition_columns:
            if name not in names:
                raise FormatError(
                    f"partition column {name!r} is not in the schema, expected one of "
                    f"{', '.join(sorted(names))}: {self.location}"
                )
        return self.metadata.partition_columns

    @cached_property
    def spec(self) -> PartitionSpec:
        types = {field.name: field.type for field in self.schema}
        return PartitionSpec(
            SPEC_ID,
            tuple(PartitionField(name, (name,), IDENTITY, types[name]) for name in self.partition_columns),
        )

    def rules(self, verb: Verb, change: MetadataChange | None = None) -> WriteRules:
        """How a statement of this kind must write rows; with ``change``, how after this change of metadata.

        ``WriteRules.change`` is the change to commit: its new columns have their ids and physical names.
        Raises UnsupportedFeatureError, with the feature's name, for a table that delvec cannot write
        correctly.
        """
        new_rows = verb not in _WITHOUT_NEW_ROWS
        if new_rows or verb == Verb.COMPACT:
            verify_partitions_writable(self.schema, self.partition_columns)
        if change is None:
            verify_writable(self, new_rows=new_rows)
            return write_rules(self)
        state = self.state_after(change)
        small = replace(self.state.small, protocol=state.protocol, metadata=state.metadata)
        after = Snapshot(self.storage, replace(self.state, small=small))
        verify_writable(after, new_rows=new_rows)
        resolved = change if change.schema is None else replace(change, schema=after.schema)
        self._resolved_change = resolved, state
        return replace(write_rules(after), change=resolved)

    def state_after(self, change: MetadataChange | None) -> TableState:
        """Protocol and metadata after the change. They are computed once for the change that ``rules``
        returns, so that the commit has the column names that the rows were written with.
        """
        if change is None:
            return TableState(self.protocol, self.metadata)
        cached = self._resolved_change
        if cached is None or cached[0] is not change:
            cached = self._resolved_change = change, state_after(self, change)
        return cached[1]

    def details(self) -> Mapping[str, Any]:
        """Protocol and identity, for display: only values that the log states."""
        details = {
            "reader version": self.protocol.min_reader_version,
            "writer version": self.protocol.min_writer_version,
            "reader features": sorted(self.protocol.reader_features),
            "writer features": sorted(self.protocol.writer_features),
            "column mapping": self.mapping if self.mapping != MAPPING_NONE else None,
            "domains": sorted(self.domains),
            "id": self.metadata.id,
            "name": self.metadata.name,
            "description": self.metadata.description,
        }
        return {name: value for name, value in details.items() if value not in (None, [])}

    def tombstones(self) -> pa.Table:
        """The removed files, as ``actions.REMOVES_SCHEMA``. Reads the checkpoint again, or a newer one if
        that was removed since.
        """
        try:
            return tombstones(self.storage, self.state)
        except DamagedCheckpointError:
            state, _ = load_version(self.storage, self.version)
            return tombstones(self.storage, state)

    def facts(self, *, time_zone: str = "UTC") -> SnapshotFacts:
        """Statistics and partition values of all live files. Parsed columns are kept."""
        if time_zone not in self._facts:
            self._facts[time_zone] = SnapshotFacts(
                self.adds, self.schema, self.partition_columns, time_zone=time_zone
            )
        return self._facts[time_zone]

    def plan(
        self,
        where: Condition | None = None,
        *,
        time_zone: str = "UTC",
        among: pa.Array | None = None,
    ) -> ScanPlan:
        """The files that may have a row for which ``where`` is true; all files without it.

        ``time_zone``: the zone of timestamps in partition values that name none.
        ``among``: only these files, by their ids.
        """
        rows = None if among is None else np.unique(np.asarray(among, dtype=np.int64))
        return planning.plan(self, where, self.facts(time_zone=time_zone), among=rows)

    def names(self, file_ids: pa.Array) -> pa.Array:
        """The recorded paths of files by their ids."""
        return one_chunk(self.adds.column("path").take(file_ids))

    def file_ids(self, names: pa.Array) -> pa.Array:
        """The ids of files by their recorded paths; null for a file that is not live."""
        distinct = names.unique()
        positions = pc.index_in(self.adds.column("path"), value_set=distinct)
        live = np.flatnonzero(positions.is_valid().to_numpy())
        ids = np.full(len(distinct), -1, np.int64)
        ids[positions.drop_null().to_numpy()] = live
        selected = pa.array(ids).take(pc.index_in(names, value_set=distinct))
        return pc.if_else(pc.greater_equal(selected, 0), selected, None)

    def isolation(self, verb: Verb) -> Isolation:
        """The isolation level that the table's properties set."""
        return isolation(self.properties, verb)

    def _verify_vectors_allowed(self) -> None:
        # Readers without the feature ignore vectors, so it is not certain which rows are live.
        vectors = self.adds.column("dv_storage")
        if DELETION_VECTORS not in self.protocol.features_to_read and vectors.null_count != len(vectors):
            path = self.adds.filter(vectors.is_valid()).column("path")[0].as_py()
            raise CorruptVectorError(
                f"file has a vector, expected none: the protocol lacks {DELETION_VECTORS}", path=path
            )


def _verify_provider(metadata: Metadata, where: str) -> None:
    if metadata.provider.lower() != "parquet":
        raise UnsupportedFeatureError(
            f"data files are {metadata.provider}, expected parquet: {where}", feature=metadata.provider
        )
