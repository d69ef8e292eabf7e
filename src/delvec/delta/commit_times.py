"""In-commit timestamps of new commits: always later than the commit before, even if the clock is not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from delvec.delta import properties
from delvec.delta.action_reader import parse_commit_info
from delvec.delta.features import IN_COMMIT_TIMESTAMP, Protocol
from delvec.delta.log_files import LOG
from delvec.delta.metadata_change import TableState
from delvec.storage import Storage

if TYPE_CHECKING:
    from delvec.delta.actions import Metadata
    from delvec.delta.snapshot import Snapshot


def next_timestamp(storage: Storage, current: Snapshot, state: TableState, now_ms: int) -> int | None:
    """The timestamp of the commit after ``current``; None if the table has no in-commit timestamps."""
    if not _states_times(state.protocol, state.metadata):
        return None
    if current.is_draft:
        return now_ms
    path = f"{LOG}/{current.version:020d}.json"
    if _states_times(current.protocol, current.metadata):
        stated = parse_commit_info(storage.read(path)).get("inCommitTimestamp")
        previous = stated if isinstance(stated, int) else now_ms
    else:
        previous = int(storage.head(path).modified.timestamp() * 1000)
    return max(now_ms, previous + 1)


def with_enablement(current: Snapshot, state: TableState, version: int, timestamp: int | None) -> TableState:
    """The state with the version and time that in-commit timestamps start from, if this commit enables them.

    A new table needs no such record: all its commits have timestamps.
    """
    if timestamp is None or current.is_draft:
        return state
    if _states_times(current.protocol, current.metadata):
        return state
    start = {
        properties.TIMESTAMPS_SINCE_VERSION: str(version),
        properties.TIMESTAMPS_SINCE: str(timestamp),
    }
    configuration = {**state.metadata.configuration, **start}
    return replace(state, metadata=replace(state.metadata, configuration=configuration))


def _states_times(protocol: Protocol, metadata: Metadata) -> bool:
    return properties.is_active(
        protocol, metadata.configuration, IN_COMMIT_TIMESTAMP, properties.ENABLE_TIMESTAMPS
    )
