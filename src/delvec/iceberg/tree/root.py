"""The root manifest of a snapshot: its files, its leaves, and which positions of the leaves are masked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.chunked import Rows, one_chunk
from delvec.errors import CorruptVectorError, FormatError
from delvec.iceberg.tree.content_stats import NO_STATS
from delvec.iceberg.tree.entries import (
    CONTENT_STATS,
    DATA,
    EQUALITY_DELETES,
    MANIFEST_DV,
    MANIFESTS,
    POSITION_DELETES,
    is_live,
    is_of,
    no_entries,
)
from delvec.iceberg.tree.manifest_files import LeafReader

FILES = (DATA, POSITION_DELETES, EQUALITY_DELETES)
PARQUET, AVRO = "parquet", "avro"


@dataclass(frozen=True, slots=True)
class Leaf:
    """The entry of a leaf in the root.

    row            its row in the root
    vector         the row of its live manifest vector
    live_entries   how many entries of the leaf are neither DELETED nor masked
    file_format    parquet; avro for a manifest from before the table had trees
    """

    row: int
    location: str
    size: int | None
    content_type: int
    snapshot_id: int
    sequence_number: int
    first_row_id: int | None
    record_count: int
    spec_id: int
    live_entries: int
    referenced_file: str | None = None
    vector: int | None = None
    file_format: str = PARQUET


class Root:
    """The entries of a root manifest, in the order of the file, DELETED ones too."""

    def __init__(self, entries: pa.Table) -> None:
        self.entries = entries
        live = is_live(entries)
        self.files: Rows = np.flatnonzero(live & is_of(entries, FILES))
        """The rows of live data files, vectors and equality deletes."""
        self._leaves: Rows = np.flatnonzero(live & is_of(entries, MANIFESTS))
        self._vectors: Rows = np.flatnonzero(live & is_of(entries, [MANIFEST_DV]))

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The live leaves, in the order of the root."""
        vectors = self._vector_of_leaf
        chosen = self.entries.drop_columns([CONTENT_STATS]).take(pa.array(self._leaves))
        masked = one_chunk(self.entries.column("record_count"))
        found = []
        for row, leaf in zip(self._leaves.tolist(), chosen.to_pylist(), strict=True):
            vector = vectors.get(leaf["location"])
            recorded = (leaf["added_files_count"] or 0) + (leaf["existing_files_count"] or 0)
            found.append(
                Leaf(
                    row=row,
                    location=leaf["location"],
                    size=leaf["file_size_in_bytes"],
                    content_type=leaf["content_type"],
                    snapshot_id=leaf["snapshot_id"],
                    sequence_number=leaf["sequence_number"],
                    first_row_id=leaf["first_row_id"],
                    record_count=leaf["record_count"],
                    spec_id=leaf["partition_spec_id"],
                    live_entries=recorded - (0 if vector is None else masked[vector].as_py()),
                    referenced_file=leaf["referenced_file"],
                    vector=vector,
                    file_format=leaf["file_format"],
                )
            )
        return tuple(found)

    @cached_property
    def leaf_at(self) -> dict[str, Leaf]:
        """The live leaves by location."""
        return {leaf.location: leaf for leaf in self.leaves}

    @cached_property
    def _vector_of_leaf(self) -> dict[str, int]:
        rows = self._vectors.tolist()
        leaves = self.entries.column("referenced_file").take(pa.array(self._vectors)).to_pylist()
        found = dict(zip(leaves, rows, strict=True))
        if len(found) < len(rows):
            twice = next(leaf for leaf in leaves if leaves.count(leaf) > 1)
            raise FormatError(f"leaf has two live manifest vectors, expected one: {twice}")
        return found

    def mask(self, leaf: Leaf, reader: LeafReader) -> Bitmap:
        """The positions of the leaf that its manifest vector masks."""
        if leaf.vector is None:
            return Bitmap()
        return manifest_vector(self.entries, leaf.vector, leaf, reader)


def manifest_vector(entries: pa.Table, row: int, leaf: Leaf, reader: LeafReader) -> Bitmap:
    """The manifest vector at a row of the root's entries, which belongs to ``leaf``."""
    vector = entries.slice(row, 1).to_pylist()[0]
    try:
        framed = vector["dv_inline"]
        if framed is None:
            framed = reader.blob(vector["location"], vector["dv_offset"], vector["dv_size_in_bytes"])
        mask = blob.decode(framed, expected_cardinality=vector["record_count"])
    except CorruptVectorError as error:
        raise CorruptVectorError(f"manifest vector of {leaf.location}: {error}") from None
    last = mask.max()
    if last is not None and last >= leaf.record_count:
        raise FormatError(
            f"manifest vector masks position {last}, expected positions below {leaf.record_count}, "
            "the number of entries of its leaf",
            path=leaf.location,
        )
    return mask


def empty_root(stats: pa.StructType = NO_STATS) -> Root:
    """The root before the table's first snapshot."""
    return Root(no_entries(stats))
