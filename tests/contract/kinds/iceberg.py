"""Kinds of Iceberg tables. Those of versions 2 and 3 are only read; a test writer writes them."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import naive_tree
from connector_rows import connector_rows
from contract.kinds.kind import (
    ANY_COLUMN_NAMES,
    NESTED_COLUMNS,
    POSITION_FILES,
    ROW_IDS,
    TYPE_WIDENING,
    VECTOR_FILES,
    VECTORS_OFF,
    Change,
    Kind,
    Written,
)
from iceberg_tables.lake import IcebergLake
from iceberg_tables.readers import read_by_duckdb, read_by_pyiceberg
from scanning import opened

_CANNOT_WRITE = "Iceberg tables cannot be written yet"


@dataclass(frozen=True)
class IcebergKind(Kind):
    def properties(self, *features: str) -> Mapping[str, str]:
        known = {NESTED_COLUMNS, POSITION_FILES}
        return {} if known.issuperset(features) else {}[next(iter(set(features) - known))]

    def lake(self, root: Path, schema: Any, **options: Any) -> IcebergLake:
        return IcebergLake(root, schema, format_version=self.format_version or 2, **options)

    def history(
        self, spark: Any, place: Any, ddl: str, rows: Any, *changes: Change, **options: Any
    ) -> tuple[Any, list[int]]:
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        schema = to_arrow_schema(StructType.fromDDL(ddl))
        lake = self.lake(Path(place), schema, **options)
        _write(lake, [dict(zip(schema.names, row, strict=True)) for row in rows])
        lake.commit()
        for change in changes:
            _change(lake, change)
            lake.commit()
        return opened(spark, lake), lake.versions

    def table(self, spark: Any, place: Any, ddl: str, rows: Any = (), **options: Any) -> Any:
        return self.history(spark, place, ddl, rows, **options)[0]

    def constraint(self, name: str, condition: str) -> Mapping[str, str]:
        raise NotImplementedError(_CANNOT_WRITE)

    def written(self, table: Any, version: int | None = None) -> Written:
        raise NotImplementedError(_CANNOT_WRITE)

    def changes(self, table: Any, version: int | None = None) -> Counter[tuple[Any, ...]]:
        raise NotImplementedError(_CANNOT_WRITE)

    def switch_vectors(self, *, on: bool) -> Mapping[str, str]:
        raise NotImplementedError(_CANNOT_WRITE)


_PROPERTIES: dict[str, dict[str, str]] = {
    NESTED_COLUMNS: {},
    ROW_IDS: {},
    ANY_COLUMN_NAMES: {},
    VECTORS_OFF: {f"write.{verb}.mode": "copy-on-write" for verb in ("delete", "update", "merge")},
    TYPE_WIDENING: {},
}


@dataclass(frozen=True)
class TreeKind(Kind):
    """Tables with metadata trees: only delvec reads and writes them. A DELETE counts its rows unless
    `random_deletes` lets it store keys.
    """

    def properties(self, *features: str) -> Mapping[str, str]:
        return {VECTORS_OF_KEYS: "false"} | {
            key: value for feature in features for key, value in _PROPERTIES[feature].items()
        }

    def constraint(self, name: str, condition: str) -> Mapping[str, str]:  # noqa: ARG002
        pytest.skip("Iceberg tables have no constraints")

    def rows_at(self, table: Any, version: int) -> list[dict[str, Any]]:
        """Files with lists or maps have no field ids: the connector finds their columns by name."""
        if table.snapshot(version).record is None:
            return []
        return connector_rows(table.location, version=version)

    def number(self, table: Any, version: int) -> int:
        """Changes of metadata make no version, and a table that was created without rows has none."""
        chain = self._chain(table)
        path = Path(table.location) / "metadata/v1.metadata.json"
        was_empty = not json.loads(path.read_text())["snapshots"]
        return chain[::-1].index(version) + was_empty

    def commits_since(self, table: Any, version: int) -> int:
        chain = self._chain(table)
        return chain.index(version) if version in chain else len(chain)

    def _chain(self, table: Any) -> list[int]:
        """The newest snapshot and its ancestors."""
        metadata = table._table.snapshot().metadata
        found, current = [], metadata.current_snapshot_id
        while current is not None:
            found.append(current)
            current = metadata.snapshots[current].parent_id
        return found

    def written(self, table: Any, version: int | None = None) -> Written:
        snapshot = table._table.snapshot(version)
        now, before = (
            self._live(snapshot, number) for number in (snapshot.version, snapshot.record.parent_id)
        )
        return Written(
            added=len(now.keys() - before.keys()),
            removed=len(before.keys() - now.keys()),
            more_deleted=sum(now[path] > before[path] for path in now.keys() & before.keys()),
        )

    def changes(self, table: Any, version: int | None = None) -> Counter[tuple[Any, ...]]:  # noqa: ARG002
        pytest.skip("Iceberg tables have no change files")

    def lake(self, root: Path, schema: Any, **options: Any) -> Any:  # noqa: ARG002
        pytest.skip("only delvec writes tables with trees")

    def switch_vectors(self, *, on: bool) -> Mapping[str, str]:
        mode = "merge-on-read" if on else "copy-on-write"
        return dict.fromkeys(_PROPERTIES[VECTORS_OFF], mode)

    def random_properties(self, rng: random.Random) -> dict[str, str]:
        return {
            "delvec.tree.root-data-files": rng.choice(["0", "2", "1000"]),
            "delvec.tree.root-deletes": rng.choice(["0", "2", "1000"]),
            "delvec.tree.leaf-entries": rng.choice(["1", "3", "10000"]),
            "delvec.tree.inline-vector-bytes": rng.choice(["0", "2048"]),
            "delvec.tree.affiliated-entries": rng.choice(["1", "2", "32"]),
        }

    def random_deletes(self, rng: random.Random) -> dict[str, str]:
        return random_deletes(rng)

    def _live(self, snapshot: Any, number: int | None) -> dict[str, int]:
        """The data files of a snapshot with the number of their deleted rows, by a naive reader."""
        if number is None:
            return {}

        def parsed(place: str) -> Any:
            path = Path(snapshot.locations.resolve(place))
            return naive_tree.parquet_entries(path.read_bytes())

        def blob(place: str, offset: int, length: int) -> bytes:
            return Path(snapshot.locations.resolve(place)).read_bytes()[offset : offset + length]

        root = snapshot.metadata.snapshots[number].root_manifest
        live = naive_tree.live_entries(parsed(root), parsed, blob)
        deleted = {entry.referenced: entry.rows for entry in live if entry.content == naive_tree.VECTOR}
        return {entry.name: deleted.get(entry.name, 0) for entry in live if entry.content == naive_tree.DATA}


VECTORS_OF_KEYS, ENCODING_HINT = "write.delete.equality-vector.enabled", "write.delete.encoding-hint"


def random_deletes(rng: random.Random) -> dict[str, str]:
    """Whether keys may be vectors, and DELETE may store keys; and which encoding is preferred."""
    return {
        VECTORS_OF_KEYS: rng.choice(["true", "true", "false"]),
        ENCODING_HINT: rng.choice(["auto", "deletion-vector", "full-row"]),
    }


def _write(lake: IcebergLake, rows: list[dict[str, Any]]) -> None:
    """A file for each partition."""
    parts: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        parts.setdefault(tuple(row[column] for column in lake.partition_by), []).append(row)
    for part in parts.values():
        lake.write(part)


def _change(lake: IcebergLake, change: Change) -> None:
    new = []
    for file in list(lake.files):
        rows = enumerate(file.rows)
        found = {at: dict(row) for at, row in rows if at not in file.deleted and change.matches(dict(row))}
        if len(found) + len(file.deleted) == len(file.rows):
            lake.drop(file)
        elif found:
            lake.delete(file, found)
        if change.new is not None:
            new += map(change.new, found.values())
    _write(lake, new)


_READERS = (read_by_duckdb, read_by_pyiceberg)

ICEBERG_KINDS = (
    IcebergKind(
        "iceberg-2", (POSITION_FILES,), writes=False, readers=_READERS, format="iceberg", format_version=2
    ),
    IcebergKind(
        "iceberg-3",
        whole=True,
        writes=False,
        abilities=frozenset({VECTOR_FILES}),
        readers=_READERS,
        format="iceberg",
        format_version=3,
    ),
    TreeKind(
        "iceberg-4",
        whole=True,
        numbered=False,
        rare=True,
        update="OVERWRITE",
        abilities=frozenset({VECTOR_FILES}),
        format="iceberg",
        format_version=4,
    ),
)
