"""deltalake 0.9.0, a reader without deletion vectors, in an environment of its own in the cache."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from jars import cache

PACKAGES = ("deltalake==0.9.0", "pyarrow<15", "numpy<2")
SECONDS = 600

READ = """
import json, os, sys
from deltalake import DeltaTable
table = DeltaTable(sys.argv[1])
print(json.dumps(table.to_pyarrow_table().to_pylist(), default=str), flush=True)
os._exit(0)  # this pyarrow may abort while it stops its threads
"""


class ReaderUnavailableError(Exception):
    """Why the environment cannot be had."""


def old_reader() -> Path:
    """The Python of the environment, made when it is first asked for."""
    folder = cache() / f"deltalake-0.9.0-python{sys.version_info.major}.{sys.version_info.minor}"
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            _run(sys.executable, "-m", "venv", str(folder))
            _run(str(python), "-m", "pip", "install", "--quiet", *PACKAGES)
            (folder / "made").touch()
    return python


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", "") or str(error)
        raise ReaderUnavailableError(f"no environment with {PACKAGES[0]}: {reason.strip()[-300:]}") from None


def read_rows(python: Path, location: str) -> list[dict[str, Any]] | str:
    """The rows; the last line of its error if it refuses the table."""
    done = subprocess.run(
        [str(python), "-c", READ, location], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows
