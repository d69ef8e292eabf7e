"""A vacuum again and again, beside writers: each time with files to delete."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from delvec import detect
from delvec.vacuum import VacuumResult, vacuum

OLD_FILES = 20


@contextmanager
def vacuumed(location: str, *, seconds: float = 2) -> Iterator[list[VacuumResult]]:
    """Vacuum the table inside of the context, with a pause of so many seconds; the results so far."""
    ended = threading.Event()
    runs: list[VacuumResult] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            while not ended.wait(seconds):
                for number in range(OLD_FILES):
                    place = Path(location, f"old-{number}.parquet")
                    place.write_bytes(b"x")
                    os.utime(place, (0, 0))
                runs.append(vacuum(detect.open_table(location)))
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield runs
    finally:
        ended.set()
        thread.join()
    assert not errors, errors
    assert all(result.files == OLD_FILES for result in runs), runs
