"""The vector blob, which has the same bytes in a Delta ``.bin`` file and in an Iceberg Puffin file.

    u32 BE  length of (magic + vector)             \\
    u32     magic, bytes D1 D3 39 64   \\            |
    u64 LE  number of 32-bit bitmaps   | bare blob | framed blob
      per bitmap: u32 LE key, bitmap   /            |
    u32 BE  CRC-32 of (magic + vector)             /

Delta stores the bare blob, without length and CRC, inline. Delta's ``sizeInBytes`` is the size of the bare
blob, Iceberg's ``content_size_in_bytes`` that of the framed blob, which is `FRAME_SIZE` more.

Decoding verifies before it interprets: magic, length, CRC, and then the vector itself (`roaring.bitmap64`).
An invalid blob raises CorruptVectorError without a position: callers add it with ``.at(path, offset)``. The
magic is checked first, and an error never shows the bytes that were found instead: a descriptor may point to
any file, and an error must not reveal the file's content.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from dataclasses import dataclass

from delvec.bitmap import Bitmap
from delvec.errors import CorruptVectorError, InvalidOperationError
from delvec.roaring import bitmap32, bitmap64

MAGIC = bytes.fromhex("d1d33964")
LENGTH_SIZE = 4
MAGIC_SIZE = 4
COUNT_SIZE = 8
CRC_SIZE = 4
FRAME_SIZE = LENGTH_SIZE + CRC_SIZE
MIN_BARE_SIZE = MAGIC_SIZE + COUNT_SIZE
# The JVM engines read the length as a signed 32-bit number.
MAX_BARE_SIZE = 0x7FFFFFFF
INLINE_ALIGNMENT = 4

# The magic of early Delta versions, in files and in Delta's published inline example.
_OLDER_MAGICS = (bytes.fromhex("d0d33964"), bytes.fromhex("6439d3d0"))

_U32_BE = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class BlobDescription:
    """The stored size of a blob, and facts about its vector. ``keys`` is the number of 32-bit bitmaps."""

    size: int
    cardinality: int
    keys: int
    array_containers: int
    bitmap_containers: int
    run_containers: int
    min: int | None
    max: int | None
    ranges: int


def encode(bitmap: Bitmap) -> bytes:
    """The framed blob of ``bitmap``."""
    vector = bitmap.serialize()
    length = MAGIC_SIZE + len(vector)
    if length > MAX_BARE_SIZE:
        raise InvalidOperationError(f"vector is {length} bytes, expected at most {MAX_BARE_SIZE}")
    crc = zlib.crc32(vector, zlib.crc32(MAGIC))
    return b"".join((_U32_BE.pack(length), MAGIC, vector, _U32_BE.pack(crc)))


def decode(data: bytes | memoryview, *, expected_cardinality: int | None = None) -> Bitmap:
    """The set in a framed blob; ``data`` must be exactly one blob."""
    bare = _unframe(memoryview(data))
    return _decode_vector(bare[MAGIC_SIZE:], expected_cardinality)


def encode_bare(bitmap: Bitmap) -> bytes:
    """Magic and vector, without length and CRC and without padding."""
    return MAGIC + bitmap.serialize()


def bare(data: bytes | memoryview) -> bytes:
    """The bare blob inside a framed one; checks length and CRC."""
    return bytes(_unframe(memoryview(data)))


def decode_bare(
    data: bytes | memoryview, *, size: int | None = None, expected_cardinality: int | None = None
) -> Bitmap:
    """The set in a bare blob. ``size``: its real size, if ``data`` may be padded with zeros."""
    bare = _unpad(memoryview(data), size)
    return _decode_vector(bare[MAGIC_SIZE:], expected_cardinality)


def describe(data: bytes | memoryview) -> BlobDescription:
    """The description of a framed blob, after all checks of `decode`."""
    return _describe(_unframe(memoryview(data)), len(data))


def describe_bare(data: bytes | memoryview, *, size: int | None = None) -> BlobDescription:
    """The description of a bare blob, after all checks of `decode_bare`."""
    bare = _unpad(memoryview(data), size)
    return _describe(bare, len(bare))


def check_magic(bare: bytes | memoryview) -> None:
    """Refuse bytes that do not start with the magic of a bare blob."""
    actual = bytes(bare[:MAGIC_SIZE])
    if actual in _OLDER_MAGICS:
        raise CorruptVectorError(
            f"vector magic is {actual.hex()}, that of the older Delta vector form, expected {MAGIC.hex()}"
        )
    if actual != MAGIC:
        raise CorruptVectorError(f"not a deletion vector, expected the magic {MAGIC.hex()}")


def _unframe(view: memoryview) -> memoryview:
    _check_size(view)
    bare = view[LENGTH_SIZE:-CRC_SIZE]
    check_magic(bare)
    _check_length(view)
    _check_crc(bare, view[-CRC_SIZE:])
    return bare


def _unpad(view: memoryview, size: int | None) -> memoryview:
    if size is not None:
        _check_padding(view, size)
        view = view[:size]
    _check_bare_size(view)
    check_magic(view)
    return view


def _decode_vector(vector: memoryview, expected_cardinality: int | None) -> Bitmap:
    bitmap = Bitmap.deserialize(vector)
    if expected_cardinality is not None:
        _check_cardinality(bitmap.cardinality, expected_cardinality)
    return bitmap


def _describe(bare: memoryview, size: int) -> BlobDescription:
    vector = bare[MAGIC_SIZE:]
    bitmap = Bitmap.deserialize(vector)
    keys = list(bitmap64.containers(vector))
    kinds = Counter(container.kind for part in keys for container in part)
    return BlobDescription(
        size=size,
        cardinality=bitmap.cardinality,
        keys=len(keys),
        array_containers=kinds[bitmap32.ARRAY],
        bitmap_containers=kinds[bitmap32.BITMAP],
        run_containers=kinds[bitmap32.RUN],
        min=bitmap.min(),
        max=bitmap.max(),
        ranges=len(bitmap.ranges()),
    )


def _check_size(view: memoryview) -> None:
    if len(view) < FRAME_SIZE + MIN_BARE_SIZE:
        raise CorruptVectorError(
            f"vector blob is {len(view)} bytes, expected at least {FRAME_SIZE + MIN_BARE_SIZE}"
        )


def _check_length(view: memoryview) -> None:
    (declared,) = _U32_BE.unpack_from(view)
    if declared + FRAME_SIZE != len(view):
        raise CorruptVectorError(
            f"vector blob declares a length of {declared}, expected {len(view) - FRAME_SIZE} "
            f"in a blob of {len(view)} bytes"
        )


def _check_crc(bare: memoryview, stored: memoryview) -> None:
    actual = zlib.crc32(bare)
    (expected,) = _U32_BE.unpack(stored)
    if actual != expected:
        raise CorruptVectorError(f"vector CRC is 0x{actual:08x}, expected 0x{expected:08x}")


def _check_bare_size(bare: memoryview) -> None:
    if len(bare) < MIN_BARE_SIZE:
        raise CorruptVectorError(f"bare vector is {len(bare)} bytes, expected at least {MIN_BARE_SIZE}")


def _check_padding(view: memoryview, size: int) -> None:
    if size < 0 or not 0 <= len(view) - size < INLINE_ALIGNMENT:
        raise CorruptVectorError(
            f"bare vector is {len(view)} bytes, expected {size} and at most {INLINE_ALIGNMENT - 1} of padding"
        )
    if any(view[size:]):
        raise CorruptVectorError("padding of the bare vector is not zero, expected zeros")


def _check_cardinality(actual: int, expected: int) -> None:
    if actual != expected:
        raise CorruptVectorError(f"vector has {actual} positions, expected {expected}")
