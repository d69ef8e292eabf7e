"""What a maintenance verb leaves of a table, compared with what Iceberg-Spark's procedure leaves.

Tables record absolute locations. So the table is copied aside, the procedure runs on the original, and the
copy is put back before delvec does the same.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from delvec.detect import open_table
from iceberg_spark import SparkTable

_METADATA = ("v", "version-hint", ".v", ".version-hint")


@contextmanager
def put_back(table: SparkTable) -> Iterator[None]:
    """What the body does to the table's files is undone at the end."""
    place, aside = Path(table.location), Path(f"{table.location}-aside")
    shutil.copytree(place, aside)
    try:
        yield
    finally:
        shutil.rmtree(place)
        aside.rename(place)
        table.sql("REFRESH TABLE {t}")


def files_of(table: SparkTable) -> set[str]:
    """All files but metadata files and checksums."""
    paths = (path for path in Path(table.location).rglob("*") if path.is_file())
    names = {str(path.relative_to(table.location)) for path in paths}
    return {name for name in names if not name.split("/")[-1].startswith((*_METADATA, "."))}


def metadata_of(table: SparkTable) -> Any:
    return open_table(table.location).snapshot().metadata  # type: ignore[attr-defined]


def state_of(table: SparkTable) -> dict[str, Any]:
    """What the metadata keeps: snapshots, refs, the log, statistics."""
    raw = metadata_of(table).raw
    return {
        "snapshots": sorted(item["snapshot-id"] for item in raw["snapshots"]),
        "refs": raw["refs"],
        "current": raw["current-snapshot-id"],
        "log": [item["snapshot-id"] for item in raw["snapshot-log"]],
    }


def time_text(millis: int) -> str:
    return dt.datetime.fromtimestamp(millis / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
