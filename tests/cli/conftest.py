from __future__ import annotations

from pathlib import Path

import pytest

from command_line import SPARK_COMMANDS, delvec, in_spark, started
from delvec import detect

__all__ = ["delvec", "in_spark", "started"]


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
def no_spark(monkeypatch, started):
    """Commands that would start Spark fail."""

    def start(settings=None, *, purpose):
        started.append(settings)
        raise AssertionError("Spark was started")

    for module in SPARK_COMMANDS:
        monkeypatch.setattr(f"delvec.cli.{module}.local_session", start)
