"""The commits of a change feed: which versions, whether all of them have the feed, and with which columns.

The feed has the columns of the newest version; those of the last version of the range if columns are mapped,
or if the newest version cannot show the rows of the range. Older rows are null in later columns. A column
that was renamed, dropped or given a type that its old values do not have cannot be shown.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from delvec.delta.actions import ADDS_SCHEMA, Actions
from delvec.delta.history import CommitTimes
from delvec.delta.log_reader import LogState, read_commit
from delvec.delta.properties import ENABLE_CHANGE_FEED, is_on
from delvec.delta.recovery import load_small_state
from delvec.delta.replay import NO_FILES, SmallState, advance
from delvec.delta.schema import MAPPING_NONE, is_widening
from delvec.delta.snapshot import Snapshot
from delvec.errors import DelvecError, InvalidOperationError
from delvec.schema import Array, DataType, Map, Primitive, Schema, Struct, is_string
from delvec.storage import Storage, in_parallel

if TYPE_CHECKING:
    from delvec.delta.log_files import Listing

Bound = int | dt.datetime
"""A version, or a time: the first version at or after it, the last version at or before it."""


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """The commits of a range in order; none if no version is between two times.

    shown   a version without files: the columns and the partitioning of the feed
    """

    versions: range
    commits: Sequence[Actions]
    shown: Snapshot


def read_range(
    listing: Listing, times: CommitTimes, newest: Snapshot, first: Bound, last: Bound | None
) -> ChangeRange:
    """The commits from ``first`` to ``last``, by default to the newest. Refuses a range without the feed.

    ``listing``: the whole log, of which ``newest`` is a version.
    """
    storage = newest.storage
    versions = _versions(times, newest, first, last)
    if not versions:
        return ChangeRange(versions, (), newest)
    _verify_in_log(versions, listing, newest)
    commits = in_parallel(lambda version: read_commit(storage, listing.commits[version]), versions)
    states = list(_states(storage, versions, commits))
    _verify_feed(versions, states, newest)
    shown = _shown(storage, versions, states, newest)
    _verify_readable_before(storage, versions[0], commits[0], shown)
    return ChangeRange(versions, commits, shown)


def _versions(times: CommitTimes, newest: Snapshot, first: Bound, last: Bound | None) -> range:
    start = first if isinstance(first, int) else times.version_from(first)
    if last is None:
        end = newest.version
    else:
        end = min(newest.version, last if isinstance(last, int) else times.version_at(last))
    if not 0 <= start <= newest.version:
        raise InvalidOperationError(
            f"changes start at version {start}, expected 0 to {newest.version}: {newest.location}"
        )
    # Between two times there may be no commit.
    are_times = isinstance(first, dt.datetime) and isinstance(last, dt.datetime) and first <= last
    if end < start and not are_times:
        raise InvalidOperationError(
            f"changes end at version {end}, expected their start at version {start} or a later one: "
            f"{newest.location}"
        )
    return range(start, end + 1)


def _verify_in_log(versions: range, listing: Listing, newest: Snapshot) -> None:
    missing = next((version for version in versions if version not in listing.commits), None)
    if missing is not None:
        oldest = next(v for v in sorted(listing.commits) if v >= listing.earliest)
        raise InvalidOperationError(
            f"changes of version {missing} can no longer be read, expected {oldest} to {newest.version} "
            f"(older commits were cleaned up): {newest.location}"
        )


def _states(
    storage: Storage, versions: range, commits: Sequence[Actions]
) -> Iterator[tuple[int, SmallState]]:
    """The state of the first version, and of each later one that changes metadata or protocol."""
    small = load_small_state(storage, versions[0])
    yield versions[0], small
    for version, actions in zip(versions[1:], commits[1:], strict=True):
        if actions.metadata is not None or actions.protocol is not None:
            small = advance(small, actions)
            yield version, small


def _verify_feed(versions: range, states: Sequence[tuple[int, SmallState]], newest: Snapshot) -> None:
    for version, state in states:
        if state.metadata is not None and not is_on(state.metadata.configuration, ENABLE_CHANGE_FEED):
            raise InvalidOperationError(
                f"version {version} has no change feed, expected {ENABLE_CHANGE_FEED} = true in all versions "
                f"from {versions[0]} to {versions[-1]}: {newest.location}"
            )


def _shown(
    storage: Storage, versions: range, states: Sequence[tuple[int, SmallState]], newest: Snapshot
) -> Snapshot:
    """The version whose columns the feed has; refused if it cannot show a version of the range."""
    snapshots = [(version, _without_files(storage, version, state)) for version, state in states]
    last = snapshots[-1][1]
    is_mapped = any(each.mapping != MAPPING_NONE for each in (snapshots[0][1], last, newest))
    if not is_mapped and all(_difference(snapshot, newest) is None for _, snapshot in snapshots):
        return newest
    for version, snapshot in snapshots:
        difference = _difference(snapshot, last)
        if difference is not None:
            changed = next(v for v, later in snapshots if v > version and _difference(snapshot, later))
            raise InvalidOperationError(
                f"version {changed} cannot be shown together with version {version}: {difference}, expected "
                f"only new columns and wider types in versions {versions[0]} to {versions[-1]}: "
                f"{newest.location}"
            )
    return last


def _without_files(storage: Storage, version: int, state: SmallState) -> Snapshot:
    return Snapshot(storage, LogState(version, state, ADDS_SCHEMA.empty_table(), None, NO_FILES))


def _difference(old: Snapshot, new: Snapshot) -> str | None:
    """Why ``new`` cannot show the rows of ``old``; None if it can."""
    if old.partition_columns != new.partition_columns:
        before, after = (", ".join(each.partition_columns) or "nothing" for each in (old, new))
        return f"the table was partitioned by {before} and then by {after}"
    return next(_differences(old.schema, new.schema), None)


def _differences(old: Schema, new: Schema, parent: str = "") -> Iterator[str]:
    by_stored_name = {field.physical_name: field for field in new}
    for field in old:
        name, later = parent + field.name, by_stored_name.get(field.physical_name)
        if later is None:
            yield f"column {name} was dropped"
        elif later.name != field.name:
            yield f"column {name} was renamed to {later.name}"
        else:
            yield from _type_differences(field.type, later.type, name)


def _type_differences(old: DataType, new: DataType, name: str) -> Iterator[str]:
    match old, new:
        case Struct(), Struct():
            yield from _differences(old, new, f"{name}.")
        case Array(a), Array(b):
            yield from _type_differences(a, b, f"{name}.element")
        case Map(k1, v1), Map(k2, v2):
            pairs = ((k1, k2, "key"), (v1, v2, "value"))
            yield from chain.from_iterable(_type_differences(a, b, f"{name}.{part}") for a, b, part in pairs)
        case _ if not _shows(old, new):
            yield f"column {name} changed its type from {old} to {new}"


def _shows(old: DataType, new: DataType) -> bool:
    """Whether every value of type ``old`` is one of type ``new``."""
    if old in (new, Primitive("void")) or (is_string(old) and is_string(new)):
        return True
    return is_widening(old, new)


def _verify_readable_before(storage: Storage, version: int, first: Actions, shown: Snapshot) -> None:
    """Refuse to show files that the first commit removes, if it also changes the types of their columns."""
    if first.metadata is None or not len(first.removes) or version == 0:
        return
    try:
        old = _without_files(storage, version - 1, load_small_state(storage, version - 1))
    except DelvecError:  # the version before is no longer in the log
        return
    by_stored_name = {field.physical_name: field for field in shown.schema}
    for field in old.schema:
        later = by_stored_name.get(field.physical_name, field)
        difference = next(_type_differences(field.type, later.type, field.name), None)
        if difference is not None:
            raise InvalidOperationError(
                f"rows that version {version} deletes cannot be shown: {difference}, expected only new "
                f"columns and wider types: {shown.location}"
            )
