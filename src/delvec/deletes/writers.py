"""``DeleteWriterFactory``: chooses how a table's new deletes are stored.

    positions of one data file       a vector; before format version 3 full rows
    positions of a partition         full rows; not from format version 3 on
    keys of one column with a codec  a vector, if the table allows vectors of keys
    all other keys                   full rows

The writer of keys has the last word when it is closed (`equality_writer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from delvec.deletes.codecs import DeletionVectorCodec, codec_for
from delvec.deletes.equality_writer import EqualityDeleteWriter
from delvec.deletes.key_columns import key_fields
from delvec.deletes.model import GLOBAL, DeleteScope
from delvec.deletes.position_writer import PositionDeleteWriter
from delvec.deletes.write_options import VECTORS_SINCE, DeleteWriteOptions, EncodingHint
from delvec.deletes.write_result import Fallback
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.schema import Field, Schema, bare
from delvec.storage import Storage


class DeleteGranularity(Enum):
    """Of how many data files the positions in one delete file are."""

    FILE = "file"
    PARTITION = "partition"


@runtime_checkable
class DeleteWritable(Protocol):
    """A version of a table whose format has delete files."""

    @property
    def schema(self) -> Schema: ...

    @property
    def delete_options(self) -> DeleteWriteOptions: ...


class WritableTable(Protocol):
    """A table at a location, as its format has it."""

    @property
    def storage(self) -> Storage: ...

    def snapshot(self) -> object: ...


@runtime_checkable
class OpenTable(Protocol):
    """A table that a user has opened."""

    @property
    def format_table(self) -> WritableTable: ...


@dataclass(frozen=True, slots=True)
class DeleteWriterFactory:
    """Makes writers of deletes for one version of a table. It can be pickled.

    schema    the table's columns, with field ids
    folder    where new files are, below the storage's root
    """

    storage: Storage
    schema: Schema
    options: DeleteWriteOptions
    folder: str = "data"

    @classmethod
    def for_table(cls, table: WritableTable | OpenTable) -> DeleteWriterFactory:
        """For the newest version of the table. A format without delete files is refused."""
        stored = table.format_table if isinstance(table, OpenTable) else table
        return cls.for_version(stored.storage, stored.snapshot())

    @classmethod
    def for_version(cls, storage: Storage, version: object) -> DeleteWriterFactory:
        """For this version of a table."""
        if not isinstance(version, DeleteWritable):
            raise UnsupportedFeatureError(
                f"the table's format has no delete files, expected one that has: {storage.root}",
                feature="delete files",
            )
        return cls(storage, bare(version.schema), version.delete_options)

    def create_position_writer(
        self,
        data_file: str | None = None,
        granularity: DeleteGranularity = DeleteGranularity.FILE,
        *,
        scope: DeleteScope = GLOBAL,
    ) -> PositionDeleteWriter:
        """A writer of positions of ``data_file``, as the metadata names it; or of several data files of the
        partition ``scope``.
        """
        has_vectors = self.options.format_version >= VECTORS_SINCE
        if granularity is DeleteGranularity.FILE and data_file is None:
            raise InvalidOperationError("a writer of one data file's positions names none, expected one")
        if granularity is DeleteGranularity.PARTITION and (has_vectors or scope.spec_id is None):
            raise InvalidOperationError(
                f"positions of several data files are one delete file of scope {scope}, in format version "
                f"{self.options.format_version}; expected a partition, and a version before {VECTORS_SINCE}"
            )
        return PositionDeleteWriter(
            self.storage,
            data_file if granularity is DeleteGranularity.FILE else None,
            as_vector=has_vectors,
            scope=scope,
            folder=self.folder,
        )

    def create_equality_writer(
        self, field_ids: Sequence[int], *, scope: DeleteScope = GLOBAL, sequence: int | None = None
    ) -> EqualityDeleteWriter:
        """A writer of keys: values of these columns. ``sequence``: the sequence number that rewritten deletes
        keep.
        """
        fields = key_fields(self.schema, field_ids)
        codec, reason = self._codec(fields)
        return EqualityDeleteWriter(
            self.storage,
            fields,
            self.options,
            codec,
            reason,
            scope=scope,
            sequence=sequence,
            folder=self.folder,
        )

    def codec(self, field_ids: Sequence[int]) -> tuple[DeletionVectorCodec | None, Fallback | None]:
        """The codec for a vector of these columns; or None, and what the table lacks for one."""
        by_id = {field.field_id: field for field in self.schema}
        return self._codec([by_id[field_id] for field_id in field_ids])

    def _codec(self, fields: Sequence[Field]) -> tuple[DeletionVectorCodec | None, Fallback | None]:
        """The codec for a vector of these columns; or None, and what the table lacks for one."""
        if not self.options.vectors_of_keys or self.options.hint is EncodingHint.FULL_ROW:
            return None, None
        if self.options.format_version < VECTORS_SINCE:
            return None, Fallback.FORMAT_VERSION
        if len(fields) != 1:
            return None, Fallback.COMPOSITE
        codec = codec_for(fields[0].type)
        is_wanted = self.options.hint is EncodingHint.DELETION_VECTOR
        if codec is None or not (codec.is_automatic or is_wanted):
            return None, Fallback.TYPE
        return codec, None
