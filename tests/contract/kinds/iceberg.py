"""Kinds of Iceberg tables, at a path."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import naive_tree
from contract.kinds.kind import (
    ANY_COLUMN_NAMES,
    CHANGE_FEED,
    EMPTY_PARTITIONS,
    IMAGES,
    NESTED_COLUMNS,
    POSITION_FILES,
    ROW_IDS,
    TYPE_WIDENING,
    VECTOR_FILES,
    VECTORS_OFF,
    Kind,
    Reader,
    Written,
)
from iceberg_tables.lake import IcebergLake
from iceberg_tables.readers import read_by_duckdb, read_by_pyiceberg

_VERBS = ("delete", "update", "merge")
_DATA, _EQUALITY_DELETES, _DELETED = 0, 2, 2


def _modes(mode: str) -> dict[str, str]:
    return {f"write.{verb}.mode": mode for verb in _VERBS}


_PROPERTIES: dict[str, dict[str, str]] = {
    NESTED_COLUMNS: {},
    ANY_COLUMN_NAMES: {},
    CHANGE_FEED: {},
    TYPE_WIDENING: {},
    VECTORS_OFF: _modes("copy-on-write"),
}
_OF_VERSION: dict[int, dict[str, dict[str, str]]] = {
    2: {POSITION_FILES: {}},
    3: {ROW_IDS: {}},
    4: {ROW_IDS: {}},
}


@dataclass(frozen=True)
class IcebergKind(Kind):
    def properties(self, *features: str) -> Mapping[str, str]:
        known = _PROPERTIES | _OF_VERSION[self.format_version or 3]
        return {key: value for feature in features for key, value in known[feature].items()}

    def version(self, table: Any, number: int) -> int:
        """Each commit writes one metadata file. A table without a snapshot has version -1."""
        found = _metadata(table, number + 1).get("current-snapshot-id")
        return -1 if found is None else int(found)

    def fresh(self, template: Path, place: Path) -> Path:
        """Tables have absolute paths: the template is put back as it was."""
        del place
        backup = template.with_name(f"{template.name}-backup")
        if backup.exists():
            shutil.rmtree(template, ignore_errors=True)
            shutil.copytree(backup, template)
        else:
            shutil.copytree(template, backup)
        return template

    def commits(self, table: Any) -> int:
        return _newest(table) - 1

    def constraint(self, name: str, condition: str) -> Mapping[str, str]:
        del name, condition
        pytest.skip("Iceberg tables have no constraints")

    def written(self, table: Any, version: int | None = None) -> Written:
        snapshots = {record["snapshot-id"]: record for record in _metadata(table)["snapshots"]}
        record = _head(table) if version is None else snapshots[version]
        assert record is not None
        old, new = _live(snapshots.get(record.get("parent-snapshot-id"))), _live(record)
        return Written(
            added=len(new.keys() - old.keys()),
            removed=len(old.keys() - new.keys()),
            more_deleted=sum(new[path] != old[path] for path in new.keys() & old.keys()),
        )

    def changes(self, table: Any, version: int | None = None) -> Counter[tuple[Any, ...]]:
        del table, version
        pytest.skip("Iceberg tables have no change files")

    def switch_vectors(self, *, on: bool) -> Mapping[str, str]:
        return _modes("merge-on-read" if on else "copy-on-write")

    def random_properties(self, rng: random.Random) -> dict[str, str]:
        return {
            "commit.manifest.min-count-to-merge": rng.choice(["2", "3", "100"]),
            "write.metadata.compression-codec": rng.choice(["none", "gzip"]),
            "write.metadata.metrics.default": rng.choice(["full", "truncate(2)", "counts", "none"]),
        }

    def readers_of(self, table: Any) -> tuple[Reader, ...]:
        """pyiceberg refuses deletes by value."""
        entries = _entries(_head(table))
        by_value = any(entry["data_file"]["content"] == _EQUALITY_DELETES for entry in entries)
        return tuple(read for read in self.readers if not (by_value and read is read_by_pyiceberg))

    def lake(self, root: Path, schema: Any, **options: Any) -> Any:
        properties = {**_modes("merge-on-read"), **options.pop("properties", {})}
        return IcebergLake(
            root, schema, format_version=self.format_version or 2, properties=properties, **options
        )


@dataclass(frozen=True)
class TreeKind(IcebergKind):
    """Tables with metadata trees: only delvec reads and writes them. A DELETE counts its rows unless
    `random_deletes` lets it store keys.
    """

    def properties(self, *features: str) -> Mapping[str, str]:
        return {VECTORS_OF_KEYS: "false", **super().properties(*features)}

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

    def readers_of(self, table: Any) -> tuple[Reader, ...]:
        del table
        return self.readers

    def lake(self, root: Path, schema: Any, **options: Any) -> Any:
        del root, schema, options
        pytest.skip("only delvec writes tables with trees")

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


def _metadata(table: Any, number: int | None = None) -> dict[str, Any]:
    """The metadata file of this number, or the newest one."""
    import gzip

    folder = Path(table.location) / "metadata"
    (path,) = folder.glob(f"v{number or _newest(table)}.*metadata.json")
    data = path.read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(data) if ".gz." in path.name else data)
    return found


def _newest(table: Any) -> int:
    """The number of the newest metadata file."""
    folder = Path(table.location) / "metadata"
    return max(int(path.name[1:].split(".")[0]) for path in folder.glob("v*.metadata.json"))


def _head(table: Any) -> dict[str, Any] | None:
    """The current snapshot as the newest metadata file has it."""
    metadata = _metadata(table)
    current = metadata.get("current-snapshot-id")
    return next((record for record in metadata["snapshots"] if record["snapshot-id"] == current), None)


def _entries(snapshot: Mapping[str, Any] | None) -> list[Any]:
    """The live entries of a snapshot's manifests."""
    if snapshot is None:
        return []
    manifests = _avro(snapshot["manifest-list"])
    entries = [entry for manifest in manifests for entry in _avro(manifest["manifest_path"])]
    return [entry for entry in entries if entry["status"] != _DELETED]


