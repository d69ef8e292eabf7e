"""`Bitmap`: an immutable, compressed set of 64-bit non-negative numbers.

The set has pairs of (high 32 bits, 32-bit Roaring bitmap of the low 32 bits) in ascending order, only for
keys with members: a single large number needs no memory for the numbers below it. `roaring.bitmap64` has the
bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from delvec.errors import InvalidOperationError
from delvec.roaring import bitmap32, bitmap64, containers
from delvec.roaring.bitmap64 import MAX_POSITION, Parts

__all__ = ["MAX_POSITION", "Bitmap"]

_KEY_SPAN = bitmap64.KEY_SPAN
_LOW_BITS = _KEY_SPAN - 1
_CONTAINER_SPAN = bitmap32.CONTAINER_SPAN
_CHUNKS_PER_KEY = _KEY_SPAN // _CONTAINER_SPAN
# All keys that a range covers completely share one full bitmap, but each is an entry.
_MAX_RANGE_KEYS = 1 << 20
# Ranges shorter than this are cheaper as single numbers.
_SHORT_RANGE = 16
# With fewer members per key than this, reading the numbers is faster than reading the containers.
_SPARSE_PART = 1024
# Fewer queries than this are answered one by one.
_FEW_QUERIES = 64
# If the queries span at most this many positions per query, a mask answers them.
_WINDOW_PER_QUERY = 16
# With at most this many members per query, the numbers are searched; with more, the ranges.
_MEMBERS_PER_QUERY = 16


class Bitmap:
    """An immutable set of numbers from 0 to `MAX_POSITION`.

    Every operation returns a new set, which shares unchanged parts with the old ones. Numbers beyond
    `MAX_POSITION`, which the JVM engines do not support, are refused: with InvalidOperationError if a caller
    passes them, with CorruptVectorError if they are decoded.
    """

    __slots__ = ("_parts",)
    _parts: Parts

    def __init__(self) -> None:
        self._parts = ()

    @classmethod
    def _of_parts(cls, parts: Parts) -> Self:
        bitmap = object.__new__(cls)
        bitmap._parts = parts
        return bitmap

    @classmethod
    def of(cls, *positions: int) -> Self:
        """The set of the given numbers."""
        return cls.from_iterable(positions)

    @classmethod
    def from_iterable(cls, positions: Iterable[int]) -> Self:
        """The set of the given integers, in any order, repeated or not."""
        try:
            unsigned = array("Q", iter(positions))
        except (TypeError, OverflowError) as error:
            raise InvalidOperationError(
                f"positions must be integers from 0 to {MAX_POSITION}: {error}"
            ) from error
        return cls.from_numpy(np.frombuffer(unsigned, np.uint64))

    @classmethod
    def from_numpy(cls, positions: NDArray[Any]) -> Self:
        """The set of the numbers in a one-dimensional array of any integer type, in any order."""
        _check_integers(positions)
        if not len(positions):
            return cls()
        ascending = bool((positions[1:] >= positions[:-1]).all())
        low, high = (positions[0], positions[-1]) if ascending else (positions.min(), positions.max())
        _check_positions(int(low), int(high))
        key = int(low) >> 32
        if key == int(high) >> 32:
            return cls._of_parts(((key, _part(positions.astype(np.uint32), ascending=ascending)),))
        ordered = np.sort(positions.astype(np.uint64, copy=False))
        keys = (ordered >> np.uint64(32)).astype(np.uint32)
        bounds = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(keys)]
        lows = array("I", ordered.astype(np.uint32).tobytes())
        firsts = keys[bounds[:-1]].tolist()
        pairs = zip(firsts, pairwise(bounds), strict=True)
        return cls._of_parts(tuple((key, BitMap(lows[a:b])) for key, (a, b) in pairs))

    @classmethod
    def from_range(cls, start: int, stop: int) -> Self:
        """The numbers from ``start`` up to but not including ``stop``, at most 2^52 numbers."""
        _check_range(start, stop)
        if start == stop:
            return cls()
        first, last = start >> 32, (stop - 1) >> 32
        if first == last:
            low = start & _LOW_BITS
            return cls._of_parts(((first, BitMap(range(low, low + stop - start))),))
        parts = [(first, BitMap(range(start & _LOW_BITS, _KEY_SPAN)))]
        if last - first > 1:
            full = BitMap(range(_KEY_SPAN))
            parts += [(key, full) for key in range(first + 1, last)]
        parts.append((last, BitMap(range(((stop - 1) & _LOW_BITS) + 1))))
        return cls._of_parts(tuple(parts))

    @classmethod
    def from_ranges(cls, ranges: Iterable[tuple[int, int]] | NDArray[Any]) -> Bitmap:
        """The union of ranges [start, stop), given as pairs or as an (n, 2) array, in any order."""
        pairs = _range_array(ranges)
        lengths = pairs[:, 1] - pairs[:, 0]
        short = lengths < _SHORT_RANGE
        members = containers.expand(pairs[short, 0], lengths[short])
        parts: dict[int, BitMap] = {}
        other_bitmaps: list[Bitmap] = [cls.from_numpy(members)]
        for start, stop in pairs[~short].tolist():
            key, low = start >> 32, start & _LOW_BITS
            if low + stop - start > _KEY_SPAN:
                other_bitmaps.append(cls.from_range(start, stop))
                continue
            part = parts.get(key)
            if part is None:
                part = parts[key] = BitMap()
            part.add_range(low, low + stop - start)
        return cls._of_parts(tuple(sorted(parts.items(), key=lambda part: part[0]))).union(*other_bitmaps)

    @classmethod
    def deserialize(cls, data: bytes | memoryview) -> Self:
        """The set in the portable 64-bit layout; CorruptVectorError if ``data`` is not exactly one set."""
        return cls._of_parts(bitmap64.read(data))

    def serialize(self) -> bytes:
        """The portable 64-bit layout, with run-optimized bitmaps."""
        return bitmap64.write(self._parts)

    def union(self, *others: Bitmap) -> Bitmap:
        """The numbers in this set or in any of the others."""
        parts_by_key: dict[int, list[BitMap]] = {}
        for bitmap in (self, *others):
            for key, part in bitmap._parts:
                parts_by_key.setdefault(key, []).append(part)
        return Bitmap._of_parts(tuple((key, _union(parts_by_key[key])) for key in sorted(parts_by_key)))

    def intersection(self, other: Bitmap) -> Bitmap:
        """The numbers in both sets."""
        other_parts = dict(other._parts)
        common = ((key, part & other_parts[key]) for key, part in self._parts if key in other_parts)
        return Bitmap._of_parts(tuple((key, part) for key, part in common if part))

    def difference(self, other: Bitmap) -> Bitmap:
        """The numbers in this set and not in the other."""
        other_parts = dict(other._parts)
        remaining = (
            (key, part - other_parts[key] if key in other_parts else part) for key, part in self._parts
        )
        return Bitmap._of_parts(tuple((key, part) for key, part in remaining if part))

    def __or__(self, other: Bitmap) -> Bitmap:
        if not isinstance(other, Bitmap):
            return NotImplemented
        own_parts, other_parts = self._parts, other._parts
        if len(own_parts) == len(other_parts) == 1 and own_parts[0][0] == other_parts[0][0]:
            return Bitmap._of_parts(((own_parts[0][0], own_parts[0][1] | other_parts[0][1]),))
        return self.union(other)

    def __and__(self, other: Bitmap) -> Bitmap:
        return self.intersection(other) if isinstance(other, Bitmap) else NotImplemented

    def __sub__(self, other: Bitmap) -> Bitmap:
        return self.difference(other) if isinstance(other, Bitmap) else NotImplemented

    @property
    def cardinality(self) -> int:
        """The number of members."""
        return sum(len(part) for _, part in self._parts)

    def __len__(self) -> int:
        return self.cardinality

    def __bool__(self) -> bool:
        return bool(self._parts)

    def min(self) -> int | None:
        """The smallest number; None if the set is empty."""
        return self._parts[0][0] << 32 | self._parts[0][1].min() if self._parts else None

    def max(self) -> int | None:
        """The largest number; None if the set is empty."""
        return self._parts[-1][0] << 32 | self._parts[-1][1].max() if self._parts else None

    def __contains__(self, position: object) -> bool:
        if not isinstance(position, int | np.integer) or not 0 <= position <= MAX_POSITION:
            return False
        key, low = int(position) >> 32, int(position) & _LOW_BITS
        i = _first_part(self._parts, key)
        return i < len(self._parts) and self._parts[i][0] == key and low in self._parts[i][1]

    def contains_many(self, positions: NDArray[Any]) -> NDArray[np.bool_]:
        """A boolean for each of ``positions``: whether it is in the set."""
        _check_integers(positions)
        if len(positions) < _FEW_QUERIES:
            return np.fromiter((p in self for p in positions.tolist()), np.bool_, len(positions))
        lowest, highest = self.min(), self.max()
        if lowest is None or highest is None:
            return np.zeros(len(positions), np.bool_)
        low, high = max(int(positions.min()), lowest), min(int(positions.max()), highest)
        if low > high:
            return np.zeros(len(positions), np.bool_)
        is_member = (positions >= low) & (positions <= high)
        queries = positions[is_member].astype(np.int64)
        if high - low < _WINDOW_PER_QUERY * len(positions):
            first_chunk = low // _CONTAINER_SPAN
            mask = self._chunks(first_chunk, high // _CONTAINER_SPAN + 1)
            is_member[is_member] = mask[queries - first_chunk * _CONTAINER_SPAN]
        elif self.cardinality < _MEMBERS_PER_QUERY * len(positions):
            is_member[is_member] = _are_members(queries, self.to_numpy())
        else:
            ranges = self.ranges()
            is_member[is_member] = queries < ranges[np.searchsorted(ranges[:, 0], queries, "right") - 1, 1]
        return is_member

    def to_numpy(self) -> NDArray[np.int64]:
        """The numbers in ascending order."""
        lows = [part.to_array() for _, part in self._parts]
        members = np.frombuffer(lows[0] if len(lows) == 1 else b"".join(lows), np.uint32).astype(np.int64)
        if self._parts and self._parts[-1][0]:
            bases = np.array([key << 32 for key, _ in self._parts], np.int64)
            members += np.repeat(bases, [len(part) for part in lows])
        return members

    def to_mask(self, length: int) -> NDArray[np.bool_]:
        """An array of ``length`` booleans, true at the members; refused if a member is beyond its end."""
        highest = self.max()
        if length < 0 or (highest is not None and highest >= length):
            raise InvalidOperationError(f"mask length is {length}, expected more than position {highest}")
        return self._chunks(0, -(-length // _CONTAINER_SPAN))[:length]

    def _chunks(self, first: int, stop: int) -> NDArray[np.bool_]:
        """The mask of whole containers ``first`` to ``stop``, counted from position 0."""
        mask = np.zeros((stop - first) * _CONTAINER_SPAN, np.uint8)
        parts = self._parts
        i = _first_part(parts, first // _CHUNKS_PER_KEY)
        while i < len(parts) and parts[i][0] * _CHUNKS_PER_KEY < stop:
            containers.fill(mask, parts[i][1].serialize(), first - parts[i][0] * _CHUNKS_PER_KEY)
            i += 1
        return mask.view(np.bool_)

    def ranges(self) -> NDArray[np.int64]:
        """The maximal ranges [start, stop), ascending, as an (n, 2) array."""
        if self.cardinality < _SPARSE_PART * len(self._parts):
            members = self.to_numpy()
            return containers.merge_adjacent(np.stack((members, members + 1), axis=1))
        return containers.ranges((key << 32, part.serialize()) for key, part in self._parts)

    def __iter__(self) -> Iterator[int]:
        for key, part in self._parts:
            base = key << 32
            for low in part:
                yield base | low

    def __eq__(self, other: object) -> bool:
        return self._parts == other._parts if isinstance(other, Bitmap) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.cardinality, self.min(), self.max(), len(self._parts)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Bitmap.deserialize, (self.serialize(),)

    def __repr__(self) -> str:
        if not self._parts:
            return "Bitmap()"
        return f"Bitmap({self.cardinality} from {self.min()} to {self.max()})"


def _part(lows: NDArray[np.uint32], *, ascending: bool) -> BitMap:
    # CRoaring adds ascending numbers twenty times faster than unsorted ones, and sorting is cheap.
    if not ascending:
        lows.sort()
    values = array("I")
    values.frombytes(lows.view(np.uint8).data)
    return BitMap(values)


def _are_members(queries: NDArray[np.int64], members: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each number is one of the ascending ``members``. No query is larger than the last member."""
    # Searching in sorted order uses the CPU caches, which saves more time than the sorting takes.
    order = np.argsort(queries)
    ordered = queries[order]
    result = np.empty(len(queries), np.bool_)
    result[order] = members[np.searchsorted(members, ordered)] == ordered
    return result


