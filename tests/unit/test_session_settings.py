"""Settings that hold for a moment, in a session that several threads share."""

from __future__ import annotations

import threading
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is absent")

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
