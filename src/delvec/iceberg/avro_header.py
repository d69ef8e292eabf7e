"""The header of an Avro file, as manifests and manifest lists have it.

    "Obj" 01                         magic
    map of text to bytes             avro.schema, avro.codec, and what the writer adds (format-version, …)
    16 bytes                         sync marker, repeated after each block
    blocks                           `avro_blocks`

A map is a list of pairs in one or more groups. A group is its number of pairs, and then these; a negative
number is followed by the group's size in bytes. The last group has no pairs. Numbers are zigzag varints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from delvec.errors import FormatError

MAGIC = b"Obj\x01"
SYNC_LENGTH = 16
SCHEMA, CODEC = "avro.schema", "avro.codec"
NO_CODEC = "null"

_MAX_VARINT_BYTES = 10


@dataclass(frozen=True, slots=True)
class AvroHeader:
    """Schema (as JSON values), metadata and codec of an Avro file. ``end``: where its blocks begin."""

    schema: Any
    metadata: Mapping[str, bytes]
    codec: str
    sync: bytes
    end: int

    def text(self, key: str) -> str | None:
        """A text of the metadata; None if it is missing."""
        value = self.metadata.get(key)
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            raise FormatError(f"Avro metadata {key} is not UTF-8") from None

    def number(self, key: str) -> int | None:
        """A number of the metadata, which is recorded as text; None if it is missing."""
        text = self.text(key)
        if text is None:
            return None
        if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20):
            raise FormatError(f"Avro metadata {key} is {text[:40]!r}, expected a number")
        return int(text)


class Cursor:
    """Reads the primitive values of Avro's encoding, one after the other. Never reads beyond the data."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.data)

    def number(self) -> int:
        """A zigzag varint of at most 64 bits."""
        value = shift = 0
        for byte in self.data[self.position : self.position + _MAX_VARINT_BYTES]:
            self.position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return (value >> 1) ^ -(value & 1)
        raise FormatError("Avro number has no end, expected at most 10 bytes", offset=self.position)

    def bytes(self, length: int) -> bytes:
        """The next ``length`` bytes."""
        end = self.position + length
        if length < 0 or end > len(self.data):
            left = len(self.data) - self.position
            raise FormatError(f"Avro value of {length} bytes, {left} are left", offset=self.position)
        piece = self.data[self.position : end]
        self.position = end
        return piece


def read_header(data: bytes) -> AvroHeader:
    """The header at the beginning of ``data``. FormatError if it is not that of an Avro file."""
    if data[: len(MAGIC)] != MAGIC:
        raise FormatError(
            f"file starts with {data[: len(MAGIC)].hex() or 'nothing'}, expected Avro's 4f626a01"
        )
    cursor = Cursor(data, len(MAGIC))
    metadata = _read_map(cursor)
    if SCHEMA not in metadata:
        raise FormatError(f"Avro header has no {SCHEMA}")
    try:
        schema = orjson.loads(metadata[SCHEMA])
    except orjson.JSONDecodeError:
        raise FormatError(f"Avro header has an {SCHEMA} that is not JSON") from None
    sync = cursor.bytes(SYNC_LENGTH)
    codec = metadata.get(CODEC, NO_CODEC.encode()).decode("ascii", "backslashreplace")
    return AvroHeader(schema, metadata, codec, sync, cursor.position)


def _read_map(cursor: Cursor) -> dict[str, bytes]:
    pairs: dict[str, bytes] = {}
    while count := cursor.number():
        if count < 0:
            count = -count
            cursor.number()  # the size of the group in bytes
        for _ in range(count):  # each pair has a byte at least, so a false count ends with the data
            key = cursor.bytes(cursor.number())
            pairs[key.decode("utf-8", "backslashreplace")] = cursor.bytes(cursor.number())
    return pairs


def write_header(pairs: Mapping[str, bytes], sync: bytes) -> bytes:
    """The header that `read_header` reads."""
    written = b"".join(_sized(key.encode()) + _sized(value) for key, value in pairs.items())
    return b"".join([MAGIC, varint(len(pairs)), written, varint(0), sync])


def varint(value: int) -> bytes:
    """A number that is not negative, as a zigzag varint."""
    value <<= 1
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def _sized(data: bytes) -> bytes:
    return varint(len(data)) + data
