"""`Bitmap` as a value: how it is made, what it answers, what it refuses."""

from __future__ import annotations

import pickle
from array import array

import numpy as np
import pytest

from delvec.bitmap import MAX_POSITION, Bitmap
from delvec.errors import InvalidOperationError

K = 1 << 32
SPREAD = [0, 1, 65535, 65536, K - 1, K, K + 7, 5 * K + 3, MAX_POSITION]


def test_the_empty_set():
    empty = Bitmap()
    assert (len(empty), list(empty), empty.min(), empty.max(), bool(empty)) == (0, [], None, None, False)
    assert empty == Bitmap.of() == Bitmap.from_numpy(np.array([], np.int64)) == Bitmap.from_ranges([])
    assert empty.serialize() == bytes(8)
    assert empty.to_numpy().tolist() == []
    assert empty.to_mask(3).tolist() == [False] * 3
    assert empty.ranges().shape == (0, 2)
    assert not empty.contains_many(np.arange(100)).any()


def test_members_across_keys_in_order():
    bitmap = Bitmap.of(*reversed(SPREAD), 0, 0)
    assert list(bitmap) == SPREAD
    assert bitmap.to_numpy().tolist() == SPREAD
    assert bitmap.to_numpy().dtype == np.int64
    assert len(bitmap) == bitmap.cardinality == len(SPREAD)
    assert (bitmap.min(), bitmap.max()) == (0, MAX_POSITION)
    assert all(position in bitmap for position in SPREAD)
    assert not any(p in bitmap for p in (2, K + 1, 3 * K, -1, MAX_POSITION + 1, 1 << 70, "1", 1.5, None))
    assert np.int64(K) in bitmap


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i8", ">u4"])
def test_every_integer_type(dtype):
    assert list(Bitmap.from_numpy(np.array([9, 3, 3, 100], dtype))) == [3, 9, 100]


def test_arrays_in_any_order_and_with_strides_are_left_as_they_were():
    given = np.array([5 * K, 7, 7, K, 0, 3], np.int64)[::-1]
    before = given.copy()
    assert list(Bitmap.from_numpy(given)) == [0, 3, 7, K, 5 * K]
    assert (given == before).all()
    shuffled = np.array([3, 1, 2], np.uint32)
    assert list(Bitmap.from_numpy(shuffled)) == [1, 2, 3]
    assert shuffled.tolist() == [3, 1, 2]


def test_iterables_of_integers():
    assert list(Bitmap.from_iterable(iter([3, 1]))) == [1, 3]
    assert list(Bitmap.from_iterable(range(3))) == [0, 1, 2]
    assert list(Bitmap.from_iterable({np.int32(4), True})) == [1, 4]
    assert list(Bitmap.from_iterable(b"\x05\x03")) == [3, 5]
    assert list(Bitmap.from_iterable(array("I", [2]))) == [2]


@pytest.mark.parametrize(
    "positions", [[-1], [1.0], ["1"], [None], [1 << 64], [MAX_POSITION + 1], [0, 1 << 63]]
)
def test_refuses_what_is_no_position(positions):
    with pytest.raises(InvalidOperationError, match="position"):
        Bitmap.from_iterable(positions)


@pytest.mark.parametrize(
    ("positions", "reason"),
    [
        (np.array([3, -1]), "position is -1, expected at least 0"),
        (np.array([-1, 3]), "position is -1, expected at least 0"),
        (np.array([0, MAX_POSITION + 1]), f"position is {MAX_POSITION + 1}, expected at most {MAX_POSITION}"),
        (np.array([(1 << 64) - 1], np.uint64), "expected at most"),
        (np.array([1.0]), "1-dimensional float64, expected a one-dimensional array of integers"),
        (np.array([True]), "bool"),
        (np.array([[1]]), "2-dimensional"),
        (np.array(["1"]), "expected a one-dimensional array of integers"),
    ],
)
def test_refuses_arrays_that_are_no_positions(positions, reason):
    with pytest.raises(InvalidOperationError, match=reason):
        Bitmap.from_numpy(positions)


@pytest.mark.parametrize(
    ("start", "stop"),
    [(0, 1), (5, 5), (7, 65536), (65535, 200_000), (K - 2, K), (K - 2, K + 2), (K, K + 70_000)],
)
def test_ranges_within_and_across_keys(start, stop):
    bitmap = Bitmap.from_range(start, stop)
    assert len(bitmap) == stop - start
    assert bitmap.ranges().tolist() == ([[start, stop]] if stop > start else [])
    assert Bitmap.from_ranges([(start, stop)]) == bitmap


