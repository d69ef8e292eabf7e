"""Compression of vectors of keys.

    roaring   the blob as it is: Roaring bitmaps are compressed already
    zstd      the blob in a zstd frame, as the footer of its Puffin file says

Vectors of positions are always plain, as Iceberg's specification asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import pyarrow as pa


class BlobCompression(Protocol):
    """``name``: in the table's properties. ``codec``: the blob's codec in the footer; None: none."""

    @property
    def name(self) -> str: ...

    @property
    def codec(self) -> str | None: ...

    def compress(self, data: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Roaring:
    name: ClassVar[str] = "roaring"
    codec: ClassVar[str | None] = None

    def compress(self, data: bytes) -> bytes:
        return data


@dataclass(frozen=True, slots=True)
class Zstd:
    name: ClassVar[str] = "zstd"
    codec: ClassVar[str | None] = "zstd"

    def compress(self, data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, self.codec) as stream:
            stream.write(data)
        compressed: bytes = sink.getvalue().to_pybytes()
        return compressed


ROARING = Roaring()
COMPRESSIONS: dict[str, BlobCompression] = {each.name: each for each in (ROARING, Zstd())}
"""By name."""
