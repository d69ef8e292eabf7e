"""The rows that delvec's connector reads, without a Spark session: its tasks run in this process."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any


def connector_rows(path: Path | str, **options: Any) -> list[dict[str, Any]]:
    """All was pickled before it is read, as Spark does. ``options``: those of the connector."""
    from delvec.connector import batches, source

    given = {"path": str(path), **{name: str(value) for name, value in options.items()}}
    reader = source.load(given)
    reader = source.PushdownReader(pickle.loads(pickle.dumps(reader)))
    list(reader.pushFilters([]))
    found: list[dict[str, Any]] = []
    for task in reader.partitions():
        scan, parts = pickle.loads(pickle.dumps((reader.scan, task.parts)))
        for batch in batches.read_parts(scan, parts):
            batch.validate(full=True)
            found += batch.to_pylist()
    return found
