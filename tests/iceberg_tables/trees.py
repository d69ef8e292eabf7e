"""A table of format version 4 that is written by commits of deltas, and its trees, read naively."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa

import naive_tree
from delvec.detect import open_table
from delvec.iceberg.pointers import FolderPointer
from delvec.iceberg.swaps import Swapped
from delvec.iceberg.table import IcebergTable
from delvec.iceberg.tree.limits import PROPERTIES, TreeLimits
from delvec.partition_spec import PartitionField
from delvec.row_delta import Verb
from delvec.schema import Field, Primitive, Struct
from delvec.storage import Storage
from delvec.transforms import parse_transform
from iceberg_tables.commits import COLUMNS, Model
from iceberg_tables.key_deletes import COLUMNS as COLUMNS_WITH_NAMES
from iceberg_tables.key_deletes import ROWS, KeyLake

_TYPES = {"id": "long", "p": "integer", "name": "string"}

LIMITS = dict(zip((field.name for field in fields(TreeLimits)), PROPERTIES, strict=True))


class TreeModel(Model):
    """``limits``: properties of the tree, by the names of ``TreeLimits``: ``root_data_files=2``."""

    def __init__(
        self, root: Path, *, partitioned: bool = True, columns: pa.Schema = COLUMNS, **limits: int
    ) -> None:
        self.columns = columns
        schema = Struct(tuple(Field(name, Primitive(_TYPES[name])) for name in columns.names))
        properties = {LIMITS[name]: str(value) for name, value in limits.items()}
        draft = IcebergTable(Storage(str(root))).draft(
            schema,
            partition_by=[PartitionField("p", ("p",), parse_transform("identity"), Primitive("integer"))]
            if partitioned
            else [],
            properties=properties,
            format_version=4,
        )
        assert isinstance(FolderPointer().commit(draft.storage, None, draft.opened.creation), Swapped)
        self._open(root, 4)

    @property
    def root_file(self) -> str | None:
        metadata = self.metadata()
        found = [
            str(snapshot["root-manifest"])
            for snapshot in metadata["snapshots"]
            if snapshot["snapshot-id"] == metadata["current-snapshot-id"]
        ]
        return found[0] if found else None

    def root_entries(self, place: str | None = None) -> list[dict[str, Any]]:
        """The entries of a root, by default the current one, as a reader in plain Python has them."""
        place = place or self.root_file
        return [] if place is None else naive_tree.parquet_entries(Path(place).read_bytes())

    def live(self, root: list[dict[str, Any]] | None = None) -> list[naive_tree.Live]:
        """The live entries of a root, by the naive reader."""
        entries = self.root_entries() if root is None else root
        return naive_tree.live_entries(
            entries, lambda place: naive_tree.parquet_entries(Path(place).read_bytes()), read_blob
        )

    def check_entries(self) -> None:
        """The naive reader finds the model's files; row ids are unique, and below the table's next one."""
        live, metadata = self.live(), self.metadata()
        data = {entry.name: entry for entry in live if entry.content == naive_tree.DATA}
        assert data.keys() == self.files.keys()
        deleted = {entry.referenced: entry.rows for entry in live if entry.content == naive_tree.VECTOR}
        assert deleted == {path: len(positions) for path, (_, positions) in self.files.items() if positions}
        ids = [
            number
            for entry in data.values()
            for number in range(entry.first_row_id or 0, (entry.first_row_id or 0) + entry.rows)
        ]
        assert len(ids) == len(set(ids))
        assert all(number < metadata["next-row-id"] for number in ids)
        sequences = [snapshot["sequence-number"] for snapshot in metadata["snapshots"]]
        assert metadata["last-sequence-number"] == max(sequences, default=0)
        self.check_inherited(data)

    def check_inherited(self, data: dict[str, naive_tree.Live]) -> None:
        """delvec's own reader gives the files what the naive reader gives them."""
        plan = open_table(str(self.root)).snapshot().plan()
        found = {
            row["raw_location"]: (row["data_sequence"], row["file_sequence"], row["first_row_id"])
            for row in plan.files.to_pylist()
        }
        assert found == {
            name: (entry.sequence, entry.file_sequence, entry.first_row_id) for name, entry in data.items()
        }


def read_blob(place: str, offset: int, length: int) -> bytes:
    return Path(place).read_bytes()[offset : offset + length]


class TreeKeyLake(KeyLake):
    """A table with two data files, one for each ``p``, and commits of deletes. ``limits``: as `TreeModel`."""

    def __init__(self, root: Path, **limits: int) -> None:
        self.root = root
        self.model = TreeModel(root, columns=COLUMNS_WITH_NAMES, **limits)
        self.table = open_table(str(root))
        for p in range(2):
            self.append([row for row in ROWS if row["p"] == p])

    def append(self, rows: list[dict[str, Any]]) -> None:
        """A data file."""
        self.model.commit(add=[self.model.new_file(len(rows), rows[0]["p"], rows=rows)], verb=Verb.APPEND)

    def delete(self, number: int, positions: list[int]) -> None:
        """Rows of a data file, by a vector."""
        self.model.commit(delete={list(self.model.files)[number]: positions}, verb=Verb.DELETE)
