"""Equality deletes that a scan need not load, by their recorded bounds.

A delete is left out if no data file to which it may apply can have one of its keys, or if the condition that
the scan applies can be true for none of them. A data file that can have no key of the deletes left is scanned
as one without deletes. Only deletes by one column of integers, dates or timestamps have bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Mask, Rows
from delvec.deletes.equality import NO_SCOPE, EqualityDeletes, EqualityLayer, KeyColumn
from delvec.deletes.equality_bounds import MOST_SCOPES, bounds_of_files, is_integer
from delvec.file_facts import ColumnPath, ColumnStats, FileFacts
from delvec.plan import ScanPlan
from delvec.predicate import Condition
from delvec.predicate.tree import is_decided
from delvec.schema import arrow_type

_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def needed_deletes(plan: ScanPlan, condition: Condition | None = None) -> EqualityDeletes:
    """The equality deletes of the plan that may delete a row. ``condition``: what the reader applies to the
    rows; without one, all live rows are needed.
    """
    deletes = EqualityDeletes.of(plan)
    layers = [_needed(layer, plan.facts, condition) for layer in deletes.layers]
    return EqualityDeletes(tuple(layer for layer in layers if len(layer.deletes)), deletes.files)


def _needed(layer: EqualityLayer, facts: FileFacts, condition: Condition | None) -> EqualityLayer:
    column = layer.columns[0]
    is_known = pc.is_valid(layer.deletes.column("lower")).to_numpy()
    if len(layer.columns) > 1 or not is_integer(column.type) or not is_known.any():
        return layer
    if condition is not None and is_decided(condition.tree):  # one that cannot fail for a deleted row
        may_match = condition.match(_KeyFacts.of(column, layer.deletes)).may
        layer = replace(layer, deletes=layer.deletes.filter(pa.array(may_match | ~is_known)))
    return _where_they_meet(layer, facts)


def _where_they_meet(layer: EqualityLayer, facts: FileFacts) -> EqualityLayer:
    """The layer without deletes and data files whose bounds have nothing in common."""
    scopes, of_deletes = np.unique(layer.scope[layer.has_deletes]), layer.deletes.column("scope").to_numpy()
    if len(scopes) > MOST_SCOPES:
        return layer
    lower = pc.fill_null(layer.deletes.column("lower"), _FIRST).to_numpy()
    upper = pc.fill_null(layer.deletes.column("upper"), _LAST).to_numpy()
    bounds = bounds_of_files(facts, layer.columns[0])
    needed = np.zeros(len(of_deletes), np.bool_)
    file_scope = np.full(len(layer.scope), NO_SCOPE, np.int64)
    for scope in scopes.tolist():
        files, deletes = np.flatnonzero(layer.scope == scope), np.flatnonzero(of_deletes == scope)
        if bounds is None:
            needed[deletes] = True
            file_scope[files] = scope if len(deletes) else NO_SCOPE
            continue
        of_files = bounds.lower[files], bounds.upper[files]
        needed[deletes] = _meets_any(lower[deletes], upper[deletes], *of_files)
        met = deletes[needed[deletes]]
        file_scope[files[_meets_any(*of_files, lower[met], upper[met])]] = scope
    return replace(layer, deletes=layer.deletes.filter(pa.array(needed)), scope=file_scope)


def _meets_any(lower: Rows, upper: Rows, other_lower: Rows, other_upper: Rows) -> Mask:
    """For each range whether it has a number in common with any of the other ranges."""
    if not len(other_lower):
        return np.zeros(len(lower), np.bool_)
    order = np.argsort(other_lower, kind="stable")
    starts, furthest = other_lower[order], np.maximum.accumulate(other_upper[order])
    before = np.searchsorted(starts, upper, side="right")  # those that start at or before the end
    meets: Mask = (before > 0) & (furthest[np.maximum(before - 1, 0)] >= lower)
    return meets


@dataclass(frozen=True, slots=True)
class _KeyFacts:
    """The keys of deletes as `FileFacts`: each delete is like a file that has its keys in one column."""

    path: ColumnPath
    stats: ColumnStats
    count: int

    @classmethod
    def of(cls, column: KeyColumn, deletes: pa.Table) -> _KeyFacts:
        lower, upper = (_typed(deletes.column(name), column) for name in ("lower", "upper"))
        counts = pc.fill_null(deletes.column("cardinality"), 1).combine_chunks()
        nulls = pa.repeat(pa.scalar(0, pa.int64()), len(deletes))
        return cls(column.path, ColumnStats(lower, upper, nulls, counts), len(deletes))

    @property
    def record_count(self) -> pa.Array:
        return self.stats.record_count

    @property
    def tight(self) -> pa.Array:
        return pa.repeat(pa.scalar(value=False), self.count)

    def column(self, path: ColumnPath) -> ColumnStats | None:
        return self.stats if path == self.path else None


def _typed(numbers: pa.ChunkedArray, column: KeyColumn) -> pa.Array:
    kind = arrow_type(column.type)
    numbers = numbers.combine_chunks()
    return numbers.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else numbers.cast(kind)
