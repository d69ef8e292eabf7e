"""Kinds of Delta tables."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from contract.kinds.kind import (
    ANY_COLUMN_NAMES,
    APPEND_ONLY,
    CHANGE_FEED,
    CHANGE_FILES,
    FREQUENT_CHECKPOINTS,
    IMAGES,
    INLINE_VECTORS,
    NESTED_COLUMNS,
    NUMBERED,
    REQUESTS,
    RESTORED_COLUMNS,
    ROW_IDS,
    SMALL_INTEGERS,
    TYPE_WIDENING,
    VARIANTS,
    VECTOR_FILES,
    VECTORS_OFF,
    Kind,
    Reader,
    Written,
)
from delta_writer import read_by_delta_rs, read_by_duckdb
from lake import Lake
from verbs import table_of

_PROPERTIES: dict[str, dict[str, str]] = {
    NESTED_COLUMNS: {},
    VECTORS_OFF: {"delta.enableDeletionVectors": "false"},
    CHANGE_FILES: {"delta.enableChangeDataFeed": "true"},
    CHANGE_FEED: {"delta.enableChangeDataFeed": "true"},
    ROW_IDS: {"delta.enableRowTracking": "true"},
    ANY_COLUMN_NAMES: {"delta.columnMapping.mode": "name"},
    APPEND_ONLY: {"delta.appendOnly": "true"},
    TYPE_WIDENING: {"delta.enableTypeWidening": "true"},
    FREQUENT_CHECKPOINTS: {"delta.checkpointInterval": "2"},
}


@dataclass(frozen=True)
class DeltaKind(Kind):
    def properties(self, *features: str) -> Mapping[str, str]:
        return {key: value for feature in features for key, value in _PROPERTIES[feature].items()}

    def constraint(self, name: str, condition: str) -> Mapping[str, str]:
        return {f"delta.constraints.{name}": condition}

    def written(self, table: Any, version: int | None = None) -> Written:
        actions = _actions(table, version)
        adds = [action["add"] for action in actions if "add" in action]
        with_vectors = {add["path"] for add in adds if add.get("deletionVector")}
        removes = [action["remove"] for action in actions if "remove" in action]
        return Written(
            added=len(adds) - len(with_vectors),
            removed=sum(remove["path"] not in with_vectors for remove in removes),
            more_deleted=len(with_vectors),
            change_files=sum("cdc" in action for action in actions),
        )

    def changes(self, table: Any, version: int | None = None) -> Counter[tuple[Any, ...]]:
        found: Counter[tuple[Any, ...]] = Counter()
        for action in _actions(table, version):
            if "cdc" in action:
                rows = pq.ParquetFile(Path(table.location) / action["cdc"]["path"]).read()
                values: Mapping[str, Any] = action["cdc"]["partitionValues"]
                for row in rows.to_pylist():
                    change = row.pop("_change_type")
                    found[change, *map(_hashable, row.values()), *values.values()] += 1
        return found

    def switch_vectors(self, *, on: bool) -> Mapping[str, str]:
        return {"delta.enableDeletionVectors": str(on).lower()}

    def random_properties(self, rng: random.Random) -> dict[str, str]:
        return {
            "delta.checkpointInterval": rng.choice(["2", "3", "10"]),
            "delta.checkpointPolicy": rng.choice(["classic", "v2"]),
            "delta.enableInCommitTimestamps": rng.choice(["true", "false"]),
        }

    def copied(self, table: Any, place: str) -> str:
        # Their common kernel looks for a checkpoint in the folder "A" where the table's is "%41".
        return str(shutil.copytree(table.location, place.replace("%41", "")))

    def readers_of(self, table: Any) -> tuple[Reader, ...]:
        unable = set()
        mapped = table.properties.get("delta.columnMapping.mode", "none") != "none"
        if mapped and table._table.snapshot().partition_columns:
            unable.add(read_by_duckdb)  # it reads null in such partition columns
        if "%" in table.location:
            unable.add(read_by_duckdb)  # it does not find the folder
        (protocol,) = (action["protocol"] for action in _actions(table, 0) if "protocol" in action)
        if "typeWidening" in protocol.get("readerFeatures", ()):
            unable.add(read_by_delta_rs)
        return tuple(read for read in self.readers if read not in unable)

    def table(
        self, spark: Any, place: Any, ddl: str, rows: Any = (), *, having: Sequence[str] = (), **options: Any
    ) -> Any:
        properties = self.having(*having) | dict(options.pop("properties", None) or {})
        return table_of(spark, place, ddl, rows, properties=properties, **options)

    def lake(self, root: Path, schema: Any, **options: Any) -> Lake:
        mapping = "name" if ANY_COLUMN_NAMES in self.features else None
        return Lake(root, schema, **{"mapping": mapping, **options})


def _hashable(value: Any) -> Any:
    """Structs as tuples of pairs, lists as tuples."""
    match value:
        case dict():
            return tuple((name, _hashable(child)) for name, child in value.items())
        case list():
            return tuple(map(_hashable, value))
    return value


def _actions(table: Any, version: int | None) -> list[dict[str, Any]]:
    number = table.version if version is None else version
    text = (Path(table.location) / f"_delta_log/{number:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


_ABILITIES = frozenset(
    {
        VECTOR_FILES,
        INLINE_VECTORS,
        REQUESTS,
        IMAGES,
        NUMBERED,
        RESTORED_COLUMNS,
        SMALL_INTEGERS,
        VARIANTS,
    }
)
_ALL_READERS = (read_by_delta_rs, read_by_duckdb)

DELTA_KINDS = (
    DeltaKind("delta", whole=True, abilities=_ABILITIES, readers=_ALL_READERS, format="delta"),
    DeltaKind("delta-without-vectors", (VECTORS_OFF,), readers=_ALL_READERS, format="delta"),
    DeltaKind("delta-column-mapping", (ANY_COLUMN_NAMES,), readers=_ALL_READERS, format="delta"),
    DeltaKind(
        "delta-row-tracking-and-change-files", (ROW_IDS, CHANGE_FILES), readers=_ALL_READERS, format="delta"
    ),
)
