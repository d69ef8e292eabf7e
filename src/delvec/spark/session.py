"""What of a Spark session a scan depends on, asked for once, and settings that hold for a moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from delvec import location

_HADOOP = "spark.hadoop."


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The settings that the meaning of a condition depends on."""

    case_sensitive: bool
    time_zone: str
    ansi: bool


def session_facts(spark: SparkSession) -> SessionFacts:
    return SessionFacts(
        case_sensitive=_flag(spark, "spark.sql.caseSensitive"),
        time_zone=str(spark.conf.get("spark.sql.session.timeZone")),
        ansi=_flag(spark, "spark.sql.ansi.enabled"),
    )


def session_storage_options(
    spark: SparkSession, place: str, given: Mapping[str, str] | None
) -> dict[str, str]:
    """The options of a call for a location, or where it gives none the session's for its stores.

    Only ``spark.hadoop.fs.*`` is taken: the environment is looked at by the storage itself. Local files need
    none, and asking takes as long as a small read.
    """
    if given:
        return dict(given)
    if location.normalize(place).startswith("/"):
        return {}
    settings = spark.conf.getAll  # a property, in classic and in Connect
    found = settings() if callable(settings) else settings
    return {key: value for key, value in found.items() if key.startswith(_HADOOP + "fs.")}


@contextmanager
def settings(spark: SparkSession, **wanted: str) -> Iterator[None]:
    """``wanted`` (dots written ``__``) holds inside, and the session is as it was afterwards."""
    names = {name.replace("__", "."): value for name, value in wanted.items()}
    before = {name: spark.conf.get(name, None) for name in names}
    try:
        for name, value in names.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _flag(spark: SparkSession, name: str) -> bool:
    return str(spark.conf.get(name)).lower() == "true"
