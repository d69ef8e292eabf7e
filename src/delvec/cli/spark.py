"""The Spark session of a command that reads or writes rows: local, without log output, stopped at the end.

If the environment names a Connect server (SPARK_REMOTE), it is a session of that server.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from delvec.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from delvec.formats import Snapshot, Table


_QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
}
INVALID_STATEMENT, OTHER_ERROR = 2, 7
_SPARK, _HADOOP_STORE = "spark.", "spark.hadoop.fs."


def session_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a command that are Spark settings: ``spark.…``, and Hadoop's ``fs.…``."""
    hadoop = {f"spark.hadoop.{name}": value for name, value in options.items() if name.startswith("fs.")}
    return hadoop | {name: value for name, value in options.items() if name.startswith(_SPARK)}


def store_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a command that are for the store."""
    return {
        name: value
        for name, value in options.items()
        if not name.startswith(_SPARK) or name.startswith(_HADOOP_STORE)
    }


@contextmanager
def local_session(
    settings: Mapping[str, str] | None = None, *, purpose: str = "reading rows"
) -> Iterator[SparkSession]:
    """A session with these settings; the error says what is missing to start one."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UnsupportedFeatureError(
            f"{purpose} needs PySpark: pip install 'pyspark>=4.0,<4.4' ({error})",
            feature="pyspark",
        ) from None
    builder = SparkSession.builder.appName("delvec")
    if "SPARK_REMOTE" in os.environ:
        builder = builder.config(map={**(settings or {})})
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need delvec
        partitions = {"spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2))}
        builder = builder.master("local[*]").config(map={**_SETTINGS, **partitions, **(settings or {})})
    with tempfile.TemporaryFile() as log:
        try:
            with _stderr_to(log):
                session = builder.getOrCreate()
        except Exception as error:  # anything that prevents the start of a JVM
            log.seek(0)
            last = log.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise UnsupportedFeatureError(
                f"cannot start Spark, which needs Java 17 or later: {error} {last}".strip(), feature="java"
            ) from error
    try:
        with quiet_loggers():
            yield session
    finally:
        session.stop()


@contextmanager
def quiet_loggers() -> Iterator[None]:
    """Keep PySpark from logging errors on stderr as JSON: the command prints them."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in _QUERY_LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


@contextmanager
def _stderr_to(file: IO[bytes]) -> Iterator[None]:
    """Redirect the stderr of processes that are started inside to the file.

    A JVM prints a page of warnings at its start, and not all of them can be switched off.
    """
    original = os.dup(2)
    try:
        os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)


def read_rows(
    source: Table, snapshot: Snapshot, count: int, *, where: str | None = None
) -> tuple[Sequence[str], list[Mapping[str, Any]]]:
    """The column names and the first ``count`` live rows of a version of ``source``, as Spark reads them."""
    with local_session() as session:
        from delvec.spark.read import rows

        frame = rows(session, snapshot, source.storage, where, None)
        return frame.columns, frame.limit(count).toArrow().to_pylist()


def spark_exit_code(error: Exception) -> int | None:
    """The exit code for an error of Spark: 2 if the statement is invalid. None if it is not an error of
    Spark.
    """
    errors = sys.modules.get("pyspark.errors")  # if it is not loaded, the error is not Spark's
    if errors is None or not isinstance(error, errors.PySparkException):
        return None
    invalid = (errors.ParseException, errors.AnalysisException)
    return INVALID_STATEMENT if isinstance(error, invalid) else OTHER_ERROR


def spark_message(error: Exception) -> str:
    """Spark's message without the statement and the plan that follow it."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).rstrip("; ")
