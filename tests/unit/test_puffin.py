"""Puffin files: what is written byte by byte, what is read, and one rejecting test for each check."""

from __future__ import annotations

import json
import struct

import pyarrow as pa
import pytest

from delvec import __version__, blob
from delvec.bitmap import Bitmap
from delvec.errors import CorruptVectorError, FormatError, InvalidOperationError, UnsupportedFeatureError
from delvec.puffin import BlobMetadata, PuffinReader, PuffinWriter

ROWS = Bitmap.of(3, 9)
BLOB = {
    "type": "sketch",
    "fields": [1, 2],
    "snapshot-id": 7,
    "sequence-number": 8,
    "offset": 4,
    "length": 5,
    "properties": {"a": "b"},
}
MISSING = object()


def compressed(data: bytes, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def puffin(footer, *, content: bytes = b"12345", flags: int = 0, size: int | None = None) -> bytes:
    payload = footer if isinstance(footer, bytes) else json.dumps(footer).encode()
    size = len(payload) if size is None else size
    return b"PFA1" + content + b"PFA1" + payload + struct.pack("<iI", size, flags) + b"PFA1"


def with_blob(**changes) -> bytes:
    entry = {key: value for key, value in (BLOB | changes).items() if value is not MISSING}
    return puffin({"blobs": [entry]})


def test_a_written_file_byte_by_byte():
    writer = PuffinWriter()
    first = writer.add_vector(ROWS, "s3://lake/a.parquet")
    second = writer.add_vector(Bitmap.of(0), "s3://lake/b.parquet")
    data = writer.finish()
    assert data[:4] == data[-4:] == b"PFA1"
    assert data[first.offset : first.offset + first.length] == blob.encode(ROWS)
    assert (first.offset, second.offset) == (4, 4 + first.length)
    size, flags = struct.unpack("<iI", data[-12:-4])
    assert flags == 0
    start = len(data) - 12 - size
    assert data[start - 4 : start] == b"PFA1"
    assert start - 4 == second.offset + second.length
    footer = json.loads(data[start:-12])
    assert footer["properties"] == {"created-by": f"delvec {__version__}"}
    assert footer["blobs"][0] == {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": 4,
        "length": first.length,
        "properties": {"referenced-data-file": "s3://lake/a.parquet", "cardinality": "2"},
    }


def test_a_written_file_is_read_back():
    writer = PuffinWriter(properties={"about": "é"})
    added = (writer.add_vector(ROWS, "a"), writer.add_vector(Bitmap(), "b"))
    assert writer.blobs == added
    reader = PuffinReader.from_bytes(writer.finish())
    assert reader.blobs == added
    assert reader.properties["about"] == "é"
    assert [reader.read_vector(metadata) for metadata in reader.blobs] == [ROWS, Bitmap()]
    assert reader.read_blob(added[0]) == blob.encode(ROWS)


def test_blobs_of_other_kinds_are_written_as_they_are():
    writer = PuffinWriter()
    metadata = writer.add_blob(
        b"12345", blob_type="sketch", fields=[1, 2], properties={"a": "b"}, snapshot_id=7, sequence_number=8
    )
    assert metadata == BlobMetadata("sketch", (1, 2), 7, 8, 4, 5, None, {"a": "b"})
    assert PuffinReader.from_bytes(writer.finish()).blobs == (metadata,)
    assert PuffinReader.from_bytes(with_blob()).blobs == (metadata,)


def test_a_file_without_blobs_or_properties():
    assert PuffinReader.from_bytes(PuffinWriter().finish()).blobs == ()
    assert PuffinReader.from_bytes(puffin({"blobs": []})).properties == {}


def test_a_finished_file_takes_no_more():
    writer = PuffinWriter()
    writer.finish()
    for more in (lambda: writer.add_vector(ROWS, "a"), writer.finish):
        with pytest.raises(InvalidOperationError, match="Puffin file is finished"):
            more()


@pytest.mark.parametrize("types", [("deletion-vector-v1", "other"), ("other", "deletion-vector-v1")])
def test_refuses_other_blobs_beside_deletion_vectors(types):
    writer = PuffinWriter()
    writer.add_blob(b"", blob_type=types[0], fields=[])
    with pytest.raises(InvalidOperationError, match="expected 'deletion-vector-v1' in a file of its own"):
        writer.add_blob(b"", blob_type=types[1], fields=[])


@pytest.mark.parametrize(("vectors", "requests"), [(3, 1), (500, 2)])
def test_opening_takes_one_request_or_two(vectors, requests):
    writer = PuffinWriter()
    for i in range(vectors):
        writer.add_vector(Bitmap.from_range(0, 70_000 * i), f"data/{i:05}.parquet")
    data = writer.finish()
    asked = []

    def read(offset: int, length: int) -> bytes:
        asked.append((offset, length))
        return data[offset : offset + length]

    reader = PuffinReader(read, len(data))
    assert len(asked) == requests
    assert len(reader.blobs) == vectors
    assert reader.read_vector(reader.blobs[2]) == Bitmap.from_range(0, 140_000)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_blobs_are_read(codec):
    content = b"sketch" * 100_000
    stored = compressed(content, codec)
    entry = BLOB | {"length": len(stored), "compression-codec": codec}
    reader = PuffinReader.from_bytes(puffin({"blobs": [entry]}, content=stored))
    assert reader.read_blob(reader.blobs[0]) == content


def test_a_compressed_footer_is_read():
    payload = json.dumps({"blobs": [BLOB] * 50, "properties": {"created-by": "x"}}).encode()
    reader = PuffinReader.from_bytes(puffin(compressed(payload, "lz4"), flags=1))
    assert len(reader.blobs) == 50
    assert reader.properties == {"created-by": "x"}


def test_rejects_a_file_too_small():
    with pytest.raises(FormatError, match="Puffin file is 19 bytes, expected at least 20"):
        PuffinReader.from_bytes(bytes(19))


@pytest.mark.parametrize(
    ("place", "where"),
    [(0, "beginning"), (9, "beginning of the footer"), (-4, "end")],
    ids=["head", "footer", "end"],
)
def test_rejects_a_wrong_magic(place, where):
    data = bytearray(with_blob())
    data[place] ^= 1
    with pytest.raises(FormatError, match=f"not a Puffin file, expected the magic 50464131 at the {where}"):
        PuffinReader.from_bytes(bytes(data))


@pytest.mark.parametrize("flags", [2, 0x80, 0x100, 1 << 31, 3])
def test_rejects_unknown_flags(flags):
    with pytest.raises(FormatError, match=f"Puffin flags are 0x{flags:08x}"):
        PuffinReader.from_bytes(puffin({"blobs": []}, flags=flags))


@pytest.mark.parametrize("size", [-1, -(1 << 31), (1 << 31) - 1, 19])
def test_rejects_a_payload_size_beyond_the_file(size):
    with pytest.raises(FormatError, match=f"Puffin footer payload is {size} bytes, expected from 0 to 18"):
        PuffinReader.from_bytes(puffin({"blobs": []}, size=size))


def test_rejects_a_read_that_gives_less():
    data = with_blob()
    with pytest.raises(FormatError, match="Puffin file gave 3 bytes, expected"):
        PuffinReader(lambda *_: data[:3], len(data))


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "Puffin footer is not JSON"),
        (b"{", "Puffin footer is not JSON"),
        (b"\xff", "Puffin footer is not JSON"),
        (b"[" * 100_000, "Puffin footer is not JSON"),
        (b"[]", "Puffin footer is a JSON list, expected an object"),
        (b"{}", "Puffin footer has no 'blobs'"),
        (b'{"blobs": {}}', "'blobs' of Puffin footer is {}, expected a JSON list"),
        (b'{"blobs": [1]}', "blob 0 of the Puffin footer is a JSON int, expected an object"),
        (b'{"blobs": [], "properties": 1}', "'properties' of Puffin footer is 1, expected a JSON dict"),
        (b'{"blobs": [], "properties": {"a": 1}}', "property 'a' of Puffin footer is 1, expected a JSON str"),
    ],
)
def test_rejects_a_footer_that_is_no_footer(payload, reason):
    with pytest.raises(FormatError, match=reason):
        PuffinReader.from_bytes(puffin(payload))


