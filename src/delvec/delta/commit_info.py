"""The ``commitInfo`` action: what a commit says of itself, in the words of Delta's history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import orjson

from delvec.delta import properties
from delvec.delta.action_writer import Body
from delvec.delta.features import ROW_TRACKING
from delvec.delta.metadata_change import DRAFT_VERSION, TableState
from delvec.row_delta import Isolation, RowDelta
from delvec.version import __version__

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot

_ISOLATION_LEVELS = {
    Isolation.SERIALIZABLE: "Serializable",
    Isolation.WRITE_SERIALIZABLE: "WriteSerializable",
    Isolation.SNAPSHOT: "SnapshotIsolation",
}
LINEAGE_KEPT = "delta.rowTracking.preserved"

# Their conditions are recorded as lists.
_WITH_PREDICATES = ("DELETE", "UPDATE", "MERGE")


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
        "operation": delta.operation,
        "operationParameters": _parameters(delta, state),
    }
    if current.version != DRAFT_VERSION:
        body["readVersion"] = delta.base.version
    body |= {
        "isolationLevel": _ISOLATION_LEVELS[delta.read.isolation],
        "isBlindAppend": delta.read.blind and not len(delta.removed) and not len(delta.vectors),
        "operationMetrics": {name: str(value) for name, value in {**metrics, **delta.metrics}.items()},
        "engineInfo": f"delvec/{__version__}",
        "txnId": txn_id,
    }
    if _tracks_rows(state):
        body["tags"] = {LINEAGE_KEPT: "true" if _keeps_lineage(delta) else "false"}
    return body


def _parameters(delta: RowDelta, state: TableState) -> dict[str, str]:
    """Texts, as Delta-Spark writes them: lists and objects are JSON inside the text."""
    found = dict(delta.parameters)
    if delta.operation in _WITH_PREDICATES:
        condition = found.get("predicate")
        if condition is None or not condition.startswith("["):
            found["predicate"] = orjson.dumps([condition] if condition else []).decode()
    if delta.operation.startswith("CREATE TABLE"):
        created = {
            "partitionBy": orjson.dumps(list(state.metadata.partition_columns)).decode(),
            "properties": orjson.dumps(dict(state.metadata.configuration)).decode(),
        }
        # No description is the text null, as Delta-Spark has it.
        found = {"isManaged": "false", "description": state.metadata.description or "null"} | created | found
    return found


def _tracks_rows(state: TableState) -> bool:
    return properties.is_active(
        state.protocol, state.metadata.configuration, ROW_TRACKING, properties.ENABLE_ROW_TRACKING
    )


def _keeps_lineage(delta: RowDelta) -> bool:
    """Rows that moved have their ids with them, or none moved."""
    moves = delta.moved or (len(delta.removed) and len(delta.added))
    return delta.lineage or not moves
