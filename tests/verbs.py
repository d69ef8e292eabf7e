"""Small tables for tests of the verbs, checks of their rows, and checks that nothing changed."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from delta_writer import read_by_delta_rs, read_by_duckdb
from delvec import detect
from rows import multiset, read_rows
from scanning import collected, plain, same

VECTORS_OFF = {"delta.enableDeletionVectors": "false"}
CHANGES_ON = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
KINDS = {
    "vectors": {},
    "copy-on-write": VECTORS_OFF,
    "mapped": MAPPED,
    "changes": CHANGES_ON,
    "changes, copy-on-write": VECTORS_OFF | CHANGES_ON,
}
"""Ways of a table to be written: each verb must do the same to the rows of all."""


def table_of(spark: Any, place: Any, ddl: str, rows: Any = (), **options: Any) -> Any:
    """A table whose rows are in one file for each partition.

    Equal tables are written once and then copied, which is much quicker: their logs have no absolute paths.
    """
    from delvec.table import Table

    if not rows:
        return Table.create(spark, str(place), ddl, **options)
    settings = sorted(settings_of(spark).items())
    key = repr((ddl, [tuple(row) for row in rows], sorted(options.items()), settings))
    if key not in _WRITTEN:
        template = _templates() / str(len(_WRITTEN))
        Table.create(spark, str(template), ddl, **options).append(frame_of(spark, ddl, rows))
        _WRITTEN[key] = template
    shutil.copytree(_WRITTEN[key], place, dirs_exist_ok=True)
    return Table.open(spark, str(place))


_WRITTEN: dict[str, Path] = {}


@functools.cache
def _templates() -> Path:
    """A folder for tables that are copied; it goes with the process."""
    folder = tempfile.mkdtemp(prefix="delvec-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def frame_of(spark: Any, ddl: str, rows: Any) -> Any:
    return spark.createDataFrame([tuple(row) for row in rows], ddl).coalesce(1)


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    """The table's rows in order."""
    return sorted((tuple(row.values()) for row in collected(table.to_df())), key=str)


def holds(table: Any, rows: Any) -> None:
    """Assert that the table has exactly these rows."""
    names = table.schema.names
    same(table.to_df(), [dict(zip(names, row, strict=True)) for row in rows])


def read_alike_by_others(table: Any, *readers: Callable[[str], Any]) -> None:
    """Assert that delta-rs and DuckDB, or the given readers, read the rows that delvec reads."""
    mine = multiset(collected(table.to_df()))
    for read in readers or (read_by_delta_rs, read_by_duckdb):
        theirs = multiset(plain(row) for row in read(table.location))
        assert theirs == mine, f"{read.__name__}: lost {mine - theirs}, gained {theirs - mine}"


@contextmanager
def unchanged(table: Any) -> Iterator[None]:
    """Assert that the ``with`` block changes neither version, rows nor settings, and leaves no file."""
    spark = table._spark
    before = (table.version, stored_rows(table), settings_of(spark))
    yield
    assert (table.version, stored_rows(table), settings_of(spark)) == before
    assert staged(table) == []


@contextmanager
def refused(table: Any, error: type[Exception], match: str) -> Iterator[None]:
    """Assert that the ``with`` block raises this error and leaves the table as it was."""
    with unchanged(table), pytest.raises(error, match=match):
        yield


def stored_rows(table: Any) -> Counter[str]:
    """The rows of the newest version, read without Spark: from the open table and from a new one."""
    seen = table._table
    fresh = detect.open_table(table.location)
    found, again = (multiset(read_rows(t.snapshot().plan(), t.storage)) for t in (seen, fresh))
    assert found == again
    return found


def settings_of(spark: Any) -> dict[str, str]:
    found = spark.conf.getAll
    return dict(found() if callable(found) else found)


def staged(table: Any) -> list[str]:
    """Files that a write left in its staging folder."""
    return [str(path) for path in Path(table.location).rglob("_delvec_staging/**/*") if path.is_file()]


def actions(table: Any, version: int | None = None) -> list[dict[str, Any]]:
    """The actions of a commit, by default of the newest."""
    number = table.version if version is None else version
    text = (Path(table.location) / f"_delta_log/{number:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def action_counts(table: Any, version: int | None = None) -> dict[str, int]:
    """The numbers of files that a commit added, removed or gave a vector to, and of its change files."""
    found = actions(table, version)
    adds = [action["add"] for action in found if "add" in action]
    vectored = {add["path"] for add in adds if add.get("deletionVector")}
    removes = [action["remove"] for action in found if "remove" in action]
    return {
        "added": len(adds) - len(vectored),
        "removed": sum(remove["path"] not in vectored for remove in removes),
        "vectors": len(vectored),
        "changes": sum("cdc" in action for action in found),
    }


def changes(table: Any, version: int | None = None) -> Counter[tuple[Any, ...]]:
    """The rows of a commit's change files, each with its kind first."""
    found: Counter[tuple[Any, ...]] = Counter()
    for action in actions(table, version):
        if "cdc" in action:
            held = pq.ParquetFile(Path(table.location) / action["cdc"]["path"]).read()
            values: Mapping[str, Any] = action["cdc"]["partitionValues"]
            for row in held.to_pylist():
                kind = row.pop("_change_type")
                found[kind, *row.values(), *values.values()] += 1
    return found
