"""The metadata tree of Iceberg version 4, beside version 3 and Delta: small commits, and plans.

Small commits      files, bytes and requests of an append of one file and of a DELETE in one file, at tables
                   of several sizes. metadata.json is counted apart: it grows with the snapshots kept
Many commits       appends of one file and DELETEs, taking turns, 100 snapshots kept
Plans              a condition that three files of very many can match, cold and warm

The tables have metadata only. Seconds of the store model: 30 ms for each request, one after the other, and
90 MB a second.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.harness import Figure, Section, as_seconds, memory, probe
from bench.tree_tables import KINDS, ROWS, BenchTable, Cost, new_table

SIZES, QUICK_SIZES = (1, 100, 10_000), (1, 100)
PLAN_SIZES, QUICK_PLAN_SIZES = (10_000, 100_000, 1_000_000), (500, 2_000)
COMMITS, QUICK_COMMITS = 10_000, 120
KEPT = 100
MAX_WARM = 0.100


def bench(*, quick: bool) -> list[Section]:
    return [_small(quick=quick), _many(quick=quick), _plans(quick=quick)]


# --- small commits ---------------------------------------------------------------------------------


def _small(*, quick: bool) -> Section:
    figures = []
    for count in QUICK_SIZES if quick else SIZES:
        found = {kind: probe("bench.tree", "small", kind, str(count)) for kind in KINDS}
        for what in ("append", "delete"):
            costs = {kind: found[kind][what] for kind in KINDS}
            figures.append(Figure(f"{what} at {count:,} files", _told(costs["v4"]), _others(costs)))
    how = (
        "A new process opens the table and commits. Metadata files and their bytes without metadata.json and "
        "data, requests, seconds of the store model."
    )
    return Section("Small commits to trees", how, figures, "version 3; Delta")


def _told(cost: dict[str, Any]) -> str:
    return (
        f"{cost['files']} files, {cost['bytes'] / 1000:,.1f} kB (+ {cost['json'] / 1000:,.1f} kB json), "
        f"{cost['requests']} requests, {as_seconds(cost['seconds'])}"
    )


def _others(costs: dict[str, Any]) -> str:
    return "; ".join(_told(costs[kind]) for kind in KINDS[1:])


def probe_small(kind: str, count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        table = new_table(kind, Path(scratch) / "t", count)
        found = {}
        for what in ("append", "delete"):
            other = table.opened()
            other.storage.cost = Cost()
            other.append(1) if what == "append" else other.delete(0)
            found[what] = _summed(other.storage.cost)
            table = other
    return found


def _summed(cost: Cost) -> dict[str, Any]:
    return {
        "files": cost.metadata_files(),
        "bytes": cost.metadata_bytes(),
        "json": cost.written["metadata.json"],
        "requests": sum(cost.requests.values()),
        "seconds": cost.seconds,
    }


# --- many commits ----------------------------------------------------------------------------------


def _many(*, quick: bool) -> Section:
    commits = QUICK_COMMITS if quick else COMMITS
    found = {kind: probe("bench.tree", "many", kind, str(commits)) for kind in ("v4", "v3")}
    figures = []
    for at, (ours, theirs) in enumerate(zip(found["v4"]["points"], found["v3"]["points"], strict=True)):
        what = f"{commits * (at + 1) // len(found['v4']['points']):,} commits"
        figures.append(
            Figure(
                f"{what}: bytes written for each commit since the last row, without metadata.json",
                f"{ours['bytes'] / 1000:,.1f} kB",
                f"{theirs['bytes'] / 1000:,.1f} kB",
                ours["bytes"] / theirs["bytes"],
            )
        )
        figures.append(
            Figure(f"{what}: root, list", *(f"{x['root'] / 1000:,.1f} kB" for x in (ours, theirs)))
        )
        figures.append(
            Figure(f"{what}: a cold plan of one id", *(as_seconds(x["plan"]) for x in (ours, theirs)))
        )
    how = f"Appends of one file; every tenth commit is a DELETE in one file. {KEPT} snapshots are kept."
    return Section("Many commits to trees", how, figures, "version 3")


def probe_many(kind: str, commits: int, points: int = 4) -> dict[str, Any]:
    from delvec.iceberg.metadata_commits import commit_updates
    from delvec.iceberg.metadata_updates import remove_snapshots

    def kept(metadata: Any) -> list[Any]:
        old = sorted(metadata.snapshots.values(), key=lambda record: record.sequence_number)[:-KEPT]
        return [remove_snapshots([record.snapshot_id for record in old])] if old else []

    found = []
    with tempfile.TemporaryDirectory() as scratch:
        table = new_table(kind, Path(scratch) / "t", 1)
        written, since = 0, 0
        for number in range(1, commits + 1):
            table.storage.cost = Cost()
            table.delete(table.count - 1) if number % 10 == 0 else table.append(1)
            written, since = written + table.storage.cost.metadata_bytes(), since + 1
            if number % KEPT == 0:
                commit_updates(table.table._newest, kept, operation="expire")
            if number % (commits // points) == 0:
                record = table.table.snapshot().record
                root = record.root_manifest or record.manifest_list
                found.append(
                    {
                        "bytes": written / since,
                        "root": Path(root).stat().st_size,
                        "plan": _planned(table, table.count // 2)[0],
                    }
                )
                written = since = 0
    return {"points": found}


# --- plans -----------------------------------------------------------------------------------------


def _plans(*, quick: bool) -> Section:
    figures = []
    for clustered in (True, False):
        label = "clustered" if clustered else "unclustered"
        for count in QUICK_PLAN_SIZES if quick else PLAN_SIZES:
            ours, theirs = (
                probe("bench.tree", "plan", kind, str(count), str(int(clustered))) for kind in ("v4", "v3")
            )
            for name in ("cold", "warm"):
                holds = ours["warm"] <= MAX_WARM if clustered and name == "warm" else None
                figures.append(
                    Figure(
                        f"{count:,} files, {label}, {name}",
                        as_seconds(ours[name]),
                        as_seconds(theirs[name]),
                        ours[name] / theirs[name],
                        "≤ 100 ms" if holds is not None else "",
                        holds,
                    )
                )
            figures.append(
                Figure(
                    f"{count:,} files, {label}: memory",
                    *(f"{x['memory'] / 2**20:,.0f} MiB" for x in (ours, theirs)),
                )
            )
    how = (
        "Plans of three files' ids. Cold: the first plan of a process, after one of a small table. Warm: "
        "the same table opened again, with the leaves in the cache, the median of five."
    )
    return Section("Plans of trees", how, figures, "version 3")


def probe_plan(kind: str, count: int, clustered: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        small = new_table(kind, Path(scratch) / "small", 10)
        _planned(small, 5)
        table = new_table(kind, Path(scratch) / "t", count, clustered=clustered)
        _forget()
        cold, files = _planned(table, count // 2)
        warm = statistics.median(_planned(table, count // 2)[0] for _ in range(5))
        assert files == (3 if clustered else count), files
        return {"cold": cold, "warm": warm, "memory": memory()}


def _planned(table: BenchTable, number: int) -> tuple[float, int]:
    """The seconds of a plan of three files by a table that is opened anew, and the number of files found."""
    from delvec.predicate.condition import parse

    began = time.perf_counter()
    snapshot = table.opened().table.snapshot()
    low, high = number * ROWS + 5, (number + 2) * ROWS + 5
    files = len(snapshot.plan(parse(f"id BETWEEN {low} AND {high}", snapshot.schema)).files)
    return time.perf_counter() - began, files


def _forget() -> None:
    from delvec.iceberg.manifest_cache import MANIFESTS
    from delvec.iceberg.tree.stored_tree import TREE_MANIFESTS

    MANIFESTS.clear()
    TREE_MANIFESTS.clear()


def main() -> None:
    _, what, kind, count, *more = sys.argv[1:]
    if what == "small":
        found = probe_small(kind, int(count))
    elif what == "many":
        found = probe_many(kind, int(count))
    else:
        found = probe_plan(kind, int(count), more[0] == "1")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
