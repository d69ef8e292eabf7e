"""Whether a delete manifest without affinity may have a delete of some data files, by partition values.

Deletes belong to data files of their own spec and partition, except for equality deletes of an unpartitioned
spec, which belong to all. A manifest whose entries have several specs may have a delete of any file.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.chunked import one_chunk
from delvec.iceberg.live_entries import SPEC_ID
from delvec.iceberg.stats import PARTITION
from delvec.iceberg.tree.content_stats import LOWER, NULLS, UPPER, statistic
from delvec.iceberg.tree.entries import CONTENT_STATS
from delvec.iceberg.tree.measured_columns import MeasuredColumns, PartitionExpression
from delvec.transforms import VOID


def may_share_partition(leaf: pa.Table, spec_id: int, data: pa.Table, columns: MeasuredColumns) -> bool:
    """Whether a delete of ``leaf``, an entry of the root, may be of one of the data files, live entries."""
    items = columns.expressions.get(spec_id, ())
    if all(item.field.transform == VOID for item in items):
        return True
    of_spec = data.filter(pa.array(one_chunk(data.column(SPEC_ID)).to_numpy() == spec_id))
    return len(of_spec) > 0 and all(_may_share(leaf, of_spec, item) for item in items)


def _may_share(leaf: pa.Table, data: pa.Table, item: PartitionExpression) -> bool:
    values = one_chunk(data.column(PARTITION + item.field.name))
    kind = values.type
    if not item.field.transform.is_known or pt.is_floating(kind) or pt.is_fixed_size_binary(kind):
        return True
    lower, upper, nulls = (_of(leaf, item.expr_id, name) for name in (LOWER, UPPER, NULLS))
    if lower is None or upper is None or (values.null_count and nulls != 0):
        return True
    bounds = (pa.scalar(bound, kind) for bound in (lower, upper))
    inside = pc.and_(pc.greater_equal(values, next(bounds)), pc.less_equal(values, next(bounds)))
    return bool(pc.any(inside).as_py())


def _of(leaf: pa.Table, expr_id: int, name: str) -> Any:
    """A statistic of the leaf; None if it is not known."""
    found = statistic(leaf.column(CONTENT_STATS), expr_id, name)
    return None if found is None else found[0].as_py()
