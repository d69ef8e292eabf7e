"""The snapshots of a table as its history, and when the table was created."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pyarrow as pa

from delvec.formats import HISTORY_SCHEMA
from delvec.iceberg.metadata import SnapshotRecord, TableMetadata
from delvec.iceberg.refs import ancestors
from delvec.instants import as_datetime

_OPERATION = "operation"
_ENGINE = ("engine-name", "engine-version")
_FIRST_FILE = re.compile(r"(?:v1|0+-[^/]*?)(?:\.gz)?\.metadata\.json(?:\.gz)?")


def list_snapshots(metadata: TableMetadata, head: int | None, *, limit: int | None = None) -> pa.Table:
    """All snapshots that the table keeps, newest first, as ``HISTORY_SCHEMA``.

    ``parameters`` has the branches and tags at the snapshot, and says of a snapshot that ``head`` was not
    made from that it is not an ancestor, as after a rollback or on another branch.
    """
    records = sorted(metadata.snapshots.values(), key=lambda r: (r.sequence_number, r.timestamp_ms))
    chain = frozenset(ancestors(metadata, head))
    rows = [
        _row(metadata, record, is_ancestor=record.snapshot_id in chain) for record in records[::-1][:limit]
    ]
    return pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA)


def created_at(metadata: TableMetadata, path: str) -> dt.datetime | None:
    """When the first metadata file was written; None if it is no longer known. ``path`` is the newest."""
    files = [*metadata.metadata_log, (metadata.last_updated_ms, path)]
    millis, first = min(files)
    return as_datetime(millis) if _FIRST_FILE.fullmatch(first.rpartition("/")[2]) else None


def _row(metadata: TableMetadata, record: SnapshotRecord, *, is_ancestor: bool) -> dict[str, Any]:
    summary = record.summary
    refs = [ref.name for ref in metadata.refs.values() if ref.snapshot_id == record.snapshot_id]
    parameters = [("refs", ", ".join(sorted(refs)))] if refs else []
    if not is_ancestor:
        parameters.append(("is_current_ancestor", "false"))
    engine = " ".join(summary[key] for key in _ENGINE if key in summary)
    return {
        "version": record.snapshot_id,
        "timestamp": as_datetime(record.timestamp_ms),
        "operation": summary.get(_OPERATION),
        "parameters": parameters,
        "metrics": [(key, text) for key, text in summary.items() if key not in (_OPERATION, *_ENGINE)],
        "read_version": record.parent_id,
        "engine": engine or None,
    }
