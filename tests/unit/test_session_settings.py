"""Settings that hold for a moment, in a session that several threads share."""

from __future__ import annotations

import threading
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is absent")

from delvec.errors import InvalidOperationError
from delvec.predicate import SqlSettings
from delvec.spark import session


class Conf:
    def __init__(self, **values: str) -> None:
        self.values = values

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.values[name] = value

    def unset(self, name: str) -> None:
        del self.values[name]


class Session:
    def __init__(self, **values: str) -> None:
        self.conf = Conf(**values)


def test_what_was_there_comes_back() -> None:
    spark = Session(**{"a.b": "1"})
    with session.settings(spark, a__b="2", c="3"):
        assert spark.conf.values == {"a.b": "2", "c": "3"}
    assert spark.conf.values == {"a.b": "1"}


def test_the_last_one_out_puts_back_what_the_first_found() -> None:
    spark = Session(a="1")
    first, second = session.settings(spark, a="2"), session.settings(spark, a="2")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert spark.conf.values == {"a": "2"}, "it must hold for the other one"
    second.__exit__(None, None, None)
    assert spark.conf.values == {"a": "1"}


def test_who_wants_something_else_waits() -> None:
    spark = Session()
    seen: list[str] = []

    def other() -> None:
        with session.settings(spark, a="3"):
            seen.append(spark.conf.get("a"))

    with session.settings(spark, a="2"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.2)
        assert not seen
    thread.join(10)
    assert seen == ["3"]
    assert not spark.conf.values


class Keys:
    """Java's view of the settings that are set."""

    def __init__(self, calls: list[str], values: dict[str, str]) -> None:
        self.calls, self.values = calls, values

    def getAllAsJava(self) -> Any:  # noqa: N802 - Java's name
        self.calls.append("all")
        return self

    def keySet(self) -> Any:  # noqa: N802 - Java's name
        return self

    def toString(self) -> str:  # noqa: N802 - Java's name
        return f"[{', '.join(self.values)}]"


class CountedConf(Conf):
    """Settings that count how often they are asked; ``java``: as a classic session has them."""

    def __init__(self, *, java: bool, **values: str) -> None:
        super().__init__(**values)
        self.calls: list[str] = []
        if java:
            self._jconf = Keys(self.calls, values)

    def get(self, name: str, default: Any = None) -> Any:
        self.calls.append(name)
        defaults = {"spark.sql.session.timeZone": "Europe/Berlin", "spark.sql.ansi.enabled": "false"}
        return self.values.get(name, defaults.get(name, default))

    @property
    def getAll(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        self.calls.append("all")
        return self.values


def settings_of(*, java: bool, **values: str) -> tuple[SqlSettings, list[str]]:
    spark = Session()
    spark.conf = CountedConf(java=java, **values)
    return session.sql_settings(spark), spark.conf.calls


@pytest.mark.parametrize("java", [True, False], ids=["classic", "connect"])
def test_one_call_finds_the_settings_that_are_set(java: bool) -> None:
    others = {f"spark.other.{number}": "x" for number in range(50)}
    zone = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}
    found, calls = settings_of(java=java, **others, **zone)
    assert found == SqlSettings()
    assert calls == (["all", *calls[1:]] if java else ["all"])
    assert set(calls[1:]) <= zone.keys()
    found, _ = settings_of(java=java, **zone, **{"spark.sql.timestampType": "TIMESTAMP_NTZ"})
    assert not found.zoned_timestamps


@pytest.mark.parametrize("java", [True, False], ids=["classic", "connect"])
def test_defaults_that_differ_between_sessions_are_asked_for(java: bool) -> None:
    found, calls = settings_of(java=java, **{"spark.sql.caseSensitive": "true"})
    assert found == SqlSettings(case_sensitive=True, time_zone="Europe/Berlin", ansi=False)
    assert len(calls) == (4 if java else 3)


def test_names_that_are_patterns_are_refused_by_the_name_of_the_setting() -> None:
    with pytest.raises(InvalidOperationError, match="quotedRegexColumnNames is true, expected false"):
        settings_of(java=True, **{"spark.sql.parser.quotedRegexColumnNames": "true"})
