"""The log directory: its files, and which of them are needed to read a version.

    _delta_log/00000000000000000010.json                               commit 10
               00000000000000000010.checkpoint.parquet                 checkpoint, classic or V2
               00000000000000000010.checkpoint.0000000001.0000000003.parquet   part 1 of 3
               00000000000000000010.checkpoint.<uuid>.{json,parquet}   checkpoint, V2
               00000000000000000004.00000000000000000006.compacted.json        commits 4 to 6 in one
               _last_checkpoint                                        the version of a recent checkpoint
               _sidecars/                                              file actions of V2 checkpoints

Other files are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from delvec.errors import FormatError, InvalidOperationError, ObjectNotFoundError, TableNotFoundError
from delvec.storage import Entry, Storage

LOG = "_delta_log"
SIDECARS = f"{LOG}/_sidecars"
LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"

_COMMIT = re.compile(r"(\d{20})\.json")
_COMPACTED = re.compile(r"(\d{20})\.(\d{20})\.compacted\.json")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_V2 = re.compile(r"(\d{20})\.checkpoint\.([0-9a-fA-F-]{36})\.(?:json|parquet)")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint: one file, or all parts of a multi-part one, in order."""

    version: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compaction:
    first: int
    last: int
    path: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of the log directory by version.

    ``whole`` is false if only files from some version on were listed.
    A version may have several checkpoints with the same content; the last one is tried first.
    ``incomplete`` has the first missing part of each multi-part checkpoint that is not complete.
    """

    location: str
    commits: dict[int, Entry]
    checkpoints: dict[int, tuple[Checkpoint, ...]]
    compactions: tuple[Compaction, ...]
    whole: bool
    incomplete: dict[int, str]

    @property
    def latest(self) -> int:
        """The newest version; -1 if the log is empty."""
        return max(max(self.commits, default=-1), max(self.checkpoints, default=-1))

    @property
    def earliest(self) -> int:
        """The oldest readable version: 0, or the version of the first checkpoint."""
        if 0 in self.commits:
            return 0
        return min(self.checkpoints, default=-1)

    def without(self, damaged: Checkpoint) -> Listing:
        """The same log, as if that checkpoint were not there."""
        remaining = tuple(c for c in self.checkpoints[damaged.version] if c != damaged)
        checkpoints = {
            version: entries for version, entries in self.checkpoints.items() if version != damaged.version
        }
        return replace(self, checkpoints=checkpoints | ({damaged.version: remaining} if remaining else {}))


@dataclass(frozen=True, slots=True)
class Segment:
    """The files that one version is read from: a checkpoint, and the commits after it in order."""

    version: int
    checkpoint: Checkpoint | None
    tail: tuple[Entry | Compaction, ...]


def list_log(storage: Storage, *, since: int | None = None) -> Listing:
    """The log's files; with ``since``, only those of that version and later."""
    start = None if since is None else f"{LOG}/{since:020d}"
    entries = storage.list(f"{LOG}/", start_after=start)
    return _listing(storage.root, entries, whole=since is None)


def list_from_hint(storage: Storage) -> Listing:
    """The log's files from the last checkpoint on; all files if ``_last_checkpoint`` is missing or wrong."""
    version = _hinted_version(storage)
    if version is not None:
        listing = list_log(storage, since=version)
        if listing.checkpoints:
            return listing
    return list_log(storage)


def segment(listing: Listing, version: int | None = None) -> Segment:
    """The files of ``version``, the newest by default. Refuses a log in which one of them is missing."""
    _verify_is_table(listing)
    version = listing.latest if version is None else version
    _verify_version_in_range(listing, version)
    newest = max((candidate for candidate in listing.checkpoints if candidate <= version), default=None)
    checkpoint = None if newest is None else listing.checkpoints[newest][-1]
    first = checkpoint.version + 1 if checkpoint else 0
    return Segment(version, checkpoint, tail(listing, first, version))


