"""Where tables and blobs written by other engines are found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "golden"
GOLDEN = Path(os.environ.get("DELVEC_GOLDEN", _DEFAULT))


def golden(relative: str) -> Path:
    """The golden file or folder; skips the test where the golden data is not at hand."""
    path = GOLDEN / relative
    if not GOLDEN.is_dir():
        pytest.skip(f"golden data is absent: {GOLDEN} (set DELVEC_GOLDEN)")
    assert path.exists(), f"golden data lacks {relative}"
    return path
