"""Rewriting equality-delete files to vectors of keys (`delvec.deletes.key_rewrite`), in one commit.

No data file is read. The new deletes apply to the same rows as the old ones, with the same sequence numbers.
Deletes that apply to no data file any more are removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Mask, Rows
from delvec.conflicts import Rerun
from delvec.conflicts.removed_deletes import same_place
from delvec.deletes.deletes_of_files import applied_deletes
from delvec.deletes.equality import EqualityDeletes, key_columns
from delvec.deletes.key_rewrite import RewrittenKeys, rewrite_keys
from delvec.deletes.model import added_deletes
from delvec.deletes.write_options import VECTORS_SINCE, EncodingHint
from delvec.deletes.write_result import REASONS, Fallback
from delvec.deletes.writers import DeleteWritable, DeleteWriterFactory
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.formats import DeletesListed
from delvec.plan import EQUALITY_FILE, FULL_ROW, ScanPlan
from delvec.row_delta import REMOVED_DELETES_SCHEMA, Isolation, Read, RowCounts, RowDelta, Verb
from delvec.spark.commit_and_rerun import StatementProbe, settle
from delvec.spark.delete_rewrite import KEY_VECTORS, DeleteRewrite, DeletesRewritten, kind_counts
from delvec.spark.partition_condition import is_selected
from delvec.spark.progress import DELETES_READ, tell
from delvec.spark.target import Target

_NO_COLUMN = "the column is not a top-level column of the table"


def rewrite_to_key_vectors(
    target: Target, rewrite: DeleteRewrite, *, dry_run: bool = False
) -> DeletesRewritten | Rerun:
    """Rewrite deletes to vectors of keys. A dry run looks at the metadata only: what the delete files hold is
    not known then.
    """
    factory = _factory(target, rewrite)
    selection = _selected(target, rewrite)
    keys = _rewritten(factory, selection, dry_run=dry_run)
    gone = selection.unused | _mask(keys.removed, selection)
    result = _result(target, rewrite, selection, gone, keys)
    if dry_run or not gone.any():
        return replace(result, dry_run=dry_run)
    removed = selection.equality.filter(pa.array(gone))
    delta = RowDelta(
        base=selection.plan.base,
        request=rewrite.request,
        read=Read(rewrite.request.condition, isolation=Isolation.SNAPSHOT),
        verb=Verb.REWRITE_DELETES,
        added_deletes=added_deletes(keys.added),
        removed_deletes=removed.select(REMOVED_DELETES_SCHEMA.names),
        data_change=False,
    )
    settled = settle(target, delta, StatementProbe(target))
    if isinstance(settled, Rerun):
        return settled
    return replace(result, version=settled.version, metrics=settled.metrics)


def _factory(target: Target, rewrite: DeleteRewrite) -> DeleteWriterFactory:
    """The writers of the table's deletes. Refuses a table that has no vectors of keys."""
    place = target.table.location
    if not isinstance(target.snapshot, DeleteWritable):
        raise UnsupportedFeatureError(
            f"to is {KEY_VECTORS!r}, but {target.table.format} tables store no keys of deleted rows, so "
            f"there is nothing to rewrite: {place}",
            feature=KEY_VECTORS,
        )
    factory = DeleteWriterFactory.for_version(target.storage, target.snapshot)
    options = factory.options
    if options.format_version < VECTORS_SINCE:
        raise UnsupportedFeatureError(
            f"to is {KEY_VECTORS!r}, but the table's format version is {options.format_version}, expected "
            f"{VECTORS_SINCE} or more: call upgrade({VECTORS_SINCE}) first: {place}",
            feature=f"vectors of keys in format version {options.format_version}",
        )
    if not options.vectors_of_keys:
        raise InvalidOperationError(
            f"to is {KEY_VECTORS!r}, but the table's property {options.gate} is not true: other engines read "
            f"no vectors of keys. Set it, or use another form: {place}"
        )
    own = options.hint if options.hint is not EncodingHint.FULL_ROW else EncodingHint.AUTO
    hint = own if rewrite.encoding is None else EncodingHint(rewrite.encoding)
    return replace(factory, options=replace(options, hint=hint))


