"""What of a Spark session a scan depends on, asked for once, and settings that hold for a moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from delvec import location

_HADOOP = "spark.hadoop."
_MOST_KEPT = 16


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


def kept_frame(spark: SparkSession, *columns: str) -> DataFrame:
    """No rows, under these columns, given as expressions; made once for a session. To be analysed against."""
    with _changed:
        kept = _frames.setdefault(spark, {})
        if columns not in kept:
            if len(kept) == _MOST_KEPT:
                del kept[next(iter(kept))]  # the oldest
            kept[columns] = spark.range(0, numPartitions=1).selectExpr(*columns)
        return kept[columns]


@contextmanager
def settings(spark: SparkSession, **wanted: str) -> Iterator[None]:
    """``wanted`` (dots written ``__``) holds inside, and the session is as it was afterwards.

    Threads that share a session may be inside together where they want the same: the first notes what was
    there, the last puts it back. Who wants something else waits for them.
    """
    names = {name.replace("__", "."): value for name, value in wanted.items()}
    with _changed:
        held = _held.setdefault(spark, {})
        _changed.wait_for(lambda: all(name not in held or held[name].value == names[name] for name in names))
        for name, value in names.items():
            _take(spark, held, name, value)
    try:
        yield
    finally:
        with _changed:
            for name in names:
                _give_back(spark, held, name)
            _changed.notify_all()


@dataclass(slots=True)
class _Held:
    """A setting of a session, and how many are inside for whom it must hold."""

    before: str | None
    value: str
    users: int = 0


_changed = threading.Condition()
_frames: WeakKeyDictionary[SparkSession, dict[tuple[str, ...], DataFrame]] = WeakKeyDictionary()
_held: WeakKeyDictionary[SparkSession, dict[str, _Held]] = WeakKeyDictionary()


def _take(spark: SparkSession, held: dict[str, _Held], name: str, value: str) -> None:
    if name not in held:
        held[name] = _Held(spark.conf.get(name, None), value)
        spark.conf.set(name, value)
    held[name].users += 1


def _give_back(spark: SparkSession, held: dict[str, _Held], name: str) -> None:
    held[name].users -= 1
    if held[name].users:
        return
    before = held.pop(name).before
    if before is None:
        spark.conf.unset(name)
    else:
        spark.conf.set(name, before)


def _flag(spark: SparkSession, name: str) -> bool:
    return str(spark.conf.get(name)).lower() == "true"
