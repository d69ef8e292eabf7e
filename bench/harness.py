"""Running a measurement in a process of its own, and telling what came of it.

A probe is a command of a bench module, ``python -m bench.log probe open-delvec /a/table``. It prints
one line of JSON: seconds and counts by name, and with ``memory()`` what the process took.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class Figure:
    """One row of the table: what was measured, what it took, and what it may take."""

    what: str
    delvec: str
    other: str = ""
    ratio: float | None = None
    bar: str = ""
    holds: bool | None = None
    but: str = ""

    def cells(self) -> tuple[str, ...]:
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}×"
        verdict = {None: "", True: "yes", False: "**no**"}[self.holds] + self.but
        return (self.what, self.delvec, self.other, ratio, self.bar, verdict)


@dataclass(frozen=True)
class Section:
    """The figures of one bench, with a sentence that says how they were taken."""

    title: str
    how: str
    figures: Sequence[Figure]
    other: str

    def markdown(self) -> str:
        head = ("", "delvec", self.other, "ratio", "bar", "holds")
        rows = [head, ("---",) * len(head), *(figure.cells() for figure in self.figures)]
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        return f"### {self.title}\n\n{self.how}\n\n{table}\n"


def cache() -> Path:
    """Where generated tables are kept between runs, outside the repository."""
    return Path(os.environ.get("DELVEC_CACHE") or Path.home() / ".cache" / "delvec")


def probe(module: str, *arguments: str) -> dict[str, Any]:
    """What a probe of ``module`` prints, run in a fresh process."""
    command = [sys.executable, "-m", module, "probe", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def alternate(runs: int, probes: Mapping[str, Callable[[], dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """The median of each value over so many runs, the probes taking turns, in an order that turns too."""
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in probes}
    for run in range(runs):
        names = list(probes) if run % 2 == 0 else list(probes)[::-1]
        for name in names:
            seen[name].append(probes[name]())
    return {name: _medians(results) for name, results in seen.items()}


def _medians(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {key: statistics.median(result[key] for result in results) for key in results[0]}


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def memory() -> int:
    """The most memory this process has held so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # Unlike ru_maxrss, it does not start from what the parent process held.
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def machine(packages: Iterable[str]) -> str:
    """One line about what the figures were taken on."""
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"{os.cpu_count()} cores, {pages / 1024**3:.0f} GiB of memory, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}; {versions}."
    )


def at_most(what: str, ours: float, theirs: float, bar: float, form: Callable[[float], str]) -> Figure:
    """A figure whose bar is a multiple of the other way's."""
    ratio = ours / theirs
    return Figure(what, form(ours), form(theirs), ratio, f"≤ {bar}×", ratio <= bar)


def as_seconds(value: float) -> str:
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.1f} ms" if value >= 0.001 else f"{value * 1e6:.0f} µs"


def as_megabytes(value: float) -> str:
    return f"{value / MEGABYTE:,.0f} MiB"
