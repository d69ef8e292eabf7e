"""From a snapshot and a condition to a ``ScanPlan``."""

# ruff: noqa: ARG001
from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from delvec.errors import UnsupportedFeatureError
from delvec.plan import ScanPlan
from delvec.predicate import Condition

if TYPE_CHECKING:
    from delvec.iceberg.snapshot import Snapshot


def plan(
    snapshot: Snapshot, condition: Condition | None, *, time_zone: str = "UTC", among: pa.Array | None = None
) -> ScanPlan:
    """The files of ``snapshot`` that may have a matching row; ``among``: only these files, by their ids."""
    raise UnsupportedFeatureError("Iceberg tables cannot be read yet", feature="iceberg")


def names(snapshot: Snapshot, file_ids: pa.Array) -> pa.Array:
    """The recorded locations of files by their ids."""
    raise UnsupportedFeatureError("Iceberg tables cannot be read yet", feature="iceberg")


def file_ids(snapshot: Snapshot, names: pa.Array) -> pa.Array:
    """The ids of files by their recorded locations; null for a file that is not live."""
    raise UnsupportedFeatureError("Iceberg tables cannot be read yet", feature="iceberg")
