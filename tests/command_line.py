"""Fixtures that run command lines in this process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from delvec.cli.main import main
from delvec.cli.spark import quiet_loggers

SPARK_COMMANDS = ("change", "changes", "convert", "count", "optimize", "rewrite_deletes", "sql")
"""The modules of commands that start a session of their own, and stop it."""


@dataclass(frozen=True)
class Run:
    """How a command line ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def delvec(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Runs a command line in this process."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments: object) -> Run:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Run(code, *capsys.readouterr())

    return run


@pytest.fixture
def started():
    """The settings of the sessions that commands asked for."""
    return []


@pytest.fixture
def in_spark(monkeypatch, spark, started):
    """Commands get the session of the tests."""

    @contextlib.contextmanager
    def start(settings=None, *, purpose):
        started.append(settings)
        with quiet_loggers():
            yield spark

    for module in SPARK_COMMANDS:
        monkeypatch.setattr(f"delvec.cli.{module}.local_session", start)
