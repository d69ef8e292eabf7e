"""Reads a version of the log, even if a checkpoint is damaged.

A checkpoint only saves time: an older checkpoint and the commits after it, or all commits, have the same
content. So a checkpoint that cannot be read is skipped with a warning, as Delta-Spark does. If the commits do
not exist any more, the error names the damaged checkpoint.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from delvec import location
from delvec.delta.checkpoint_reader import DamagedCheckpointError
from delvec.delta.log_files import Checkpoint, Listing, Segment, list_from_hint, list_log, segment
from delvec.delta.log_reader import LogState, load, load_small
from delvec.delta.replay import SmallState
from delvec.errors import DelvecError, FormatError
from delvec.storage import Storage

R = TypeVar("R")
Damage = tuple[Checkpoint, DamagedCheckpointError]


def load_version(storage: Storage, version: int | None = None) -> tuple[LogState, Listing]:
    """The state of the version, the newest by default, and the listing of the log that it was read from."""
    state, listing, damage = _recovered(storage, version, load)
    return replace(state, passed_over=tuple(error for _, error in damage)), listing


def load_small_state(storage: Storage, version: int) -> SmallState:
    """The state of the version without its files."""
    return _recovered(storage, version, load_small)[0]


def _recovered(
    storage: Storage, version: int | None, read: Callable[[Storage, Segment], R]
) -> tuple[R, Listing, Sequence[Damage]]:
    """What ``read`` returns for the files of the version, without damaged checkpoints."""
    listing, files = _files_of(storage, version)
    damage: list[Damage] = []
    while True:
        try:
            state = read(storage, files)
        except DamagedCheckpointError as error:
            assert files.checkpoint is not None
            damage.append((files.checkpoint, error))
            listing = _without(list_log(storage), damage)
            try:  # name the version: without its checkpoint the log may seem to end earlier
                files = segment(listing, files.version)
            except DelvecError:
                raise damage[0][1] from None
        else:
            _warn(damage, files.version)
            return state, listing, damage


def _files_of(storage: Storage, version: int | None) -> tuple[Listing, Segment]:
    listing = list_from_hint(storage)
    if not listing.whole and (version is None or version >= min(listing.checkpoints)):
        with suppress(DelvecError):
            return listing, segment(listing, version)
        # Files after the hinted checkpoint are missing. An older checkpoint may be usable.
    if not listing.whole:
        listing = list_log(storage)
    try:
        return listing, segment(listing, version)
    except FormatError as error:
        raise _incomplete(listing, error) or error from None


def _without(listing: Listing, damage: Sequence[Damage]) -> Listing:
    for checkpoint, _ in damage:
        if checkpoint in listing.checkpoints.get(checkpoint.version, ()):
            listing = listing.without(checkpoint)
    return listing


def _incomplete(listing: Listing, error: FormatError) -> FormatError | None:
    """The error that names a missing part of a checkpoint, if the version cannot be read without it."""
    if 0 in listing.commits or not listing.incomplete:
        return None
    missing = listing.incomplete[max(listing.incomplete)]
    return FormatError(
        f"part of a checkpoint is missing, expected all parts or all commits ({error.message})",
        path=location.join(listing.location, missing),
    )


def _warn(damage: Sequence[Damage], version: int) -> None:
    for _, error in damage:
        message = f"skipped a damaged checkpoint, version {version} was read without it: {error}"
        warnings.warn(message, stacklevel=4)
