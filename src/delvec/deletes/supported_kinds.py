"""Which deletes delvec applies. A plan with any other delete is refused by the name of its kind or encoding.

    position-vector    deletion-vector    the vector of one data file
    position-file      full-row           a Parquet file of (file_path, pos), in a group of deletes
    equality-file      full-row           a Parquet file of rows, in a group of deletes
                       deletion-vector    a Puffin file with a vector of keys, in a group of deletes

Every reader of a plan checks this first: a delete that is ignored makes deleted rows visible again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delvec.errors import UnsupportedFeatureError
from delvec.plan import (
    DELETION_VECTOR,
    EQUALITY_FILE,
    FULL_ROW,
    POSITION_FILE,
    POSITION_VECTOR,
    ScanPlan,
)

PARQUET = "parquet"

ENCODINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        POSITION_VECTOR: (DELETION_VECTOR,),
        POSITION_FILE: (FULL_ROW,),
        EQUALITY_FILE: (FULL_ROW, DELETION_VECTOR),
    }
)
"""The encodings of each kind that delvec applies."""

_GROUPED = (POSITION_FILE, EQUALITY_FILE)
"""Kinds of deletes that may apply to several data files: they are listed in groups."""


def verify_applied(plan: ScanPlan) -> None:
    """Refuse a plan with a delete that delvec cannot apply, or with a data file that it cannot read."""
    _verify_formats(plan)
    _verify_groups(plan)
    _verify_vectors(plan)
    verify_kinds(plan.deletes)


def verify_kinds(deletes: pa.Table) -> None:
    """Refuse rows of ``ScanPlan.deletes`` of an unknown kind, encoding or file format."""
    kinds = deletes.column("kind")
    unknown = deletes.filter(pc.invert(_is_among(kinds, list(ENCODINGS))))
    if len(unknown):
        raise _refused(unknown, "kind", list(ENCODINGS))
    for kind, encodings in ENCODINGS.items():
        is_known = _is_among(deletes.column("encoding"), list(encodings))
        other = pc.and_(pc.equal(kinds, kind), pc.invert(is_known))
        if pc.any(other).as_py():
            raise _refused(deletes.filter(other), "encoding", list(encodings))
    formats = deletes.column("file_format")
    other = pc.and_(
        _is_among(kinds, list(_GROUPED)), pc.invert(pc.fill_null(pc.equal(formats, PARQUET), fill_value=True))
    )
    if pc.any(other).as_py():
        raise _refused(deletes.filter(other), "file format", [PARQUET])


def verify_positions(deletes: pa.Table) -> None:
    """Refuse rows of ``ScanPlan.deletes`` that are no deletes by position that delvec applies."""
    verify_kinds(deletes)
    by_value = deletes.filter(pc.equal(deletes.column("kind"), EQUALITY_FILE))
    if len(by_value):
        raise _refused(by_value, "kind", [POSITION_VECTOR, POSITION_FILE])


def _verify_formats(plan: ScanPlan) -> None:
    other = plan.files.filter(pc.invert(_is_among(plan.files.column("file_format"), [PARQUET])))
    if len(other):
        file_format, place = (other.column(name)[0].as_py() for name in ("file_format", "location"))
        message = f"data file has the format {file_format!r}: {place}, expected {PARQUET!r}"
        raise UnsupportedFeatureError(message, feature=file_format)


def _verify_groups(plan: ScanPlan) -> None:
    """Refuse a file to which a group applies that holds other deletes than files; a group of its own may hold
    position files only.
    """
    for column, expected in (("delete_group", _GROUPED), ("own_deletes", (POSITION_FILE,))):
        groups = plan.files.column(column).unique().drop_null().to_pylist()
        if not _kinds(plan, groups) <= set(expected):
            group = next(number for number in groups if not _kinds(plan, [number]) <= set(expected))
            place = (
                plan.files.column("location").filter(pc.equal(plan.files.column(column), group))[0].as_py()
            )
            names = ", ".join(sorted(_kinds(plan, [group]) - set(expected)))
            raise UnsupportedFeatureError(
                f"a group of deletes of the kind {names!r} applies to {place}, "
                f"expected {' or '.join(map(repr, expected))}",
                feature=names,
            )


def _kinds(plan: ScanPlan, groups: Sequence[int]) -> set[str]:
    """The kinds of the deletes in these groups."""
    if any(group >= len(plan.delete_groups) for group in groups):
        return {"unknown"}
    rows = pa.array({row for group in groups for row in plan.delete_groups[group]}, pa.int64())
    return {kind or "unknown" for kind in plan.deletes.column("kind").take(rows).unique().to_pylist()}


def _verify_vectors(plan: ScanPlan) -> None:
    """Refuse a file whose own delete is a delete file: it must be in a group."""
    own = plan.deletes.take(plan.files.column("vector").drop_null())
    other = own.filter(_is_among(own.column("kind"), list(_GROUPED)))
    if len(other):
        raise _refused(other, "kind", [POSITION_VECTOR])


def _is_among(column: pa.ChunkedArray, expected: list[str]) -> pa.ChunkedArray:
    """Whether each value is one of those expected; false for null."""
    return pc.is_in(column, value_set=pa.array(expected))


def _refused(deletes: pa.Table, column: str, expected: list[str]) -> UnsupportedFeatureError:
    """The refusal of the first of ``deletes``, for its value of ``column``."""
    delete = deletes.slice(0, 1).to_pylist()[0]
    actual, names = delete[column.replace(" ", "_")], " or ".join(map(repr, expected))
    message = f"delete of {_owner(delete)} has the {column} {actual!r}, expected {names}"
    return UnsupportedFeatureError(message, feature=actual)


def _owner(delete: Mapping[str, Any]) -> str:
    """The data file of the delete if it has only one, else the file that stores it."""
    return str(delete.get("referenced_file") or delete.get("location") or "a data file")
