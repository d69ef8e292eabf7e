"""A Spark session for commands that read rows: local, quiet, gone with the command."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from delvec.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def local_session() -> Iterator[SparkSession]:
    """A session on this machine; what is missing to start one is said."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UnsupportedFeatureError(
            f"reading rows needs PySpark, expected it installed (pip install 'delvec[spark]'): {error}",
            feature="pyspark",
        ) from None
    builder = (
        SparkSession.builder.master("local[*]")
        .appName("delvec")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
    )
    with tempfile.TemporaryFile() as said:
        try:
            with _stderr_to(said):
                session = builder.getOrCreate()
        except Exception as error:  # whatever keeps a JVM from starting
            said.seek(0)
            last = said.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise UnsupportedFeatureError(
                f"Spark cannot be started, expected Java 17 or later: {error} {last}".strip(), feature="java"
            ) from error
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def _stderr_to(file: IO[bytes]) -> Iterator[None]:
    """What is started inside writes its errors to the file, for as long as it lives.

    A JVM writes a page of warnings before the first row, some of which no setting turns off.
    """
    kept = os.dup(2)
    try:
        os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def read_rows(
    location: str,
    count: int,
    *,
    options: Mapping[str, str],
    version: int | None = None,
    timestamp: str | None = None,
    where: str | None = None,
) -> tuple[Sequence[str], list[Mapping[str, Any]]]:
    """The column names and the first ``count`` live rows, as Spark reads them."""
    with local_session() as session:
        from delvec.table import Table

        frame = Table.open(session, location, storage_options=options).to_df(version, timestamp, where)
        return frame.columns, frame.limit(count).toArrow().to_pylist()
