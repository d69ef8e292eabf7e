"""The kinds of tables that the contract suite runs on.

A kind says how its tables are created, what one of their commits wrote, and who else can read them. Tests
marked ``core`` run on every kind, all others on the kinds that are ``whole``: one for each format. Tests
marked ``reads`` also run on kinds that delvec cannot write. There they are slow if they say ``rare=True``, or
if the kind is not whole and they do not say ``every=True``. Tests marked ``numbered`` name versions by their
numbers from 0, so they run on formats that have such versions. A new format adds a module here and its kinds
to ``KINDS``.
"""

from __future__ import annotations

from contract.kinds.delta import DELTA_KINDS
from contract.kinds.iceberg import ICEBERG_KINDS
from contract.kinds.kind import (
    ANY_COLUMN_NAMES,
    APPEND_ONLY,
    CHANGE_FILES,
    FREQUENT_CHECKPOINTS,
    INLINE_VECTORS,
    NESTED_COLUMNS,
    POSITION_FILES,
    ROW_IDS,
    TYPE_WIDENING,
    VECTOR_FILES,
    VECTORS_OFF,
    Change,
    Kind,
    Written,
)
from contract.kinds.toy import TOY_KINDS
from delvec import detect

KINDS: tuple[Kind, ...] = (*DELTA_KINDS, *TOY_KINDS)
if "iceberg" in detect.format_names():
    KINDS += ICEBERG_KINDS

__all__ = [
    "ANY_COLUMN_NAMES",
    "APPEND_ONLY",
    "CHANGE_FILES",
    "FREQUENT_CHECKPOINTS",
    "INLINE_VECTORS",
    "KINDS",
    "NESTED_COLUMNS",
    "POSITION_FILES",
    "ROW_IDS",
    "TYPE_WIDENING",
    "VECTORS_OFF",
    "VECTOR_FILES",
    "Change",
    "Kind",
    "Written",
]
