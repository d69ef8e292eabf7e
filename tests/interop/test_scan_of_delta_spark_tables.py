"""Tables that Delta-Spark writes, read by native scan and connector as Delta-Spark itself reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import scan_process
from delvec.table import Table
from rows import multiset
from scanning import collected
from spark_tables import TABLES, Writer

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    # PySpark leaves the sockets of its results to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in.*socket:pytest.PytestUnraisableExceptionWarning"),
]

# Where vectors come, grow, meet other schemas and go again.
EVERY_VERSION = ["vectors_shared", "mapped_by_id", "optimized_and_restored"]


def by_connector(name: str) -> str:
    return f"{name}, by the connector"


def delta_frame(writer: Writer, **options: Any) -> Any:
    return writer.spark.read.format("delta").options(**options).load(str(writer.path))


def connector_frame(writer: Writer, **options: Any) -> Any:
    return writer.spark.read.format("delvec").options(**options).load(str(writer.path))


def assert_same(found: Any, expected: Any, what: object) -> None:
    assert names_and_types(found) == names_and_types(expected), what
    ours, theirs = multiset(collected(found)), multiset(collected(expected))
    assert ours == theirs, f"{what}: lost {theirs - ours}, gained {ours - theirs}"


def names_and_types(frame: Any) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in frame.schema]


@pytest.mark.parametrize("name", list(TABLES))
def test_the_newest_version(written: Callable[[str], Writer], name: str) -> None:
    writer = written(name)
    expected = delta_frame(writer).cache()
    try:
        assert_same(Table.open(writer.spark, str(writer.path)).to_df(), expected, "native")
        assert_same(connector_frame(writer), expected, "connector")
    finally:
        expected.unpersist()


@pytest.mark.parametrize("name", EVERY_VERSION)
def test_every_version(written: Callable[[str], Writer], name: str) -> None:
    writer = written(name)
    table = Table.open(writer.spark, str(writer.path))
    seen = set()
    for row in writer.spark.sql(f"DESCRIBE HISTORY {writer.name}").select("version").collect():
        (version,) = row
        expected = delta_frame(writer, versionAsOf=version)
        assert_same(table.to_df(version=version), expected, version)
        seen.add(expected.count())
    assert len(seen) > 1, "the versions show nothing of versions"


# The tables that show what may differ over Connect: columns, partitions and types. Classic sessions read all.
OVER_CONNECT = [
    "vectors_shared",
    "partitioned_by_odd_names",
    "partitioned_by_every_type",
    "mapped_by_id",
    "nested_types",
    "every_type",
    "widened",
    "variants",
    "cloned",
]


@pytest.fixture(scope="module")
def over_connect(
    written: Callable[[str], Writer], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What a Connect session without any jar reads, in a process of its own."""
    places = {name: str(written(name).path) for name in OVER_CONNECT}
    scans = {name: {"table": place} for name, place in places.items()}
    scans |= {by_connector(name): {"table": place, "connector": True} for name, place in places.items()}
    return scan_process.answers(tmp_path_factory.mktemp("connect"), scans, remote=True)


@pytest.mark.parametrize("name", OVER_CONNECT)
def test_over_connect(
    written: Callable[[str], Writer], over_connect: dict[str, dict[str, Any]], name: str
) -> None:
    expected = multiset(collected(delta_frame(written(name))))
    for asked in (name, by_connector(name)):
        assert "error" not in over_connect[asked], over_connect[asked]
        assert Counter(over_connect[asked]["rows"]) == expected, asked
