"""``IcebergLake``: an Iceberg table as the contract suite writes it; `lake.Lake` is the same for Delta."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from iceberg_tables.avro import POSITION_DELETES
from iceberg_tables.files import File
from iceberg_tables.writer import IcebergWriter
from lake import FOLDERS, PREFIX, escaped, folder_text


@dataclass(frozen=True, eq=False)
class LakeFile:
    """A data file, and the rows of it that are deleted."""

    file: File
    path: str  # below the table
    deleted: frozenset[int] = frozenset()

    @property
    def size(self) -> int:
        return self.file.size

    @property
    def rows(self) -> tuple[Any, ...]:
        return self.file.rows


class IcebergLake:
    """A table at ``root``. ``write`` adds a file, ``commit`` a version."""

    def __init__(
        self,
        root: Path,
        schema: pa.Schema,
        *,
        format_version: int,
        partition_by: Sequence[str] = (),
        layout: str = FOLDERS,
        **options: Any,
    ) -> None:
        self.root, self.schema, self.layout = root, schema, layout
        self.partition_by = partition_by
        self.table = IcebergWriter(
            root, schema, format_version=format_version, partition_by=partition_by, **options
        )
        self.files: list[LakeFile] = []
        self.versions: list[int] = []
        self.operations: list[str] = []
        self._deletes: dict[LakeFile, frozenset[int]] = {}
        self._staged: list[LakeFile] = []
        self._dropped = False

    @property
    def live(self) -> list[Any]:
        return self.table.rows()

    def write(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        deleted: Iterable[int] = (),
        name: str | None = None,
        size: int | None = None,
    ) -> LakeFile:
        """A data file with these rows, for the next commit. ``name``: its path below the table."""
        values = {column: rows[0][column] for column in self.partition_by} if rows else {}
        path = name or self._path(values)
        found = LakeFile(self.table.add_file(rows, name=path, size=size), path)
        self._staged.append(found)
        return self.delete(found, deleted) if deleted else found

    def _path(self, values: Mapping[str, Any]) -> str:
        name = f"part-{len(self.files) + len(self._staged):05d}-{uuid.uuid4()}.parquet"
        match self.layout:
            case "folders":
                folders = [f"{escaped(column)}={folder_text(value)}" for column, value in values.items()]
                return "/".join(["data", *folders, name])
            case "prefix":
                assert self.layout == PREFIX
                return f"data/{uuid.uuid4().hex[:2]}/{name}"
        return f"data/{name}"

    def delete(self, file: LakeFile, positions: Iterable[int]) -> LakeFile:
        """Delete these rows of the file, too, in the next commit."""
        new = replace(file, deleted=file.deleted | frozenset(positions))
        self._deletes[new] = self._deletes.pop(file, frozenset()) | frozenset(positions)
        if file in self._staged:
            self._staged[self._staged.index(file)] = new
        else:
            self.files[self.files.index(file)] = new
        return new

    def commit(self, *, operation: str | None = None, at: int | None = None) -> int | None:
        """The version with what was written and deleted; an empty table has none. ``at``: in seconds.

        ``operation`` is a name of another format: the table finds its own.
        """
        del operation
        if not (self._staged or self._deletes or self._dropped):
            return None
        deletes = {file.file: positions for file, positions in self._deletes.items()}
        if deletes and self.table.format_version > 2:
            self.table.delete_by_vectors(deletes)
        else:
            for file, positions in deletes.items():
                self.table.delete_positions({file: positions}, referenced=True)
        if not self.versions:
            self.table.metadata_version = 0  # the first commit creates the table, as on other formats
        self.files += self._staged
        self._staged, self._deletes, self._dropped = [], {}, False
        return self._put(at=at and at * 1000)

    def replace_columns(self, schema: pa.Schema) -> None:
        """Other columns. Files that lack one of them have null there."""
        for name in set(self.schema.names) - set(schema.names):
            self.table.drop_column(name)
        for name in [name for name in schema.names if name not in self.schema.names]:
            self.table.add_column(schema.field(name))
        self.table.reorder_columns(schema.names)
        self.schema = schema

    def drop(self, file: LakeFile) -> None:
        """The next commit is without the file, whose data stays where it is."""
        self.files.remove(file)
        self.table.remove_file(file.file)
        self._dropped = True

    def forget(self, file: LakeFile) -> None:
        """A version without the file."""
        self.drop(file)
        self.commit()

    def _put(self, **options: Any) -> int:
        self.versions.append(self.table.commit(**options))
        self.operations.append(self.table.head.json["summary"]["operation"])
        return self.versions[-1]

    def vector_files(self) -> list[Path]:
        return sorted(self.root.rglob("*.puffin"))

    def vectors_end(self) -> int:
        """Where the vectors end in the newest of these files."""
        vectors = [entry.file for entry in self.table.head.entries(POSITION_DELETES) if entry.file.is_vector]
        return max((file.offset or 0) + (file.length or 0) for file in vectors)
