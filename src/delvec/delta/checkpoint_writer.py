"""Writes checkpoints: the whole state of a version, so that readers need no older commit.

    classic   00000000000000000010.checkpoint.parquet, one file with all actions
    V2        00000000000000000010.checkpoint.<uuid>.json with the small actions and the names of sidecars,
              _sidecars/….parquet with the file actions; if the table's properties and protocol ask for it

Then ``_last_checkpoint`` is updated. `log_cleanup` removes old log files.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delvec.delta.action_writer import Body, domain_body, lines, metadata_body, protocol_body, txn_body
from delvec.delta.checkpoint_rows import FileRows
from delvec.delta.features import V2_CHECKPOINT
from delvec.delta.log_files import LAST_CHECKPOINT, LOG, SIDECARS, list_log
from delvec.delta.properties import (
    CHECKPOINT_POLICY,
    FILE_RETENTION,
    FILE_RETENTION_DEFAULT,
    interval_ms,
)
from delvec.errors import ObjectNotFoundError
from delvec.storage import Storage, in_parallel

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot

_SIDECAR_ACTIONS = 50_000
_STRING_MAP = pa.map_(pa.string(), pa.string())
_SMALL_TYPES = {
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", pa.list_(pa.string())),
            ("writerFeatures", pa.list_(pa.string())),
        ]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", _STRING_MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", _STRING_MAP),
            ("createdTime", pa.int64()),
        ]
    ),
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "domainMetadata": pa.struct(
        [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
    ),
}


def write_checkpoint(storage: Storage, snapshot: Snapshot, *, now_ms: int) -> None:
    """Write a checkpoint of the snapshot's version, unless the version has one already, perhaps from another
    writer.
    """
    if snapshot.version in list_log(storage, since=snapshot.version).checkpoints:
        return
    removes = unexpired(snapshot.tombstones(), snapshot.properties, now_ms=now_ms)
    hint: Body | None
    if _wants_v2(snapshot):
        hint = _write_v2(storage, snapshot, removes, now_ms)
    else:
        hint = _write_classic(storage, snapshot, removes)
    if hint is not None:
        _write_hint(storage, hint)


def unexpired(removes: pa.Table, properties: Mapping[str, str], *, now_ms: int) -> pa.Table:
    """The tombstones that are not older than the table's retention: vacuum may still need them."""
    retention = interval_ms(properties.get(FILE_RETENTION, FILE_RETENTION_DEFAULT))
    if retention is None:
        return removes
    times = pc.fill_null(removes.column("deletion_timestamp"), 0)
    return removes.filter(pc.greater(times, now_ms - retention))


def _wants_v2(snapshot: Snapshot) -> bool:
    policy = snapshot.properties.get(CHECKPOINT_POLICY, "classic").lower()
    protocol = snapshot.protocol
    return policy == "v2" and V2_CHECKPOINT in protocol.features_to_read & protocol.features_to_write


def _small_actions(snapshot: Snapshot) -> list[tuple[str, Body]]:
    return [
        ("protocol", protocol_body(snapshot.protocol)),
        ("metaData", metadata_body(snapshot.metadata)),
        *(("txn", txn_body(txn)) for txn in snapshot.state.small.txns.values()),
        *(("domainMetadata", domain_body(domain)) for domain in snapshot.domains.values()),
    ]


def _write_classic(storage: Storage, snapshot: Snapshot, removes: pa.Table) -> Body | None:
    rows = FileRows(snapshot)
    schema = pa.schema([*_SMALL_TYPES.items(), ("add", rows.add_type), ("remove", rows.remove_type)])
    small = _small_actions(snapshot)
    columns = {
        name: pa.array([body if kind == name else None for kind, body in small], _SMALL_TYPES[name])
        for name in _SMALL_TYPES
    }
    files = _file_columns(rows, snapshot.adds, removes)
    data = _parquet(schema, [columns, *files])
    path = f"{LOG}/{snapshot.version:020d}.checkpoint.parquet"
    if not storage.put_if_absent(path, data):
        return None
    return _hint(snapshot, len(small) + len(snapshot.adds) + len(removes), len(data))


