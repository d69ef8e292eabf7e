"""What Spark and a verb are doing, as one line on a terminal while they work.

Classic sessions are asked, from a thread; Connect sessions tell.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INTERVAL = 0.2  # seconds


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that is running: its number, and how many of its tasks are done."""

    number: int
    done: int
    tasks: int


Report = Callable[[Sequence[Stage]], None]


def error_console() -> Console:
    return Console(file=sys.stderr, markup=False, highlight=False, emoji=False)


@contextmanager
def spark_progress(session: SparkSession, *, hidden: bool) -> Iterator[None]:
    """Stages, tasks, and what verbs tell, on stderr while it is a terminal; gone when done."""
    from delvec.spark.progress import told_to

    console = error_console()
    if hidden or not console.is_terminal:
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        line = Line(bar, bar.add_task("Spark", total=None, told=""))
        with told_to(line.told), watched(session, line.running):
            yield


@dataclass(slots=True)
class Line:
    """The line: which stages run, how many of their tasks are done, and what was told so far."""

    bar: Progress
    task: TaskID
    counts: dict[str, int] = field(default_factory=dict)

    def told(self, what: str, count: int) -> None:
        self.counts[what] = self.counts.get(what, 0) + count
        self.bar.update(self.task, told=", ".join(f"{n:,} {name}" for name, n in self.counts.items()))

    def running(self, stages: Sequence[Stage]) -> None:
        if not stages:
            self.bar.update(self.task, description="Spark")
            return
        numbers = ", ".join(str(stage.number) for stage in stages)
        self.bar.update(
            self.task,
            description=f"Spark stage {numbers}" if len(stages) == 1 else f"Spark stages {numbers}",
            completed=sum(stage.done for stage in stages),
            total=sum(stage.tasks for stage in stages),
        )


@contextmanager
def watched(session: SparkSession, report: Report) -> Iterator[None]:
    """``report`` gets the running stages of the session again and again; never after the end."""
    if hasattr(session, "_jsparkSession"):  # what only a classic session has
        with _asked(session.sparkContext.statusTracker(), report):
            yield
        return

    def told(stages: Iterable[Any] | None, **_: object) -> None:
        report([Stage(s.stage_id, s.num_completed_tasks, s.num_tasks) for s in stages or () if not s.done])

    session.registerProgressHandler(told)
    try:
        yield
    finally:
        session.removeProgressHandler(told)


@contextmanager
def _asked(tracker: Any, report: Report) -> Iterator[None]:
    ended = threading.Event()

    def ask() -> None:
        while not ended.wait(_INTERVAL):
            try:
                report(running_stages(tracker))
            except Exception:  # the JVM has gone: what ended it is told by whoever waits for its answer
                return

    thread = threading.Thread(target=ask, name="delvec-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def running_stages(tracker: Any) -> list[Stage]:
    """The stages that Spark's status tracker knows to be running."""
    found = [tracker.getStageInfo(number) for number in sorted(tracker.getActiveStageIds())]
    return [Stage(s.stageId, s.numCompletedTasks, s.numTasks) for s in found if s is not None]
