"""Delta's ``.bin`` file: several blobs in one, and what is refused."""

from __future__ import annotations

import pytest

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.delta import vector_file
from delvec.errors import CorruptVectorError

VECTORS = [Bitmap.of(1, 5), Bitmap(), Bitmap.from_range(0, 1 << 33)]


def test_several_vectors_are_found_where_the_writer_says():
    data, places = vector_file.pack(VECTORS)
    assert data[0] == 1
    assert places[0] == (1, len(blob.encode_bare(VECTORS[0])))
    found = vector_file.read_blobs(data)
    assert [offset for offset, _ in found] == [offset for offset, _ in places]
    assert [blob.decode(framed) for _, framed in found] == VECTORS
    for (offset, size), vector in zip(places, VECTORS, strict=True):
        assert blob.decode(data[offset : offset + size + blob.FRAME_SIZE]) == vector


def test_a_file_of_no_vectors():
    assert vector_file.pack([]) == (b"\x01", [])
    assert vector_file.read_blobs(b"\x01") == []


def test_rejects_an_empty_file():
    with pytest.raises(CorruptVectorError, match="vector file is empty, expected a version byte of 1 at 0"):
        vector_file.read_blobs(b"")


def test_rejects_another_version():
    with pytest.raises(
        CorruptVectorError, match="not a deletion vector file, expected a version byte of 1 at 0"
    ):
        vector_file.read_blobs(b"\x02" + blob.encode(VECTORS[0]))


def test_rejects_a_tail_too_short_for_a_length():
    data, _ = vector_file.pack(VECTORS[:1])
    with pytest.raises(CorruptVectorError, match="ends with 3 bytes, expected a blob of at least 20 at 45"):
        vector_file.read_blobs(data + bytes(3))


def test_rejects_a_blob_cut_short():
    data, places = vector_file.pack(VECTORS[:2])
    with pytest.raises(CorruptVectorError, match="has 19 bytes left in its file, expected 20") as caught:
        vector_file.read_blobs(data[:-1])
    assert caught.value.offset == places[1][0]


def test_rejects_a_length_too_small_for_a_vector():
    with pytest.raises(CorruptVectorError, match="declares a length of 0, expected at least 12 at 1"):
        vector_file.read_blobs(b"\x01" + bytes(4) + blob.MAGIC + bytes(100))


def test_rejects_a_blob_without_its_magic():
    with pytest.raises(CorruptVectorError, match="not a deletion vector, expected the magic d1d33964 at 1"):
        vector_file.read_blobs(b"\x01" + bytes(100))