@pytest.mark.parametrize("name", ["type", "fields", "snapshot-id", "sequence-number", "offset", "length"])
def test_rejects_a_blob_that_lacks_something(name):
    with pytest.raises(FormatError, match=f"blob 0 of the Puffin footer has no '{name}'"):
        PuffinReader.from_bytes(with_blob(**{name: MISSING}))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("type", 1, "'type' of blob 0 .* is 1, expected a JSON str"),
        ("fields", "1", "'fields' of blob 0 .* is '1', expected a JSON list"),
        ("fields", [1, "2"], "a field id of blob 0 .* is '2', expected a signed 32-bit number"),
        ("fields", [True], "a field id of blob 0 .* is True"),
        ("fields", [1 << 31], "a field id of blob 0 .* is 2147483648"),
        ("snapshot-id", 1.5, "'snapshot-id' of blob 0 .* is 1.5, expected a JSON int"),
        ("sequence-number", (1 << 64) - 1, "'sequence-number' of blob 0 .* expected a signed 64-bit number"),
        ("offset", True, "'offset' of blob 0 .* is True, expected a JSON int"),
        ("length", None, "'length' of blob 0 .* is None, expected a JSON int"),
        ("compression-codec", 5, "'compression-codec' of blob 0 .* is 5, expected a JSON str"),
        ("properties", [], r"'properties' of blob 0 .* is \[\], expected a JSON dict"),
        ("properties", {"a": None}, "property 'a' of blob 0 .* is None, expected a JSON str"),
    ],
)
def test_rejects_a_blob_with_a_wrong_value(name, value, reason):
    with pytest.raises(FormatError, match=reason):
        PuffinReader.from_bytes(with_blob(**{name: value}))


