"""The portable byte layout of a 64-bit Roaring set: a 32-bit bitmap for each value of the high 32 bits.

    u64 LE  number of 32-bit bitmaps
      per bitmap, keys ascending: u32 LE key, 32-bit Roaring bitmap (see `bitmap32`)

`Parts` is the same in memory: pairs of (key, bitmap) in ascending order, without empty bitmaps.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pyroaring import BitMap

from delvec.errors import CorruptVectorError
from delvec.roaring import bitmap32
from delvec.roaring.bitmap32 import check_room

MAX_KEY = 0x7FFFFFFE
MAX_POSITION = MAX_KEY << 32 | 0x80000000
"""The largest position that the JVM engines support."""

KEY_SPAN = 1 << 32

_COUNT = struct.Struct("<Q")
_KEY = struct.Struct("<I")
_MIN_PART_SIZE = _KEY.size + bitmap32.EMPTY_SIZE

Parts = tuple[tuple[int, BitMap], ...]


def read(data: bytes | memoryview) -> Parts:
    """The bitmaps in ``data``, which must be exactly one set; otherwise CorruptVectorError."""
    view = memoryview(data)
    check_room(view, 0, _COUNT.size, "number of bitmaps")
    (count,) = _COUNT.unpack_from(view)
    offset, previous = _COUNT.size, -1
    _check_count(count, len(view) - offset)
    parts: list[tuple[int, BitMap]] = []
    for _ in range(count):
        check_room(view, offset, _KEY.size, "bitmap key")
        (key,) = _KEY.unpack_from(view, offset)
        _check_next_key(previous, key)
        _check_key_limit(key)
        part, offset = bitmap32.read(view, offset + _KEY.size)
        # Other engines write empty bitmaps for the keys in between.
        if part:
            parts.append((key, part))
        previous = key
    _check_trailing(view, offset)
    if parts:
        _check_position_limit(parts[-1][0] << 32 | parts[-1][1].max())
    return tuple(parts)


def containers(data: bytes | memoryview) -> Iterator[list[bitmap32.Container]]:
    """The containers of each bitmap in ``data``, which `read` has accepted. Verifies all offsets."""
    view = memoryview(data)
    offset = _COUNT.size
    for _ in range(_COUNT.unpack_from(view)[0]):
        start = offset + _KEY.size
        part = list(bitmap32.containers(view, start))
        yield part
        offset = part[-1].offset + part[-1].size if part else start + bitmap32.EMPTY_SIZE


def write(parts: Parts) -> bytes:
    """The portable layout of ``parts``, each bitmap run-optimised."""
    pieces = [_COUNT.pack(len(parts))]
    for key, part in parts:
        part.run_optimize()
        pieces += (_KEY.pack(key), part.serialize())
    return b"".join(pieces)


def _check_count(count: int, available: int) -> None:
    if count * _MIN_PART_SIZE > available:
        raise CorruptVectorError(
            f"vector declares {count} bitmaps, "
            f"expected at most {available // _MIN_PART_SIZE} in {available} bytes"
        )


def _check_next_key(previous: int, key: int) -> None:
    if key <= previous:
        raise CorruptVectorError(f"bitmap key is {key}, expected more than {previous}, the key before it")


def _check_key_limit(key: int) -> None:
    if key > MAX_KEY:
        raise CorruptVectorError(f"bitmap key is {key}, expected at most {MAX_KEY}")


def _check_position_limit(highest: int) -> None:
    if highest > MAX_POSITION:
        raise CorruptVectorError(f"position is {highest}, expected at most {MAX_POSITION}")


def _check_trailing(view: memoryview, end: int) -> None:
    if end != len(view):
        raise CorruptVectorError(
            f"vector is {len(view)} bytes, expected {end}: {len(view) - end} bytes trail it"
        )
