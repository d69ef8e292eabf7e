"""The portable byte layout of a 32-bit Roaring bitmap: where its containers lie.

    without run containers                      with run containers
    u32 LE  cookie = 12346                      u16 LE  cookie = 12347
    u32 LE  number of containers n              u16 LE  n - 1
                                                (n + 7) // 8 bytes: bit i set = container i is a run
      per container: u16 LE key (the high 16 bits), u16 LE cardinality - 1
      per container: u32 LE offset of its payload, counted from the cookie
                                                (left out where n < 4)
      payloads, one after another:
        array    cardinality × u16 LE, ascending             cardinality <= 4096
        bitmap   8192 bytes, bit i set = i is a member       cardinality > 4096
        run      u16 LE r, then r × (u16 LE start, u16 LE length - 1)

CRoaring reads the contents and checks that they are sound: ascending, true to their cardinality, inside the
data. It does not tell where a bitmap ends, and it takes the header's word for what it does not need: those
checks are here.
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
    """One container: its kind, the high 16 bits of its members, how many it has, where its payload lies."""

    kind: str
    key: int
    cardinality: int
    place: int
    size: int


class _Header(NamedTuple):
    """Where the parts of a header lie; ``flags`` and ``offsets`` are None where the layout has none."""

    start: int
    containers: int
    flags: int | None
    descriptors: int
    offsets: int | None
    payloads: int


def read(data: memoryview, start: int) -> tuple[BitMap, int]:
    """The bitmap that begins at ``start``, and where it ends; CorruptVectorError where it is not sound."""
    header = _read_header(data, start)
    try:
        bitmap = BitMap.deserialize(data[start:])  # type: ignore[arg-type]  # takes any buffer
    except ValueError as error:
        raise CorruptVectorError(f"bitmap at byte {start} of the vector is not sound: {error}") from error
    held = bitmap.get_statistics()
    size = (
        held["n_bytes_array_containers"] + held["n_bytes_bitset_containers"] + held["n_bytes_run_containers"]
    )
    _check_declared(data, header, held["cardinality"])
    _check_first_offset(data, header)
    return bitmap, header.payloads + size


def containers(data: Bytes, start: int = 0) -> Iterator[Container]:
    """The containers of the bitmap that begins at ``start``, in order, each with its place in ``data``.

    What the header says is verified on the way; the contents are not.
    """
    header = _read_header(data, start)
    n, flags, place, previous = header.containers, header.flags, header.payloads, -1
    descriptors = np.frombuffer(data, "<u2", 2 * n, header.descriptors).reshape(n, 2).tolist()
    offsets = [] if header.offsets is None else np.frombuffer(data, "<u4", n, header.offsets).tolist()
    for i, (key, last) in enumerate(descriptors):
        # The checks are called where they fail only: this loop is what turns a vector into a mask.
        if key <= previous:
            _check_next_key(previous, key, start)
        if offsets and offsets[i] != place - start:
            _check_offset(offsets[i], place - start, key)
        if flags is not None and data[flags + (i >> 3)] >> (i & 7) & 1:
            check_room(data, place, 2, "run container")
            kind, size = RUN, 2 + 4 * _U16.unpack_from(data, place)[0]
        elif last < ARRAY_MAX_CARDINALITY:
            kind, size = ARRAY, 2 * (last + 1)
        else:
            kind, size = BITMAP, BITMAP_PAYLOAD_SIZE
        if place + size > len(data):
            check_room(data, place, size, "container")
        yield Container(kind, key, last + 1, place, size)
        place += size
        previous = key


def check_room(data: Bytes, place: int, size: int, what: str) -> None:
    """Refuse where ``size`` bytes do not fit into ``data`` from ``place`` on."""
    if place + size > len(data):
        left = max(len(data) - place, 0)
        raise CorruptVectorError(
            f"{what} at byte {place} of the vector has {left} bytes left, expected {size}"
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
    # Only readers that skip containers use the offsets. `containers` checks all of them; a million bitmaps
    # cannot afford it each, so here the first stands for the rest.
    if header.offsets is not None and header.containers:
        key, _ = _DESCRIPTOR.unpack_from(data, header.descriptors)
        _check_offset(_U32.unpack_from(data, header.offsets)[0], header.payloads - header.start, key)


def _check_declared(data: Bytes, header: _Header, found: int) -> None:
    # Without runs the cardinalities decide where the containers end, and CRoaring counts them.
    if header.flags is None:
        return
    words = np.frombuffer(data, "<u2", 2 * header.containers, header.descriptors)
    declared = int(words[1::2].sum()) + header.containers
    if found != declared:
        raise CorruptVectorError(
            f"bitmap at byte {header.start} of the vector has {found} members, "
            f"expected the declared {declared}"
        )