@pytest.mark.parametrize(
    ("offset", "length"), [(3, 1), (-1, 1), (4, 6), (10, 0), (4, -1), (1 << 62, 1 << 62)]
)
def test_rejects_a_blob_outside_the_file(offset, length):
    with pytest.raises(FormatError, match="expected a place between 4 and 9"):
        PuffinReader.from_bytes(with_blob(offset=offset, length=length))


def test_an_absent_codec_and_absent_properties_may_be_null():
    (metadata,) = PuffinReader.from_bytes(with_blob(**{"compression-codec": None, "properties": None})).blobs
    assert (metadata.compression_codec, metadata.properties) == (None, {})


def test_refuses_an_unknown_codec_when_the_blob_is_read():
    reader = PuffinReader.from_bytes(with_blob(**{"compression-codec": "snappy"}))
    with pytest.raises(UnsupportedFeatureError, match="'snappy', expected zstd or lz4"):
        reader.read_blob(reader.blobs[0])


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("content", [b"12345", b""], ids=["garbage", "empty"])
def test_rejects_a_compressed_blob_that_is_not(codec, content):
    entry = BLOB | {"compression-codec": codec, "length": len(content)}
    reader = PuffinReader.from_bytes(puffin({"blobs": [entry]}, content=content))
    with pytest.raises(FormatError, match=f"Puffin blob at 4 is (not {codec}|empty)"):
        reader.read_blob(reader.blobs[0])


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_rejects_a_truncated_compressed_blob(codec):
    stored = compressed(b"sketch" * 1000, codec)[:-3]
    entry = BLOB | {"compression-codec": codec, "length": len(stored)}
    reader = PuffinReader.from_bytes(puffin({"blobs": [entry]}, content=stored))
    with pytest.raises(FormatError, match=f"is not {codec}: Truncated"):
        reader.read_blob(reader.blobs[0])


def test_rejects_a_decompression_bomb():
    stored = compressed(bytes(64 << 20), "zstd")
    entry = BLOB | {"compression-codec": "zstd", "length": len(stored)}
    reader = PuffinReader.from_bytes(puffin({"blobs": [entry]}, content=stored))
    with pytest.raises(FormatError, match=f"decompresses to more than {16 << 20} bytes"):
        reader.read_blob(reader.blobs[0])


def vector_file(**changes) -> PuffinReader:
    content = blob.encode(ROWS)
    entry = BLOB | {"type": "deletion-vector-v1", "length": len(content), "properties": {"cardinality": "2"}}
    return PuffinReader.from_bytes(puffin({"blobs": [entry | changes]}, content=content))


def test_rejects_a_compressed_vector():
    reader = vector_file(**{"compression-codec": "zstd"})
    with pytest.raises(
        CorruptVectorError, match="vector blob is compressed with zstd, expected no compression at 4"
    ):
        reader.read_vector(reader.blobs[0])


def test_rejects_a_vector_of_another_cardinality_than_its_property_tells():
    reader = vector_file(properties={"cardinality": "3"})
    with pytest.raises(CorruptVectorError, match="vector has 2 positions, expected 3 at 4"):
        reader.read_vector(reader.blobs[0])


@pytest.mark.parametrize("told", ["", "two", "-2", "²", "9" * 5000])
def test_rejects_a_cardinality_that_is_no_number(told):
    reader = vector_file(properties={"cardinality": told})
    with pytest.raises(CorruptVectorError, match=r"cardinality is '.*', expected a number at 4"):
        reader.read_vector(reader.blobs[0])


def test_a_vector_without_a_cardinality_property_is_read():
    reader = vector_file(properties={})
    assert reader.read_vector(reader.blobs[0]) == ROWS
