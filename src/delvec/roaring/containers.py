"""What the containers of a 32-bit Roaring bitmap hold, as numpy masks and ranges.

Working on the serialised bytes, a container at a time, is several times faster than asking the bitmap for its
members. The bytes are taken to be sound: they come from a bitmap in memory, never from a file directly.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from delvec.roaring.bitmap32 import ARRAY, BITMAP, BITMAP_PAYLOAD_SIZE, CONTAINER_SPAN, Container, containers

# Runs at least this long on average are filled as slices, shorter ones as indices.
_SLICE_LENGTH = 24
# Copying slices of bytes costs half of what numpy asks for filling one.
_ONES = memoryview(b"\1" * CONTAINER_SPAN)

Int64s = NDArray[np.int64]


def fill(mask: NDArray[np.uint8], data: bytes, first: int) -> None:
    """Set ``mask[i]`` to 1 where ``first * 65536 + i`` is a member of the sound bitmap in ``data``.

    The mask covers whole containers; those outside of it are left out.
    """
    stop = first + len(mask) // CONTAINER_SPAN
    view = mask.data
    bitmaps: list[Container] = []  # neighbours, unpacked together: each call costs as much as a container
    for container in containers(data):
        kind, key, cardinality, place, size = container
        if not first <= key < stop:
            continue
        begin = (key - first) * CONTAINER_SPAN
        if kind == BITMAP:
            if bitmaps and not (key == bitmaps[-1].key + 1 and place == bitmaps[-1].place + size):
                _fill_bitmaps(mask, data, first, bitmaps)
                bitmaps = []
            bitmaps.append(container)
        elif kind == ARRAY:
            mask[begin : begin + CONTAINER_SPAN][_words(data, container)] = 1
        elif 4 * cardinality < _SLICE_LENGTH * size:
            mask[begin : begin + CONTAINER_SPAN][_run_members(data, container)] = 1
        else:
            numbers = iter(np.frombuffer(data, "<u2", size // 2 - 1, place + 2).tolist())
            for start in numbers:
                length = next(numbers) + 1
                view[begin + start : begin + start + length] = _ONES[:length]
    if bitmaps:
        _fill_bitmaps(mask, data, first, bitmaps)


def ranges(bitmaps: Iterable[tuple[int, bytes]]) -> Int64s:
    """The maximal ranges [start, stop) of sound bitmaps, each given with the number its members count from.

    The bitmaps are disjoint and ascending, and so are the ranges: an (n, 2) array.
    """
    pieces = [np.empty((0, 2), np.int64)]
    for base, data in bitmaps:
        for container in containers(data):
            piece = _container_ranges(data, container)
            piece += base + container.key * CONTAINER_SPAN
            pieces.append(piece)
    return merge_adjacent(np.concatenate(pieces))


def expand(starts: Int64s, lengths: Int64s) -> Int64s:
    """The members of the ranges that begin at ``starts`` and have ``lengths``, in their order."""
    before = np.cumsum(lengths) - lengths
    members: Int64s = np.repeat(starts - before, lengths)
    members += np.arange(len(members))
    return members


def merge_adjacent(pieces: Int64s) -> Int64s:
    """Ascending ranges, those that touch made one."""
    apart = pieces[1:, 0] != pieces[:-1, 1]
    if apart.all():
        return pieces
    starts = pieces[np.concatenate(([True], apart)), 0]
    stops = pieces[np.concatenate((apart, [True])), 1]
    return np.stack((starts, stops), axis=1)


def _words(data: bytes, container: Container) -> NDArray[np.uint16]:
    return np.frombuffer(data, "<u2", container.size // 2, container.place)


def _fill_bitmaps(mask: NDArray[np.uint8], data: bytes, first: int, bitmaps: list[Container]) -> None:
    """Fill from bitmap containers whose keys and payloads follow each other."""
    begin = (bitmaps[0].key - first) * CONTAINER_SPAN
    payload = np.frombuffer(data, np.uint8, BITMAP_PAYLOAD_SIZE * len(bitmaps), bitmaps[0].place)
    mask[begin : begin + CONTAINER_SPAN * len(bitmaps)] = np.unpackbits(payload, bitorder="little")


def _bits(data: bytes, container: Container) -> NDArray[np.uint8]:
    payload = np.frombuffer(data, np.uint8, BITMAP_PAYLOAD_SIZE, container.place)
    return np.unpackbits(payload, bitorder="little")


def _run_members(data: bytes, container: Container) -> Int64s:
    runs = _words(data, container)[1:].astype(np.int64)
    return expand(runs[0::2], runs[1::2] + 1)


def _container_ranges(data: bytes, container: Container) -> Int64s:
    """Ranges [start, stop) counted from the container's first number."""
    if container.kind == BITMAP:
        bits = _bits(data, container)
        edges = np.zeros(CONTAINER_SPAN + 1, np.uint8)
        edges[:-1] = bits
        edges[1:] ^= bits
        # Edges alternate: on, off, on, off; a container begins and ends switched off.
        return np.flatnonzero(edges).reshape(-1, 2)
    words = _words(data, container).astype(np.int64)
    if container.kind == ARRAY:
        return merge_adjacent(np.stack((words, words + 1), axis=1))
    found: Int64s = words[1:].reshape(-1, 2)
    found[:, 1] += found[:, 0] + 1
    return found
