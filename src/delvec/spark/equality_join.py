"""Rows that are deleted by value, left out of a scan by joins: one for each layer of equality deletes.

    chunks   for one integer key whose values are dense: a table of bits (`vector_chunks`), by
             ``class << 44 | key >> 12``. Data files of one scope and sequence are a class. Keys must be from
             0 to 2**56 - 1
    keys     for all others: a table of (scope, key, largest sequence). Broadcast, or read from the equality
             files by the executors if it is too large for the driver; then Spark chooses the join

The scope and the sequence of a row are those of its data file. They are literals if all files of a scan have
the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from delvec.chunked import Rows, one_chunk
from delvec.deletes.equality import EqualityDeletes, EqualityLayer, KeyColumn
from delvec.deletes.equality_bounds import is_integer, narrowed
from delvec.deletes.equality_set import SCOPE, SEQUENCE, EqualityDeleteSet, key_names
from delvec.deletes.equality_skipping import needed_deletes
from delvec.deletes.loader import DeleteLoader
from delvec.plan import ScanPlan
from delvec.predicate import Condition
from delvec.schema import DataType, Primitive
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.equality_keys import key_expressions, key_part, keys_on_executors
from delvec.spark.file_paths import FileReader
from delvec.spark.key_chunks import CLASS_SHIFT, DeletedKeys, key_chunks
from delvec.spark.stored_values import raw_type
from delvec.spark.types import spark_type
from delvec.spark.vector_chunks import CHUNK_BITS

DRIVER_ROWS = 4_000_000
"""Equality files with more rows are read by the executors."""

DRIVER_BYTES = 128 << 20
"""So are equality files that are larger than this together."""

CHUNKS_BYTES = 64 << 20
"""Chunks are not used if they are larger."""

MOST_KEY = (1 << (CLASS_SHIFT + CHUNK_BITS)) - 1
MOST_CLASSES = 1 << (63 - CLASS_SHIFT)
_MOST_NULL_CLASSES = 32
_UNIX = {"date": "unix_date", "timestamp": "unix_micros"}


@dataclass(frozen=True, slots=True)
class LoadedEquality:
    """The equality deletes of a plan, and the keys of each layer: loaded, or as a frame that reads them."""

    deletes: EqualityDeletes
    keys: tuple[EqualityDeleteSet | DataFrame, ...]


def load_equality(
    spark: SparkSession,
    plan: ScanPlan,
    reader: FileReader,
    loader: DeleteLoader,
    *,
    every: bool = False,
    condition: Condition | None = None,
) -> LoadedEquality:
    """The equality deletes of the plan, without files and keys that cannot meet. ``every``: all deletes of
    each key, not only the newest. ``condition``: what the caller applies to the rows.
    """
    deletes = needed_deletes(plan, condition)
    layers: list[EqualityLayer] = []
    keys: list[EqualityDeleteSet | DataFrame] = []
    for layer in deletes.layers:
        if layer.rows is None or layer.rows > DRIVER_ROWS or layer.size > DRIVER_BYTES:
            layers.append(layer)
            keys.append(keys_on_executors(spark, reader, loader.storage, layer, every=every))
            continue
        narrow_layer, narrow_keys = narrowed(layer, loader.load_keys(layer, every=every), plan.facts)
        layers.append(narrow_layer)
        keys.append(narrow_keys)
    return LoadedEquality(EqualityDeletes(tuple(layers), deletes.files), tuple(keys))


@dataclass(frozen=True, slots=True)
class LayerJoin:
    """One layer as a join.

    columns      the key columns
    key_names    the columns of the scan that have the rows' keys
    file_values  columns of the scan that depend on the row's file, with a value for each file
    deleted      the frame to which the scan is anti-joined; None: no key matches by the join
    condition    when a row is deleted
    kept         a filter before the join
    """

    columns: tuple[KeyColumn, ...]
    key_names: Sequence[str]
    file_values: Mapping[str, Rows]
    deleted: DataFrame | None
    condition: str
    kept: str | None = None

    def left_out(self, frame: DataFrame) -> DataFrame:
        """The rows of ``frame`` that are not deleted. It has the keys and the file values as columns."""
        if self.kept is not None:
            frame = frame.where(self.kept)
        return (
            frame if self.deleted is None else frame.join(self.deleted, F.expr(self.condition), "left_anti")
        )


def only_left_out(frame: DataFrame, joins: Sequence[LayerJoin]) -> DataFrame:
    """The rows of ``frame`` that ``LayerJoin.left_out`` of one of the joins leaves out, each of them once."""
    if len(joins) == 1 and joins[0].kept is None and joins[0].deleted is not None:
        return frame.join(joins[0].deleted, F.expr(joins[0].condition), "left_semi")
    is_deleted = []
    for join in joins:
        if join.kept is not None:
            is_deleted.append(f"NOT ({join.kept})")
        if join.deleted is not None:  # a row has one match at most, whose last column is never null
            frame = frame.join(join.deleted, F.expr(join.condition), "left")
            is_deleted.append(f"{join.deleted.columns[-1]} IS NOT NULL")
    return frame.where(" OR ".join(is_deleted) or "false")


def layer_joins(
    spark: SparkSession, deletes: EqualityDeletes, keys: Sequence[EqualityDeleteSet | DataFrame], prefix: str
) -> list[LayerJoin]:
    """The joins for some data files. ``prefix``: no column of the table has a name that starts with it."""
    return [
        _layer_join(spark, layer, loaded, f"{prefix}{number}_")
        for number, (layer, loaded) in enumerate(zip(deletes.layers, keys, strict=True))
        if layer.has_deletes.any()
    ]


class KeyedJoin(Protocol):
    """A join of the rows of a scan by their keys, as `LayerJoin`."""

    @property
    def columns(self) -> tuple[KeyColumn, ...]: ...

    @property
    def key_names(self) -> Sequence[str]: ...

    @property
    def file_values(self) -> Mapping[str, Rows]: ...


def by_file(joins: Sequence[KeyedJoin]) -> bool:
    """Whether the joins need values that differ from file to file."""
    return any((values != values[0]).any() for join in joins for values in join.file_values.values())


def _layer_join(
    spark: SparkSession, layer: EqualityLayer, keys: EqualityDeleteSet | DataFrame, own: str
) -> LayerJoin:
    if not isinstance(keys, EqualityDeleteSet):
        return _key_join(layer, keys, own)
    keys = keys.at(np.isin(keys.keys.column(SCOPE).to_numpy(), layer.scope))
    join = _chunk_join(spark, layer, keys, own)
    if join is not None:
        return join
    frame = F.broadcast(key_frame(spark, keys))
    never_null = frozenset(n for n in key_names(keys.columns) if not keys.keys.column(n).null_count)
    return _key_join(layer, frame, own, never_null, one_scope=len(np.unique(layer.scope)) == 1)


def _key_join(
    layer: EqualityLayer,
    keys: DataFrame,
    own: str,
    never_null: Set[str] = frozenset(),
    *,
    one_scope: bool = False,
) -> LayerJoin:
    """The join by keys. ``never_null``: columns that are null in no key, ``one_scope``: all keys and all data
    files are of one scope. Then Spark can join by fewer values, which is faster.
    """
    scope, sequence = f"{own}{SCOPE}", f"{own}{SEQUENCE}"
    right = deleted_names(keys, own)
    conditions = equal_keys(layer.columns, own, right, never_null)
    if not one_scope:
        conditions.append(f"{scope} = {right[SCOPE]}")
    conditions.append(f"{right[SEQUENCE]} > {sequence}")
    values = {scope: layer.scope, sequence: layer.sequence}
    deleted = keys.toDF(*right.values())
    return LayerJoin(layer.columns, _key_names(layer, own), values, deleted, " AND ".join(conditions))


def deleted_names(keys: DataFrame, own: str) -> dict[str, str]:
    """Names for the columns of a table of keys that no column of the scan has."""
    return {name: f"{own}deleted_{name}" for name in keys.columns}


def equal_keys(
    columns: Sequence[KeyColumn], own: str, deleted: Mapping[str, str], never_null: Set[str] = frozenset()
) -> list[str]:
    """The conditions that a row has the key of a deleted row. ``own`` starts the names of the row's keys."""
    conditions = []
    for name, column in zip(key_names(columns), columns, strict=True):
        for part, mine in enumerate(key_expressions(own + name, column.type)):
            equals = "=" if name in never_null else "<=>"
            conditions.append(f"{mine} {equals} {deleted[key_part(name, part)]}")
    return conditions


