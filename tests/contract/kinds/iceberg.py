"""Kinds of Iceberg tables. They are only read; a test writer writes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.kinds.kind import NESTED_COLUMNS, POSITION_FILES, VECTOR_FILES, Kind, Written
from iceberg_tables.lake import IcebergLake
from iceberg_tables.readers import read_by_duckdb, read_by_pyiceberg

_CANNOT_WRITE = "Iceberg tables cannot be written yet"


@dataclass(frozen=True)
class IcebergKind(Kind):
    def properties(self, *features: str) -> Mapping[str, str]:
        known = {NESTED_COLUMNS, POSITION_FILES}
        return {} if known.issuperset(features) else {}[next(iter(set(features) - known))]

    def lake(self, root: Path, schema: Any, **options: Any) -> IcebergLake:
        return IcebergLake(root, schema, format_version=self.format_version or 2, **options)

    def constraint(self, name: str, condition: str) -> Mapping[str, str]:
        raise NotImplementedError(_CANNOT_WRITE)

    def written(self, table: Any, version: int | None = None) -> Written:
        raise NotImplementedError(_CANNOT_WRITE)

    def changes(self, table: Any, version: int | None = None) -> Counter[tuple[Any, ...]]:
        raise NotImplementedError(_CANNOT_WRITE)

    def switch_vectors(self, *, on: bool) -> Mapping[str, str]:
        raise NotImplementedError(_CANNOT_WRITE)


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
)
