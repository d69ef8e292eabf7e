"""The members of a 32-bit Roaring bitmap as numpy masks and ranges.

Reading the serialized bytes container by container is several times faster than asking the bitmap for its
members. The bytes are not checked: they come from a bitmap in memory, never directly from a file.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from delvec.roaring.bitmap32 import ARRAY, BITMAP, BITMAP_PAYLOAD_SIZE, CONTAINER_SPAN, Container, containers

# Runs at least this long on average are filled as slices, shorter ones as indices.
_SLICE_LENGTH = 24
# Copying a slice of bytes takes half the time of filling a numpy slice.
_ONES = memoryview(b"\1" * CONTAINER_SPAN)

Int64s = NDArray[np.int64]


def fill(mask: NDArray[np.uint8], data: bytes, first: int) -> None:
    """Set ``mask[i]`` to 1 if ``first * 65536 + i`` is a member of the bitmap in ``data``.

    The mask covers whole containers; containers outside of it are ignored.
    """
    stop = first + len(mask) // CONTAINER_SPAN
    view = mask.data
    bitmaps: list[Container] = []  # adjacent containers, unpacked in one call because a call is expensive
    for container in containers(data):
        kind, key, cardinality, offset, size = container
        if not first <= key < stop:
            continue
        begin = (key - first) * CONTAINER_SPAN
        if kind == BITMAP:
            if bitmaps and not (key == bitmaps[-1].key + 1 and offset == bitmaps[-1].offset + size):
                _fill_bitmaps(mask, data, first, bitmaps)
                bitmaps = []
            bitmaps.append(container)
        elif kind == ARRAY:
            mask[begin : begin + CONTAINER_SPAN][_words(data, container)] = 1
        elif 4 * cardinality < _SLICE_LENGTH * size:
            mask[begin : begin + CONTAINER_SPAN][_run_members(data, container)] = 1
        else:
            numbers = iter(np.frombuffer(data, "<u2", size // 2 - 1, offset + 2).tolist())
            for start in numbers:
                length = next(numbers) + 1
                view[begin + start : begin + start + length] = _ONES[:length]
    if bitmaps:
        _fill_bitmaps(mask, data, first, bitmaps)


def ranges(bitmaps: Iterable[tuple[int, bytes]]) -> Int64s:
    """The maximal ranges [start, stop) of bitmaps, as an (n, 2) array in ascending order.

    Each bitmap has a number to add to its members. The bitmaps are disjoint and ascending.
    """
    pieces = [np.empty((0, 2), np.int64)]
    for base, data in bitmaps:
        for container in containers(data):
            piece = _container_ranges(data, container)
            piece += base + container.key * CONTAINER_SPAN
            pieces.append(piece)
    return merge_adjacent(np.concatenate(pieces))


def expand(starts: Int64s, lengths: Int64s) -> Int64s:
    """The members of the ranges with these starts and lengths, in order."""
    before = np.cumsum(lengths) - lengths
    members: Int64s = np.repeat(starts - before, lengths)
    members += np.arange(len(members))
    return members


def merge_adjacent(pieces: Int64s) -> Int64s:
    """Merge ascending ranges that are adjacent."""
    has_gap = pieces[1:, 0] != pieces[:-1, 1]
    if has_gap.all():
        return pieces
    starts = pieces[np.concatenate(([True], has_gap)), 0]
    stops = pieces[np.concatenate((has_gap, [True])), 1]
    return np.stack((starts, stops), axis=1)


def _words(data: bytes, container: Container) -> NDArray[np.uint16]:
    return np.frombuffer(data, "<u2", container.size // 2, container.offset)


def _fill_bitmaps(mask: NDArray[np.uint8], data: bytes, first: int, bitmaps: list[Container]) -> None:
    """Fill the mask from bitmap containers with consecutive keys and payloads."""
    begin = (bitmaps[0].key - first) * CONTAINER_SPAN
    payload = np.frombuffer(data, np.uint8, BITMAP_PAYLOAD_SIZE * len(bitmaps), bitmaps[0].offset)
    mask[begin : begin + CONTAINER_SPAN * len(bitmaps)] = np.unpackbits(payload, bitorder="little")


def _bits(data: bytes, container: Container) -> NDArray[np.uint8]:
    payload = np.frombuffer(data, np.uint8, BITMAP_PAYLOAD_SIZE, container.offset)
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
        # The edges are alternately the start and the end of a range.
        return np.flatnonzero(edges).reshape(-1, 2)
    words = _words(data, container).astype(np.int64)
    if container.kind == ARRAY:
        return merge_adjacent(np.stack((words, words + 1), axis=1))
    runs: Int64s = words[1:].reshape(-1, 2)
    runs[:, 1] += runs[:, 0] + 1
    return runs
