"""Partition values of files, from the statistics of expressions.

    lower = upper                      the value
    upper is null                      the lower bound is the value
    no bounds, all values are null     null
    no bounds, all values are NaN      NaN
    lower differs from upper           refused: the file has no single value
    no bounds and no counts            refused: the value is not known. A vector needs no value, and gets null

An expression with another transform than those that delvec knows is refused, void is null.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.chunked import Mask, one_chunk
from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg.stats import PARTITION
from delvec.iceberg.tree.content_stats import LOWER, NANS, NULLS, UPPER, VALUES, promoted, statistic
from delvec.iceberg.tree.entries import CONTENT_STATS, POSITION_DELETES, is_of, numbers
from delvec.iceberg.tree.measured_columns import MeasuredColumns, PartitionExpression
from delvec.schema import arrow_type
from delvec.transforms import VOID


def partition_columns(entries: pa.Table, columns: MeasuredColumns) -> dict[str, pa.Array]:
    """A column ``partition.<name>`` for each partition field of all specs, as in `live_files`: the value of
    each file whose spec has the field, null for other files.
    """
    spec_ids = numbers(entries, "partition_spec_id")
    _verify_specs(entries, spec_ids, columns)
    found: dict[str, pa.Array] = {}
    for name, item, specs in _fields(columns):
        of_spec = np.isin(spec_ids, specs)
        values = _values(entries, item, of_spec)
        known = found.get(name)
        found[name] = values if known is None else pc.coalesce(known, values)
    return found


def _fields(columns: MeasuredColumns) -> Iterator[tuple[str, PartitionExpression, list[int]]]:
    """Each partition field under the name of its column, and the specs that have it."""
    specs: dict[tuple[str, PartitionExpression], list[int]] = {}
    for spec_id, items in columns.expressions.items():
        for item in items:
            specs.setdefault((PARTITION + item.field.name, item), []).append(spec_id)
    for (name, item), ids in specs.items():
        yield name, item, ids


def _values(entries: pa.Table, item: PartitionExpression, of_spec: Mask) -> pa.Array:
    kind = arrow_type(item.field.type)
    if item.field.transform == VOID or not of_spec.any():
        return pa.nulls(len(entries), kind)
    if not item.field.transform.is_known:
        raise UnsupportedFeatureError(
            f"partition field {item.field.name} has the transform {item.field.transform}, expected one that "
            "delvec knows",
            feature=f"transform {item.field.transform}",
        )
    found = {
        name: statistic(entries.column(CONTENT_STATS), item.expr_id, name)
        for name in (LOWER, UPPER, VALUES, NULLS, NANS)
    }
    missing = pa.nulls(len(entries), pa.int64())
    lower, upper = (
        pa.nulls(len(entries), kind) if found[n] is None else promoted(found[n], kind) for n in (LOWER, UPPER)
    )
    counts, nulls, nans = (missing if found[n] is None else found[n] for n in (VALUES, NULLS, NANS))
    differs = _yes(pc.not_equal(lower, upper)) | (_no(lower.is_valid()) & _yes(upper.is_valid()))
    needed = of_spec & ~_is_vector(entries)
    _refuse(entries, needed & differs, item, "bounds differ, expected one value for the file")
    has_value = _yes(lower.is_valid())
    is_null = ~has_value & _yes(pc.equal(nulls, counts))
    is_nan = ~has_value & ~is_null & _yes(pc.equal(nans, counts))
    _refuse(entries, needed & ~(has_value | is_null | is_nan), item, "statistics are missing")
    if pt.is_floating(kind) and is_nan.any():
        lower = pc.if_else(pa.array(is_nan), pa.scalar(float("nan"), kind), lower)
    return pc.if_else(pa.array(of_spec), lower, pa.scalar(None, kind))


def _is_vector(entries: pa.Table) -> Mask:
    """Which entries are vectors of data files: they are found by the file that they refer to."""
    has_vector = entries.column("dv_offset").is_valid().to_numpy()
    found: Mask = has_vector & is_of(entries, [POSITION_DELETES])
    return found


def _refuse(entries: pa.Table, wrong: Mask, item: PartitionExpression, problem: str) -> None:
    rows = np.flatnonzero(wrong)
    if len(rows):
        place = entries.column("location")[int(rows[0])].as_py()
        raise FormatError(
            f"partition value {item.field.name} of a file: {problem} (expression {item.expr_id})",
            path=place,
        )


def _verify_specs(entries: pa.Table, spec_ids: np.ndarray, columns: MeasuredColumns) -> None:
    unknown = ~np.isin(spec_ids, list(columns.specs))
    if unknown.any():
        row = int(np.flatnonzero(unknown)[0])
        raise FormatError(
            f"partition spec of a file is {spec_ids[row]}, expected one of "
            f"{', '.join(map(str, sorted(columns.specs)))}",
            path=entries.column("location")[row].as_py(),
        )


def _yes(answers: pa.Array) -> Mask:
    known: Mask = one_chunk(pc.fill_null(answers, False)).to_numpy(zero_copy_only=False)  # noqa: FBT003
    return known


def _no(answers: pa.Array) -> Mask:
    return ~_yes(answers)