def test_a_range_over_many_keys_stays_small():
    bitmap = Bitmap.from_range(3, 500 * K + 9)
    assert len(bitmap) == 500 * K + 6
    assert (bitmap.min(), bitmap.max()) == (3, 500 * K + 8)
    assert 400 * K in bitmap


def test_ranges_unite_in_any_order():
    bitmap = Bitmap.from_ranges([(K - 1, K + 1), (10, 20), (15, 30), (30, 31), (40, 40), (K, K)])
    assert bitmap.ranges().tolist() == [[10, 31], [K - 1, K + 1]]
    assert Bitmap.from_ranges(bitmap.ranges()) == bitmap
    assert Bitmap.from_ranges([(7, 7)]) == Bitmap()


@pytest.mark.parametrize(
    ("start", "stop", "reason"),
    [
        (5, 4, r"range is \[5, 4\), expected the start not beyond the stop"),
        (-1, 4, "position is -1"),
        (0, MAX_POSITION + 2, "expected at most"),
        (0, 1 << 60, "expected at most 4503599627370496"),
    ],
)
def test_refuses_ranges(start, stop, reason):
    for make in (Bitmap.from_range, lambda start, stop: Bitmap.from_ranges([(start, stop)])):
        with pytest.raises(InvalidOperationError, match=reason):
            make(start, stop)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.int64])
def test_refuses_one_bad_range_among_others(dtype):
    for bad in ([5, 3], [200, 0]):
        with pytest.raises(InvalidOperationError, match="expected the start not beyond the stop"):
            Bitmap.from_ranges(np.array([[0, 255], bad, [7, 9]], dtype))
    with pytest.raises(InvalidOperationError, match="position is -1"):
        Bitmap.from_ranges([(0, 3), (-1, 4), (2, 9)])


@pytest.mark.parametrize(
    "ranges", [[(1.5, 2)], [(1, 2, 3)], [1, 2], [("a", "b")], [(0, 1 << 64)], [(1, 2), (3,)]]
)
def test_refuses_what_is_no_range(ranges):
    with pytest.raises(InvalidOperationError, match="pairs of integers"):
        Bitmap.from_ranges(ranges)


