"""The kinds of tables that the contract suite runs on.

A kind says how its tables are created, what one of their commits wrote, and who else can read them. Tests
marked ``core`` run on every kind, all others on the kinds that are ``whole``: one for each format and version
of a format. On a kind that is ``rare`` they are slow tests, unless they are marked ``common``: then they are
ordinary tests on the kinds that are ``common``, and on each kind if they say ``every=True``; ``rare`` takes
one test of a module out of these. Tests marked ``numbered`` count commits, and run on kinds that say so. A
new format adds a module here and its kinds to ``KINDS``.
"""

from __future__ import annotations

from contract.kinds.delta import DELTA_KINDS
from contract.kinds.iceberg import ICEBERG_KINDS
from contract.kinds.kind import (
    ANY_COLUMN_NAMES,
    APPEND_ONLY,
    CHANGE_FEED,
    CHANGE_FILES,
    EMPTY_PARTITIONS,
    FREQUENT_CHECKPOINTS,
    IMAGES,
    INLINE_VECTORS,
    NESTED_COLUMNS,
    NUMBERED,
    POSITION_FILES,
    REQUESTS,
    RESTORED_COLUMNS,
    ROW_IDS,
    SMALL_INTEGERS,
    TYPE_WIDENING,
    VARIANTS,
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
    "CHANGE_FEED",
    "CHANGE_FILES",
    "EMPTY_PARTITIONS",
    "FREQUENT_CHECKPOINTS",
    "IMAGES",
    "INLINE_VECTORS",
    "KINDS",
    "NESTED_COLUMNS",
    "NUMBERED",
    "POSITION_FILES",
    "REQUESTS",
    "RESTORED_COLUMNS",
    "ROW_IDS",
    "SMALL_INTEGERS",
    "TYPE_WIDENING",
    "VARIANTS",
    "VECTORS_OFF",
    "VECTOR_FILES",
    "Change",
    "Kind",
    "Written",
]