def _key_names(layer: EqualityLayer, own: str) -> list[str]:
    return [own + name for name in key_names(layer.columns)]


def key_frame(spark: SparkSession, keys: EqualityDeleteSet) -> DataFrame:
    """The keys as a table of Spark: the expressions of each key, the scope and the sequence."""
    names = key_names(keys.columns)
    arrays, fields, expressions = [], [], []
    for name, column in zip(names, keys.columns, strict=True):
        kind = raw_type(column.type)
        values = keys.keys.column(name)
        if kind is not None:
            values = values.cast(pa.int64() if isinstance(kind, LongType) else pa.binary())
        arrays.append(values)
        fields.append(StructField(name, kind or spark_type(column.type)))
        expressions += [
            f"{text} AS {key_part(name, part)}"
            for part, text in enumerate(key_expressions(name, column.type))
        ]
    for name in (SCOPE, SEQUENCE):
        arrays.append(keys.keys.column(name))
        fields.append(StructField(name, LongType()))
    table = pa.table(arrays, names=[*names, SCOPE, SEQUENCE])
    return frame_of_table(spark, table, StructType(fields)).selectExpr(*expressions, SCOPE, SEQUENCE)


def _chunk_join(
    spark: SparkSession, layer: EqualityLayer, keys: EqualityDeleteSet, own: str
) -> LayerJoin | None:
    """The join by chunks; None if the keys do not fit, or if chunks would be large."""
    if len(layer.columns) != 1 or not _has_chunks(layer.columns[0].type) or not len(keys):
        return None
    pairs, file_class = np.unique(np.stack([layer.scope, layer.sequence]), axis=1, return_inverse=True)
    file_class = file_class.reshape(-1)
    numbers, is_null = _key_numbers(keys)
    present = numbers[~is_null]
    if pairs.shape[1] >= MOST_CLASSES or (len(present) and (present.min() < 0 or present.max() > MOST_KEY)):
        return None
    scopes, sequences = (keys.keys.column(name).to_numpy() for name in (SCOPE, SEQUENCE))
    null_classes = _null_classes(pairs, scopes[is_null], sequences[is_null])
    if len(null_classes) > _MOST_NULL_CLASSES:
        return None
    deleted = DeletedKeys(present, scopes[~is_null], sequences[~is_null])
    chunks = key_chunks(deleted, *pairs, most_bytes=CHUNKS_BYTES)
    if chunks is None:
        return None
    frame = frame_of_table(spark, chunks) if len(chunks) else None
    return _with_chunks(layer, frame, null_classes, file_class, own)


