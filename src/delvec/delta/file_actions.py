"""Turns a ``RowDelta`` into file actions. `commit` adds the parts that depend on the version number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from delvec import blob, location
from delvec.chunked import rows_of
from delvec.delta import vector_writer
from delvec.delta.action_writer import Body, add_body, remove_body
from delvec.delta.clustering import clustering_columns
from delvec.delta.metadata_change import TableState
from delvec.delta.partition_values import partition_maps
from delvec.delta.properties import MAPPING_MODE
from delvec.delta.schema import MAPPING_NONE, parse_schema
from delvec.delta.stats.columns import StatsRules, table_stats_rules
from delvec.delta.stats.texts import stats_texts, wide_stats_texts
from delvec.delta.stats.writer import new_stats_texts
from delvec.errors import CorruptVectorError, InvalidOperationError
from delvec.footers.footer import footer_rows
from delvec.footers.statistics import measure
from delvec.operation_metrics import FileCounts, metrics_of
from delvec.row_delta import ADDED_SCHEMA, RowDelta, with_statistics
from delvec.schema import Schema
from delvec.storage import Storage

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class FileChanges:
    """File actions as bodies. ``added`` are new files, ``readded`` those whose vector changed.

    ``stored``: the vector files that were written for them.
    """

    added: list[Body]
    record_counts: list[int]
    readded: list[Body]
    removed: list[Body]
    change_files: list[Body]
    metrics: Mapping[str, int]
    stored: Sequence[str]


def measured(storage: Storage, snapshot: Snapshot, delta: RowDelta, state: TableState) -> RowDelta:
    """The delta with the statistics of its new files. Reads the files' footers unless they are measured
    already.
    """
    if not delta.added.column("record_count").null_count:
        return delta
    columns = _stats_rules(snapshot, state).columns
    statistics = measure(storage, delta.added.column("location").to_pylist(), columns)
    return replace(delta, added=with_statistics(delta.added, statistics))


def file_changes(
    storage: Storage, snapshot: Snapshot, delta: RowDelta, state: TableState, *, now_ms: int
) -> FileChanges:
    """The actions of a delta that is `measured`. Writes the new vector files, and nothing else."""
    schema = _schema(snapshot, state)
    removed_rows = live_adds(snapshot, delta.removed)
    added, rows = _added(storage, snapshot, delta, state)
    change_files = _change_files(storage, snapshot, delta, schema)
    changed = _changed_files(storage, snapshot, delta)
    descriptors, stored = _descriptors(storage, snapshot, changed)
    removed = [remove_body(row, now_ms=now_ms, data_change=delta.data_change) for row in removed_rows]
    removed += [remove_body(file.row, now_ms=now_ms, data_change=delta.data_change) for file in changed]
    with_vector = [file for file in changed if not file.emptied]
    readded = _readded(delta, with_vector, descriptors)
    counts = FileCounts(
        added=len(added),
        added_bytes=sum(body["size"] for body in added),
        added_rows=sum(rows),
        removed=len(removed_rows) + len(changed) - len(with_vector),
        removed_bytes=sum(row["size"] for row in removed_rows)
        + sum(file.row["size"] for file in changed if file.emptied),
        vectors_added=len(with_vector),
        vectors_updated=sum(file.row["dv_storage"] is not None for file in with_vector),
        vectors_removed=sum(row["dv_storage"] is not None for row in removed_rows)
        + sum(file.row["dv_storage"] is not None for file in changed),
        change_files=len(change_files),
        added_sizes=sorted(body["size"] for body in added),
    )
    metrics = metrics_of(delta.request, counts, delta.counts, delta.execution)
    return FileChanges(added, rows, readded, removed, change_files, metrics, stored)


@dataclass(frozen=True, slots=True)
class _ChangedFile:
    """A file whose deleted rows change: its live add, its new vector, its physical number of rows."""

    row: Mapping[str, Any]
    vector: Mapping[str, Any]
    record_count: int

    @property
    def emptied(self) -> bool:
        return bool(self.vector["cardinality"] == self.record_count)


def _stats_rules(snapshot: Snapshot, state: TableState) -> StatsRules:
    return table_stats_rules(
        _schema(snapshot, state),
        state.metadata.partition_columns,
        state.metadata.configuration,
        clustering_columns(snapshot.domains),
    )


def _schema(snapshot: Snapshot, state: TableState) -> Schema:
    if state.metadata is snapshot.metadata:
        return snapshot.schema
    mode = state.metadata.configuration.get(MAPPING_MODE, MAPPING_NONE).lower()
    return parse_schema(state.metadata.schema_string, mapping=mode)


def live_adds(snapshot: Snapshot, file_ids: pa.Array | pa.ChunkedArray) -> list[dict[str, Any]]:
    """The ``add`` actions of these live files as dictionaries, in ascending order of file id."""
    rows = np.sort(np.asarray(file_ids, dtype=np.int64))
    if len(rows) and not (rows[0] >= 0 and rows[-1] < len(snapshot.adds)):
        raise InvalidOperationError(
            f"file ids go from {rows[0]} to {rows[-1]}, expected 0 to {len(snapshot.adds) - 1}"
        )
    adds = rows_of(snapshot.adds, rows)
    if "stats_parsed" in adds.column_names:
        texts = stats_texts(adds)
        adds = adds.drop_columns(["stats_parsed"])
        adds = adds.set_column(adds.column_names.index("stats"), "stats", texts)
    live: list[dict[str, Any]] = adds.to_pylist(maps_as_pydicts="lossy")
    return live


def _added(
    storage: Storage, snapshot: Snapshot, delta: RowDelta, state: TableState
) -> tuple[list[Body], list[int]]:
    files = _without_partitions(delta.added)
    if not files:
        return [], []
    paths = [_relative(storage, file["location"]) for file in files]
    _verify_once(paths)
    partitions = _partitions(snapshot, delta.added, _schema(snapshot, state))
    stats = new_stats_texts(delta.added, _stats_rules(snapshot, state))
    bodies = [
        {
            "path": path,
            "partitionValues": partition,
            "size": file["size"],
            "modificationTime": file["modified_ms"],
            "dataChange": delta.data_change,
            "stats": text,
        }
        for path, partition, file, text in zip(paths, partitions, files, stats, strict=True)
    ]
    return bodies, [file["record_count"] for file in files]


def _change_files(storage: Storage, snapshot: Snapshot, delta: RowDelta, schema: Schema) -> list[Body]:
    files = _without_partitions(delta.change_files)
    partitions = _partitions(snapshot, delta.change_files, schema)
    return [
        {
            "path": _relative(storage, file["location"]),
            "partitionValues": partition,
            "size": file["size"],
            "dataChange": False,
        }
        for file, partition in zip(files, partitions, strict=True)
    ]


def _without_partitions(files: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = files.select(ADDED_SCHEMA.names).to_pylist()
    return rows


def _partitions(snapshot: Snapshot, files: pa.Table, schema: Schema) -> list[dict[str, str | None]]:
    if not len(files):
        return []
    fields = {field.name: field for field in schema}
    columns = [fields[name] for name in snapshot.partition_columns]
    return partition_maps(files.column("partition"), columns)


def _relative(storage: Storage, file: str) -> str:
    """The path that the log records: relative to the table, URI-encoded."""
    path = file.removeprefix(storage.root.rstrip("/") + "/")
    if path == file:
        raise InvalidOperationError(f"new file {file} is not in the table, expected it below {storage.root}")
    return location.encode(path)


def _verify_once(paths: Sequence[str]) -> None:
    if len(set(paths)) != len(paths):
        repeated = next(path for path in paths if paths.count(path) > 1)
        raise InvalidOperationError(f"new file {repeated} is added twice, expected once")


def _changed_files(storage: Storage, snapshot: Snapshot, delta: RowDelta) -> list[_ChangedFile]:
    if not len(delta.vectors):
        return []
    vectors = delta.vectors.sort_by("file_id")
    ids = np.asarray(vectors.column("file_id"), dtype=np.int64)
    rows = live_adds(snapshot, vectors.column("file_id"))
    _verify_files_once(ids, delta)
    counts = snapshot.facts().at(ids).record_count.to_pylist()
    locations = location.resolve_many(snapshot.location, pa.array([row["path"] for row in rows]))
    files = []
    for row, vector, count, file_location in zip(
        rows, vectors.to_pylist(), counts, locations.to_pylist(), strict=True
    ):
        file = _ChangedFile(row, vector, footer_rows(storage, file_location) if count is None else count)
        _verify_cardinality(file)
        _verify_rows_exist(file)
        files.append(file)
    return files


def _verify_files_once(ids: np.ndarray[tuple[int], np.dtype[np.int64]], delta: RowDelta) -> None:
    removed = np.asarray(delta.removed, dtype=np.int64)
    in_both = np.intersect1d(ids, removed)
    if len(np.unique(ids)) != len(ids) or len(in_both):
        raise InvalidOperationError(
            "a file is named twice among removed files and vectors, expected each file once"
        )


def _verify_cardinality(file: _ChangedFile) -> None:
    new, old = file.vector["cardinality"], file.row["dv_cardinality"] or 0
    if not 0 < new <= file.record_count:
        raise CorruptVectorError(
            f"new vector deletes {new} rows, expected 1 to {file.record_count}, the file's rows",
            path=file.row["path"],
        )
    if new < old:
        raise CorruptVectorError(
            f"new vector deletes {new} rows, expected the {old} of the old vector among them",
            path=file.row["path"],
        )


def _verify_rows_exist(file: _ChangedFile) -> None:
    """Checks vectors that the driver has. An executor checks a vector before it stores it."""
    rows = file.vector["rows"]
    if rows is None:
        return
    try:
        bitmap = blob.decode(rows, expected_cardinality=file.vector["cardinality"])
    except CorruptVectorError as error:
        raise error.at(file.row["path"]) from None
    highest = bitmap.max()
    if highest is not None and highest >= file.record_count:
        raise CorruptVectorError(
            f"new vector deletes row {highest}, expected rows below {file.record_count}",
            path=file.row["path"],
        )


def _descriptors(
    storage: Storage, snapshot: Snapshot, changed: Sequence[_ChangedFile]
) -> tuple[list[Body], list[str]]:
    """A descriptor for each file that still has rows, in order, and the paths of the new vector files. Stores
    the blobs that executors have not stored.
    """
    with_vector = [file for file in changed if not file.emptied]
    blobs = [file.vector["rows"] for file in with_vector if file.vector["rows"] is not None]
    stored, paths = vector_writer.store(storage, blobs, snapshot.properties)
    new = iter(stored)
    descriptors = []
    for file in with_vector:
        vector = file.vector
        if vector["rows"] is not None:
            body = next(new)
        else:
            body = vector_writer.descriptor_at(
                storage.root, vector["location"], vector["offset"], vector["length"]
            )
        descriptors.append(body | {"cardinality": vector["cardinality"]})
    return descriptors, paths


def _readded(delta: RowDelta, files: Sequence[_ChangedFile], descriptors: Sequence[Body]) -> list[Body]:
    if not files:
        return []
    stats = wide_stats_texts(
        pa.array([file.row["stats"] for file in files], pa.string()),
        pa.array([file.record_count for file in files], pa.int64()),
        deleted=pa.array([file.row["dv_cardinality"] for file in files], pa.int64()),
    )
    return [
        add_body(file.row) | {"dataChange": delta.data_change, "stats": text, "deletionVector": descriptor}
        for file, text, descriptor in zip(files, stats.to_pylist(), descriptors, strict=True)
    ]
