"""``python -m bench [--quick] [--write] [name …]``: run the benches and print their figures.

``--write`` puts the figures between the markers of ``docs/benchmarks.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from bench import log, scan, vectors
from bench.harness import Figure, Section, as_seconds, machine

PACKAGES = ("pyroaring", "numpy", "pyarrow", "obstore", "deltalake", "pyspark")
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def bench_vectors(*, quick: bool) -> list[Section]:
    rounds = 3 if quick else vectors.ROUNDS
    how = (
        f"Sets of {vectors.COUNT:,} positions, ours and the best plain use of pyroaring and numpy in "
        f"interleaved rounds, medians of {rounds}. Where a set is so small on disk that an operation takes "
        "microseconds, the checks of the blob, a fixed cost, show in the ratio; the difference is given."
    )
    figures = [
        Figure(
            f"{row['operation']}, {row['set']}",
            as_seconds(row["ours_ms"] / 1e3),
            as_seconds(row["plain_ms"] / 1e3),
            row["ratio"],
            f"≤ {vectors.MAX_RATIO}×",
            row["ratio"] <= vectors.MAX_RATIO,
            ""
            if row["ratio"] <= vectors.MAX_RATIO
            else f", by {(row['ours_ms'] - row['plain_ms']) * 1e3:.0f} µs",
        )
        for row in vectors.run(rounds)
    ]
    return [Section("Vectors", how, figures, "best plain")]


BENCHES: dict[str, Callable[..., list[Section]]] = {
    "vectors": bench_vectors,
    "log": log.bench,
    "scan": scan.bench,
}
# The scan's takes half an hour and both official jars: asked for by name.
BY_DEFAULT = ("vectors", "log")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run the benches.")
    parser.add_argument(
        "names", nargs="*", help=f"of {', '.join(BENCHES)}; {' and '.join(BY_DEFAULT)} by default"
    )
    parser.add_argument("--quick", action="store_true", help="smaller, to see that it works")
    parser.add_argument("--write", action="store_true", help=f"put the figures into {DOCUMENT.name}")
    given = parser.parse_args()
    if unknown := set(given.names) - set(BENCHES):
        parser.error(f"no such bench: {', '.join(sorted(unknown))}")
    text = run(given.names or BY_DEFAULT, quick=given.quick)
    print(text)
    if given.write:
        write(text)


def run(names: Iterable[str], *, quick: bool) -> str:
    """The figures as markdown."""
    sections = [section for name in names for section in BENCHES[name](quick=quick)]
    return "\n".join([machine(PACKAGES) + "\n", *(section.markdown() for section in sections)])


def write(text: str) -> None:
    document = DOCUMENT.read_text()
    if BEGIN not in document or END not in document:
        raise SystemExit(f"{DOCUMENT} lacks the markers {BEGIN} and {END}")
    head, _, rest = document.partition(BEGIN)
    _, _, tail = rest.partition(END)
    DOCUMENT.write_text(f"{head}{BEGIN}\n\n{text}\n{END}{tail}")


if __name__ == "__main__":
    main()
