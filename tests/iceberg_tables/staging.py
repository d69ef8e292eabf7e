"""Files for the next commit of an Iceberg table: data, vectors, position deletes, equality deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from iceberg_tables.avro import DATA, EQUALITY_DELETES, POSITION_DELETES
from iceberg_tables.columns import StructType, compatible_name
from iceberg_tables.files import (
    File,
    Row,
    Spec,
    column_stats,
    id_field,
    parquet_bytes,
    position_delete_bytes,
    position_stats,
)
from iceberg_tables.state import MAIN, TableState
from iceberg_tables.vectors import puffin, vector

_ROW_ID, _ROW_VERSION = 2147483540, 2147483539


class Staging(TableState):
    """What is staged belongs to the next commit."""

    # Staged files

    def add_file(
        self,
        rows: Sequence[Row],
        *,
        name: str | None = None,
        ids: bool | None = None,
        stats: bool | None = None,
        names: Callable[[str], str] | None = None,
        without: Sequence[str] = (),
        row_ids: Sequence[int | None] | None = None,
        row_versions: Sequence[int | None] | None = None,
        partition: tuple[Any, ...] | None = None,
        sequence: int | None = None,
        size: int | None = None,
    ) -> File:
        """A data file with these rows, which are all of one partition.

        ``name``: its path below the table. ``names``: how it writes column names. ``without``: columns that
        it does not store. ``row_ids``, ``row_versions``: stored row lineage. ``sequence``: its data sequence
        number, as of a compaction.
        """
        found = {self.spec.partition(row, self.schema) for row in rows}
        if partition is None:
            assert len(found) <= 1, "rows of several partitions"
            partition = found.pop() if found else (None,) * len(self.spec.fields)
        more = {}
        if row_ids is not None:
            more[id_field(_ROW_ID, "_row_id", pa.int64())] = row_ids
        if row_versions is not None:
            more[id_field(_ROW_VERSION, "_last_updated_sequence_number", pa.int64())] = row_versions
        ids = self.ids if ids is None else ids
        held = StructType(tuple(column for column in self.schema if column.name not in without))
        data = parquet_bytes(
            rows,
            held,
            ids=ids,
            name=names or (compatible_name if ids else str),
            more=more,
            row_group_size=self.row_group_size,
            size=size,
        )
        path = self._put(name or self._file_name("data", "parquet"), data)
        model = tuple({column.name: row.get(column.name) for column in self.schema} for row in rows)
        stats = self.stats if stats is None else stats
        file = File(
            DATA,
            path,
            "PARQUET",
            self.spec,
            partition,
            len(rows),
            len(data),
            self.schema,
            rows=model,
            stats=column_stats(model, held) if stats else {},
            row_ids=row_ids,
            row_versions=row_versions,
        )
        return self._stage(file, sequence)

    def delete_rows(self, file: File, positions: Iterable[int], *, branch: str = MAIN) -> File:
        """Rows of one file: by a vector in v3, which also has the rows that were deleted before; by a
        position-delete file in v2.
        """
        if self.format_version < 3:
            return self.delete_positions({file: positions})[0]
        return self.delete_by_vectors({file: positions}, branch=branch)[0]

    def delete_by_vectors(
        self, positions: Mapping[File, Iterable[int]], *, branch: str = MAIN, united: bool = True
    ) -> list[File]:
        """A vector for each file, all in one Puffin file. ``united``: they replace older ones."""
        blobs = []
        for file, rows in positions.items():
            held = frozenset(rows)
            if united:
                held |= self._positions_before(file, branch)
            blobs.append((file, vector(held, file.path), held))
        data, placed = puffin(blob for _, blob, _ in blobs)
        path = self._put(self._file_name("data", "puffin"), data)
        return [
            self._stage(
                File(
                    POSITION_DELETES,
                    path,
                    "PUFFIN",
                    file.spec,
                    file.partition,
                    len(held),
                    len(data),
                    file.schema,
                    positions={file.path: held},
                    referenced=file.path,
                    offset=blob.offset,
                    length=len(blob.data),
                )
            )
            for (file, _, held), blob in zip(blobs, placed, strict=True)
        ]

    def _positions_before(self, file: File, branch: str) -> frozenset[int]:
        """The rows that a new vector of the file unites; what they were in is removed if it is the file's."""
        found: frozenset[int] = frozenset()
        for old in [entry.file for entry in self._head(branch).entries(POSITION_DELETES)]:
            if old.key not in self._removed and (old.referenced or file.path) == file.path:
                found |= old.positions.get(file.path, frozenset())
                if old.referenced == file.path:
                    self._removed.add(old.key)
        staged = [each for each, _ in self._added if each.is_vector and each.referenced == file.path]
        assert not staged, "two vectors of one file in one commit"
        return found

    def delete_positions(
        self, positions: Mapping[File, Iterable[int]], *, referenced: bool = False
    ) -> list[File]:
        """A position-delete file for each partition. ``referenced``: those of one file say so."""
        parts: dict[tuple[int, tuple[Any, ...]], dict[File, frozenset[int]]] = {}
        for file, rows in positions.items():
            parts.setdefault((file.spec.id, file.partition), {})[file] = frozenset(rows)
        found = []
        for part in parts.values():
            first = next(iter(part))
            data = position_delete_bytes((file.path, row) for file, rows in part.items() for row in rows)
            delete = File(
                POSITION_DELETES,
                self._put(self._file_name("data", "deletes.parquet"), data),
                "PARQUET",
                first.spec,
                first.partition,
                sum(map(len, part.values())),
                len(data),
                first.schema,
                positions={file.path: rows for file, rows in part.items()},
                stats=position_stats(file.path for file in part),
                referenced=first.path if referenced and len(part) == 1 else None,
            )
            found.append(self._stage(delete))
        return found

    def delete_keys(
        self,
        keys: Sequence[Row],
        *,
        on: Sequence[str],
        partition: Row | None = None,
        beside: File | None = None,
        spec: Spec | None = None,
        ids: bool = True,
        sequence: int | None = None,
    ) -> File:
        """An equality-delete file: rows with these values in the columns ``on``.

        ``partition``: a row of the partition in which it applies; or ``beside``: a file of that partition.
        Columns of the keys that are not in ``on`` are stored, too, and must be ignored.
        """
        spec = beside.spec if beside else spec or self.spec
        names = [column.name for column in self.schema if keys and column.name in keys[0]]
        held = StructType(tuple(self.schema.find(name) for name in names))
        data = parquet_bytes(keys, held, ids=ids, name=compatible_name if ids else str)
        file = File(
            EQUALITY_DELETES,
            self._put(self._file_name("data", "equality.parquet"), data),
            "PARQUET",
            spec,
            beside.partition if beside else spec.partition(partition or {}, self.schema),
            len(keys),
            len(data),
            held,
            rows=tuple(keys),
            stats=column_stats(keys, held) if self.stats else {},
            equality_ids=tuple(self.schema.find(name).id for name in on),
        )
        return self._stage(file, sequence)

    def remove_file(self, file: File, *, branch: str = MAIN) -> None:
        """The file, and the deletes that name it alone, are not in the next snapshot."""
        self._removed.add(file.key)
        for entry in self._head(branch).entries(POSITION_DELETES):
            if entry.file.referenced == file.path:
                self._removed.add(entry.file.key)

    def _stage(self, file: File, sequence: int | None = None) -> File:
        self._added.append((file, sequence))
        return file
