"""Keys of rows to delete, stored as delete files. The table is not read.

    on the driver      few keys: the table's writer of deletes chooses between vectors and rows
    on the executors   many keys: Spark writes them as rows, which the driver only commits

The deletes are global, or of the partitions that the keys decide.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame

from delvec.chunked import Mask
from delvec.deletes.codecs import DeletionVectorCodec
from delvec.deletes.model import (
    GLOBAL,
    DeleteContent,
    DeleteFile,
    DeleteScope,
    added_deletes,
)
from delvec.deletes.write_result import REASONS, DeleteWriteResult, Fallback
from delvec.deletes.writers import DeleteWriterFactory
from delvec.partition_spec import UNPARTITIONED
from delvec.row_delta import WriteRules
from delvec.schema import Struct
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.key_columns import KeyFields
from delvec.spark.partition_values import typed_values, with_hashes
from delvec.spark.target import Target
from delvec.spark.types import quoted, selected
from delvec.spark.write_rows import partition_columns, stored_columns, write_staged
from delvec.transforms import VOID

DRIVER_KEYS, VECTOR_KEYS = 1 << 20, 1 << 23
"""More keys than this are written by the executors, as rows; the second is for keys that may be a vector."""

MOST_PARTITIONS = 1000
"""Keys of more partitions become one global delete, and not a file for each partition."""

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """``deletes``: as ``RowDelta.added_deletes``. ``count``: how many keys there are, none of them twice."""

    deletes: pa.Table
    count: int
    result: DeleteWriteResult


def store_keys(target: Target, keys: DataFrame, fields: KeyFields) -> StoredKeys:
    """Store the keys, which are the only columns of the frame. Keys that repeat are stored once."""
    writer = _KeyWriter.of(target, fields)
    rows = writer.prepared(keys).persist(StorageLevel.MEMORY_AND_DISK)  # two jobs may use them
    most = DRIVER_KEYS if writer.codec is None else VECTOR_KEYS
    try:
        few = rows.limit(most + 1).toArrow()
        if len(few) > most:
            result = writer.by_executors(rows.distinct())
        else:
            result = writer.by_driver(few.group_by(few.column_names).aggregate([]))
    finally:
        rows.unpersist()
    return writer.stored(result)


def store_few_keys(target: Target, keys: pa.Table, fields: KeyFields) -> StoredKeys:
    """Store keys that the driver has, none of them twice. Spark computes the partitions that they decide."""
    writer = _KeyWriter.of(target, fields)
    if writer.texts:
        keys = writer.prepared(frame_of_table(target.spark, keys)).toArrow()
    return writer.stored(writer.by_driver(keys))


def _partition_rules(rules: WriteRules, fields: KeyFields) -> WriteRules:
    """The rules for key rows: with the partitioning if the keys decide their partition, else without."""
    assert rules.keys is not None
    names = {field.name for field in fields}
    is_decided = all(
        len(field.source) == 1 and field.source[0] in names and field.transform != VOID
        for field in rules.spec.fields
    )
    spec = rules.spec if is_decided and rules.keys.by_partition else UNPARTITIONED
    # Keys are no lists or maps: their files always have ids, even where the files of the table cannot.
    return replace(rules, spec=spec, schema=Struct(fields), measured=(), with_ids=True)


@dataclass(frozen=True, slots=True)
class _KeyWriter:
    """``rules``: of key rows. ``texts``: the partition values of a row, by the names of their columns."""

    factory: DeleteWriterFactory
    rules: WriteRules
    fields: KeyFields
    texts: Mapping[str, Column]

    @classmethod
    def of(cls, target: Target, fields: KeyFields) -> _KeyWriter:
        rules = _partition_rules(target.rules, fields)
        factory = DeleteWriterFactory.for_version(target.storage, target.snapshot)
        return cls(factory, rules, fields, partition_columns(rules))

    def stored(self, result: DeleteWriteResult) -> StoredKeys:
        count = sum(file.record_count for file in result.files)
        return StoredKeys(added_deletes(result.files, self.rules.spec), count, result)

    def prepared(self, keys: DataFrame) -> DataFrame:
        """The keys with their partition values."""
        columns = [quoted(field.name) for field in self.fields]
        return selected(with_hashes(keys, self.rules), [*columns, *self.texts.values()])

    @property
    def codec(self) -> DeletionVectorCodec | None:
        """The codec for a vector of the keys; None if the table does not store them as a vector."""
        return self.factory.create_equality_writer(self.field_ids).codec

    @property
    def field_ids(self) -> tuple[int, ...]:
        return tuple(field.field_id for field in self.fields if field.field_id is not None)

    def by_driver(self, rows: pa.Table) -> DeleteWriteResult:
        results = []
        for scope, part in self._by_scope(rows):
            writer = self.factory.create_equality_writer(self.field_ids, scope=scope)
            writer.write_batch(part)
            results.append(writer.close())
        return DeleteWriteResult.united(results)

    def _by_scope(self, rows: pa.Table) -> Iterator[tuple[DeleteScope, pa.Table]]:
        """The keys of each partition; all together if there are many partitions, or no partitioning."""
        names = [*self.texts]
        distinct = rows.select(names).group_by(names).aggregate([]).to_pylist() if names else []
        if not names or len(distinct) > MOST_PARTITIONS:
            yield GLOBAL, rows
            return
        spec = self.rules.spec
        partitions = typed_values(spec, [tuple(row.values()) for row in distinct]).to_pylist()
        for row, partition in zip(distinct, partitions, strict=True):
            is_there = np.ones(len(rows), np.bool_)
            for name, text in row.items():
                is_there &= _is_same(rows.column(name), text)
            yield DeleteScope(spec.spec_id, partition), rows.filter(pa.array(is_there))

    def by_executors(self, rows: DataFrame) -> DeleteWriteResult:
        """Spark writes the keys to files of the key columns alone."""
        folder, spec = self.factory.folder, self.rules.spec
        rules = replace(self.rules, folders=lambda values: [folder] * len(values), store_partitions=True)
        names = [quoted(field.name) for field in self.fields]
        rows = rows.repartition(*self.texts) if self.texts else rows
        rows = rows.sortWithinPartitions(*self.texts, *names)
        files, texts = write_staged(
            selected(rows, [*stored_columns(rules, ()), *map(quoted, self.texts)]),
            self.factory.storage,
            rules,
            partition_by=[*self.texts],
            values=lambda found: typed_values(spec, found),
        )
        partitions = typed_values(spec, texts).to_pylist()
        written = tuple(
            DeleteFile(
                DeleteContent.EQUALITY_DELETES,
                file["location"],
                "parquet",
                file["record_count"],
                file["size"],
                field_ids=self.field_ids,
                scope=DeleteScope(spec.spec_id, partition) if self.texts else GLOBAL,
            )
            for file, partition in zip(files.to_pylist(), partitions, strict=True)
        )
        return DeleteWriteResult(written, self._fallbacks(sum(file.record_count for file in written)))

    def _fallbacks(self, keys: int) -> dict[Fallback, int]:
        """Why keys that the executors wrote are no vector, if the table allows vectors."""
        writer = self.factory.create_equality_writer(self.field_ids)
        reason = writer.reason if writer.codec is None else Fallback.MANY
        if reason is None:
            return {}
        _LOGGER.info("%d keys are written as full rows: %s", keys, REASONS[reason])
        return {reason: keys}


def _is_same(column: pa.ChunkedArray, text: str | None) -> Mask:
    same = column.is_null() if text is None else pc.fill_null(pc.equal(column, text), False)  # noqa: FBT003
    mask: Mask = same.to_numpy(zero_copy_only=False)
    return mask
