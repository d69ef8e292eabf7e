"""Puffin files: blobs one after another, and a footer that describes them.

    "PFA1"
      blobs
    footer:
      "PFA1"
      JSON payload (see `footer`), LZ4-compressed if flag bit 0 is set
      i32 LE  payload size as stored
      4 bytes flags: byte 0 bit 0 = compressed payload, all others reserved
      "PFA1"

Vectors must be uncompressed. Blobs of other types may be compressed with zstd or LZ4. delvec reads compressed
and uncompressed footers, and writes uncompressed ones, because not every reader supports compressed footers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.errors import CorruptVectorError, FormatError, InvalidOperationError, UnsupportedFeatureError
from delvec.puffin.footer import BlobMetadata, parse_footer, render_footer
from delvec.version import __version__

__all__ = ["BlobMetadata", "PuffinReader", "PuffinWriter"]

MAGIC = b"PFA1"
FLAG_COMPRESSED_PAYLOAD = 1
DELETION_VECTOR = "deletion-vector-v1"
ROW_POSITION_FIELD = 2147483645
"""The field id of the reserved column ``_pos``."""
REFERENCED_DATA_FILE = "referenced-data-file"
CARDINALITY = "cardinality"
CREATED_BY = "created-by"
NOT_ASSIGNED = -1
"""The snapshot id and sequence number of a vector: it inherits those of the commit that adds it."""

MAX_EXPANSION = 1024
"""A payload that decompresses to more than 16 MiB and more than this factor is refused: it may be a zip bomb.
"""
_EXPANSION_FLOOR = 16 << 20
_DECOMPRESSED_CHUNK = 1 << 18

_TRAILER = struct.Struct("<iI4s")
_MIN_SIZE = 2 * len(MAGIC) + _TRAILER.size
# One request of this size reads the complete footer of nearly every file.
_TAIL_SIZE = 8192
_CODECS = ("zstd", "lz4")
_MAX_DIGITS = 19

Read = Callable[[int, int], bytes]
"""``read(offset, length)``: that many bytes of the file."""


class PuffinReader:
    """An open Puffin file. Opening reads and verifies the footer; blobs are read on demand.

    Opening takes one request, or two if the footer is larger than 8 KiB. The magic at the beginning of the
    file is checked only if these requests read it.
    """

    def __init__(self, read: Read, size: int, *, tail_size: int = _TAIL_SIZE) -> None:
        self._read = read
        _check_file_size(size)
        tail_start = max(size - max(tail_size, _MIN_SIZE), 0)
        tail = self._exactly(tail_start, size - tail_start)
        payload_size, flags, magic = _TRAILER.unpack(tail[-_TRAILER.size :])
        _check_magic(magic, "end", size - len(MAGIC))
        _check_flags(flags, size)
        _check_payload_size(payload_size, size)
        footer_start = size - _TRAILER.size - payload_size - len(MAGIC)
        if footer_start < tail_start:
            tail = self._exactly(footer_start, tail_start - footer_start) + tail
            tail_start = footer_start
        footer = tail[footer_start - tail_start : -_TRAILER.size]
        _check_magic(footer[: len(MAGIC)], "beginning of the footer", footer_start)
        if tail_start == 0:
            _check_magic(tail[: len(MAGIC)], "beginning", 0)
        payload = footer[len(MAGIC) :]
        if flags & FLAG_COMPRESSED_PAYLOAD:
            payload = _decompress(payload, "lz4", "Puffin footer")
        self.blobs, self.properties = parse_footer(payload, blobs_from=len(MAGIC), blobs_to=footer_start)

    @classmethod
    def from_bytes(cls, data: bytes) -> PuffinReader:
        """A reader of a whole file in memory."""
        return cls(lambda offset, length: data[offset : offset + length], len(data), tail_size=len(data))

    def read_blob(self, metadata: BlobMetadata) -> bytes:
        """The blob's content, decompressed."""
        stored = self._exactly(metadata.offset, metadata.length)
        codec = metadata.compression_codec
        if codec is None:
            return stored
        if codec not in _CODECS:
            raise UnsupportedFeatureError(
                f"compression codec of a Puffin blob is {codec!r}, expected zstd or lz4", feature=codec
            )
        return _decompress(stored, codec, f"Puffin blob at {metadata.offset}")

    def read_vector(self, metadata: BlobMetadata) -> Bitmap:
        """The set in a vector blob, checked against the cardinality in the blob's properties."""
        if metadata.compression_codec is not None:
            raise CorruptVectorError(
                f"vector blob is compressed with {metadata.compression_codec}, expected no compression",
                offset=metadata.offset,
            )
        cardinality = _recorded_cardinality(metadata)
        try:
            return blob.decode(self.read_blob(metadata), expected_cardinality=cardinality)
        except CorruptVectorError as error:
            raise CorruptVectorError(error.message, offset=metadata.offset) from error

    def _exactly(self, offset: int, length: int) -> bytes:
        data = self._read(offset, length)
        if len(data) != length:
            raise FormatError(f"Puffin file gave {len(data)} bytes, expected {length}", offset=offset)
        return data


