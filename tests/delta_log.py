"""Delta logs made by hand, and a naive reading of them to compare with.

Actions are plain dictionaries with the protocol's field names. ``LogWriter`` puts them into
commits, checkpoints of every kind and log compactions; ``replay`` says what they add up to.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delvec.storage import Storage, open_storage

Action = dict[str, Any]
Key = tuple[str, str | None]

_MAP = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD = [
    ("path", pa.string()),
    ("partitionValues", _MAP),
    ("size", pa.int64()),
    ("modificationTime", pa.int64()),
    ("dataChange", pa.bool_()),
    ("stats", pa.string()),
    ("tags", _MAP),
    ("deletionVector", _VECTOR),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
]
_CHECKPOINT_TYPES = {
    "add": pa.struct(_ADD),
    "remove": pa.struct(
        [
            ("path", pa.string()),
            ("deletionTimestamp", pa.int64()),
            ("dataChange", pa.bool_()),
            ("extendedFileMetadata", pa.bool_()),
            ("partitionValues", _MAP),
            ("size", pa.int64()),
            ("deletionVector", _VECTOR),
        ]
    ),
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
            ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", _MAP),
            ("createdTime", pa.int64()),
        ]
    ),
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "domainMetadata": pa.struct(
        [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
    ),
    "sidecar": pa.struct(
        [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", _MAP)]
    ),
    "checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", _MAP)]),
}

FIELD = dict[str, Any]


def column(name: str, kind: Any, *, nullable: bool = True, metadata: dict[str, Any] | None = None) -> FIELD:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata or {}}


def schema_json(*fields: FIELD) -> str:
    return json.dumps({"type": "struct", "fields": list(fields)})


def protocol(reader: int = 3, writer: int = 7, features: Sequence[str] = ("deletionVectors",)) -> Action:
    body: Action = {"minReaderVersion": reader, "minWriterVersion": writer}
    if reader == 3:
        body |= {"readerFeatures": list(features), "writerFeatures": list(features)}
    return {"protocol": body}


def metadata(
    *fields: FIELD, partition_by: Sequence[str] = (), properties: dict[str, str] | None = None
) -> Action:
    return {
        "metaData": {
            "id": "00000000-0000-0000-0000-000000000000",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema_json(*(fields or (column("id", "long"),))),
            "partitionColumns": list(partition_by),
            "configuration": properties or {},
            "createdTime": 0,
        }
    }


def vector(
    path: str, *, offset: int | None = 1, size: int = 36, cardinality: int = 2, kind: str = "u"
) -> Action:
    found: Action = {
        "storageType": kind,
        "pathOrInlineDv": path,
        "sizeInBytes": size,
        "cardinality": cardinality,
    }
    return found if offset is None else {**found, "offset": offset}


def add(
    path: str,
    *,
    deletion_vector: Action | None = None,
    partition: dict[str, str | None] | None = None,
    stats: str | None = None,
    size: int = 100,
) -> Action:
    body: Action = {
        "path": path,
        "partitionValues": partition or {},
        "size": size,
        "modificationTime": 1,
        "dataChange": True,
    }
    if stats is not None:
        body["stats"] = stats
    if deletion_vector is not None:
        body["deletionVector"] = deletion_vector
    return {"add": body}


def remove(path: str, *, deletion_vector: Action | None = None, timestamp: int = 5) -> Action:
    body: Action = {"path": path, "deletionTimestamp": timestamp, "dataChange": True}
    if deletion_vector is not None:
        body["deletionVector"] = deletion_vector
    return {"remove": body}


@dataclass
class State:
    """What a log adds up to, action by action."""

    adds: dict[Key, Action] = field(default_factory=dict)
    removes: dict[Key, Action] = field(default_factory=dict)
    protocol: Action | None = None
    metadata: Action | None = None
    txns: dict[str, Action] = field(default_factory=dict)
    domains: dict[str, Action] = field(default_factory=dict)

    def actions(self) -> list[Action]:
        found = [{"protocol": self.protocol}] if self.protocol else []
        found += [{"metaData": self.metadata}] if self.metadata else []
        found += [{"txn": txn} for txn in self.txns.values()]
        found += [{"domainMetadata": domain} for domain in self.domains.values() if not domain["removed"]]
        found += [{"add": body} for body in self.adds.values()]
        return found + [{"remove": body} for body in self.removes.values()]


def key_of(body: Action) -> Key:
    dv = body.get("deletionVector")
    if dv is None:
        return body["path"], None
    offset = dv.get("offset")
    return body["path"], dv["storageType"] + dv["pathOrInlineDv"] + ("" if offset is None else f"@{offset}")


def replay(commits: Iterable[Sequence[Action]]) -> State:
    """The rules of the protocol, one action after the other."""
    state = State()
    for actions in commits:
        for action in actions:
            for name, body in action.items():
                _apply(state, name, body)
    return state


def _apply(state: State, name: str, body: Action) -> None:
    match name:
        case "add":
            state.removes.pop(key_of(body), None)
            state.adds[key_of(body)] = body
        case "remove":
            state.adds.pop(key_of(body), None)
            state.removes[key_of(body)] = body
        case "protocol":
            state.protocol = body
        case "metaData":
            state.metadata = body
        case "txn":
            state.txns[body["appId"]] = body
        case "domainMetadata":
            state.domains[body["domain"]] = body


class LogWriter:
    """Writes log files below a storage root."""

    def __init__(self, storage: Storage | str) -> None:
        self.storage = open_storage(storage) if isinstance(storage, str) else storage
        self.commits: list[Sequence[Action]] = []

    def commit(self, *actions: Action) -> int:
        version = len(self.commits)
        self.commits.append(actions)
        self.put(f"{version:020d}.json", lines(actions))
        return version

    def create(
        self, *fields: FIELD, features: Sequence[str] = ("deletionVectors",), **metadata_of: Any
    ) -> int:
        return self.commit(protocol(features=features), metadata(*fields, **metadata_of))

    def put(self, name: str, data: bytes) -> None:
        self.storage.put(f"_delta_log/{name}", data)

    def delete(self, *names: str) -> None:
        self.storage.delete([f"_delta_log/{name}" for name in names])

    def state(self, version: int) -> State:
        return replay(self.commits[: version + 1])

    def compact(self, first: int, last: int) -> None:
        state = replay(self.commits[first : last + 1])
        actions = [a for a in state.actions() if "domainMetadata" not in a]
        actions += [{"domainMetadata": body} for body in state.domains.values()]
        self.put(f"{first:020d}.{last:020d}.compacted.json", lines(actions))

    def classic(self, version: int) -> None:
        self.put(f"{version:020d}.checkpoint.parquet", parquet(self.state(version).actions()))

    def parts(self, version: int, count: int) -> None:
        actions = self.state(version).actions()
        for part in range(count):
            name = f"{version:020d}.checkpoint.{part + 1:010d}.{count:010d}.parquet"
            self.put(name, parquet(actions[part::count]))

    def v2(
        self, version: int, *, manifest: str = "json", sidecars: int = 2, classic_name: bool = False
    ) -> None:
        """A V2 checkpoint; with no sidecars, its file actions stand in the manifest."""
        actions = self.state(version).actions()
        files = [a for a in actions if "add" in a or "remove" in a]
        top = [{"checkpointMetadata": {"version": version}}, *(a for a in actions if a not in files)]
        for number in range(sidecars):
            name = f"{uuid.uuid4()}.parquet"
            data = parquet(files[number::sidecars], names=("add", "remove"))
            self.put(f"_sidecars/{name}", data)
            top.append({"sidecar": {"path": name, "sizeInBytes": len(data), "modificationTime": 0}})
        if not sidecars:
            top += files
        data = lines(top) if manifest == "json" else parquet(top)
        name = f"{version:020d}.checkpoint.{uuid.uuid4()}.{manifest}"
        self.put(f"{version:020d}.checkpoint.parquet" if classic_name else name, data)

    def hint(self, version: Any) -> None:
        self.put("_last_checkpoint", json.dumps({"version": version, "size": 1}).encode())


def lines(actions: Iterable[Action]) -> bytes:
    return b"".join(json.dumps(action, ensure_ascii=False).encode() + b"\n" for action in actions)


def parquet(actions: Sequence[Action], *, names: Sequence[str] = tuple(_CHECKPOINT_TYPES)) -> bytes:
    """A checkpoint or sidecar: one struct column per kind of action."""
    columns = {
        name: pa.array([action.get(name) for action in actions], _CHECKPOINT_TYPES[name]) for name in names
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, row_group_size=max(1, len(actions) // 2))
    return sink.getvalue().to_pybytes()
