"""Which delete manifests a plan needs: those whose partition summaries allow a partition of its data files.

A delete belongs to data files of its own spec and partition, except for equality deletes of an unpartitioned
spec, which belong to all. So a manifest is not needed if in some partition field no data file of its spec has
a value that the summary of the field allows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.chunked import Mask, one_chunk
from delvec.iceberg.live_entries import SPEC_ID
from delvec.iceberg.manifest_facts import summaries_at
from delvec.iceberg.single_values import decode
from delvec.iceberg.stats import PARTITION
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.predicate.value_ranges import maybe, uniform, unpacked
from delvec.schema import DataType, Primitive, arrow_type
from delvec.transforms import VOID

_CUT = (Primitive("string"), Primitive("binary"))


def needed_for(manifests: pa.Table, entries: pa.Table, specs: Mapping[int, PartitionSpec]) -> Mask:
    """Which of the delete ``manifests`` may have a delete of the data files ``entries`` (`live_files`)."""
    needed = np.ones(len(manifests), np.bool_)
    spec_ids = one_chunk(manifests.column("spec_id")).to_numpy()
    of_entries = one_chunk(entries.column(SPEC_ID)).to_numpy()
    for spec_id in np.unique(spec_ids).tolist():
        fields = specs[spec_id].fields
        if all(field.transform == VOID for field in fields):
            continue
        rows = np.flatnonzero(spec_ids == spec_id)
        files = entries.filter(pa.array(of_entries == spec_id))
        needed[rows] = len(files) > 0 and _allow(manifests.take(pa.array(rows)), files, fields)
    return needed


def _allow(manifests: pa.Table, files: pa.Table, fields: tuple[PartitionField, ...]) -> Mask:
    summaries = one_chunk(manifests.column("partitions"))
    allowed = np.ones(len(manifests), np.bool_)
    for position, field in enumerate(fields):
        if _is_ordered(field):
            has_summary, items = summaries_at(summaries, position)
            values = one_chunk(files.column(PARTITION + field.name))
            allowed &= ~has_summary | _allows(items, values, field.type)
    return allowed


def _allows(summaries: pa.StructArray, values: pa.Array, kind: DataType) -> Mask:
    """Which summaries allow a null, if there is one, or a value from the least to the greatest one."""
    some = uniform(len(summaries), value=False)
    if values.null_count:
        some = maybe(summaries.field("contains_null"))
    if values.null_count < len(values):
        lower, upper = (decode(summaries.field(name), kind) for name in ("lower", "upper"))
        extremes = pc.min_max(values)
        above = maybe(pc.greater_equal(upper, extremes["min"]))
        if kind in _CUT:  # values that start with the upper bound may be inside too
            above = uniform(len(summaries), value=True)
        some = pc.or_(some, pc.and_(above, maybe(pc.less_equal(lower, extremes["max"]))))
    return unpacked(some)


def _is_ordered(field: PartitionField) -> bool:
    """Whether the summaries of the field have bounds in an order that is certain."""
    kind = arrow_type(field.type)
    is_bytes = pt.is_fixed_size_binary(kind)
    return field.transform.is_known and field.transform != VOID and not (pt.is_floating(kind) or is_bytes)
