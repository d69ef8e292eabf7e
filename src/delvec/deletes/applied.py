"""Which deletes delvec applies: position vectors of Parquet files. A plan with any other is refused.

Everything that reads a plan's rows asks here first. A delete that is passed over brings its rows back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delvec.errors import UnsupportedFeatureError
from delvec.plan import DELETION_VECTOR, POSITION_VECTOR, ScanPlan

PARQUET = "parquet"

VECTOR_COLUMNS = [
    "kind",
    "encoding",
    "location",
    "inline",
    "offset",
    "length",
    "cardinality",
    "referenced_file",
]
"""The columns of ``ScanPlan.deletes`` that loading a vector needs."""


def verify_applied(plan: ScanPlan) -> None:
    """Refuse a plan with a delete, or a data file, that delvec cannot apply or read."""
    _verify_formats(plan)
    _verify_groups(plan)
    verify_vectors(plan.deletes)


def verify_vectors(deletes: pa.Table) -> None:
    """Refuse rows of ``ScanPlan.deletes`` that are no position vectors, or encoded in an unknown way."""
    for column, expected in (("kind", POSITION_VECTOR), ("encoding", DELETION_VECTOR)):
        other = deletes.filter(_differs(deletes.column(column), expected))
        if len(other):
            delete = other.slice(0, 1).to_pylist()[0]
            found = delete[column]
            raise _refused(f"delete of {_owner(delete)} has the {column} {found!r}", expected, found)


def _verify_formats(plan: ScanPlan) -> None:
    other = plan.files.filter(_differs(plan.files.column("file_format"), PARQUET))
    if len(other):
        found, place = (other.column(name)[0].as_py() for name in ("file_format", "location"))
        raise _refused(f"data file has the format {found!r}: {place}", PARQUET, found)


def _verify_groups(plan: ScanPlan) -> None:
    """A group is refused whatever it holds: only the vector of a file's own is applied."""
    grouped = plan.files.filter(pc.is_valid(plan.files.column("delete_group")))
    if not len(grouped):
        return
    group, place = (grouped.column(name)[0].as_py() for name in ("delete_group", "location"))
    kinds = _kinds(plan, group)
    found = ", ".join(kinds) or "unknown"
    raise _refused(f"a group of deletes of the kind {found!r} applies to {place}", POSITION_VECTOR, found)


def _kinds(plan: ScanPlan, group: int) -> Iterable[str]:
    if group >= len(plan.delete_groups):
        return []
    rows = pa.array(plan.delete_groups[group], pa.int64())
    return sorted(set(plan.deletes.column("kind").take(rows).to_pylist()))


def _differs(column: pa.ChunkedArray, expected: str) -> pa.ChunkedArray:
    return pc.fill_null(pc.not_equal(column, expected), True)  # noqa: FBT003


def _owner(delete: dict[str, Any]) -> str:
    """The data file that the delete is of, or else the file that holds it."""
    return str(delete.get("referenced_file") or delete.get("location") or "a data file")


def _refused(problem: str, expected: str, found: str | None) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(f"{problem}, expected {expected!r}", feature=found)
