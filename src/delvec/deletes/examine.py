"""Reading the deletes of data files, each with its own result: a damaged delete affects no other.

`delvec.deletes.loader` raises the first error. `delvec.verify` and ``delvec dv`` report all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.deletes.position_file import read_positions
from delvec.deletes.sets import DeleteSets
from delvec.errors import CorruptVectorError, FormatError, ObjectNotFoundError, StorageError
from delvec.plan import POSITION_FILE
from delvec.storage import Storage

_READERS = 8

Delete = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Examined:
    """The rows that one delete removes from one data file, or the reason why they cannot be known.

    pair      row of ``DeleteSets.describe``
    bitmap    the deleted rows; None: ``error`` says why
    data      bytes of a vector; empty for a position file
    is_bare   the bytes have no frame: an inline vector
    """

    pair: int
    bitmap: Bitmap | None = None
    data: bytes = b""
    is_bare: bool = False
    error: FormatError | None = None

    def describe(self) -> blob.BlobDescription | None:
        """The layout of the vector; None for a damaged vector and for a position file."""
        if self.error is not None or not self.data:
            return None
        return blob.describe_bare(self.data) if self.is_bare else blob.describe(self.data)


def examine(storage: Storage, sets: DeleteSets) -> Iterator[Examined]:
    """Each pair of a data file and a delete, as they are read; pairs of one stored file are adjacent.

    Raises a StorageError, unless it says that a file or a range of it is missing.
    """
    deletes = [delete | {"pair": pair} for pair, delete in enumerate(sets.describe().to_pylist())]
    deletes.sort(key=lambda delete: delete["location"] or "")
    files = [list(together) for _, together in groupby(deletes, key=lambda delete: delete["location"])]
    pool = ThreadPoolExecutor(_READERS)
    try:
        for examined in pool.map(lambda together: _examine_file(storage, together), files):
            yield from examined
    finally:  # a caller that stops early waits only for reads that have started
        pool.shutdown(cancel_futures=True)


def examine_blob(data: bytes, *, pair: int = 0, expected_cardinality: int | None = None) -> Examined:
    """One framed blob."""
    try:
        return Examined(pair, blob.decode(data, expected_cardinality=expected_cardinality), data)
    except FormatError as error:
        return Examined(pair, data=data, error=error)


def _examine_file(storage: Storage, deletes: list[Delete]) -> list[Examined]:
    """The deletes that are stored in one file."""
    if deletes[0]["location"] is None:
        return [_examine_inline(delete) for delete in deletes]
    if deletes[0]["kind"] == POSITION_FILE:
        return _examine_position_file(storage, deletes)
    return _examine_vectors(storage, deletes)


def _examine_vectors(storage: Storage, deletes: list[Delete]) -> list[Examined]:
    """The vectors of one file, with one request if all of them are there."""
    try:
        blobs = storage.read_ranges(deletes[0]["location"], [(d["offset"], d["length"]) for d in deletes])
    except StorageError as error:
        if len(deletes) == 1 or isinstance(error, ObjectNotFoundError):
            return [_unreadable(storage, delete, error) for delete in deletes]
        return [examined for delete in deletes for examined in _examine_vectors(storage, [delete])]
    return [_examine_stored(delete, data) for delete, data in zip(deletes, blobs, strict=True)]


def _examine_stored(delete: Delete, data: bytes) -> Examined:
    examined = examine_blob(data, pair=delete["pair"], expected_cardinality=delete["cardinality"])
    if examined.error is None:
        return examined
    return Examined(examined.pair, data=data, error=examined.error.at(delete["location"], delete["offset"]))


def _examine_inline(delete: Delete) -> Examined:
    pair, data = delete["pair"], delete["inline"]
    try:
        bitmap = blob.decode_bare(data, expected_cardinality=delete["cardinality"])
    except FormatError as error:
        place = f"inline vector of {delete['data_file']}"
        return Examined(pair, data=data, is_bare=True, error=error.at(place))
    return Examined(pair, bitmap, data, is_bare=True)


def _unreadable(storage: Storage, delete: Delete, error: StorageError) -> Examined:
    place, offset, end = delete["location"], delete["offset"], delete["offset"] + delete["length"]
    if isinstance(error, ObjectNotFoundError):
        reason = f"vector file is missing, expected the vector of {delete['data_file']}"
        return Examined(delete["pair"], error=CorruptVectorError(reason, path=place))
    size = storage.head(place).size
    if end <= size:
        raise error
    reason = f"vector file has {size} bytes, expected at least {end}"
    return Examined(delete["pair"], error=CorruptVectorError(reason, path=place, offset=offset))


def _examine_position_file(storage: Storage, deletes: list[Delete]) -> list[Examined]:
    """The rows of all data files that one position file applies to; the file is read once."""
    place, rows = deletes[0]["location"], deletes[0]["cardinality"]
    only = [d["file_path"] for d in deletes if d["data_file"] == d["referenced_file"]]
    try:
        positions = read_positions(
            storage, place, [d["file_path"] for d in deletes], rows=rows, only=only[0] if only else None
        )
    except ObjectNotFoundError:
        reason = f"position file is missing, expected deleted rows of {deletes[0]['data_file']}"
        return [Examined(delete["pair"], error=FormatError(reason, path=place)) for delete in deletes]
    except FormatError as error:
        return [Examined(delete["pair"], error=error) for delete in deletes]
    return [Examined(delete["pair"], positions.get(delete["file_path"], Bitmap())) for delete in deletes]