def _range_array(ranges: Iterable[tuple[int, int]] | NDArray[Any]) -> NDArray[np.int64]:
    try:
        pairs = np.array(ranges if isinstance(ranges, np.ndarray) else list(ranges))
    except ValueError as error:
        raise InvalidOperationError(f"ranges must be pairs of integers: {error}") from error
    if not pairs.size:
        return np.empty((0, 2), np.int64)
    if pairs.dtype.kind not in "iu" or pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InvalidOperationError(
            f"ranges are {pairs.dtype} of shape {pairs.shape}, expected pairs of integers"
        )
    if pairs.dtype.itemsize < 8:
        pairs = pairs.astype(np.int64)
    # With unsigned numbers the length of a backward range wraps to a huge one: the longest range shows it.
    lengths = pairs[:, 1] - pairs[:, 0]
    for i in {
        int(pairs[:, 0].argmin()),
        int(pairs[:, 1].argmax()),
        int(lengths.argmin()),
        int(lengths.argmax()),
    }:
        _check_range(int(pairs[i, 0]), int(pairs[i, 1]))
    return pairs.astype(np.int64)


def _union(parts: list[BitMap]) -> BitMap:
    if len(parts) == 1:
        return parts[0]
    return parts[0] | parts[1] if len(parts) == 2 else BitMap.union(*parts)


