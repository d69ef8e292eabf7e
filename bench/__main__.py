"""``python -m bench [--quick] [--write] [name …]``: run the benches and print their figures.

``--write`` puts the figures of each bench between its markers in ``docs/benchmarks.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from bench import (
    changes,
    cold,
    count,
    deletes,
    equality,
    iceberg_scan,
    iceberg_write,
    key_vectors,
    log,
    optimize,
    pile_up,
    planning,
    requests,
    rewrite_deletes,
    scan,
    tree,
    vacuum,
    vectors,
    write,
    writers,
)
from bench.harness import Figure, Section, as_seconds, machine

PACKAGES = ("pyroaring", "numpy", "pyarrow", "obstore", "deltalake", "pyspark")
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- figures of {}: begin -->", "<!-- figures of {}: end -->"


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
    "iceberg_scan": iceberg_scan.bench,
    "iceberg_write": iceberg_write.bench,
    "equality": equality.bench,
    "deletes": deletes.bench,
    "key_vectors": key_vectors.bench,
    "rewrite_deletes": rewrite_deletes.bench,
    "pile_up": pile_up.bench,
    "write": write.bench,
    "changes": changes.bench,
    "cold": cold.bench,
    "count": count.bench,
    "writers": writers.bench,
    "requests": requests.bench,
    "vacuum": vacuum.bench,
    "optimize": optimize.bench,
    "planning": planning.bench,
    "tree": tree.bench,
}
# Those of Spark take half an hour and both official jars: asked for by name.
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
    for name in given.names or BY_DEFAULT:
        text = run(name, quick=given.quick)
        print(text)
        if given.write:
            write_figures(name, text)


def run(name: str, *, quick: bool) -> str:
    """The figures of a bench as markdown."""
    sections = [section.markdown() for section in BENCHES[name](quick=quick)]
    return "\n".join([machine(PACKAGES) + "\n", *sections])


def write_figures(name: str, text: str) -> None:
    document, begin, end = DOCUMENT.read_text(), BEGIN.format(name), END.format(name)
    if begin not in document or end not in document:
        raise SystemExit(f"{DOCUMENT} lacks the markers {begin} and {end}")
    head, _, rest = document.partition(begin)
    _, _, tail = rest.partition(end)
    DOCUMENT.write_text(f"{head}{begin}\n\n{text}\n{end}{tail}")


if __name__ == "__main__":
    main()
