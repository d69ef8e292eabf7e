"""The blocks of an Avro file, verified and decompressed.

    number of records   zigzag varint
    length              zigzag varint: bytes of the compressed records
    records             compressed by the codec of the header
    sync marker         16 bytes, as in the header

Every length is checked before the bytes are used. The decompressed size is limited: a damaged or malicious
file must not take memory out of proportion to its own size.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa

from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg.avro_header import NO_CODEC, SYNC_LENGTH, AvroHeader, Cursor

_MOST_SMALL_FILE = 64 * 1024 * 1024
_MOST_PER_BYTE = 256
_CRC_LENGTH = 4
_STEP = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Records:
    """The encoded records of all blocks, one after the other."""

    count: int
    data: bytes


def read_blocks(data: bytes, header: AvroHeader) -> Records:
    """The records of the file ``data``, decompressed."""
    decompress = _CODECS.get(header.codec)
    if decompress is None:
        raise UnsupportedFeatureError(
            f"Avro codec is {header.codec!r}, expected one of {', '.join(_CODECS)}",
            feature=f"Avro codec {header.codec}",
        )
    room = _MOST_SMALL_FILE + _MOST_PER_BYTE * len(data)
    cursor = Cursor(data, header.end)
    count, pieces = 0, []
    while not cursor.at_end:
        start = cursor.position
        records, length = cursor.number(), cursor.number()
        if records < 0:
            raise FormatError(f"Avro block has {records} records", offset=start)
        block = cursor.bytes(length)
        if cursor.bytes(SYNC_LENGTH) != header.sync:
            raise FormatError("Avro block does not end with the sync marker of the header", offset=start)
        piece = _decompressed(decompress, block, room, start)
        room -= len(piece)
        count += records
        pieces.append(piece)
    return Records(count, pieces[0] if len(pieces) == 1 else b"".join(pieces))


def _decompressed(decompress: Callable[[bytes, int], bytes], block: bytes, room: int, start: int) -> bytes:
    """``room``: how many bytes it may have."""
    try:
        piece = decompress(block, room)
    except (zlib.error, lzma.LZMAError, pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise FormatError(f"Avro block cannot be decompressed: {error}", offset=start) from None
    if len(piece) > room:
        raise FormatError("Avro block is out of proportion when decompressed", offset=start)
    return piece


def _deflate(block: bytes, room: int) -> bytes:
    decoder = zlib.decompressobj(-zlib.MAX_WBITS)
    piece = decoder.decompress(block, room + 1)
    if not decoder.eof and len(piece) <= room:
        raise ValueError("the deflate stream has no end")
    return piece


def _snappy(block: bytes, room: int) -> bytes:
    """Raw snappy, which starts with the decompressed size, and the CRC-32 of the decompressed bytes."""
    size = _varint(block)
    if size > room:
        raise ValueError("the decompressed size is out of proportion")
    if len(block) < _CRC_LENGTH:
        raise ValueError("the block has no checksum")
    body, crc = block[:-_CRC_LENGTH], int.from_bytes(block[-_CRC_LENGTH:], "big")
    piece: bytes = pa.Codec("snappy").decompress(body, size, asbytes=True) if size else b""
    if zlib.crc32(piece) != crc:
        raise ValueError(f"CRC is {zlib.crc32(piece):#010x}, expected {crc:#010x}")
    return piece


def _varint(block: bytes) -> int:
    value = 0
    for index, byte in enumerate(block[:5]):
        value |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return value
    raise ValueError("the decompressed size has no end")


def _zstandard(block: bytes, room: int) -> bytes:
    pieces, size = [], 0
    with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
        while size <= room and (piece := stream.read(_STEP)):
            pieces.append(piece)
            size += len(piece)
    return b"".join(pieces)


def _bzip2(block: bytes, room: int) -> bytes:
    decoder = bz2.BZ2Decompressor()
    piece = decoder.decompress(block, room + 1)
    if not decoder.eof and len(piece) <= room:
        raise ValueError("the bzip2 stream has no end")
    return piece


def _xz(block: bytes, room: int) -> bytes:
    decoder = lzma.LZMADecompressor()
    piece = decoder.decompress(block, room + 1)
    if not decoder.eof and len(piece) <= room:
        raise ValueError("the xz stream has no end")
    return piece


def _plain(block: bytes, room: int) -> bytes:  # noqa: ARG001 - as the others
    return block


_CODECS: Mapping[str, Callable[[bytes, int], bytes]] = MappingProxyType(
    {
        NO_CODEC: _plain,
        "deflate": _deflate,
        "snappy": _snappy,
        "zstandard": _zstandard,
        "bzip2": _bzip2,
        "xz": _xz,
    }
)
