"""Bitmaps and blobs against a Python set, and against another reader and writer of the same layout."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from delvec import blob, z85
from delvec.bitmap import MAX_POSITION, Bitmap
from delvec.delta import vector_file
from delvec.errors import FormatError
from delvec.puffin import PuffinReader, PuffinWriter

KEY = 1 << 32

# The same cases on every run, and none of them fails for being slow on a busy machine.
steady = settings(deadline=None, derandomize=True)

# Places where something changes: containers, keys, the limit.
_edges = st.sampled_from([0, 65536, 3 * 65536, KEY - 65536, KEY, 7 * KEY, MAX_POSITION - 70_000])
_near_edges = st.builds(lambda edge, low: min(edge + low, MAX_POSITION), _edges, st.integers(0, 70_000))
_positions = st.one_of(_near_edges, st.integers(0, MAX_POSITION))
_runs = st.builds(
    lambda start, length, step: range(start, min(start + length * step, MAX_POSITION + 1), step),
    _near_edges,
    st.integers(0, 6000),
    st.sampled_from([1, 1, 2, 3, 64]),
)


@st.composite
def sets(draw) -> set[int]:
    members = set(draw(st.lists(_positions, max_size=30)))
    for run in draw(st.lists(_runs, max_size=4)):
        members.update(run)
    return members


def portable(members: set[int]) -> bytes:
    """The same set as pyroaring's own 64-bit bitmap writes it."""
    theirs = BitMap64(sorted(members))
    theirs.run_optimize()
    return theirs.serialize()


@steady
@given(sets())
def test_a_set_keeps_its_members(members):
    bitmap = Bitmap.from_iterable(members)
    ordered = sorted(members)
    assert list(bitmap) == bitmap.to_numpy().tolist() == ordered
    assert len(bitmap) == len(members)
    assert (bitmap.min(), bitmap.max()) == ((ordered[0], ordered[-1]) if members else (None, None))
    assert bool(bitmap) == bool(members)


@steady
@given(sets(), sets(), sets())
def test_operations_are_those_of_sets(a, b, c):
    ours = [Bitmap.from_iterable(members) for members in (a, b, c)]
    assert set(ours[0] | ours[1]) == a | b
    assert set(ours[0] & ours[1]) == a & b
    assert set(ours[0] - ours[1]) == a - b
    assert set(ours[0].union(*ours[1:])) == a | b | c
    assert (ours[0] == ours[1]) == (a == b)
    assert hash((ours[0] - ours[1]) | (ours[0] & ours[1])) == hash(ours[0])
    assert [set(bitmap) for bitmap in ours] == [a, b, c]


@steady
@given(sets())
def test_ranges_are_maximal_and_make_the_set_again(members):
    bitmap = Bitmap.from_iterable(members)
    ranges = bitmap.ranges()
    assert {p for start, stop in ranges.tolist() for p in range(start, stop)} == members
    assert (ranges[:, 0] < ranges[:, 1]).all()
    assert (ranges[1:, 0] > ranges[:-1, 1]).all()
    assert Bitmap.from_ranges(ranges) == bitmap


@steady
@given(sets(), st.integers(0, 100_000))
def test_masks(members, extra):
    low = {member for member in members if member < 1 << 20}
    length = max(low, default=-1) + 1 + extra
    assert set(np.flatnonzero(Bitmap.from_iterable(low).to_mask(length)).tolist()) == low


@steady
@given(sets(), st.lists(_positions, max_size=300))
def test_contains_many(members, asked):
    queries = np.array([*asked, *sorted(members)[:200], -1], np.int64)
    assert Bitmap.from_iterable(members).contains_many(queries).tolist() == [
        q in members for q in queries.tolist()
    ]


@steady
@given(sets())
def test_bytes_are_the_same_as_another_writer_makes(members):
    bitmap = Bitmap.from_iterable(members)
    assert bitmap.serialize() == portable(members)
    assert set(BitMap64.deserialize(bitmap.serialize())) == members


@steady
@given(sets())
def test_bytes_of_another_writer_are_read_optimised_or_not(members):
    assert set(Bitmap.deserialize(BitMap64(sorted(members)).serialize())) == members
    assert set(Bitmap.deserialize(portable(members))) == members


@steady
@given(sets())
def test_blobs_round_trip(members):
    bitmap = Bitmap.from_iterable(members)
    framed = blob.encode(bitmap)
    bare = framed[4:-4]
    assert framed == struct.pack(">I", len(bare)) + blob.MAGIC + portable(members) + struct.pack(
        ">I", zlib.crc32(bare)
    )
    assert blob.decode(framed, expected_cardinality=len(members)) == bitmap
    padded = bare + bytes(-len(bare) % 4)
    text = z85.encode(padded)
    assert blob.decode_bare(z85.decode(text), size=len(bare)) == bitmap == blob.decode_bare(bare)
    described = blob.describe(framed)
    assert (described.cardinality, described.ranges) == (len(members), len(bitmap.ranges()))


@steady
@given(st.lists(sets(), max_size=4))
def test_files_of_several_vectors_round_trip(several):
    bitmaps = [Bitmap.from_iterable(members) for members in several]
    data, places = vector_file.pack(bitmaps)
    assert [blob.decode(data[at : at + size + blob.FRAME_SIZE]) for at, size in places] == bitmaps
    assert [blob.decode(framed) for _, framed in vector_file.read_blobs(data)] == bitmaps
    writer = PuffinWriter()
    for i, bitmap in enumerate(bitmaps):
        writer.add_vector(bitmap, f"{i}.parquet")
    reader = PuffinReader.from_bytes(writer.finish())
    assert [reader.read_vector(metadata) for metadata in reader.blobs] == bitmaps


@steady
@given(st.binary(max_size=400).filter(lambda data: len(data) % 4 == 0))
def test_z85_round_trips(data):
    text = z85.encode(data)
    assert len(text) * 4 == len(data) * 5
    assert z85.decode(text) == data


@steady
@given(st.text(alphabet=z85.ALPHABET, max_size=40) | st.text(alphabet=z85.ALPHABET + " ~é€", max_size=40))
def test_z85_text_is_refused_or_comes_back(text):
    try:
        data = z85.decode(text)
    except FormatError:
        return
    assert z85.encode(data) == text
