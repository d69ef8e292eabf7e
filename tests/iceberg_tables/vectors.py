"""Deletion vectors and Puffin files, byte by byte."""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyroaring import BitMap64

MAGIC = b"PFA1"
VECTOR_MAGIC = bytes.fromhex("d1d33964")
VECTOR_TYPE = "deletion-vector-v1"
_ROW_POSITION = 2147483645


@dataclass(frozen=True)
class Blob:
    """A blob of a Puffin file; ``offset`` is its place in the file."""

    data: bytes
    properties: dict[str, str]
    type: str = VECTOR_TYPE
    offset: int = 0

    def footer(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "fields": [_ROW_POSITION],
            "snapshot-id": -1,
            "sequence-number": -1,
            "offset": self.offset,
            "length": len(self.data),
            "properties": self.properties,
        }


def vector_bytes(positions: Iterable[int]) -> bytes:
    bitmap = BitMap64(array("Q", sorted(positions)))
    bitmap.run_optimize()
    bare = VECTOR_MAGIC + bitmap.serialize()
    return struct.pack(">I", len(bare)) + bare + struct.pack(">I", zlib.crc32(bare))


def vector(positions: Iterable[int], data_file: str) -> Blob:
    held = set(positions)
    return Blob(vector_bytes(held), {"referenced-data-file": data_file, "cardinality": str(len(held))})


def puffin(blobs: Iterable[Blob]) -> tuple[bytes, list[Blob]]:
    """The bytes of a Puffin file, and the blobs with their offsets."""
    data, placed = MAGIC, []
    for blob in blobs:
        placed.append(Blob(blob.data, blob.properties, blob.type, len(data)))
        data += blob.data
    footer = {"blobs": [blob.footer() for blob in placed], "properties": {"created-by": "delvec tests"}}
    payload = json.dumps(footer).encode()
    return data + MAGIC + payload + struct.pack("<iI4s", len(payload), 0, MAGIC), placed
