"""The first statement of a session, as batch jobs have it, and a small merge, which is all overhead.

Each statement runs in a process and a JVM of its own, the engines in turns. The session is there, its first
statement is measured: what the classes of an engine take to load and its plans to be made is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from bench.engines import DELTA, DELVEC, ICEBERG, Engine
from bench.harness import Figure, Section, alternate, as_seconds, at_most
from bench.scan_tables import SCHEMA, Tables
from bench.write import Preparation, Verb, Writes, small_merge, verbs

ROWS, QUICK_ROWS = 5_000_000, 100_000
ROUNDS, QUICK_ROUNDS = 3, 1
WARM_UPS, SMALL_ROUNDS = 6, 9
ENGINES = (DELVEC, DELTA, ICEBERG)
_COLD = ("DELETE 0.1 %", "UPDATE 0.1 %", "MERGE, 1 % upserted")

Probe = Callable[[], dict[str, float]]


def bench(*, quick: bool) -> list[Section]:
    rows, rounds = (QUICK_ROWS, QUICK_ROUNDS) if quick else (ROWS, ROUNDS)
    made = prepared(rows)
    chosen = [verb for verb in verbs(rows) if verb.what in _COLD] + [small_merge()]
    first = first_statements(chosen, rounds, lambda name: Engine(Writes, name, rows, made), ENGINES)
    how = (
        f"{rows:,} rows of {SCHEMA} in four files without vectors; each statement is the first of a session "
        f"in a process of its own, the engines in turns; medians of {rounds}."
    )
    warm = (
        f"A table of one file and a source of one; medians of {1 if quick else SMALL_ROUNDS} interleaved "
        f"rounds after {WARM_UPS} that are not counted, each engine in a session of its own."
    )
    small = _small(rows, made, quick=quick)
    return [
        Section("First statements", how, first, "the other"),
        Section("A small merge, warm", warm, small, "the other"),
    ]


def prepared(rows: int) -> Tables:
    """The tables, made where they are not there."""
    with Engine(Preparation, rows) as preparation:
        made: Tables = preparation.ask("undeleted_tables")
    return made


def first_statements(
    chosen: Sequence[Verb], rounds: int, start: Callable[[str], Engine], engines: Sequence[str]
) -> list[Figure]:
    """Each statement as the first one of a session. ``start`` starts the process of an engine."""

    def probe(name: str, verb: Verb) -> Probe:
        def run() -> dict[str, float]:
            with start(name) as engine:
                found: dict[str, float] = engine.ask("run", verb.what)
            return found

        return run

    probes = {verb: {name: probe(name, verb) for name in engines} for verb in chosen}
    return [figure for verb in chosen for figure in _compared(verb, rounds, probes[verb])]


def _small(rows: int, made: Tables, *, quick: bool) -> list[Figure]:
    verb = small_merge()
    with ExitStack() as stack:
        engines = {name: stack.enter_context(Engine(Writes, name, rows, made)) for name in ENGINES}
        probes: dict[str, Probe] = {name: lambda e=e: e.ask("run", verb.what) for name, e in engines.items()}
        for _ in range(WARM_UPS):
            for run in probes.values():
                run()
        return _compared(verb, 1 if quick else SMALL_ROUNDS, probes)


def _compared(verb: Verb, rounds: int, probes: dict[str, Probe]) -> list[Figure]:
    took = alternate(rounds, probes)
    counted = {name: result["rows"] for name, result in took.items()}
    if len(set(counted.values())) != 1:
        raise RuntimeError(f"rows differ after {verb.what}: {counted}")
    ours = took[DELVEC]["seconds"]
    return [
        at_most(f"{verb.what}; {other}", ours, result["seconds"], verb.bar, as_seconds)
        for other, result in took.items()
        if other != DELVEC
    ]
