"""The settings of a Spark session that delvec depends on, and settings that hold for a moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from delvec import location
from delvec.errors import InvalidOperationError
from delvec.predicate.settings import DEFAULTS_BY_ENVIRONMENT, REGEX_NAMES, RELEVANT, SqlSettings

_HADOOP = "spark.hadoop."
_MOST_KEPT = 16


def sql_settings(spark: SparkSession) -> SqlSettings:
    """How the session reads conditions. One call finds which settings are set, whatever their number."""
    values = _relevant(spark)
    if values.get(REGEX_NAMES, "false").strip().lower() == "true":
        raise InvalidOperationError(
            f"{REGEX_NAMES} is true, expected false: Spark then takes quoted names of columns for patterns"
        )
    for name in DEFAULTS_BY_ENVIRONMENT:
        if name not in values:
            values[name] = str(spark.conf.get(name))
    return SqlSettings.of(values)


def _relevant(spark: SparkSession) -> dict[str, str]:
    """The settings in ``RELEVANT`` that are set.

    ``getAll`` is one request on Connect. A classic session would call Java for each key and value, some
    0.1 ms each, and the SQL command SET takes 40 ms and more: there the keys are fetched as one text.
    """
    jconf = getattr(spark.conf, "_jconf", None)
    if jconf is None:
        return {name: str(value) for name, value in _all_settings(spark).items() if name in RELEVANT}
    names = RELEVANT.intersection(str(jconf.getAllAsJava().keySet().toString())[1:-1].split(", "))
    return {name: str(spark.conf.get(name)) for name in names}


def _all_settings(spark: SparkSession) -> Mapping[str, str]:
    found = spark.conf.getAll  # a property, in classic and in Connect
    return found() if callable(found) else found


def verify_running(spark: SparkSession) -> None:
    """Refuse a session that was stopped; what Spark says of it is a traceback of its own."""
    context = getattr(spark, "_sc", None)  # a Connect session has none
    if context is not None and context._jsc is None:
        raise InvalidOperationError("the Spark session is stopped: open the table with a new session")


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
    return {key: value for key, value in _all_settings(spark).items() if key.startswith(_HADOOP + "fs.")}


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
