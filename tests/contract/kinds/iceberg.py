"""Kinds of Iceberg tables. They are only read; a test writer writes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.kinds.kind import NESTED_COLUMNS, POSITION_FILES, VECTOR_FILES, Change, Kind, Written
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
)
