"""The settings of a Spark session that delvec depends on, and temporary changes of settings."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from delvec import location
from delvec.errors import InvalidOperationError
from delvec.predicate.settings import DEFAULTS_BY_ENVIRONMENT, REGEX_NAMES, RELEVANT, SqlSettings

_HADOOP = "spark.hadoop."
_MAX_FRAMES = 16


def sql_settings(spark: SparkSession) -> SqlSettings:
    """The settings that change how the session reads conditions. One call gets all of them."""
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

    On Connect, ``getAll`` is one request. A classic session would make a call to the JVM for each key and
    value, about 0.1 ms each, and the SQL command SET takes 40 ms and more: so the keys are fetched as one
    text.
    """
    jconf = getattr(spark.conf, "_jconf", None)
    if jconf is None:
        return {name: str(value) for name, value in _all_settings(spark).items() if name in RELEVANT}
    names = RELEVANT.intersection(str(jconf.getAllAsJava().keySet().toString())[1:-1].split(", "))
    return {name: str(spark.conf.get(name)) for name in names}


def _all_settings(spark: SparkSession) -> Mapping[str, str]:
    settings = spark.conf.getAll  # a property, in classic and in Connect
    return settings() if callable(settings) else settings


def verify_running(spark: SparkSession) -> None:
    """Refuse a stopped session: Spark's own error for it is an obscure traceback."""
    context = getattr(spark, "_sc", None)  # a Connect session has none
    if context is not None and context._jsc is None:
        raise InvalidOperationError("the Spark session is stopped: open the table with a new session")


def session_storage_options(
    spark: SparkSession, place: str, options: Mapping[str, str] | None
) -> dict[str, str]:
    """The storage options for a location: those given, or else the session's ``spark.hadoop.fs.*``.

    The storage itself reads the environment. Local files need no options, and getting the session's settings
    takes as long as a small read.
    """
    if options:
        return dict(options)
    if location.normalize(place).startswith("/"):
        return {}
    return {key: value for key, value in _all_settings(spark).items() if key.startswith(_HADOOP + "fs.")}


def verify_credentials(spark: SparkSession, names: Sequence[str], place: str) -> None:
    """Refuse a read for which Spark's file system has no credentials. A catalog gave them to delvec only.

    ``names``: the Hadoop settings of which one, for all buckets or for one, gives credentials. Connect does
    not show them to its clients, so there only Spark can tell.
    """
    is_connect = getattr(spark, "_sc", None) is None
    if not names or is_connect or "AWS_ACCESS_KEY_ID" in os.environ:
        return
    settings = [key.removeprefix(_HADOOP) for key in _all_settings(spark) if key.startswith(_HADOOP)]
    if not any(_is_for(setting, name) for setting in settings for name in names):
        raise InvalidOperationError(
            f"the catalog gives credentials for {place}, but Spark's file system has none: set "
            f"{' or '.join(_HADOOP + name for name in names)} for the session, or read with "
            'spark.read.format("delvec")'
        )


def _is_for(setting: str, name: str) -> bool:
    """Whether it is the setting of this name, or that of a bucket or an account: the name has more parts."""
    fs, store, option = name.split(".", 2)
    return setting.startswith(f"{fs}.{store}.") and option in setting


def kept_frame(spark: SparkSession, *columns: str) -> DataFrame:
    """An empty DataFrame with these columns (expressions), for the analysis of expressions. Cached per
    session.
    """
    with _overrides_changed:
        frames = _frames.setdefault(spark, {})
        if columns not in frames:
            if len(frames) == _MAX_FRAMES:
                del frames[next(iter(frames))]  # the oldest
            frames[columns] = spark.range(0, numPartitions=1).selectExpr(*columns)
        return frames[columns]


@contextmanager
def settings(spark: SparkSession, **overrides: str) -> Iterator[None]:
    """Change settings (``__`` for dots in names) inside the context; afterwards restore the old values.

    Threads that share a session may be inside at the same time if they set the same values: the first saves
    the old values, the last restores them. A thread that sets another value waits for them.
    """
    names = {name.replace("__", "."): value for name, value in overrides.items()}
    with _overrides_changed:
        active = _overrides.setdefault(spark, {})
        _overrides_changed.wait_for(
            lambda: all(name not in active or active[name].value == names[name] for name in names)
        )
        for name, value in names.items():
            _set(spark, active, name, value)
    try:
        yield
    finally:
        with _overrides_changed:
            for name in names:
                _restore(spark, active, name)
            _overrides_changed.notify_all()


@dataclass(slots=True)
class _Override:
    """A temporarily changed setting of a session, and how many threads use it."""

    before: str | None
    value: str
    users: int = 0


_overrides_changed = threading.Condition()
_frames: WeakKeyDictionary[SparkSession, dict[tuple[str, ...], DataFrame]] = WeakKeyDictionary()
_overrides: WeakKeyDictionary[SparkSession, dict[str, _Override]] = WeakKeyDictionary()


def _set(spark: SparkSession, active: dict[str, _Override], name: str, value: str) -> None:
    if name not in active:
        active[name] = _Override(spark.conf.get(name, None), value)
        spark.conf.set(name, value)
    active[name].users += 1


def _restore(spark: SparkSession, active: dict[str, _Override], name: str) -> None:
    active[name].users -= 1
    if active[name].users:
        return
    before = active.pop(name).before
    if before is None:
        spark.conf.unset(name)
    else:
        spark.conf.set(name, before)
