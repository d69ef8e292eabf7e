"""The times of commits: history, and time travel by timestamp.

If the table has in-commit timestamps, a commit states its own time, from the version that enabled them on.
Otherwise its time is the modification time of its file, moved forward if needed so that times ascend with
versions.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from delvec import location
from delvec.delta.action_reader import parse_commit_info
from delvec.delta.log_files import Listing
from delvec.delta.properties import ENABLE_TIMESTAMPS, TIMESTAMPS_SINCE_VERSION
from delvec.errors import FormatError, InvalidOperationError
from delvec.formats import HISTORY_SCHEMA
from delvec.instants import EPOCH, MILLISECOND, as_datetime, is_future, millis_of
from delvec.storage import Storage, in_parallel


class CommitTimes:
    """The times of all commits in a whole listing of the log."""

    def __init__(self, storage: Storage, listing: Listing, properties: Mapping[str, str]) -> None:
        self._storage = storage
        self._listing = listing
        self._stated_since = _stated_since(properties, storage.root)
        self._infos: dict[int, dict[str, Any]] = {}
        self.versions = [v for v in sorted(listing.commits) if v >= listing.earliest >= 0]
        self._file_times = self._ascending_file_times()

    def info(self, version: int) -> dict[str, Any]:
        """The commit's ``commitInfo``; empty if it has none."""
        if version not in self._infos:
            path = self._listing.commits[version].path
            data = self._storage.read(path)
            try:
                self._infos[version] = parse_commit_info(data)
            except FormatError as error:
                raise error.at(location.join(self._storage.root, path)) from None
        return self._infos[version]

    def remember(self, infos: Mapping[int, Mapping[str, Any]]) -> None:
        """Use these ``commitInfo`` of commits that were read already, by version."""
        self._infos |= {version: dict(info) for version, info in infos.items()}

    def millis(self, version: int) -> int:
        """When the commit happened, in milliseconds since 1970."""
        if self._stated_since is None or version < self._stated_since:
            return self._file_times[version]
        stated = self.info(version).get("inCommitTimestamp")
        if not isinstance(stated, int):
            raise FormatError(
                f"commit {version} has inCommitTimestamp {stated!r}, expected a number",
                path=location.join(self._storage.root, self._listing.commits[version].path),
            )
        return stated

    def version_at(self, timestamp: dt.datetime) -> int:
        """The version that was the newest at ``timestamp``; refuses a time in the future."""
        millis = millis_of(timestamp)
        position = bisect_right(self.versions, millis, key=self.millis)
        if position == 0:
            raise self._out_of_range(timestamp, "before the first")
        if millis > self.millis(self.versions[-1]) and is_future(timestamp):
            raise self._out_of_range(timestamp, "in the future, after the last")
        return self.versions[position - 1]

    def version_from(self, timestamp: dt.datetime) -> int:
        """The first version that was committed at ``timestamp`` or later; refuses a time after the last."""
        millis = -((EPOCH - timestamp) // MILLISECOND)
        position = bisect_left(self.versions, millis, key=self.millis)
        if position == len(self.versions):
            raise self._out_of_range(timestamp, "after the last")
        return self.versions[position]

    def _out_of_range(self, timestamp: dt.datetime, where: str) -> InvalidOperationError:
        first, last = (as_datetime(self.millis(v)).isoformat() for v in (self.versions[0], self.versions[-1]))
        return InvalidOperationError(
            f"timestamp {timestamp.isoformat()} is {where} commit, expected {first} "
            f"(version {self.versions[0]}) to {last} (version {self.versions[-1]}): {self._storage.root}"
        )

    def _ascending_file_times(self) -> dict[int, int]:
        times: dict[int, int] = {}
        last = -1
        for version in sorted(self._listing.commits):
            millis = millis_of(self._listing.commits[version].modified)
            last = max(millis, last + 1)
            times[version] = last
        return times


def list_commits(times: CommitTimes, *, limit: int | None = None) -> pa.Table:
    """The commits, newest first, as ``HISTORY_SCHEMA``."""
    versions = times.versions[::-1][:limit]
    infos = in_parallel(times.info, versions)
    rows = [_row(version, times.millis(version), info) for version, info in zip(versions, infos, strict=True)]
    return pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA)


def _row(version: int, millis: int, info: Mapping[str, Any]) -> dict[str, Any]:
    blind = info.get("isBlindAppend")
    read_version = info.get("readVersion")
    return {
        "version": version,
        "timestamp": as_datetime(millis),
        "operation": _text(info.get("operation")),
        "parameters": _texts(info.get("operationParameters")),
        "metrics": _texts(info.get("operationMetrics")),
        "read_version": read_version if type(read_version) is int else None,
        "isolation_level": _text(info.get("isolationLevel")),
        "is_blind_append": blind if isinstance(blind, bool) else None,
        "user_name": _text(info.get("userName")),
        "engine": _text(info.get("engineInfo")),
    }


def _texts(value: Any) -> Sequence[tuple[str, str | None]] | None:
    return [(key, _text(item)) for key, item in value.items()] if isinstance(value, dict) else None


def _text(value: Any) -> str | None:
    """A text unchanged; any other value as JSON."""
    return value if isinstance(value, str | None) else orjson.dumps(value).decode()


def _stated_since(properties: Mapping[str, str], where: str) -> int | None:
    """The first version whose commit states its time; None if commits do not."""
    if properties.get(ENABLE_TIMESTAMPS, "false").lower() != "true":
        return None
    since = properties.get(TIMESTAMPS_SINCE_VERSION, "0")
    if not since.isdecimal():
        raise FormatError(f"{TIMESTAMPS_SINCE_VERSION} is {since!r}, expected a version: {where}")
    return int(since)