def _live(snapshot: Mapping[str, Any] | None) -> dict[str, frozenset[Any]]:
    """The data files of a snapshot, each with its vectors and position-delete files."""
    files = [entry["data_file"] for entry in _entries(snapshot)]
    deletes: dict[str, set[Any]] = {file["file_path"]: set() for file in files if file["content"] == _DATA}
    for file in files:
        if file["content"] != _DATA:
            deletes[file["referenced_data_file"]].add((file["file_path"], file.get("content_offset")))
    return {path: frozenset(found) for path, found in deletes.items()}


def _avro(path: str) -> list[Any]:
    import fastavro

    with Path(path.removeprefix("file:")).open("rb") as file:
        return list(fastavro.reader(file))


_READERS = (read_by_duckdb, read_by_pyiceberg)

ICEBERG_KINDS = (
    IcebergKind(
        "iceberg-2",
        (POSITION_FILES,),
        whole=True,
        rare=True,
        abilities=frozenset({EMPTY_PARTITIONS}),
        readers=_READERS,
        format="iceberg",
        format_version=2,
    ),
    IcebergKind(
        "iceberg-3",
        whole=True,
        common=True,
        rare=True,
        abilities=frozenset({VECTOR_FILES, EMPTY_PARTITIONS, IMAGES}),
        readers=_READERS,
        format="iceberg",
        format_version=3,
    ),
    TreeKind(
        "iceberg-4",
        whole=True,
        numbered=False,
        rare=True,
        abilities=frozenset({VECTOR_FILES, EMPTY_PARTITIONS, IMAGES}),
        format="iceberg",
        format_version=4,
    ),
)