def _null_classes(pairs: np.ndarray[Any, Any], scopes: Rows, sequences: Rows) -> list[int]:
    """The classes that lose the rows whose key is null. ``scopes``, ``sequences``: of the keys that are null,
    of which a scope has one at most.
    """
    newest = dict(zip(scopes.tolist(), sequences.tolist(), strict=True))
    return [
        number
        for number, (scope, sequence) in enumerate(pairs.T.tolist())
        if scope in newest and sequence < newest[scope]
    ]


def _with_chunks(
    layer: EqualityLayer,
    chunks: DataFrame | None,
    null_classes: Sequence[int],
    file_class: Rows,
    own: str,
) -> LayerJoin:
    row_class, key, words = (own + name for name in ("class", "chunk", "words"))
    names = _key_names(layer, own)
    value = _as_long(names[0], layer.columns[0].type)
    chunk = f"shiftleft({row_class}, {CLASS_SHIFT}) | shiftright({value}, {CHUNK_BITS})"
    word = f"{words}[CAST(shiftright({value}, 6) & 63 AS INT)]"
    condition = (
        f"if({value} BETWEEN 0L AND {MOST_KEY}L, {chunk}, -1L) = {key} "
        f"AND getbit({word}, CAST({value} & 63 AS INT)) = 1"
    )
    deleted = None if chunks is None else F.broadcast(chunks.toDF(key, words))
    kept = None
    if null_classes:
        classes = ", ".join(f"{one}L" for one in null_classes)
        kept = f"NOT ({value} IS NULL AND {row_class} IN ({classes}))"
    return LayerJoin(layer.columns, names, {row_class: file_class}, deleted, condition, kept)


def _has_chunks(data_type: DataType) -> bool:
    return is_integer(data_type) and data_type != Primitive("timestamp_ntz")


def _key_numbers(keys: EqualityDeleteSet) -> tuple[Rows, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The keys of one column as numbers, 0 for null, and which are null."""
    values = one_chunk(keys.keys.column(key_names(keys.columns)[0]))
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    return values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), is_null


def _as_long(value: str, data_type: DataType) -> str:
    """The number that stands for the value, as in Arrow."""
    assert isinstance(data_type, Primitive)
    name = _UNIX.get(data_type.name)
    return f"CAST({value} AS BIGINT)" if name is None else f"CAST({name}({value}) AS BIGINT)"
