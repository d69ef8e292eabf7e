"""Vectors of keys: a Puffin file with one blob of the type ``equality-delete-vector-v1``.

The blob has the layout of a vector of positions (`delvec.blob`); its numbers stand for values of one column.

    equality-field-id   the column, by field id; also the only one of the blob's ``fields``
    cardinality         how many keys there are
    value-min, value-max   the smallest and the largest number
    partition-spec-id   the partition spec of the delete; -1: it applies to all data files
    codec               how values become numbers (`delvec.deletes.codecs`); none: ``long``

The blob is alone in its file: other readers take every blob beside a vector of positions for one, too. So the
file is read with one request.
"""

from __future__ import annotations

from dataclasses import dataclass

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.deletes.compression import ROARING, BlobCompression
from delvec.errors import CorruptVectorError, FormatError
from delvec.puffin import BlobMetadata, PuffinReader, PuffinWriter

EQUALITY_DELETE_VECTOR = "equality-delete-vector-v1"
FIELD_ID, CARDINALITY, SPEC_ID, CODEC = "equality-field-id", "cardinality", "partition-spec-id", "codec"
LOWEST, HIGHEST = "value-min", "value-max"
DEFAULT_CODEC = "long"
_GLOBAL = -1


@dataclass(frozen=True, slots=True)
class KeyVector:
    """Keys of one column as numbers. ``spec_id``: None for a delete that applies to all data files."""

    field_id: int
    numbers: Bitmap
    codec: str = DEFAULT_CODEC
    spec_id: int | None = None

    @property
    def properties(self) -> dict[str, str]:
        """The properties of the blob."""
        values = {
            FIELD_ID: self.field_id,
            CARDINALITY: self.numbers.cardinality,
            LOWEST: self.numbers.min(),
            HIGHEST: self.numbers.max(),
            SPEC_ID: _GLOBAL if self.spec_id is None else self.spec_id,
            CODEC: self.codec,
        }
        return {name: str(value) for name, value in values.items()}


def vector_file(vector: KeyVector, compression: BlobCompression = ROARING) -> tuple[bytes, BlobMetadata]:
    """The Puffin file with the vector, which is not empty, and where its blob is."""
    writer = PuffinWriter()
    placed = writer.add_blob(
        compression.compress(blob.encode(vector.numbers)),
        blob_type=EQUALITY_DELETE_VECTOR,
        fields=(vector.field_id,),
        properties=vector.properties,
        compression_codec=compression.codec,
    )
    return writer.finish(), placed


def read_vector_file(
    data: bytes, *, field_id: int, offset: int, length: int, cardinality: int | None = None
) -> KeyVector:
    """The vector in a Puffin file, checked against what the metadata records: its column, its place and the
    number of its keys. Errors have no path: callers add it.
    """
    reader = PuffinReader.from_bytes(data)
    placed = _blob_at(reader, offset, length)
    _verify_type(placed)
    _verify_number(placed, FIELD_ID, field_id)
    try:
        numbers = blob.decode(reader.read_blob(placed), expected_cardinality=cardinality)
    except CorruptVectorError as error:
        raise CorruptVectorError(error.message, offset=placed.offset) from error
    for name, actual in (
        (CARDINALITY, numbers.cardinality),
        (LOWEST, numbers.min()),
        (HIGHEST, numbers.max()),
    ):
        if name in placed.properties:
            _verify_number(placed, name, actual)
    spec_id = _number(placed, SPEC_ID) if SPEC_ID in placed.properties else _GLOBAL
    codec = placed.properties.get(CODEC, DEFAULT_CODEC)
    return KeyVector(field_id, numbers, codec, None if spec_id == _GLOBAL else spec_id)


def _blob_at(reader: PuffinReader, offset: int, length: int) -> BlobMetadata:
    for placed in reader.blobs:
        if (placed.offset, placed.length) == (offset, length):
            return placed
    places = ", ".join(f"{each.length} bytes at {each.offset}" for each in reader.blobs) or "none"
    raise FormatError(
        f"the Puffin file has the blobs: {places}; expected one of {length} bytes", offset=offset
    )


def _verify_type(placed: BlobMetadata) -> None:
    if placed.type != EQUALITY_DELETE_VECTOR:
        raise FormatError(
            f"blob of an equality delete has the type {placed.type!r}, expected {EQUALITY_DELETE_VECTOR!r}",
            offset=placed.offset,
        )


def _verify_number(placed: BlobMetadata, name: str, expected: int | None) -> None:
    actual = _number(placed, name)
    if actual != expected:
        raise CorruptVectorError(
            f"property {name} of a vector of keys is {actual}, expected {expected}", offset=placed.offset
        )


def _number(placed: BlobMetadata, name: str) -> int:
    text = placed.properties.get(name, "")
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise CorruptVectorError(
            f"property {name} of a vector of keys is {text!r}, expected a number", offset=placed.offset
        )
    return int(text)