@dataclass(frozen=True, slots=True)
class _Selection:
    """``equality``: all live equality deletes; ``chosen``: those to rewrite; ``unused``: those that apply to
    no data file. ``files``: how many data files the chosen ones may apply to.
    """

    plan: ScanPlan
    equality: pa.Table
    chosen: Mask
    unused: Mask
    files: int

    @property
    def is_row(self) -> Mask:
        """Which of them are full rows."""
        found: Mask = pc.equal(self.equality.column("encoding"), FULL_ROW).to_numpy()
        return found


def _selected(target: Target, rewrite: DeleteRewrite) -> _Selection:
    plan = target.plan(None)
    has_deletes = EqualityDeletes.of(plan).has_deletes
    live = target.snapshot.live_deletes() if isinstance(target.snapshot, DeletesListed) else plan.deletes
    equality = live.filter(pc.equal(live.column("kind"), EQUALITY_FILE))
    used = same_place(equality, plan.deletes.filter(pa.array(applied_deletes(plan))))
    selected = is_selected(target, plan, rewrite.where)
    others = plan.at(np.flatnonzero(~selected))
    needed = same_place(equality, plan.deletes.filter(pa.array(applied_deletes(others))))
    is_row = pc.equal(equality.column("encoding"), FULL_ROW).to_numpy()
    chosen = used & ~needed & is_row
    files = int((selected & has_deletes).sum()) if chosen.any() else 0
    return _Selection(plan, equality, chosen, ~used, files)


def _rewritten(factory: DeleteWriterFactory, selection: _Selection, *, dry_run: bool) -> RewrittenKeys:
    """The rewritten deletes of all columns; ``removed`` are rows of ``_Selection.equality``. A dry run reads
    none of them.
    """
    refused: Counter[str] = Counter()
    parts: list[RewrittenKeys] = []
    field_ids = selection.equality.column("field_ids").to_pylist()
    for ids in sorted({tuple(sorted(set(ids or ()))) for ids in field_ids}):
        same = np.array([tuple(sorted(set(other or ()))) == ids for other in field_ids], np.bool_)
        chosen = same & selection.chosen
        reason = None if not chosen.any() else _refusal(factory, ids)
        if reason is not None:
            refused[reason] += int(chosen.sum())
        elif dry_run:
            parts.append(RewrittenKeys(removed=tuple(np.flatnonzero(chosen).tolist())))
        elif chosen.any():
            parts.append(_of_column(factory, selection, ids[0], np.flatnonzero(same & ~selection.unused)))
    for part in parts:
        refused.update(part.refused)
    return RewrittenKeys(
        tuple(file for part in parts for file in part.added),
        tuple(row for part in parts for row in part.removed),
        sum(part.keys for part in parts),
        sum(part.superseded for part in parts),
        dict(refused),
    )


def _refusal(factory: DeleteWriterFactory, field_ids: tuple[int, ...]) -> str | None:
    """Why no delete by these columns can be a vector; None if it can."""
    if len(field_ids) != 1:
        return REASONS[Fallback.COMPOSITE]
    if all(column.field_id != field_ids[0] for column in factory.schema):
        return _NO_COLUMN
    codec, reason = factory.codec(field_ids)
    return REASONS[reason or Fallback.TYPE] if codec is None else None


def _of_column(
    factory: DeleteWriterFactory, selection: _Selection, field_id: int, rows: Rows
) -> RewrittenKeys:
    """The deletes by one column: those that apply to a data file are at ``rows``."""
    column = key_columns(selection.plan, [field_id])[0]
    deletes = selection.equality.take(pa.array(rows))
    done = rewrite_keys(
        factory, column, deletes, selection.chosen[rows], lambda count: tell(DELETES_READ, count)
    )
    return replace(done, removed=tuple(int(rows[row]) for row in done.removed))


def _mask(rows: Sequence[int], selection: _Selection) -> Mask:
    mask = np.zeros(len(selection.equality), np.bool_)
    mask[list(rows)] = True
    return mask


def _result(
    target: Target, rewrite: DeleteRewrite, selection: _Selection, gone: Mask, keys: RewrittenKeys
) -> DeletesRewritten:
    """The result of a rewrite that commits nothing. ``gone``: the deletes that are removed."""
    unchanged = target.unchanged(rewrite.request, RowCounts())
    return DeletesRewritten(
        unchanged.version,
        unchanged.metrics,
        to=rewrite.to,
        files=selection.files,
        keys=keys.keys,
        superseded=keys.superseded,
        removed=kind_counts(selection.equality.filter(pa.array(gone))),
        kept=int((selection.is_row & ~gone).sum()),
        refused=keys.refused,
    )
