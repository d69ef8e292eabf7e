"""Reading the log: from the files of a segment to the state of its version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa

from delvec import location
from delvec.delta import checkpoint_reader
from delvec.delta.action_reader import NotJsonError, parse_actions, verify_commit, verify_compaction
from delvec.delta.actions import Actions
from delvec.delta.checkpoint_reader import DamagedCheckpointError
from delvec.delta.log_files import SIDECARS, Checkpoint, Compaction, Segment
from delvec.delta.replay import NO_FILES, NO_STATE, FileActions, SmallState, advance, newest, without
from delvec.errors import FormatError, ObjectNotFoundError
from delvec.storage import Entry, Storage, in_parallel

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class LogState:
    """The state of one version of the log.

    ``recent`` are the file actions after ``checkpoint``.
    ``passed_over`` are the errors of damaged checkpoints that were skipped.
    """

    version: int
    small: SmallState
    adds: pa.Table
    checkpoint: Checkpoint | None
    recent: FileActions
    passed_over: tuple[FormatError, ...] = ()


def load(storage: Storage, segment: Segment) -> LogState:
    """The state after all files of the segment."""
    tail = _read_tail(storage, segment.tail)
    small, adds = NO_STATE, [tail.files.adds]
    if segment.checkpoint is not None:
        head = _read_checkpoint(storage, segment.checkpoint, lambda batch: without(batch, tail.files))
        small = advance(small, head)
        adds.insert(0, head.adds)
    return LogState(
        segment.version,
        _advanced(small, tail),
        checkpoint_reader.concat(adds),
        segment.checkpoint,
        tail.files,
    )


def load_small(storage: Storage, segment: Segment) -> SmallState:
    """The state after all files of the segment, without its files: reads no file action of a checkpoint."""
    small = NO_STATE
    if segment.checkpoint is not None:
        for head in in_parallel(lambda path: _head(storage, path), segment.checkpoint.paths):
            small = advance(small, head)
    for actions in in_parallel(lambda file: read_commit(storage, file), segment.tail):
        small = advance(small, actions)
    return small


def extend(storage: Storage, state: LogState, version: int, tail: Sequence[Entry | Compaction]) -> LogState:
    """The state at ``version``: ``state`` and the later commits of ``tail``."""
    later = _read_tail(storage, tail)
    adds = checkpoint_reader.concat([without(state.adds, later.files), later.files.adds])
    recent = newest([state.recent, later.files])
    small = _advanced(state.small, later)
    return LogState(version, small, adds, state.checkpoint, recent, state.passed_over)


def tombstones(storage: Storage, state: LogState) -> pa.Table:
    """The removed files of the checkpoint and of the commits after it."""
    if state.checkpoint is None:
        return state.recent.removes
    heads = in_parallel(lambda path: _head(storage, path), state.checkpoint.paths)
    paths = [*_parquet_paths(state.checkpoint), *(path for head in heads for path in head.sidecars)]
    tables = in_parallel(lambda path: _read_file(storage, path, checkpoint_reader.read_removes), paths)
    old = checkpoint_reader.concat([*tables, *(head.removes for head in heads)])
    return checkpoint_reader.concat([without(old, state.recent), state.recent.removes])


def sidecars_of(storage: Storage, checkpoint_file: str) -> list[str]:
    """The names of the sidecars of a checkpoint's file."""
    return [place.rpartition("/")[2] for place in _head(storage, checkpoint_file).sidecars]


def commit_version(entry: Entry) -> int:
    return int(entry.path.rpartition("/")[2].removesuffix(".json"))


@dataclass(frozen=True, slots=True)
class _Tail:
    actions: Sequence[Actions]
    files: FileActions


def _read_tail(storage: Storage, tail: Sequence[Entry | Compaction]) -> _Tail:
    actions = in_parallel(lambda file: read_commit(storage, file), tail)
    return _Tail(actions, newest(actions))


def _advanced(small: SmallState, tail: _Tail) -> SmallState:
    for actions in tail.actions:
        small = advance(small, actions)
    return small


def read_commit(storage: Storage, file: Entry | Compaction) -> Actions:
    """The actions of a commit, or of a log compaction."""
    data = storage.read(file.path)
    try:
        actions = parse_actions(data)
        if isinstance(file, Compaction):
            verify_compaction(actions, file.path.rpartition("/")[2])
        else:
            verify_commit(actions, commit_version(file))
    except FormatError as error:
        raise error.at(location.join(storage.root, file.path)) from None
    return actions


def _read_checkpoint(storage: Storage, checkpoint: Checkpoint, keep: checkpoint_reader.Keep) -> Actions:
    """All actions of a checkpoint except its tombstones, from all of its files."""
    heads = in_parallel(lambda path: _head(storage, path), checkpoint.paths)
    small = NO_STATE
    for head in heads:
        small = advance(small, head)
    paths = [*_parquet_paths(checkpoint), *(path for head in heads for path in head.sidecars)]

    def read(path: str) -> pa.Table:
        return _read_file(storage, path, lambda source: checkpoint_reader.read_adds(source, keep))

    tables = in_parallel(read, paths)
    return Actions(
        adds=checkpoint_reader.concat([*(keep(head.adds) for head in heads), *tables]),
        removes=NO_FILES.removes,
        protocol=small.protocol,
        metadata=small.metadata,
        txns=small.txns,
        domains=small.domains,
    )


def _parquet_paths(checkpoint: Checkpoint) -> list[str]:
    return [path for path in checkpoint.paths if not path.endswith(".json")]


def _head(storage: Storage, path: str) -> Actions:
    """The small actions of a checkpoint file (all actions of a JSON one), with locations of its sidecars."""
    if path.endswith(".json"):
        actions = _json_head(storage, path)
    else:
        actions = _read_file(storage, path, checkpoint_reader.read_small_actions)
    folder = location.join(storage.root, SIDECARS)
    return replace(actions, sidecars=tuple(location.resolve(folder, name) for name in actions.sidecars))


def _json_head(storage: Storage, path: str) -> Actions:
    where = location.join(storage.root, path)
    data = storage.read(path)
    if not data.strip():
        raise DamagedCheckpointError("checkpoint is empty, expected actions", path=where)
    try:
        return parse_actions(data)
    except NotJsonError as error:
        raise DamagedCheckpointError(error.message, path=where, offset=error.offset) from None
    except FormatError as error:
        raise error.at(where) from None


def _read_file(storage: Storage, path: str, read: Callable[[pa.NativeFile], R]) -> R:
    """The result of ``read`` for the file at ``path``. An error names the file."""
    where = path if location.is_absolute(path) else location.join(storage.root, path)
    try:
        with storage.open_input(path) as source:
            return read(source)
    except ObjectNotFoundError:
        raise DamagedCheckpointError("checkpoint file is missing", path=where) from None
    except FormatError as error:
        raise error.at(where) from None
