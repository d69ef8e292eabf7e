"""Avro files from Arrow columns: a header (`avro_header`), and blocks (`avro_blocks`) of deflated records."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import orjson
import pyarrow as pa

from delvec.chunked import one_chunk
from delvec.iceberg.avro_encoding import encode, joined
from delvec.iceberg.avro_header import CODEC, SCHEMA, SYNC_LENGTH, varint, write_header
from delvec.iceberg.avro_schema import Json

_BLOCK_SIZE = 64 * 1024
_DEFLATE = b"deflate"


def write_table(
    schema: Json, columns: Sequence[pa.Array | pa.ChunkedArray], metadata: Mapping[str, str]
) -> bytes:
    """An Avro file of records of the type ``schema``; ``metadata`` is added to its header.

    ``columns`` are those of all fields, in the order of the schema. A record inside of a record has no column
    of its own. A null in a field that is not a union is a FormatError.
    """
    named: dict[str, Json] = {}
    fields = _fields(schema, named)
    records = joined(
        [encode(one_chunk(column), kind, name) for column, (name, kind) in zip(columns, fields, strict=True)]
    )
    pairs = {SCHEMA: orjson.dumps(schema), CODEC: _DEFLATE}
    pairs |= {key: value.encode() for key, value in metadata.items()}
    sync = secrets.token_bytes(SYNC_LENGTH)
    return b"".join([write_header(pairs, sync), *_blocks(records, sync)])


def _fields(record: Json, named: dict[str, Json], parent: str = "") -> Iterator[tuple[str, Json]]:
    """Name and type of each field that has a column. ``named``: the fixed types that were defined so far."""
    for field in record["fields"]:
        name, kind = parent + field["name"], field["type"]
        if isinstance(kind, dict) and kind["type"] == "record":
            yield from _fields(kind, named, f"{name}.")
        elif isinstance(kind, list):
            yield name, [_resolved(branch, named) for branch in kind]
        else:
            yield name, _resolved(kind, named)


def _resolved(kind: Json, named: dict[str, Json]) -> Json:
    if isinstance(kind, dict) and kind["type"] == "fixed":
        named[kind["name"]] = kind
    return named.get(kind, kind) if isinstance(kind, str) else kind


def _blocks(records: pa.LargeBinaryArray, sync: bytes) -> Iterator[bytes]:
    if not len(records):
        return
    _, offset_bytes, buffer = records.buffers()
    offsets = np.frombuffer(offset_bytes, np.int64)[records.offset : records.offset + len(records) + 1]
    data = memoryview(buffer)
    steps = np.arange(offsets[0], offsets[-1], _BLOCK_SIZE)
    rows = np.unique([*np.searchsorted(offsets, steps), len(records)])
    for start, end in pairwise(rows.tolist()):
        compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        block = compressor.compress(data[offsets[start] : offsets[end]]) + compressor.flush()
        yield b"".join([varint(end - start), varint(len(block)), block, sync])
