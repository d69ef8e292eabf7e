"""Delta's vector file, ``deletion_vector_<uuid>.bin``: several blobs, addressed by their offsets.

    u8      version = 1
      per vector: a framed blob (see `delvec.blob`), one directly after another

A descriptor's ``offset`` is the position of the blob's length field, so the first is 1. Its ``sizeInBytes``
does not include the frame: read ``sizeInBytes + blob.FRAME_SIZE`` bytes at ``offset``.
"""

from __future__ import annotations

from collections.abc import Sequence

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.errors import CorruptVectorError

VERSION = 1
VERSION_SIZE = 1


def pack(bitmaps: Sequence[Bitmap]) -> tuple[bytes, list[tuple[int, int]]]:
    """A file with these vectors, and ``offset`` and ``sizeInBytes`` of each vector's descriptor."""
    return pack_blobs([blob.encode(bitmap) for bitmap in bitmaps])


def pack_blobs(blobs: Sequence[bytes]) -> tuple[bytes, list[tuple[int, int]]]:
    """Like `pack`, for vectors that are framed blobs already."""
    pieces = [bytes([VERSION])]
    places: list[tuple[int, int]] = []
    offset = VERSION_SIZE
    for framed in blobs:
        places.append((offset, len(framed) - blob.FRAME_SIZE))
        pieces.append(framed)
        offset += len(framed)
    return b"".join(pieces), places


def read_blobs(data: bytes) -> list[tuple[int, bytes]]:
    """The offset and the framed blob of each vector in the file. Does not check the content of the blobs."""
    _check_version(data)
    blobs: list[tuple[int, bytes]] = []
    offset = VERSION_SIZE
    while offset < len(data):
        _check_start(data, offset)
        length = int.from_bytes(data[offset : offset + blob.LENGTH_SIZE], "big")
        _check_blob(data, offset, length)
        end = offset + length + blob.FRAME_SIZE
        blobs.append((offset, data[offset:end]))
        offset = end
    return blobs


def _check_version(data: bytes) -> None:
    if not data:
        raise CorruptVectorError(f"vector file is empty, expected a version byte of {VERSION}", offset=0)
    if data[0] != VERSION:
        raise CorruptVectorError(
            f"not a deletion vector file, expected a version byte of {VERSION}", offset=0
        )


def _check_start(data: bytes, offset: int) -> None:
    remaining = len(data) - offset
    if remaining < blob.LENGTH_SIZE + blob.MAGIC_SIZE:
        raise CorruptVectorError(
            f"vector file ends with {remaining} bytes, expected a blob of at least "
            f"{blob.FRAME_SIZE + blob.MIN_BARE_SIZE}",
            offset=offset,
        )
    try:
        blob.check_magic(data[offset + blob.LENGTH_SIZE : offset + blob.LENGTH_SIZE + blob.MAGIC_SIZE])
    except CorruptVectorError as error:
        raise CorruptVectorError(error.message, offset=offset) from None


def _check_blob(data: bytes, offset: int, length: int) -> None:
    if length < blob.MIN_BARE_SIZE:
        raise CorruptVectorError(
            f"vector blob declares a length of {length}, expected at least {blob.MIN_BARE_SIZE}",
            offset=offset,
        )
    remaining = len(data) - offset
    if length + blob.FRAME_SIZE > remaining:
        raise CorruptVectorError(
            f"vector blob has {remaining} bytes left in its file, expected {length + blob.FRAME_SIZE}",
            offset=offset,
        )
