"""Log replay: from the actions of many files to the state of one version.

File actions are reconciled by (path, vector id): the newest action for a key decides whether the file is live
or a tombstone. A checkpoint is reconciled already, so only the commits after it are applied to it. Keys are
computed only for those of its rows whose path the commits name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import rows_of
from delvec.delta.actions import (
    ADDS_SCHEMA,
    REMOVES_SCHEMA,
    Actions,
    DomainMetadata,
    Metadata,
    SetTransaction,
)
from delvec.delta.checkpoint_reader import concat
from delvec.delta.features import Protocol
from delvec.delta.file_keys import file_keys


@dataclass(frozen=True, slots=True)
class FileActions:
    """Adds and removes in which each (path, vector id) occurs at most once."""

    adds: pa.Table
    removes: pa.Table


@dataclass(frozen=True, slots=True)
class SmallState:
    """All state except files. The newest action of each kind counts. Removed domains stay, marked removed."""

    protocol: Protocol | None
    metadata: Metadata | None
    txns: dict[str, SetTransaction]
    domains: dict[str, DomainMetadata]


NO_FILES = FileActions(ADDS_SCHEMA.empty_table(), REMOVES_SCHEMA.empty_table())
NO_STATE = SmallState(None, None, {}, {})


def newest(actions: Sequence[FileActions | Actions]) -> FileActions:
    """The newest action for each key. ``actions`` are in the order of their commits."""
    if len(actions) == 1 and isinstance(actions[0], FileActions):
        return actions[0]
    adds = concat([a.adds for a in actions] or [NO_FILES.adds])
    removes = concat([a.removes for a in actions] or [NO_FILES.removes])
    numbers = np.arange(len(actions))
    order = np.concatenate(
        [
            np.repeat(numbers, [len(a.adds) for a in actions]),
            np.repeat(numbers, [len(a.removes) for a in actions]),
        ]
    )
    if not len(order):
        return FileActions(adds, removes)
    keys = pa.chunked_array(file_keys(adds).chunks + file_keys(removes).chunks, pa.string())
    codes = keys.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    oldest_first = np.argsort(order, kind="stable")
    last = np.empty(codes.max() + 1, dtype=np.int64)
    last[codes[oldest_first]] = oldest_first  # numpy keeps the last assignment to a repeated index
    wins = np.zeros(len(codes), dtype=bool)
    wins[last] = True
    return FileActions(adds.filter(pa.array(wins[: len(adds)])), removes.filter(pa.array(wins[len(adds) :])))


def without(table: pa.Table, newer: FileActions) -> pa.Table:
    """The rows of ``table`` for whose keys ``newer`` has no action."""
    paths = pa.chunked_array(
        newer.adds.column("path").chunks + newer.removes.column("path").chunks, pa.string()
    )
    positions = np.flatnonzero(pc.is_in(table.column("path"), value_set=paths).to_numpy())
    if not len(positions):
        return table
    newer_keys = pa.chunked_array(file_keys(newer.adds).chunks + file_keys(newer.removes).chunks, pa.string())
    replaced = pc.is_in(file_keys(rows_of(table, positions)), value_set=newer_keys).to_numpy()
    keep = np.ones(len(table), dtype=bool)
    keep[positions[replaced]] = False
    return table.filter(pa.array(keep))


def advance(state: SmallState, actions: Actions) -> SmallState:
    """The state after ``actions``."""
    return replace(
        state,
        protocol=actions.protocol or state.protocol,
        metadata=actions.metadata or state.metadata,
        txns={**state.txns, **(actions.txns or {})},
        domains={**state.domains, **(actions.domains or {})},
    )