def _first_part(parts: Parts, key: int) -> int:
    """The index of the first part whose key is at least ``key``."""
    low, high = 0, len(parts)
    while low < high:
        middle = (low + high) // 2
        if parts[middle][0] < key:
            low = middle + 1
        else:
            high = middle
    return low


def _check_integers(positions: NDArray[Any]) -> None:
    if positions.dtype.kind not in "iu" or positions.ndim != 1:
        raise InvalidOperationError(
            f"positions are {positions.ndim}-dimensional {positions.dtype}, "
            "expected a one-dimensional array of integers"
        )


def _check_positions(low: int, high: int) -> None:
    if low < 0:
        raise InvalidOperationError(f"position is {low}, expected at least 0")
    if high > MAX_POSITION:
        raise InvalidOperationError(f"position is {high}, expected at most {MAX_POSITION}")


def _check_range(start: int, stop: int) -> None:
    if stop < start:
        raise InvalidOperationError(f"range is [{start}, {stop}), expected the start not beyond the stop")
    _check_positions(start, max(stop - 1, start))
    if (stop >> 32) - (start >> 32) > _MAX_RANGE_KEYS:
        raise InvalidOperationError(
            f"range [{start}, {stop}) has {stop - start} positions, expected at most {_MAX_RANGE_KEYS << 32}"
        )