def test_long_and_short_ranges_over_several_keys():
    ranges = [(i * 7 * K // 2 + i, i * 7 * K // 2 + i + (5 if i % 2 else 300)) for i in range(12)]
    bitmap = Bitmap.from_ranges(reversed(ranges))
    assert [tuple(pair) for pair in bitmap.ranges().tolist()] == ranges


def test_the_highest_position_is_held():
    bitmap = Bitmap.from_range(MAX_POSITION, MAX_POSITION + 1)
    assert list(Bitmap.deserialize(bitmap.serialize())) == [MAX_POSITION]


def test_set_operations():
    a, b = Bitmap.of(1, 2, K, 5 * K), Bitmap.of(2, 3, 5 * K, 9 * K)
    assert list(a | b) == list(a.union(b)) == [1, 2, 3, K, 5 * K, 9 * K]
    assert list(a & b) == list(a.intersection(b)) == [2, 5 * K]
    assert list(a - b) == list(a.difference(b)) == [1, K]
    assert a.union(b, Bitmap.of(7, K), Bitmap()) == Bitmap.of(1, 2, 3, 7, K, 5 * K, 9 * K)
    assert a.union() == a
    assert not (a - a)
    assert not (a & Bitmap())


def test_operations_leave_their_operands_alone():
    a, b = Bitmap.of(1, K), Bitmap.of(2)
    before = a.serialize(), b.serialize()
    for made in (a | b, a & b, a - b, a.union(b, b)):
        made.serialize()
    assert (a.serialize(), b.serialize()) == before


def test_operators_with_something_else_are_type_errors():
    for operation in ("__or__", "__and__", "__sub__", "__eq__"):
        assert getattr(Bitmap.of(1), operation)({1}) is NotImplemented


def test_equal_sets_are_equal_and_hash_alike_however_they_were_made():
    made = [
        Bitmap.from_range(0, 5000),
        Bitmap.from_numpy(np.arange(5000)),
        Bitmap.from_range(0, 6000) - Bitmap.from_range(5000, 6000),
        Bitmap.deserialize(Bitmap.from_range(0, 5000).serialize()),
    ]
    assert len(set(made)) == 1
    assert made[0] != Bitmap.from_range(1, 5001)
    assert made[0] != Bitmap.from_range(K, K + 5000)
    assert made[0] != "a"


def test_serialisation_is_run_optimised():
    assert len(Bitmap.from_numpy(np.arange(1_000_000)).serialize()) < 250


def test_pickle_keeps_the_set():
    assert pickle.loads(pickle.dumps(Bitmap.of(*SPREAD))) == Bitmap.of(*SPREAD)


def test_repr_is_short():
    assert repr(Bitmap()) == "Bitmap()"
    assert repr(Bitmap.from_range(3, 1000)) == "Bitmap(997 from 3 to 999)"


KINDS = {
    "array": np.arange(0, 65536, 50),
    "bitmap": np.arange(0, 200_000, 3),
    "few runs": np.arange(10, 150_000),
    "short runs": np.flatnonzero(np.arange(100_000) % 40 < 15),
    "long runs": np.flatnonzero(np.arange(300_000) % 1000 < 700),
    "mixed": np.concatenate(
        [np.array([4, 9]), np.arange(65_536, 140_000), np.arange(150_000, 260_000, 2), np.array([400_000])]
    ),
}


@pytest.mark.parametrize("members", KINDS.values(), ids=KINDS)
def test_masks_and_ranges_of_every_container_kind(members):
    bitmap = Bitmap.deserialize(Bitmap.from_numpy(members).serialize())
    length = int(members[-1]) + 1
    for extra in (0, 1, 65536):
        mask = bitmap.to_mask(length + extra)
        assert mask.dtype == np.bool_
        assert len(mask) == length + extra
        assert np.flatnonzero(mask).tolist() == members.tolist()
    starts, stops = bitmap.ranges().T
    assert (
        np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True)]).tolist()
        == members.tolist()
    )
    assert (starts[1:] > stops[:-1]).all()


def test_a_mask_that_would_lose_members_is_refused():
    bitmap = Bitmap.of(3, 10)
    assert bitmap.to_mask(11).sum() == 2
    with pytest.raises(InvalidOperationError, match="mask length is 10, expected more than position 10"):
        bitmap.to_mask(10)
    with pytest.raises(InvalidOperationError, match="mask length is -1"):
        Bitmap().to_mask(-1)


@pytest.mark.parametrize("members", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("base", [0, 65_536 * 3, K - 70_000, 6 * K])
def test_contains_many_near_and_far(members, base):
    members = members + base
    bitmap = Bitmap.from_numpy(members)
    rng = np.random.default_rng(5)
    near = rng.integers(max(base - 100_000, 0), base + 500_000, 50_000)
    far = np.concatenate([members[:500], rng.integers(0, MAX_POSITION, 500), [-1, -(1 << 62), MAX_POSITION]])
    for asked in (near, far, near[:10], np.sort(near), members, members + 1_000_000, np.array([], np.int64)):
        assert bitmap.contains_many(asked).tolist() == np.isin(asked, members).tolist()


def test_contains_many_of_a_few_queries_in_a_huge_sparse_set():
    members = np.arange(0, 3_000_000, 3) * 1000
    asked = np.arange(0, 3_000_000_000, 30_000_007)
    assert Bitmap.from_numpy(members).contains_many(asked).tolist() == (asked % 3000 == 0).tolist()


def test_contains_many_of_unsigned_and_refusals():
    asked = np.full(100, (1 << 64) - 1, np.uint64)
    asked[0] = 5
    assert Bitmap.of(5).contains_many(asked).tolist() == [True] + [False] * 99
    with pytest.raises(InvalidOperationError, match="expected a one-dimensional array of integers"):
        Bitmap.of(5).contains_many(np.array([5.0]))


def test_a_mask_of_bitmap_containers_beside_and_apart_from_each_other():
    evens = np.arange(0, 65536, 2)
    members = np.concatenate(
        [evens, evens + 65536, evens + 4 * 65536, [5 * 65536 + 7], evens + 6 * 65536 + 1]
    )
    mask = Bitmap.from_numpy(members).to_mask(7 * 65536)
    assert (np.flatnonzero(mask) == members).all()
