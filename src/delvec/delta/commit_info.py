"""The ``commitInfo`` action: a commit's operation, parameters and metrics, as Delta's history names them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import orjson

from delvec.delta import properties
from delvec.delta.action_writer import Body
from delvec.delta.features import DELETION_VECTORS, ROW_TRACKING
from delvec.delta.metadata_change import TableState
from delvec.row_delta import Isolation, Operation, Request, RowDelta
from delvec.schema import Field
from delvec.version import __version__

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot

_ISOLATION_LEVELS = {
    Isolation.SERIALIZABLE: "Serializable",
    Isolation.WRITE_SERIALIZABLE: "WriteSerializable",
    Isolation.SNAPSHOT: "SnapshotIsolation",
}
LINEAGE_KEPT = "delta.rowTracking.preserved"

_NAMES: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.CREATE: "CREATE TABLE",
        Operation.CREATE_WITH_ROWS: "CREATE TABLE AS SELECT",
        Operation.CONVERT: "CONVERT",
        Operation.APPEND: "WRITE",
        Operation.OVERWRITE: "WRITE",
        Operation.DELETE: "DELETE",
        Operation.UPDATE: "UPDATE",
        Operation.MERGE: "MERGE",
        Operation.DELETE_KEYS: "DELETE",
        Operation.UPSERT: "MERGE",
        Operation.COMPACT: "OPTIMIZE",
        Operation.VACUUM_START: "VACUUM START",
        Operation.VACUUM_END: "VACUUM END",
        Operation.PURGE: "REORG",
        Operation.SET_PROPERTIES: "SET TBLPROPERTIES",
        Operation.ADD_COLUMNS: "ADD COLUMNS",
        Operation.RESTORE: "RESTORE",
        Operation.KEEP_VECTOR_FILES: "Deletion Vector Tombstones",
        Operation.EMPTY: "Empty Commit",
        Operation.DROP_VECTORS: "DROP FEATURE",
    }
)


def operation_name(request: Request) -> str:
    """The name of the operation in Delta's history."""
    if request.operation is Operation.SET_PROPERTIES and _unsets(request):
        return "UNSET TBLPROPERTIES"
    return _NAMES[request.operation]


def commit_info(
    delta: RowDelta,
    current: Snapshot,
    metrics: Mapping[str, int],
    *,
    state: TableState,
    now_ms: int,
    in_commit_ms: int | None,
    txn_id: str,
) -> Body:
    body: Body = {} if in_commit_ms is None else {"inCommitTimestamp": in_commit_ms}
    body |= {
        "timestamp": now_ms if in_commit_ms is None else in_commit_ms,
        "operation": operation_name(delta.request),
        "operationParameters": _parameters(delta, state),
    }
    if not current.is_draft:
        body["readVersion"] = delta.base.version
    body |= {
        "isolationLevel": _ISOLATION_LEVELS[delta.read.isolation],
        "isBlindAppend": delta.read.blind and not len(delta.removed) and not len(delta.vectors),
        "operationMetrics": {name: str(value) for name, value in metrics.items()},
        "engineInfo": f"delvec/{__version__}",
        "txnId": txn_id,
    }
    if _tracks_rows(state):
        body["tags"] = {LINEAGE_KEPT: "true" if _keeps_lineage(delta) else "false"}
    return body


def _parameters(delta: RowDelta, state: TableState) -> Mapping[str, object]:
    """The parameters as Delta-Spark writes them: lists and objects are JSON inside a text."""
    request = delta.request
    match request.operation:
        case Operation.CREATE | Operation.CREATE_WITH_ROWS:
            return _creation_parameters(state)
        case Operation.CONVERT:
            return {
                "numFiles": len(delta.added),
                "partitionedBy": orjson.dumps(list(state.metadata.partition_columns)).decode(),
                "collectStats": request.statistics,
                "sourceFormat": "parquet",
            }
        case Operation.DELETE | Operation.UPDATE | Operation.MERGE | Operation.DELETE_KEYS | Operation.UPSERT:
            return _predicate(request)
        case Operation.COMPACT:
            zorder_by = orjson.dumps(request.zorder_by).decode()
            return _predicate(request) | {"zOrderBy": zorder_by, "clusterBy": "[]", "auto": False}
        case Operation.PURGE:
            return _predicate(request) | {"applyPurge": True}
        case Operation.APPEND:
            return {"mode": "Append"}
        case Operation.OVERWRITE:
            return {"mode": "Overwrite"} | _overwritten(request)
        case Operation.SET_PROPERTIES:
            return {"properties": json.dumps(dict(request.properties))}
        case Operation.VACUUM_START | Operation.VACUUM_END:
            return _vacuum_parameters(request)
        case Operation.ADD_COLUMNS:
            return {"columns": json.dumps([{"column": _column(field)} for field in request.columns or ()])}
        case Operation.RESTORE:
            return {"version": request.version, "timestamp": _time_text(request.timestamp)}
        case Operation.DROP_VECTORS:
            return {"featureName": DELETION_VECTORS, "truncateHistory": request.truncate_history}
    return {}


def _time_text(time: dt.datetime | None) -> str | None:
    return None if time is None else f"{time.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S.%f}".rstrip("0").rstrip(".")


def _predicate(request: Request) -> dict[str, str | int | None]:
    conditions = [request.condition] if request.condition else []
    return {"predicate": orjson.dumps(conditions).decode()}


def _creation_parameters(state: TableState) -> dict[str, str]:
    return {
        "isManaged": "false",
        # Delta-Spark writes the text null for a table without a description.
        "description": state.metadata.description or "null",
        "partitionBy": orjson.dumps(list(state.metadata.partition_columns)).decode(),
        "properties": orjson.dumps(dict(state.metadata.configuration)).decode(),
    }


def _overwritten(request: Request) -> dict[str, str]:
    if request.condition is not None:
        return {"predicate": request.condition}
    return {"partitionOverwriteMode": "dynamic"} if request.dynamic else {}


def _vacuum_parameters(request: Request) -> Mapping[str, str | int | None]:
    assert request.vacuum is not None
    run = request.vacuum
    if request.operation is Operation.VACUUM_END:
        return {"status": "COMPLETED" if run.completed else "FAILED"}
    specified = {} if run.retain_ms is None else {"specifiedRetentionMillis": run.retain_ms}
    return {"retentionCheckEnabled": run.checked, "defaultRetentionMillis": run.default_ms} | specified


def _column(field: Field) -> dict[str, object]:
    return {
        "name": field.name,
        "type": str(field.type),
        "nullable": field.nullable,
        "metadata": {} if field.comment is None else {"comment": field.comment},
    }


def _unsets(request: Request) -> bool:
    return bool(request.properties) and all(value is None for value in request.properties.values())


def _tracks_rows(state: TableState) -> bool:
    return properties.is_active(
        state.protocol, state.metadata.configuration, ROW_TRACKING, properties.ENABLE_ROW_TRACKING
    )


def _keeps_lineage(delta: RowDelta) -> bool:
    """Whether all moved rows keep their ids; true if no row moves."""
    moves = delta.moved or (len(delta.removed) and len(delta.added))
    return delta.lineage or not moves
