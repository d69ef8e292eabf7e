"""One local Spark session for all tests of a process: a fixture for each ``conftest.py`` to import."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import warnings

import pytest

# Files that take longest. They start first, so that the workers end at about the same time.
_LONGEST = (
    "test_delta_written_by_spark.py",
    "test_scan_of_delta_spark_tables.py",
    "test_verbs_with_delta_spark.py",
    "test_conflicts.py",
    "test_many_writers.py",
    "test_crashes.py",
    "test_model.py",
    "test_fixed_history.py",
    "test_docs_snippets.py",
    "test_merge.py",
    "test_sql_forms.py",
)


def pytest_collection_modifyitems(items):
    """Long files first. PySpark leaves sockets to the garbage collector; that is no failure of ours."""
    places = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))
    quiet = (
        pytest.mark.filterwarnings("ignore::ResourceWarning"),
        pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    )
    for item in items:
        if item.get_closest_marker("spark"):
            for mark in quiet:
                item.add_marker(mark)


@pytest.fixture(scope="session")
def spark():
    """A plain session: UTC, ANSI mode as Spark has it by default. Tests put settings back."""
    if shutil.which("java") is None:
        pytest.skip("Java is absent: Spark needs it")
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else the workers' Python is any in the path
    session = (
        SparkSession.builder.master("local[2]")
        .appName("delvec-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "localhost")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        session.stop()
        gc.collect()


@pytest.fixture(scope="module", autouse=True)
def _collected_sockets():
    """What a module's Spark left to the garbage collector must not come up in a test that follows."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(params=["words", "join"])
def applied(request, monkeypatch):
    """How the vectors of small tables are applied: as they are by default, or as those of large ones are."""
    if request.param == "join":
        monkeypatch.setattr("delvec.spark.vector_words.MOST_BYTES", -1)
    return request.param


@pytest.fixture
def conf(spark):
    """Sets the session, and puts it back."""
    before = {}

    def change(name, value):
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
