"""The portable byte layout of a 32-bit Roaring bitmap, and the positions of its containers.

    without run containers                      with run containers
    u32 LE  cookie = 12346                      u16 LE  cookie = 12347
    u32 LE  number of containers n              u16 LE  n - 1
                                                (n + 7) // 8 bytes: bit i set = container i is a run
      per container: u16 LE key (the high 16 bits), u16 LE cardinality - 1
      per container: u32 LE offset of its payload, counted from the cookie
                                                (absent if n < 4)
      payloads, one after another:
        array    cardinality × u16 LE, ascending             cardinality <= 4096
        bitmap   8192 bytes, bit i set = i is a member       cardinality > 4096
        run      u16 LE r, then r × (u16 LE start, u16 LE length - 1)

CRoaring reads and checks the contents: ascending, with the right cardinality, inside the data. It does not
say where a bitmap ends, and it does not check header fields that it does not need: this module does both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from pyroaring import BitMap

from delvec.errors import CorruptVectorError

COOKIE_WITHOUT_RUNS = 12346
COOKIE_WITH_RUNS = 12347
MAX_CONTAINERS = 1 << 16
CONTAINER_SPAN = 1 << 16
ARRAY_MAX_CARDINALITY = 4096
BITMAP_PAYLOAD_SIZE = 8192
OFFSETS_FROM_CONTAINERS = 4
EMPTY_SIZE = 8

ARRAY, BITMAP, RUN = "array", "bitmap", "run"

_U32 = struct.Struct("<I")
_U16 = struct.Struct("<H")
_DESCRIPTOR = struct.Struct("<HH")
_DESCRIPTOR_SIZE = 4
_OFFSET_SIZE = 4

Bytes = bytes | memoryview


class Container(NamedTuple):
    """One container: its kind, the high 16 bits of its members, their number, and its payload's position."""

    kind: str
    key: int
    cardinality: int
    offset: int
    size: int


class _Header(NamedTuple):
    """The positions of a header's parts; ``flags`` and ``offsets`` are None if the header has none."""

    start: int
    containers: int
    flags: int | None
    descriptors: int
    offsets: int | None
    payloads: int


def read(data: memoryview, start: int) -> tuple[BitMap, int]:
    """The bitmap at ``start``, and its end; CorruptVectorError if it is invalid."""
    header = _read_header(data, start)
    try:
        bitmap = BitMap.deserialize(data[start:])  # type: ignore[arg-type]  # takes any buffer
    except ValueError as error:
        raise CorruptVectorError(f"bitmap at byte {start} of the vector is not sound: {error}") from error
    statistics = bitmap.get_statistics()
    size = (
        statistics["n_bytes_array_containers"]
        + statistics["n_bytes_bitset_containers"]
        + statistics["n_bytes_run_containers"]
    )
    _check_declared(data, header, statistics["cardinality"])
    _check_first_offset(data, header)
    return bitmap, header.payloads + size


def containers(data: Bytes, start: int = 0) -> Iterator[Container]:
    """The containers of the bitmap at ``start``, in order, each with its offset in ``data``.

    Verifies the header, not the contents.
    """
    header = _read_header(data, start)
    n, flags, offset, previous = header.containers, header.flags, header.payloads, -1
    descriptors = np.frombuffer(data, "<u2", 2 * n, header.descriptors).reshape(n, 2).tolist()
    offsets = [] if header.offsets is None else np.frombuffer(data, "<u4", n, header.offsets).tolist()
    for i, (key, last) in enumerate(descriptors):
        # For speed, the checks are called only if they will fail: turning a vector into a mask runs this
        # loop.
        if key <= previous:
            _check_next_key(previous, key, start)
        if offsets and offsets[i] != offset - start:
            _check_offset(offsets[i], offset - start, key)
        if flags is not None and data[flags + (i >> 3)] >> (i & 7) & 1:
            check_room(data, offset, 2, "run container")
            kind, size = RUN, 2 + 4 * _U16.unpack_from(data, offset)[0]
        elif last < ARRAY_MAX_CARDINALITY:
            kind, size = ARRAY, 2 * (last + 1)
        else:
            kind, size = BITMAP, BITMAP_PAYLOAD_SIZE
        if offset + size > len(data):
            check_room(data, offset, size, "container")
        yield Container(kind, key, last + 1, offset, size)
        offset += size
        previous = key


def check_room(data: Bytes, offset: int, size: int, what: str) -> None:
    """Refuse ``data`` if it has fewer than ``size`` bytes after ``offset``."""
    if offset + size > len(data):
        available = max(len(data) - offset, 0)
        raise CorruptVectorError(
            f"{what} at byte {offset} of the vector has {available} bytes left, expected {size}"
        )


def _read_header(data: Bytes, start: int) -> _Header:
    check_room(data, start, 4, "cookie")
    (cookie,) = _U32.unpack_from(data, start)
    if cookie == COOKIE_WITHOUT_RUNS:
        check_room(data, start + 4, 4, "number of containers")
        (containers,) = _U32.unpack_from(data, start + 4)
        flags, descriptors = None, start + 8
    else:
        _check_cookie(cookie, start)
        containers = (cookie >> 16) + 1
        flags = start + 4
        descriptors = flags + (containers + 7) // 8
    _check_containers(containers, start)
    offsets = descriptors + _DESCRIPTOR_SIZE * containers
    with_offsets = flags is None or containers >= OFFSETS_FROM_CONTAINERS
    payloads = offsets + _OFFSET_SIZE * containers if with_offsets else offsets
    check_room(data, start, payloads - start, "header")
    return _Header(start, containers, flags, descriptors, offsets if with_offsets else None, payloads)


def _check_cookie(cookie: int, start: int) -> None:
    if cookie & 0xFFFF != COOKIE_WITH_RUNS:
        raise CorruptVectorError(
            f"bitmap at byte {start} of the vector begins with {cookie}, "
            f"expected {COOKIE_WITHOUT_RUNS} or {COOKIE_WITH_RUNS}"
        )


def _check_containers(containers: int, start: int) -> None:
    if containers > MAX_CONTAINERS:
        raise CorruptVectorError(
            f"bitmap at byte {start} of the vector has {containers} containers, "
            f"expected at most {MAX_CONTAINERS}"
        )


def _check_next_key(previous: int, key: int, start: int) -> None:
    if key <= previous:
        raise CorruptVectorError(
            f"container key of the bitmap at byte {start} of the vector is {key}, "
            f"expected more than {previous}, the key before it"
        )


def _check_offset(offset: int, expected: int, key: int) -> None:
    if offset != expected:
        raise CorruptVectorError(f"offset of container {key} is {offset}, expected {expected}")


def _check_first_offset(data: Bytes, header: _Header) -> None:
    # Only readers that skip containers use the offsets. `containers` checks all of them. Doing that here too
    # would be slow for a set of a million bitmaps, so only the first offset is checked.
    if header.offsets is not None and header.containers:
        key, _ = _DESCRIPTOR.unpack_from(data, header.descriptors)
        _check_offset(_U32.unpack_from(data, header.offsets)[0], header.payloads - header.start, key)


def _check_declared(data: Bytes, header: _Header, actual: int) -> None:
    # Without run containers the cardinalities determine the containers' sizes, and CRoaring checks them.
    if header.flags is None:
        return
    words = np.frombuffer(data, "<u2", 2 * header.containers, header.descriptors)
    declared = int(words[1::2].sum()) + header.containers
    if actual != declared:
        raise CorruptVectorError(
            f"bitmap at byte {header.start} of the vector has {actual} members, "
            f"expected the declared {declared}"
        )
