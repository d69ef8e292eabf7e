"""Reads checkpoint files in Parquet: classic ones, parts of multi-part ones, V2, and the sidecars of V2.

    column                                              content
    add, remove                                         one struct per file action
    protocol, metaData, txn, domainMetadata, sidecar    the small actions

File actions are read in batches and stay in Arrow. There are few small actions: only row groups that may have
one, by their statistics, are read for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delvec.delta.actions import (
    ADD_TYPE,
    ADDS_SCHEMA,
    REMOVE_TYPE,
    REMOVES_SCHEMA,
    Actions,
    flatten,
    parse_domain,
    parse_metadata,
    parse_protocol,
    parse_sidecar,
    parse_txn,
)
from delvec.errors import FormatError


class DamagedCheckpointError(FormatError):
    """A checkpoint, or a part or sidecar of it, is missing or not readable.

    The version can still be read from older checkpoints and commits, if these exist. A checkpoint that is
    readable but has invalid content is a plain ``FormatError``.
    """


_BATCH_ROWS = 128 * 1024
_ARROW_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, TypeError)
Keep = Callable[[pa.Table], pa.Table]
"""Filters each batch when it is read, so that actions that newer commits replaced are not kept in memory."""


def _all(batch: pa.Table) -> pa.Table:
    return batch


_SMALL_ACTIONS = ("protocol", "metaData", "txn", "domainMetadata", "sidecar")


def read_adds(source: pa.NativeFile, keep: Keep = _all) -> pa.Table:
    """The live files of a checkpoint or sidecar that ``keep`` keeps, as ``ADDS_SCHEMA``.

    If the checkpoint has no JSON ``stats``, the table also has the column ``stats_parsed``.
    """
    return _file_actions(source, "add", ADD_TYPE, ADDS_SCHEMA, keep)


def read_removes(source: pa.NativeFile, keep: Keep = _all) -> pa.Table:
    """The tombstones of a checkpoint or sidecar, as ``REMOVES_SCHEMA``."""
    return _file_actions(source, "remove", REMOVE_TYPE, REMOVES_SCHEMA, keep)


def read_small_actions(source: pa.NativeFile) -> Actions:
    """Everything but the file actions."""
    bodies: dict[str, list[dict[str, Any]]] = {name: [] for name in _SMALL_ACTIONS}
    with _parquet(source) as file:
        present = [name for name in _SMALL_ACTIONS if name in file.schema_arrow.names]
        for name in present:
            groups = _groups_that_may_have(file, name)
            if groups:
                with _reading():
                    rows = file.read_row_groups(groups, columns=[name]).column(name)
                bodies[name] = rows.drop_null().to_pylist(maps_as_pydicts="lossy")
    protocols, metadatas = bodies["protocol"], bodies["metaData"]
    return Actions(
        adds=ADDS_SCHEMA.empty_table(),
        removes=REMOVES_SCHEMA.empty_table(),
        protocol=parse_protocol(protocols[-1]) if protocols else None,
        metadata=parse_metadata(metadatas[-1]) if metadatas else None,
        txns={txn.app_id: txn for txn in map(parse_txn, bodies["txn"])},
        domains={tree["domain"]: parse_domain(tree) for tree in bodies["domainMetadata"]},
        sidecars=tuple(parse_sidecar(tree) for tree in bodies["sidecar"]),
    )


def _file_actions(
    source: pa.NativeFile, name: str, kind: pa.StructType, schema: pa.Schema, keep: Keep
) -> pa.Table:
    tables = []
    with _parquet(source) as file:
        if name not in file.schema_arrow.names:
            return schema.empty_table()
        columns = _columns(file.schema_arrow.field(name), kind)
        for batch in _batches(file, columns):
            rows = _structs(batch.column(0), name)
            if len(rows):
                tables.append(keep(flatten(rows, schema)))
    return concat(tables) if tables else schema.empty_table()


def _batches(file: pq.ParquetFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    # One row group at a time: otherwise pyarrow fetches several ahead and keeps them in memory.
    for group in range(file.num_row_groups):
        with _reading():
            yield from file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=columns)


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """One table of all rows. ``stats_parsed`` may be missing in some tables, or have another type."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise FormatError(f"file actions do not fit together: {error}") from None


def _columns(action: pa.Field, kind: pa.StructType) -> list[str]:
    if not pa.types.is_struct(action.type):
        raise FormatError(f"column {action.name} is of type {action.type}, expected a struct")
    nested_names = {field.name for field in action.type}
    names = [field.name for field in kind if field.name in nested_names]
    # Parsed statistics repeat the JSON ones, so they are read only if there is no JSON.
    if action.name == "add" and "stats" not in nested_names and "stats_parsed" in nested_names:
        names.append("stats_parsed")
    return [f"{action.name}.{name}" for name in names]


def _structs(column: pa.Array, name: str) -> pa.StructArray:
    if not pa.types.is_struct(column.type):
        raise FormatError(f"column {name} is of type {column.type}, expected a struct")
    return column.drop_null()


def _groups_that_may_have(file: pq.ParquetFile, name: str) -> list[int]:
    metadata = file.metadata
    if metadata.num_row_groups == 0:
        return []
    leaves = [i for i in range(metadata.num_columns) if _top(metadata, i) == name]
    return [
        group
        for group in range(metadata.num_row_groups)
        if not all(_all_null(metadata.row_group(group).column(leaf)) for leaf in leaves)
    ]


def _top(metadata: pq.FileMetaData, leaf: int) -> str:
    return str(metadata.schema.column(leaf).path).split(".", 1)[0]


def _all_null(chunk: pq.ColumnChunkMetaData) -> bool:
    statistics = chunk.statistics
    return statistics is not None and statistics.has_null_count and statistics.null_count == chunk.num_values


@contextmanager
def _parquet(source: pa.NativeFile) -> Iterator[pq.ParquetFile]:
    """An open Parquet file; every error of pyarrow becomes a ``FormatError``."""
    with _reading():
        file = pq.ParquetFile(source)
    try:
        with file:
            yield file
    except _ARROW_ERRORS as error:
        raise FormatError(f"checkpoint holds what cannot be understood: {error}") from None


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except _ARROW_ERRORS as error:
        raise DamagedCheckpointError(f"checkpoint is not readable as Parquet: {error}") from None