def _write_v2(storage: Storage, snapshot: Snapshot, removes: pa.Table, now_ms: int) -> Body:
    rows = FileRows(snapshot)
    parts = _parts(snapshot.adds, removes)

    def write(number: int) -> Body:
        data = _sidecar(rows, *parts[number])
        name = (
            f"{snapshot.version:020d}.checkpoint.{number + 1:010d}.{len(parts):010d}.{uuid.uuid4()}.parquet"
        )
        storage.put(f"{SIDECARS}/{name}", data)
        return {"path": name, "sizeInBytes": len(data), "modificationTime": now_ms}

    sidecars = in_parallel(write, range(len(parts)))
    top = [
        ("checkpointMetadata", {"version": snapshot.version}),
        *(("sidecar", sidecar) for sidecar in sidecars),
        *_small_actions(snapshot),
    ]
    data = lines(top)
    name = f"{snapshot.version:020d}.checkpoint.{uuid.uuid4()}.json"
    storage.put(f"{LOG}/{name}", data)
    size = len(data) + sum(sidecar["sizeInBytes"] for sidecar in sidecars)
    hint = _hint(snapshot, len(top) + len(snapshot.adds) + len(removes), size)
    return hint | {"v2Checkpoint": {"path": name, "sizeInBytes": len(data), "modificationTime": now_ms}}


def _parts(adds: pa.Table, removes: pa.Table) -> list[tuple[pa.Table, pa.Table]]:
    """The adds and removes of each sidecar. There is at least one sidecar, because readers expect one."""
    none = adds.slice(0, 0), removes.slice(0, 0)
    parts = [(adds.slice(at, _SIDECAR_ACTIONS), none[1]) for at in range(0, len(adds), _SIDECAR_ACTIONS)]
    parts += [
        (none[0], removes.slice(at, _SIDECAR_ACTIONS)) for at in range(0, len(removes), _SIDECAR_ACTIONS)
    ]
    return parts or [none]


def _sidecar(rows: FileRows, adds: pa.Table, removes: pa.Table) -> bytes:
    schema = pa.schema([("add", rows.add_type), ("remove", rows.remove_type)])
    return _parquet(schema, _file_columns(rows, adds, removes))


def _file_columns(rows: FileRows, adds: pa.Table, removes: pa.Table) -> Iterator[dict[str, pa.Array]]:
    for batch in rows.adds(adds):
        yield {"add": batch}
    for batch in rows.removes(removes):
        yield {"remove": batch}


def _parquet(schema: pa.Schema, groups: Iterable[Mapping[str, pa.Array]]) -> bytes:
    """A Parquet file with one row group for each of ``groups``; columns that a group lacks are null."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema) as writer:
        for columns in groups:
            rows = len(next(iter(columns.values())))
            arrays = [columns.get(field.name, pa.nulls(rows, field.type)) for field in schema]
            writer.write_table(pa.table(arrays, schema=schema), row_group_size=max(1, rows))
    return bytes(sink.getvalue())


def _hint(snapshot: Snapshot, actions: int, size: int) -> Body:
    return {
        "version": snapshot.version,
        "size": actions,
        "sizeInBytes": size,
        "numOfAddFiles": len(snapshot.adds),
    }


def _write_hint(storage: Storage, hint: Body) -> None:
    """Write ``_last_checkpoint``, unless it names a later version: a slow writer must not replace a newer
    hint.
    """
    try:
        old_hint: Any = orjson.loads(storage.read(LAST_CHECKPOINT))
    except (ObjectNotFoundError, orjson.JSONDecodeError):
        old_hint = None
    version = old_hint.get("version") if isinstance(old_hint, dict) else None
    if not isinstance(version, int) or version < hint["version"]:
        storage.put(LAST_CHECKPOINT, orjson.dumps(hint))
