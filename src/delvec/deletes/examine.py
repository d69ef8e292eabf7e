"""Reading the vectors of a plan, each with its own answer: a bad one spoils no other.

`delvec.deletes.loader` raises the first bad one; what looks into a table wants to know of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.deletes.applied import VECTOR_COLUMNS, verify_vectors
from delvec.errors import CorruptVectorError, FormatError, ObjectNotFoundError, StorageError
from delvec.storage import Storage

_READERS = 8

Delete = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Examined:
    """The vector at ``row`` of a plan's deletes: the set and its bytes, or why it cannot be trusted."""

    row: int
    bitmap: Bitmap | None = None
    data: bytes = b""
    is_bare: bool = False
    error: FormatError | None = None

    def describe(self) -> blob.BlobDescription | None:
        """What the blob is; None where it cannot be trusted."""
        if self.error is not None:
            return None
        return blob.describe_bare(self.data) if self.is_bare else blob.describe(self.data)


def examine_vectors(storage: Storage, deletes: pa.Table) -> Iterator[Examined]:
    """Each vector of ``deletes``, those of one file after each other, as they are read.

    A StorageError other than of an absent file or range is raised: it says nothing of the vector.
    """
    verify_vectors(deletes)
    listed = deletes.select(VECTOR_COLUMNS).to_pylist()
    vectors = [delete | {"row": row} for row, delete in enumerate(listed)]
    vectors.sort(key=lambda delete: delete["location"] or "")
    files = [list(together) for _, together in groupby(vectors, key=lambda delete: delete["location"])]
    pool = ThreadPoolExecutor(_READERS)
    try:
        for examined in pool.map(lambda together: _examine_file(storage, together), files):
            yield from examined
    finally:  # a caller that has seen enough waits for no more than is under way
        pool.shutdown(cancel_futures=True)


def examine_blob(data: bytes, *, row: int = 0, expected_cardinality: int | None = None) -> Examined:
    """What one framed blob is."""
    try:
        return Examined(row, blob.decode(data, expected_cardinality=expected_cardinality), data)
    except FormatError as error:
        return Examined(row, data=data, error=error)


def _examine_file(storage: Storage, deletes: list[Delete]) -> list[Examined]:
    """The vectors of one file, with one request where all are there."""
    if deletes[0]["location"] is None:
        return [_examine_inline(delete) for delete in deletes]
    try:
        blobs = storage.read_ranges(deletes[0]["location"], [(d["offset"], d["length"]) for d in deletes])
    except StorageError as error:
        if len(deletes) == 1 or isinstance(error, ObjectNotFoundError):
            return [_unreadable(storage, delete, error) for delete in deletes]
        return [examined for delete in deletes for examined in _examine_file(storage, [delete])]
    return [_examine_stored(delete, data) for delete, data in zip(deletes, blobs, strict=True)]


def _examine_stored(delete: Delete, data: bytes) -> Examined:
    found = examine_blob(data, row=delete["row"], expected_cardinality=delete["cardinality"])
    if found.error is None:
        return found
    return Examined(found.row, data=data, error=found.error.at(delete["location"], delete["offset"]))


def _examine_inline(delete: Delete) -> Examined:
    row, data = delete["row"], delete["inline"]
    try:
        bitmap = blob.decode_bare(data, expected_cardinality=delete["cardinality"])
    except FormatError as error:
        place = f"inline vector of {delete['referenced_file']}"
        return Examined(row, data=data, is_bare=True, error=error.at(place))
    return Examined(row, bitmap, data, is_bare=True)


def _unreadable(storage: Storage, delete: Delete, error: StorageError) -> Examined:
    place, offset, end = delete["location"], delete["offset"], delete["offset"] + delete["length"]
    if isinstance(error, ObjectNotFoundError):
        reason = f"vector file is missing, expected the vector of {delete['referenced_file']}"
        return Examined(delete["row"], error=CorruptVectorError(reason, path=place))
    size = storage.head(place).size
    if end <= size:
        raise error
    reason = f"vector file has {size} bytes, expected at least {end}"
    return Examined(delete["row"], error=CorruptVectorError(reason, path=place, offset=offset))
