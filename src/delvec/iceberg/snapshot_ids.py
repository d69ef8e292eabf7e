"""Ids of new snapshots."""

from __future__ import annotations

import uuid

import numpy as np

from delvec.iceberg.metadata import TableMetadata


def new_snapshot_id(metadata: TableMetadata) -> int:
    """A random positive number that no snapshot has."""
    while True:
        halves = np.frombuffer(uuid.uuid4().bytes, np.int64)
        number = int(halves[0] ^ halves[1]) & 0x7FFF_FFFF_FFFF_FFFF
        if number and number not in metadata.snapshots:
            return number
