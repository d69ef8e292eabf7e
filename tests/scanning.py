"""What a scan returns, as plain values to compare with a model."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Iterator
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

from rows import multiset


def opened(spark: Any, lake: Any) -> Any:
    from delvec.table import Table

    return Table.open(spark, str(lake.root))


def collected(frame: Any) -> list[dict[str, Any]]:
    """The rows of a DataFrame as plain values, timestamps in UTC, variants as the struct that files hold."""
    if "variant" in frame.schema.simpleString():  # which Arrow has no type for
        rows = [row.asDict(recursive=True) for row in frame.collect()]
        return [{name: plain(value) for name, value in row.items()} for row in rows]
    return [{name: plain(value) for name, value in row.items()} for row in frame.toArrow().to_pylist()]


def plain(value: Any) -> Any:
    if type(value).__name__ == "VariantVal":
        return {"metadata": bytes(value.metadata), "value": bytes(value.value)}
    match value:
        case dt.datetime(tzinfo=dt.tzinfo()):
            return value.astimezone(dt.UTC)
        case dict():
            return {key: plain(child) for key, child in value.items()}
        case list() | tuple():
            return type(value)(map(plain, value))
    return value


def same(frame: Any, rows: Any) -> None:
    """The frame has exactly these rows; what differs, where it has not."""
    found, expected = multiset(collected(frame)), multiset(rows)
    assert found == expected, f"lost {expected - found}, gained {found - expected}"


def files_read(frame: Any) -> int:
    """The number of files that the frame's scans open."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    found = [node.metrics().apply("numFiles").value() for node in nodes(plan) if is_scan(node)]
    assert found
    return sum(found)


def nodes(node: Any) -> Iterator[Any]:
    """The nodes of a plan of Spark's."""
    if node.nodeName() == "AdaptiveSparkPlan":
        node = node.executedPlan()
    if node.nodeName().endswith("QueryStage"):
        node = node.plan()
    yield node
    children = node.children()
    for index in range(children.size()):
        yield from nodes(children.apply(index))


def is_scan(node: Any) -> bool:
    return bool(node.nodeName().startswith("Scan parquet"))


def colliding_names(root: Path) -> tuple[str, str]:
    """Two names of data files that have one CRC-32, and their paths below the folder, too."""
    from delvec.spark.file_paths import file_path

    names = (f"{sha256(bytes(str(n), 'ascii')).hexdigest()}.parquet" for n in count())
    seen: dict[int, str] = {}
    for name in names:
        other = seen.setdefault(zlib.crc32(file_path(f"{root}/{name}").encode()), name)
        if other != name:
            break
    assert zlib.crc32(other.encode()) == zlib.crc32(name.encode())
    return other, name
