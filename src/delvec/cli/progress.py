"""A progress line on the terminal while Spark works.

A thread polls a classic session; a Connect session calls a handler.
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
    """A running stage: its number, and how many of its tasks are done."""

    number: int
    done: int
    tasks: int


Report = Callable[[Sequence[Stage]], None]


def error_console() -> Console:
    return Console(file=sys.stderr, markup=False, highlight=False, emoji=False)


@contextmanager
def spark_progress(session: SparkSession, *, hidden: bool) -> Iterator[None]:
    """Show stages, tasks and the counts of verbs on stderr if it is a terminal; removed at the end."""
    from delvec.spark.progress import reported_to

    console = error_console()
    if hidden or not console.is_terminal:
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[counts]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        line = Line(bar, bar.add_task("Spark", total=None, counts=""))
        with reported_to(line.count), watched(session, line.running):
            yield


@dataclass(slots=True)
class Line:
    """The progress line: running stages, their finished tasks, and the counts of verbs so far."""

    bar: Progress
    task: TaskID
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, what: str, count: int) -> None:
        self.counts[what] = self.counts.get(what, 0) + count
        self.bar.update(self.task, counts=", ".join(f"{n:,} {name}" for name, n in self.counts.items()))

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
    """Call ``report`` with the running stages of the session, repeatedly, until the end."""
    if hasattr(session, "_jsparkSession"):  # only a classic session has it
        with _polled(session.sparkContext.statusTracker(), report):
            yield
        return

    def handler(stages: Iterable[Any] | None, **_: object) -> None:
        report([Stage(s.stage_id, s.num_completed_tasks, s.num_tasks) for s in stages or () if not s.done])

    session.registerProgressHandler(handler)
    try:
        yield
    finally:
        session.removeProgressHandler(handler)


@contextmanager
def _polled(tracker: Any, report: Report) -> Iterator[None]:
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(_INTERVAL):
            try:
                report(running_stages(tracker))
            except Exception:  # the JVM has ended: the thread that waits for its result reports why
                return

    thread = threading.Thread(target=poll, name="delvec-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def running_stages(tracker: Any) -> list[Stage]:
    """The running stages, from Spark's status tracker."""
    stages = [tracker.getStageInfo(number) for number in sorted(tracker.getActiveStageIds())]
    return [Stage(s.stageId, s.numCompletedTasks, s.numTasks) for s in stages if s is not None]