class PuffinWriter:
    """Builds a Puffin file in memory: add blobs, then `finish`.

    A file with deletion vectors has no other blobs: some readers would read them as vectors.
    """

    def __init__(self, *, properties: Mapping[str, str] | None = None) -> None:
        self._properties = {CREATED_BY: f"delvec {__version__}", **(properties or {})}
        self._pieces = [MAGIC]
        self._offset = len(MAGIC)
        self._blobs: list[BlobMetadata] = []
        self._finished = False

    @property
    def blobs(self) -> tuple[BlobMetadata, ...]:
        """The blobs added so far, with offsets and lengths."""
        return tuple(self._blobs)

    def add_blob(
        self,
        data: bytes,
        *,
        blob_type: str,
        fields: Sequence[int],
        properties: Mapping[str, str] | None = None,
        snapshot_id: int = NOT_ASSIGNED,
        sequence_number: int = NOT_ASSIGNED,
        compression_codec: str | None = None,
    ) -> BlobMetadata:
        """Append ``data`` unchanged; returns its metadata with its offset. ``compression_codec``: how the
        caller has compressed it.
        """
        self._check_open()
        self._check_neighbours(blob_type)
        metadata = BlobMetadata(
            type=blob_type,
            fields=tuple(fields),
            snapshot_id=snapshot_id,
            sequence_number=sequence_number,
            offset=self._offset,
            length=len(data),
            compression_codec=compression_codec,
            properties=dict(properties or {}),
        )
        self._pieces.append(data)
        self._offset += len(data)
        self._blobs.append(metadata)
        return metadata

    def add_vector(self, bitmap: Bitmap, referenced_data_file: str) -> BlobMetadata:
        """Append the deletion vector of one data file."""
        return self.add_blob(
            blob.encode(bitmap),
            blob_type=DELETION_VECTOR,
            fields=(ROW_POSITION_FIELD,),
            properties={REFERENCED_DATA_FILE: referenced_data_file, CARDINALITY: str(bitmap.cardinality)},
        )

    def finish(self) -> bytes:
        """The whole file; nothing can be added after."""
        self._check_open()
        self._finished = True
        payload = render_footer(self._blobs, self._properties)
        return b"".join((*self._pieces, MAGIC, payload, _TRAILER.pack(len(payload), 0, MAGIC)))

    def _check_open(self) -> None:
        if self._finished:
            raise InvalidOperationError("Puffin file is finished, expected one that is still open")

    def _check_neighbours(self, blob_type: str) -> None:
        for present in self._blobs[:1]:
            if present.type != blob_type and DELETION_VECTOR in (present.type, blob_type):
                raise InvalidOperationError(
                    f"blob type is {blob_type!r} beside {present.type!r}, "
                    f"expected {DELETION_VECTOR!r} in a file of its own"
                )


def _decompress(data: bytes, codec: str, what: str) -> bytes:
    limit = max(len(data) * MAX_EXPANSION, _EXPANSION_FLOOR)
    pieces: list[bytes] = []
    total = 0
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
            while piece := stream.read(_DECOMPRESSED_CHUNK):
                pieces.append(piece)
                total += len(piece)
                _check_expansion(total, limit, what)
    except (OSError, pa.ArrowException) as error:
        raise FormatError(f"{what} is not {codec}: {error}") from error
    if not data:
        raise FormatError(f"{what} is empty, expected a {codec} frame")
    return b"".join(pieces)


def _recorded_cardinality(metadata: BlobMetadata) -> int | None:
    text = metadata.properties.get(CARDINALITY)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise CorruptVectorError(f"cardinality is {text!r}, expected a number", offset=metadata.offset)
    return int(text)


def _check_expansion(total: int, limit: int, what: str) -> None:
    if total > limit:
        raise FormatError(f"{what} decompresses to more than {limit} bytes, expected at most that")


def _check_file_size(size: int) -> None:
    if size < _MIN_SIZE:
        raise FormatError(f"Puffin file is {size} bytes, expected at least {_MIN_SIZE}")


def _check_magic(actual: bytes, where: str, offset: int) -> None:
    if actual != MAGIC:
        # The message does not show the bytes: they may belong to another file, and be secret.
        raise FormatError(
            f"not a Puffin file, expected the magic {MAGIC.hex()} at the {where}", offset=offset
        )


def _check_flags(flags: int, size: int) -> None:
    if flags & ~FLAG_COMPRESSED_PAYLOAD:
        raise FormatError(
            f"Puffin flags are 0x{flags:08x}, expected none but 0x{FLAG_COMPRESSED_PAYLOAD:08x}",
            offset=size - 2 * len(MAGIC),
        )


def _check_payload_size(payload_size: int, size: int) -> None:
    available = size - _MIN_SIZE
    if not 0 <= payload_size <= available:
        raise FormatError(
            f"Puffin footer payload is {payload_size} bytes, expected from 0 to {available}",
            offset=size - _TRAILER.size,
        )
