"""Random writers, readers and crashes for as long as is asked, and then the check of every commit.

    SOAK_MINUTES=30 SOAK_SEED=7 python tests/soak/soak.py

In rounds, each with a table of another kind: writers with statements of all verbs, killed at random moments
or at a random storage call and replaced by new ones; readers who read each version twice; a vacuum. At
a round's end the log is replayed by `writers.judge`: every reported success is there in its place, statements
of those killed are there once or not at all, and readers saw what their versions hold.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verbs import CHANGES_ON, VECTORS_OFF
from writers import client, processes
from writers.client import Place, Task
from writers.crashing import AFTER, BEFORE, COMMITS, DIE, DIED, Point
from writers.judge import Judge, Verdict, told_in
from writers.schedule import first_rows
from writers.serial import State, after
from writers.server import connect_server
from writers.statements import CREATE, Statement
from writers.vacuuming import vacuumed

WRITERS, READERS = 4, 1
ROUND_SECONDS = 300
_KILLED = -9
_KILLS_A_SECOND = 0.15
_LAST_CALL, _LAST_COMMIT = 150, 5  # at which a writer dies, where it does not die otherwise
_CHECKED_VERSIONS = 20  # rows are compared at each of so many
_END_SECONDS = 120
KINDS: dict[str, dict[str, Any]] = {
    "vectors": {},
    "partitioned": {"partition_by": ("p",)},
    "copy-on-write": {"properties": VECTORS_OFF},
    "change files": {"properties": CHANGES_ON},
    "row ids, partitioned": {"partition_by": ("p",), "properties": {"delta.enableRowTracking": "true"}},
    "checkpoints": {"properties": {"delta.checkpointInterval": "3"}},
}


@dataclass
class Slot:
    """A place for one writer after another."""

    task: Task
    process: Any


class Round:
    """Writers and readers of one table, until the time is up."""

    def __init__(self, place: Place, folder: Path, seed: int, seconds: float) -> None:
        self.place = place
        self.folder = folder
        self.seed = seed
        self.ends = time.monotonic() + seconds
        self.chance = random.Random(seed)
        self.tasks: list[Task] = []
        self.kills = 0

    def run(self) -> list[Path]:
        """The readers' journals, once all have ended."""
        readers = [self.folder / f"reader-{number}.journal" for number in range(READERS)]
        left = self.ends - time.monotonic()
        reading = [
            processes.started(client.read, self.place, journal, self.seed + number, left)
            for number, journal in enumerate(readers)
        ]
        slots = [self._new() for _ in range(WRITERS)]
        while time.monotonic() < self.ends:
            time.sleep(0.2)
            if self.chance.random() < _KILLS_A_SECOND * 0.2:
                self.chance.choice(slots).process.kill()
                self.kills += 1
            slots = [slot if slot.process.is_alive() else self._next(slot) for slot in slots]
        codes = processes.joined([*reading, *(slot.process for slot in slots)], _END_SECONDS)
        assert set(codes) <= {0, DIED, _KILLED}, f"exit codes {codes}"
        return readers

    def _next(self, slot: Slot) -> Slot:
        assert slot.process.exitcode in (0, DIED, _KILLED), f"a writer ended with {slot.process.exitcode}"
        self.kills += slot.process.exitcode == DIED
        return self._new()

    def _new(self) -> Slot:
        writer = len(self.tasks)
        seconds = max(0.0, self.ends - time.monotonic())
        journal = self.folder / f"{writer}.journal"
        task = Task(self.seed, writer, journal, seconds=seconds, point=self._point())
        self.tasks.append(task)
        return Slot(task, processes.started(client.write, self.place, task))

    def _point(self) -> Point | None:
        """Where a writer dies by itself: at any storage call, at a commit, or nowhere."""
        when, kind = self.chance.choice((BEFORE, AFTER)), self.chance.randrange(3)
        if kind == 0:
            return Point(DIE, when, self.chance.randrange(_LAST_CALL))
        return Point(DIE, when, self.chance.randrange(_LAST_COMMIT), COMMITS) if kind == 1 else None


def soaked(folder: Path, kind: str, seed: int, seconds: float) -> tuple[Verdict, int]:
    folder.mkdir()
    with connect_server(folder / "server") as server:
        place = Place(server, str(folder / "table"))
        statement = Statement(CREATE, 0, rows=first_rows(), **KINDS[kind])
        with processes.servant(server) as servant:
            assert servant(place.location, statement).get("version") == 0
        this = Round(place, folder, seed, seconds)
        with vacuumed(place.location, seconds=5):
            readers = this.run()
    judge = Judge(place.location)
    first, _ = after(State(), statement)
    verdict = judge.judge(first, told_in(this.tasks), every=_CHECKED_VERSIONS, readers=readers)
    judge.check_sound()
    return verdict, this.kills


def main() -> int:
    minutes = float(os.environ.get("SOAK_MINUTES") or 30)
    seed = int(os.environ.get("SOAK_SEED") or time.time())
    ends = time.monotonic() + minutes * 60
    root = Path(tempfile.mkdtemp(prefix="delvec-soak-"))
    say(f"{minutes:g} minutes, seed {seed}, in {root}")
    number = 0
    while (left := ends - time.monotonic()) > 10 or not number:
        kind = list(KINDS)[number % len(KINDS)]
        started = time.monotonic()
        verdict, kills = soaked(root / str(number), kind, seed + number, min(ROUND_SECONDS, left))
        say(f"round {number}, {kind}: {kills} killed, {verdict}, {time.monotonic() - started:.0f} s")
        number += 1
    say(f"{number} rounds, all commits accounted for")
    shutil.rmtree(root)  # what was found wrong is left to be looked at
    return 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
