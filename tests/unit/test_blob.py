"""The framed and the bare blob: examples byte by byte, and one rejecting test for each check."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.errors import CorruptVectorError

ROWS = Bitmap.of(3, 4, 7, 11, 18, 29)
VECTOR = struct.pack("<QI IIHHI6H", 1, 0, 12346, 1, 0, 5, 16, 3, 4, 7, 11, 18, 29)


def framed(bare: bytes) -> bytes:
    return struct.pack(">I", len(bare)) + bare + struct.pack(">I", zlib.crc32(bare))


FRAMED = framed(blob.MAGIC + VECTOR)


def test_the_blob_byte_by_byte():
    assert blob.encode(ROWS) == FRAMED
    assert FRAMED[:8].hex() == "0000002cd1d33964"
    assert len(FRAMED) == 44 + blob.FRAME_SIZE
    assert blob.decode(FRAMED) == ROWS
    assert int.from_bytes(blob.MAGIC, "little") == 1681511377


def test_the_bare_blob():
    assert blob.encode_bare(ROWS) == blob.MAGIC + VECTOR
    assert blob.decode_bare(blob.MAGIC + VECTOR) == ROWS
    assert blob.decode_bare(blob.MAGIC + VECTOR, size=44, expected_cardinality=6) == ROWS


def test_the_empty_vector():
    assert blob.encode(Bitmap()) == framed(blob.MAGIC + bytes(8))
    assert blob.decode(blob.encode(Bitmap()), expected_cardinality=0) == Bitmap()


def test_any_buffer_is_decoded():
    for buffer in (FRAMED, memoryview(FRAMED), bytearray(FRAMED), memoryview(b"x" + FRAMED)[1:]):
        assert blob.decode(buffer) == ROWS


@pytest.mark.parametrize("length", [0, 4, 8, 19])
def test_rejects_a_blob_too_short_to_be_one(length):
    with pytest.raises(CorruptVectorError, match=f"vector blob is {length} bytes, expected at least 20"):
        blob.decode(FRAMED[:length])


@pytest.mark.parametrize("data", [FRAMED[:-1], FRAMED + b"\0"], ids=["short", "trailing"])
def test_rejects_a_length_that_is_not_the_blobs(data):
    with pytest.raises(CorruptVectorError, match=f"declares a length of 44, expected {len(data) - 8} in"):
        blob.decode(data)


def test_rejects_a_wrong_crc():
    changed = bytearray(FRAMED)
    changed[-6] ^= 1
    expected = zlib.crc32(FRAMED[4:-4])
    with pytest.raises(CorruptVectorError, match=f"vector CRC is 0x[0-9a-f]{{8}}, expected 0x{expected:08x}"):
        blob.decode(bytes(changed))


def test_the_magic_is_verified_before_the_length_and_the_length_before_the_crc():
    broken = bytearray(FRAMED)
    broken[-6] ^= 1
    with pytest.raises(CorruptVectorError, match="length"):
        blob.decode(bytes(broken) + b"\0")
    broken[4] ^= 1
    with pytest.raises(CorruptVectorError, match="magic"):
        blob.decode(bytes(broken) + b"\0")


def test_rejects_a_wrong_magic():
    with pytest.raises(CorruptVectorError, match=r"^not a deletion vector, expected the magic d1d33964$"):
        blob.decode(framed(b"\xd1\xd3\x39\x65" + VECTOR))
    with pytest.raises(CorruptVectorError, match=r"^not a deletion vector, expected the magic d1d33964$"):
        blob.decode_bare(bytes(4) + VECTOR)


@pytest.mark.parametrize("magic", ["d0d33964", "6439d3d0"])
def test_rejects_the_older_magic_by_name(magic):
    older = bytes.fromhex(magic) + VECTOR
    for decode, data in ((blob.decode, framed(older)), (blob.decode_bare, older)):
        with pytest.raises(
            CorruptVectorError, match=f"magic is {magic}, that of the older Delta vector form"
        ):
            decode(data)


def test_rejects_trailing_bytes_inside_the_frame():
    with pytest.raises(CorruptVectorError, match="1 bytes trail it"):
        blob.decode(framed(blob.MAGIC + VECTOR + b"\0"))


def test_rejects_an_unsound_vector():
    with pytest.raises(CorruptVectorError, match="strictly increasing"):
        blob.decode(framed(blob.MAGIC + VECTOR[:-2] + b"\x01\x00"))


def test_rejects_another_cardinality_than_expected():
    with pytest.raises(CorruptVectorError, match="vector has 6 positions, expected 7"):
        blob.decode(FRAMED, expected_cardinality=7)
    with pytest.raises(CorruptVectorError, match="vector has 6 positions, expected 0"):
        blob.decode_bare(FRAMED[4:-4], expected_cardinality=0)


def test_padding_is_taken_where_the_true_size_is_given():
    bare = blob.MAGIC + VECTOR
    for padding in range(4):
        assert blob.decode_bare(bare + bytes(padding), size=len(bare)) == ROWS
    with pytest.raises(CorruptVectorError, match="trail it"):
        blob.decode_bare(bare + bytes(2))


@pytest.mark.parametrize("size", [43 - 3, 45, -1, -44, 0, 1 << 70])
def test_rejects_more_padding_than_aligns_and_a_size_beyond_the_data(size):
    with pytest.raises(CorruptVectorError, match=f"bare vector is 44 bytes, expected {size}"):
        blob.decode_bare(blob.MAGIC + VECTOR, size=size)


def test_rejects_padding_that_is_not_zero():
    with pytest.raises(CorruptVectorError, match="padding of the bare vector is not zero, expected zeros"):
        blob.decode_bare(blob.MAGIC + VECTOR + b"\0\1", size=44)


def test_rejects_a_bare_blob_too_short_to_be_one():
    with pytest.raises(CorruptVectorError, match="bare vector is 11 bytes, expected at least 12"):
        blob.decode_bare(blob.MAGIC + bytes(7))


def test_errors_take_the_place_from_the_caller():
    with pytest.raises(CorruptVectorError) as caught:
        blob.decode(FRAMED, expected_cardinality=7)
    assert str(caught.value.at("a.bin", 1)) == "vector has 6 positions, expected 7: a.bin at 1"


def test_a_description_tells_containers_as_stored():
    bitmap = Bitmap.from_numpy(
        np.concatenate([[5, 7], np.arange(65_536, 99_999), np.arange(1 << 33, 1 << 34, 1 << 29)])
    )
    bitmap |= Bitmap.from_numpy(np.arange(200_000, 250_000, 3))
    described = blob.describe(blob.encode(bitmap))
    assert described == blob.BlobDescription(
        size=len(blob.encode(bitmap)),
        cardinality=2 + 34_463 + 16 + 16_667,
        keys=3,
        array_containers=17,
        bitmap_containers=1,
        run_containers=1,
        min=5,
        max=(1 << 34) - (1 << 29),
        ranges=2 + 1 + 16 + 16_667,
    )
    bare = blob.encode_bare(bitmap)
    assert blob.describe_bare(bare + bytes(-len(bare) % 4), size=len(bare)).size == len(bare)
    with pytest.raises(CorruptVectorError):
        blob.describe(FRAMED[:-1])
