"""The rows that other engines read from an Iceberg table at a path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def newest_metadata(root: Path | str) -> str:
    """The newest metadata file of a table at a path; or the file itself, where a catalog has said which."""
    if str(root).endswith(".metadata.json"):
        return str(root)
    folder = Path(root) / "metadata"
    version = (folder / "version-hint.text").read_text().strip()
    (found,) = folder.glob(f"v{version}.*metadata.json")
    return str(found)


def read_by_duckdb(root: Path | str, snapshot: int | None = None, columns: str = "*") -> list[dict[str, Any]]:
    duckdb = pytest.importorskip("duckdb")
    files = [_extension(name) for name in ("avro", "iceberg")]
    option = "" if snapshot is None else f", snapshot_from_id = {snapshot}"
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        for file in files:
            connection.execute(f"LOAD '{file}'")
        query = f"SELECT {columns} FROM iceberg_scan(?{option})"
        found = connection.execute(query, [newest_metadata(root)]).to_arrow_table()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def _extension(name: str) -> Path:
    package = pytest.importorskip(f"duckdb_extension_{name}")
    return next(Path(package.__path__[0]).rglob(f"{name}.duckdb_extension"))


def read_by_pyiceberg(root: Path | str, snapshot: int | None = None) -> list[dict[str, Any]]:
    tables = pytest.importorskip("pyiceberg.table")
    found = tables.StaticTable.from_metadata(newest_metadata(root)).scan(snapshot_id=snapshot).to_arrow()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows
