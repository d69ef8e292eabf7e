"""The 32-bit layout: where containers lie, and what is refused. One rejecting test for each check."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from pyroaring import BitMap

from delvec.errors import CorruptVectorError
from delvec.roaring import bitmap32, bitmap64

ARRAY_3 = struct.pack("<IIHHI3H", 12346, 1, 7, 2, 16, 1, 2, 9)
RUN_2 = struct.pack("<HHBHHHHHHH", 12347, 0, 1, 0, 6, 2, 1, 2, 10, 3)


def optimised(members) -> bytes:
    bitmap = BitMap(members)
    bitmap.run_optimize()
    return bitmap.serialize()


MIXED = optimised(
    [5, 7, 65535, *range(65536, 105_536), *range(3 * 65536, 4 * 65536, 2), 9 * 65536, 11 * 65536]
)


def read(data: bytes):
    return bitmap32.read(memoryview(data), 0)


def test_read_tells_where_a_bitmap_ends_whatever_follows():
    for data in (ARRAY_3, RUN_2, MIXED, optimised([])):
        bitmap, end = bitmap32.read(memoryview(b"before" + data + b"after"), 6)
        assert end == 6 + len(data)
        assert bitmap == BitMap.deserialize(data)


def test_containers_of_every_kind_are_found_in_order():
    found = list(bitmap32.containers(MIXED))
    assert [(c.kind, c.key, c.cardinality) for c in found] == [
        ("array", 0, 3),
        ("run", 1, 40_000),
        ("bitmap", 3, 32_768),
        ("array", 9, 1),
        ("array", 11, 1),
    ]
    assert [c.size for c in found] == [6, 6, 8192, 2, 2]
    assert found[-1].offset + found[-1].size == len(MIXED)


def test_containers_without_offsets_are_found():
    (container,) = bitmap32.containers(RUN_2)
    assert container == ("run", 0, 7, 9, 10)
    assert list(read(RUN_2)[0]) == [1, 2, 3, 10, 11, 12, 13]


@pytest.mark.parametrize("data", [ARRAY_3, RUN_2, MIXED], ids=["array", "run", "mixed"])
def test_rejects_every_truncation(data):
    for length in range(0, len(data), max(1, len(data) // 300)):
        with pytest.raises(CorruptVectorError):
            read(data[:length])
        with pytest.raises(CorruptVectorError):
            list(bitmap32.containers(data[:length]))


def test_rejects_an_unknown_cookie():
    with pytest.raises(CorruptVectorError, match="begins with 12345, expected 12346 or 12347"):
        read(struct.pack("<II", 12345, 0))


def test_rejects_more_containers_than_keys_exist():
    with pytest.raises(CorruptVectorError, match="has 65537 containers, expected at most 65536"):
        read(struct.pack("<II", 12346, 65537) + bytes(65537 * 8))


def test_rejects_a_header_that_does_not_fit():
    with pytest.raises(CorruptVectorError, match="header at byte 0 of the vector has 8 bytes left"):
        read(struct.pack("<II", 12346, 65536))


def test_rejects_container_keys_out_of_order():
    data = struct.pack("<IIHHHHIIHH", 12346, 2, 5, 0, 4, 0, 24, 26, 1, 2)
    with pytest.raises(CorruptVectorError, match="keys not strictly increasing"):
        read(data)
    with pytest.raises(CorruptVectorError, match="is 4, expected more than 5"):
        list(bitmap32.containers(data))


def test_rejects_a_false_offset():
    data = struct.pack("<IIHHI3H", 12346, 1, 7, 2, 18, 1, 2, 9)
    for reading in (read, lambda data: list(bitmap32.containers(data))):
        with pytest.raises(CorruptVectorError, match="offset of container 7 is 18, expected 16"):
            reading(data)


def test_rejects_a_false_later_offset_where_containers_are_listed():
    data = struct.pack("<IIHHHHIIHH", 12346, 2, 4, 0, 5, 0, 24, 99, 1, 2)
    with pytest.raises(CorruptVectorError, match="offset of container 5 is 99, expected 26"):
        list(bitmap32.containers(data))


def test_rejects_a_false_cardinality_of_runs():
    data = struct.pack("<HHBHHHHHHH", 12347, 0, 1, 0, 7, 2, 1, 2, 10, 3)
    with pytest.raises(CorruptVectorError, match="has 7 members, expected the declared 8"):
        read(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack("<IIHHI3H", 12346, 1, 7, 2, 16, 1, 9, 2), "not strictly increasing"),
        (struct.pack("<IIHHI3H", 12346, 1, 7, 2, 16, 1, 2, 2), "not strictly increasing"),
        (struct.pack("<HHBHHHHHHH", 12347, 0, 1, 0, 6, 2, 10, 3, 1, 2), "run start less than last end"),
        (struct.pack("<HHBHHHHHHH", 12347, 0, 1, 0, 6, 2, 1, 2, 2, 3), "run start less than last end"),
        (struct.pack("<HHBHHHHH", 12347, 0, 1, 0, 2, 1, 65535, 2), "too large"),
        (struct.pack("<HHBHHH", 12347, 0, 1, 0, 0, 0), "zero run count"),
        (struct.pack("<IIHHI", 12346, 1, 0, 4999, 16) + b"\xff" * 8192, "cardinality is incorrect"),
    ],
    ids=["unsorted", "repeated", "unsorted runs", "overlapping runs", "run too long", "no runs", "bits"],
)
def test_rejects_unsound_contents(data, reason):
    with pytest.raises(CorruptVectorError, match=reason):
        read(data)


def test_sixty_four_bits_round_trip_and_containers_by_key():
    parts = ((0, BitMap.deserialize(MIXED)), (9, BitMap([1])))
    data = bitmap64.write(parts)
    assert bitmap64.read(data) == parts
    assert [len(found) for found in bitmap64.containers(data)] == [5, 1]


def test_empty_bitmaps_between_keys_are_dropped():
    empty = struct.pack("<II", 12346, 0)
    data = struct.pack("<QI", 3, 0) + empty + struct.pack("<I", 1) + ARRAY_3 + struct.pack("<I", 2) + empty
    assert [(key, len(part)) for key, part in bitmap64.read(data)] == [(1, 3)]
    assert [len(found) for found in bitmap64.containers(data)] == [0, 1, 0]


def test_rejects_more_bitmaps_than_fit():
    for count in (2, 1 << 32, 1 << 60, (1 << 64) - 1):
        with pytest.raises(CorruptVectorError, match=f"declares {count} bitmaps, expected at most 1"):
            bitmap64.read(struct.pack("<QI", count, 0) + ARRAY_3[:16])


def test_rejects_a_missing_count():
    with pytest.raises(
        CorruptVectorError, match="number of bitmaps at byte 0 of the vector has 7 bytes left"
    ):
        bitmap64.read(bytes(7))


def test_rejects_a_missing_key():
    data = struct.pack("<QI", 2, 0) + ARRAY_3 + b"\x01\x00"
    with pytest.raises(CorruptVectorError, match="bitmap key at byte 34 of the vector has 2 bytes left"):
        bitmap64.read(data)


@pytest.mark.parametrize("second", [0, 5])
def test_rejects_keys_that_do_not_ascend(second):
    data = struct.pack("<QI", 2, 5) + ARRAY_3 + struct.pack("<I", second) + ARRAY_3
    with pytest.raises(CorruptVectorError, match=f"bitmap key is {second}, expected more than 5"):
        bitmap64.read(data)


def test_rejects_a_key_beyond_the_limit():
    data = struct.pack("<QI", 1, 0x7FFFFFFF) + ARRAY_3
    with pytest.raises(CorruptVectorError, match="bitmap key is 2147483647, expected at most 2147483646"):
        bitmap64.read(data)


def test_rejects_a_position_beyond_the_limit():
    highest = struct.pack("<IIHHIH", 12346, 1, 0x8000, 0, 16, 0)
    beyond = struct.pack("<IIHHIH", 12346, 1, 0x8000, 0, 16, 1)
    key = struct.pack("<QI", 1, 0x7FFFFFFE)
    assert bitmap64.read(key + highest)
    with pytest.raises(CorruptVectorError, match="position is 9223372030412324865, expected at most"):
        bitmap64.read(key + beyond)


def test_rejects_trailing_bytes():
    with pytest.raises(CorruptVectorError, match="vector is 35 bytes, expected 34: 1 bytes trail it"):
        bitmap64.read(struct.pack("<QI", 1, 0) + ARRAY_3 + b"\0")


def test_the_layout_is_the_same_as_numpy_would_write():
    members = np.array([1, 2, 9]) + (7 << 16)
    assert BitMap(members.tolist()).serialize() == ARRAY_3
