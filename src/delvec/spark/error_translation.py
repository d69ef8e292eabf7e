"""Errors of Spark that become errors of delvec."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from delvec.errors import DelvecError, StorageError
from delvec.spark.target import translated

_CANCELLED = ("SPARK_JOB_CANCELLED", "OPERATION_CANCELED", "cancelled because SparkContext was shut down")
_STORE_EXCEPTIONS = ("java.io.", "java.nio.file.", "org.apache.hadoop.fs.")


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translate violated constraints, cancelled jobs and failed requests to a store; other errors stay."""
    try:
        yield
    except PySparkException as error:
        _verify_not_cancelled(error)
        translation = translated(error)
        if translation is error:
            raise
        raise translation from None
    except Exception as error:
        _verify_not_cancelled(error)
        failure = _store_failure(error)
        if failure is None:
            raise
        raise failure from error


def _verify_not_cancelled(error: Exception) -> None:
    if any(condition in str(error) for condition in _CANCELLED):
        raise DelvecError("the Spark job was cancelled: the table is as it was") from error


def _store_failure(error: Exception) -> StorageError | None:
    """The failure of a store that Spark used. Spark passes it on as a Java exception."""
    java = getattr(error, "java_exception", None)  # an attribute of py4j errors, which Connect does not have
    if java is None or not str(java.getClass().getName()).startswith(_STORE_EXCEPTIONS):
        return None
    return StorageError(f"Spark could not read or write: {java.toString()}")