def tail(listing: Listing, first: int, last: int) -> tuple[Entry | Compaction, ...]:
    """The commits and compactions that cover the versions ``first`` to ``last``, in order."""
    files: list[Entry | Compaction] = []
    while first <= last:
        candidates = (c for c in listing.compactions if c.first == first and first < c.last <= last)
        compaction = max(candidates, key=lambda c: c.last, default=None)
        if compaction is not None:
            files.append(compaction)
            first = compaction.last + 1
        elif first in listing.commits:
            files.append(listing.commits[first])
            first += 1
        else:
            raise FormatError(
                f"log has a gap: commit {first} is missing, expected all from it to {last}",
                path=f"{listing.location}/{LOG}/{first:020d}.json",
            )
    return tuple(files)


def _verify_is_table(listing: Listing) -> None:
    if listing.latest < 0:
        raise TableNotFoundError(f"no Delta table: no commit and no checkpoint in {listing.location}/{LOG}")


def _verify_version_in_range(listing: Listing, version: int) -> None:
    if version > listing.latest or version < 0:
        raise InvalidOperationError(
            f"version {version} does not exist, expected {max(listing.earliest, 0)} to {listing.latest}: "
            f"{listing.location}"
        )
    if listing.whole and version < listing.earliest and 0 not in listing.commits:
        raise InvalidOperationError(
            f"version {version} can no longer be read, expected {listing.earliest} to {listing.latest} "
            f"(older commits were cleaned up): {listing.location}"
        )


def _listing(location: str, entries: Iterable[Entry], *, whole: bool) -> Listing:
    commits: dict[int, Entry] = {}
    compactions: list[Compaction] = []
    classic: list[Checkpoint] = []
    v2: list[Checkpoint] = []
    parts: dict[tuple[int, int], dict[int, str]] = {}
    for entry in entries:
        folder, _, name = entry.path.rpartition("/")
        if folder != LOG or not name[:1].isdigit():
            continue
        if numbers := _COMMIT.fullmatch(name):
            commits[int(numbers[1])] = entry
        elif numbers := _COMPACTED.fullmatch(name):
            compactions.append(Compaction(int(numbers[1]), int(numbers[2]), entry.path))
        elif numbers := _CLASSIC.fullmatch(name):
            classic.append(Checkpoint(int(numbers[1]), (entry.path,)))
        elif numbers := _V2.fullmatch(name):
            v2.append(Checkpoint(int(numbers[1]), (entry.path,)))
        elif numbers := _PART.fullmatch(name):
            parts.setdefault((int(numbers[1]), int(numbers[3])), {})[int(numbers[2])] = entry.path
    complete, incomplete = _multi_part(parts)
    checkpoints: dict[int, tuple[Checkpoint, ...]] = {}
    for checkpoint in (*classic, *complete, *v2):
        checkpoints[checkpoint.version] = (*checkpoints.get(checkpoint.version, ()), checkpoint)
    return Listing(location, commits, checkpoints, tuple(compactions), whole, incomplete)


def _multi_part(
    parts: Mapping[tuple[int, int], Mapping[int, str]],
) -> tuple[list[Checkpoint], dict[int, str]]:
    """The complete multi-part checkpoints, and one missing part of each incomplete one."""
    complete: list[Checkpoint] = []
    incomplete: dict[int, str] = {}
    for (version, count), paths in parts.items():
        missing = next((number for number in range(1, count + 1) if number not in paths), None)
        if missing is None and len(paths) == count:
            complete.append(Checkpoint(version, tuple(path for _, path in sorted(paths.items()))))
        elif missing is not None:
            incomplete[version] = f"{LOG}/{version:020d}.checkpoint.{missing:010d}.{count:010d}.parquet"
    return complete, incomplete


def _hinted_version(storage: Storage) -> int | None:
    try:
        hint: Any = orjson.loads(storage.read(LAST_CHECKPOINT))
    except (ObjectNotFoundError, orjson.JSONDecodeError):
        return None
    version = hint.get("version") if isinstance(hint, dict) else None
    return version if isinstance(version, int) and 0 <= version < 10**20 else None
