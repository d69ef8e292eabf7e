"""Makes a table one without deletion vectors, for readers that do not know them.

Vectors are switched off first: writers that started before conflict with this change, so no new vector comes
after it. Then the files that have a vector are rewritten. The format's own commits follow.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow.compute as pc

from delvec import conflicts
from delvec.conflicts import ReadsNoRows, Rerun
from delvec.errors import CommitConflictError, UnsupportedFeatureError
from delvec.formats import Snapshot, Table, VectorsDroppable
from delvec.spark.target import OperationResult

_LOGGER = logging.getLogger(__name__)

MAX_RUNS = 10
"""How often all steps are tried if other writers change the table meanwhile."""


@dataclass(frozen=True, slots=True)
class VectorsDropped(OperationResult):
    """``reader_features``: what readers of the table must still support, by the format's names."""

    reader_features: tuple[str, ...] = field(default=(), kw_only=True)


def drop_vectors(
    table: Table,
    set_properties: Callable[[Mapping[str, str | None]], object],
    purge: Callable[[], object],
    *,
    truncate_history: bool,
) -> VectorsDropped:
    """Switch vectors off, rewrite the files that have one (``purge``), and drop the feature. Does nothing if
    the table does not have it.
    """
    if not isinstance(table, VectorsDroppable):
        raise UnsupportedFeatureError(
            f"dropping deletion vectors is not implemented for {table.format} tables: {table.location}",
            feature="drop deletion vectors",
        )
    message = ""
    for _ in range(MAX_RUNS):
        change = table.vectors_off()
        if change is None:
            return _result(table.snapshot())
        if change:
            set_properties(change)
        if _has_vectors(table.snapshot()):
            purge()
            if _has_vectors(table.snapshot()):
                message = "other writers added vectors"
                continue
        conflict = _commit_steps(table, table, truncate_history=truncate_history)
        if conflict is None and table.vectors_off() is None:
            return _result(table.snapshot())
        message = "another writer allowed vectors again" if conflict is None else conflict.message
        _LOGGER.info("dropping deletion vectors starts again: %s", message)
    raise CommitConflictError(f"{message}; gave up after {MAX_RUNS} runs: {table.location}")


def _commit_steps(table: Table, droppable: VectorsDroppable, *, truncate_history: bool) -> Rerun | None:
    """Commit the format's steps; returns the conflict that stopped them."""
    for base, delta in droppable.vector_removal(truncate_history=truncate_history):
        settled = conflicts.commit(table, base, delta, ReadsNoRows())
        if isinstance(settled, Rerun):
            return settled
    return None


def _has_vectors(snapshot: Snapshot) -> bool:
    return bool(pc.any(pc.is_valid(snapshot.plan().files.column("vector"))).as_py())


def _result(snapshot: Snapshot) -> VectorsDropped:
    features = snapshot.details().get("reader features", ())
    return VectorsDropped(snapshot.version, {}, reader_features=tuple(features))
