"""Vectors that other engines wrote."""

from __future__ import annotations

import pytest

from delvec import blob, z85
from delvec.bitmap import Bitmap
from delvec.delta import vector_file
from delvec.errors import CorruptVectorError, FormatError
from delvec.puffin import PuffinReader
from golden_data import golden

K = 1 << 32
ALL_KINDS = [
    (5, 6),
    (7, 8),
    (65_537, 66_536),
    (131_073, 196_607),
    (K + 10, K + 11),
    (K + 20, K + 21),
    (K + 65_546, K + 66_036),
    (K + 131_073, K + 196_607),
]


@pytest.mark.parametrize(
    ("name", "ranges"),
    [
        ("empty", []),
        ("small-alternating-values", [(i, i + 1) for i in (1, 3, 5, 7, 9)]),
        ("all-container-types", ALL_KINDS),
    ],
)
def test_whole_blobs(name, ranges):
    data = golden(f"blobs/{name}-position-index.bin").read_bytes()
    bitmap = blob.decode(data)
    assert [tuple(pair) for pair in bitmap.ranges().tolist()] == ranges
    assert bitmap == Bitmap.from_ranges(ranges)
    assert blob.encode(bitmap) == data


def test_what_a_blob_of_every_container_kind_is():
    described = blob.describe(golden("blobs/all-container-types-position-index.bin").read_bytes())
    kinds = described.array_containers, described.bitmap_containers, described.run_containers
    assert (described.size, described.keys, kinds, described.ranges) == (94, 2, (2, 0, 4), 8)


def test_bare_64_bit_sets():
    assert Bitmap.deserialize(golden("blobs/64mapempty.bin").read_bytes()) == Bitmap()
    assert list(Bitmap.deserialize(golden("blobs/64map32bitvals.bin").read_bytes())) == list(range(10))


def test_positions_beyond_the_limit_are_refused():
    with pytest.raises(CorruptVectorError, match="bitmap key is 4022190063, expected at most 2147483646"):
        Bitmap.deserialize(golden("blobs/64maphighvals.bin").read_bytes())


def test_a_vector_blob_in_a_file_without_a_footer():
    data = golden("iceberg/legacy_bare_deletion_vector/data/legacy-bare-deletion-vector.puffin").read_bytes()
    assert list(blob.decode(data, expected_cardinality=1)) == [1]
    with pytest.raises(FormatError, match="not a Puffin file"):
        PuffinReader.from_bytes(data)


def test_every_delta_vector_file():
    files = sorted(golden("delta").rglob("deletion_vector_*.bin"))
    assert len(files) > 50
    counts = []
    for file in files:
        data = file.read_bytes()
        found = [(offset, blob.decode(framed)) for offset, framed in vector_file.read_blobs(data)]
        counts.append(len(found))
        assert all(bitmap for _, bitmap in found)
        again, places = vector_file.pack([bitmap for _, bitmap in found])
        assert [offset for offset, _ in places] == [offset for offset, _ in found]
        assert again == data
    assert max(counts) > 1


def test_the_published_inline_vector():
    text = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    rows = Bitmap.of(3, 4, 7, 11, 18, 29)
    assert blob.decode_bare(z85.decode(text), size=44, expected_cardinality=6) == rows
    assert z85.encode(blob.encode_bare(rows)) == text
