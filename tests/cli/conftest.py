from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from delvec import detect
from delvec.cli.main import main
from delvec.cli.spark import quiet_loggers


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
def orders(tmp_path: Path) -> Path:
    """A table of 40 orders with four vectors; versions 0 to 2."""
    folder = tmp_path / "orders"
    detect.write_sample_table(str(folder))
    return folder


@pytest.fixture
def vector_files(orders: Path) -> list[Path]:
    """The vector files of ``orders``: that of version 2, then that of version 1, with four vectors."""
    return sorted(orders.glob("deletion_vector_*.bin"), key=lambda path: path.stat().st_size)


@pytest.fixture
def started():
    """The settings of the sessions that commands asked for."""
    return []


@pytest.fixture
def no_spark(monkeypatch, started):
    """Commands that would start Spark fail."""

    def start(settings=None, *, purpose):
        started.append(settings)
        raise AssertionError("Spark was started")

    for module in ("change", "sql"):
        monkeypatch.setattr(f"delvec.cli.{module}.local_session", start)


@pytest.fixture
def in_spark(monkeypatch, spark, started):
    """Commands get the session of the tests."""

    @contextlib.contextmanager
    def start(settings=None, *, purpose):
        started.append(settings)
        with quiet_loggers():
            yield spark

    for module in ("change", "sql"):
        monkeypatch.setattr(f"delvec.cli.{module}.local_session", start)
