"""What must hold after many writers: the commits in the log's order, one at a time, are what was reported.

- every reported success has a version of its own in the log, by that operation; no reported failure has one;
- replayed in the order of their versions, in plain Python, they give the table's rows at each version, and
  each statement's counts are those it would have had alone at its place;
- a statement that changed nothing had nothing to change at the version it names;
- no writer sees the table go back;
- a statement whose process died is in the log once or not at all.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deleted_rows import DeletedByValue, deleted_rows
from delvec import detect
from delvec.schema import arrow_type
from delvec.verify import verify_table
from writers.client import Task, row_text
from writers.serial import OPERATIONS, SNAPSHOTS, State, after
from writers.statements import DELETE, DELETE_KEYS, OPTIMIZE, PURGE, UPDATE, UPSERT, Row, Statement

_TOKEN = re.compile(r"/\* statement (\d+) \*/")


@dataclass(frozen=True, slots=True)
class Told:
    """A statement of a writer and what its journal tells of it: nothing where the process died."""

    writer: int
    statement: Statement
    outcome: Mapping[str, Any] | None

    @property
    def version(self) -> int | None:
        return None if self.outcome is None else self.outcome.get("version")

    @property
    def changed_nothing(self) -> bool:
        """Deletes, updates and compactions may: they commit nothing then."""
        metrics = self.outcome["metrics"] if self.outcome and self.version is not None else {}
        if metrics and self.statement.verb in (OPTIMIZE, PURGE):
            return not metrics["numRemovedFiles"]
        if self.version is None or self.statement.verb not in (DELETE, UPDATE, DELETE_KEYS):
            return False
        return not any(metrics.get(name, 0) != 0 for name in ("numDeletedRows", "numUpdatedRows"))

    def __str__(self) -> str:
        return f"writer {self.writer}: {self.statement}: {self.outcome}"


UPKEEP = Told(-1, Statement("upkeep", -1), None)
"""A commit that no writer made and that changes no row."""


@dataclass(slots=True)
class Verdict:
    """Counts of a run that was found right."""

    commits: int = 0
    nothing: int = 0
    conflicts: int = 0
    dead_done: int = 0  # statements of processes that died, in the log
    dead_undone: int = 0  # and not there
    reads: int = 0
    tries: Counter[str] = field(default_factory=Counter)


def told_in(tasks: Iterable[Task]) -> list[Told]:
    """What the writers of these tasks told, each in its order."""
    found = []
    for task in tasks:
        lines = _lines(task.journal)
        begun = sum("begins" in line for line in lines)
        ends = {line["ended"]: line for line in lines if "ended" in line}
        given = islice(task.statements(), begun)
        found += [Told(task.writer, one, ends.get(number)) for number, one in enumerate(given)]
    return found


def _lines(journal: Path) -> list[dict[str, Any]]:
    if not journal.exists():
        return []
    whole = [line for line in journal.read_bytes().split(b"\n")[:-1] if line]
    return [json.loads(line) for line in whole]


class Judge:
    """Looks at a table, as it is stored, without Spark."""

    def __init__(self, location: str, options: Mapping[str, str] | None = None) -> None:
        self.table = detect.open_table(location, dict(options or {}))
        self._files: dict[str, pa.Table] = {}
        self._history: dict[int, dict[str, Any]] = {}
        self._versions: dict[int, int] = {}
        self.has_requests = self.table.format != "iceberg"

    def judge(
        self, first: State, told: Iterable[Told], *, every: int = 1, readers: Iterable[Path] = ()
    ) -> Verdict:
        """Hold the table's versions after 0, which is ``first``, against what was told of them.

        Versions are counted in the order of the commits; each has a number of its own.
        """
        numbers = self._numbers()
        self._versions = {number: version for version, number in numbers.items()}
        told = [_numbered(one, numbers) for one in told]
        verdict = Verdict()
        bugs = [one for one in told if one.outcome and "bug" in one.outcome]
        assert not bugs, f"{len(bugs)} statements failed with errors that are not ours: {bugs[0]}"
        claims = self._claims(told, verdict)
        dying = {one.statement.token: one for one in told if one.outcome is None}
        idle = _by_version(one for one in told if one.changed_nothing)
        seen = _by_version_read(readers)
        seen = {numbers.get(version, version): found for version, found in seen.items()}
        state, last = first, max(numbers.values())
        self._check_idle(idle.get(0, ()), state)
        self._check_reads(0, seen.pop(0, ()), state)
        for version in range(1, last + 1):
            one = claims.pop(version, None) or self._upkeep(version) or self._found(version, dying, state)
            if one is not UPKEEP:
                state, counts = after(state, one.statement)
                self._check_counts(version, one, counts)
                verdict.commits += 1
            self._check_idle(idle.pop(version, ()), state)
            reads = seen.pop(version, ())
            changed = one is not UPKEEP and version % every == 0
            if changed or version == last or reads:
                self._check_rows(version, state, one)
            self._check_reads(version, reads, state)
            verdict.reads += len(reads)
            verdict.dead_done += one.outcome is None and one is not UPKEEP
        assert not claims, f"reported and not in the log: {next(iter(claims.values()))}"
        assert not [version for version in idle if version > last], "a version that is not there was reported"
        verdict.dead_undone = len(dying)
        verdict.nothing = sum(one.changed_nothing for one in told)
        return verdict

    def _numbers(self) -> dict[int, int]:
        """The number of each version; versions of most formats are these numbers."""
        versions = self.table.history().column("version").to_pylist()[::-1]
        if self.table.format != "iceberg":
            return {version: version for version in versions}
        return {version: number for number, version in enumerate(versions)}

    def rows(self, version: int | None = None) -> list[Row]:
        """The live rows of a version."""
        plan = self.table.snapshot(version).plan()
        deleted = deleted_rows(self.table.storage, plan)
        found: list[Row] = []
        stored = {each.name: each.physical_name for each in plan.schema}
        by_value = DeletedByValue(self.table.storage, plan)
        for number, (file, gone) in enumerate(zip(plan.files.to_pylist(), deleted, strict=True)):
            held = self._held(file["location"])
            assert held.num_rows == file["record_count"], file["location"]
            values = dict.fromkeys(stored) | (file["partition"] or {})
            columns = {
                each.name: held.column(each.physical_name).cast(arrow_type(each.type))
                if each.physical_name in held.column_names
                else pa.array([values[each.name]] * held.num_rows, arrow_type(each.type))
                for each in plan.schema
            }
            rows = pa.table(columns)
            keep = ~by_value.of(number, rows)
            keep[gone.to_numpy()] = False
            found += rows.filter(pa.array(keep)).to_pylist()
        return found

    def check_sound(self) -> None:
        """``verify`` finds nothing."""
        report = verify_table(self.table)
        assert not report.findings, report.findings

    def _held(self, location: str) -> pa.Table:
        if location not in self._files:
            with self.table.storage.open_input(location) as source:
                self._files[location] = pq.ParquetFile(source).read()
        return self._files[location]

    def _claims(self, told: Iterable[Told], verdict: Verdict) -> dict[int, Told]:
        claims: dict[int, Told] = {}
        seen: dict[int, int] = {}
        for one in told:
            if one.version is None:
                verdict.conflicts += one.outcome is not None
                continue
            before = seen.get(one.writer, 0)
            assert one.version >= before, f"went back from {before}: {one}"
            seen[one.writer] = one.version
            if one.changed_nothing:
                continue
            assert one.version not in claims, f"two claim it: {one}; {claims[one.version]}"
            assert one.version > before, f"committed before what was seen: {one}"
            claims[one.version] = one
            metrics = one.outcome["metrics"] if one.outcome else {}
            verdict.tries.update({k: int(v) for k, v in metrics.items() if k in _TRIES})
        return claims

    def _found(self, version: int, dying: dict[int, Told], state: State) -> Told:
        """The statement of a commit that nobody reported: of a process that died, once."""
        token = self._token_of_keys(version, dying, state) or self._token(version)
        assert token in dying, f"version {version} was committed by {token}, who did not report it and lives"
        return dying.pop(token)

    def _upkeep(self, version: int) -> Told | None:
        """The commit of a vacuum beside the writers: the rows stay as they are."""
        return UPKEEP if (self._commit(version)["operation"] or "").startswith("VACUUM") else None

    def _token_of_keys(self, version: int, dying: dict[int, Told], state: State) -> int | None:
        """That of a statement with keys: their commits do not tell it, so their rows must."""
        found = _texts(self.rows(self._versions[version]))
        for token, one in dying.items():
            if one.statement.verb in (DELETE_KEYS, UPSERT):
                rows = after(state, one.statement)[0].rows or ()
                if _texts(rows) == found:
                    return token
        return None

    def _token(self, version: int) -> int:
        found = _TOKEN.search(self._commit(version)["parameters"].get("predicate", ""))
        if found:
            return int(found[1])
        # Appends and overwrites have no condition: their rows tell.
        before, plan = (
            self.table.snapshot(self._versions[number]).plan() for number in (version - 1, version)
        )
        added = {*plan.files.column("location").to_pylist()} - {*before.files.column("location").to_pylist()}
        (stored,) = (each.physical_name for each in plan.schema if each.name == "v")
        return max(value for place in added for value in self._held(place).column(stored).to_pylist())

    def _commit(self, version: int) -> dict[str, Any]:
        """What the history says of a version."""
        if version not in self._history:
            rows = self.table.history().to_pylist(maps_as_pydicts="strict")
            numbers = self._numbers()
            self._history = {numbers[row["version"]]: row for row in rows}
        return self._history[version]

    def _check_counts(self, version: int, one: Told, counts: Mapping[str, int]) -> None:
        info = self._commit(version)
        verb = one.statement.verb
        names = (OPERATIONS[verb],) if self.has_requests else SNAPSHOTS[verb]
        assert info["operation"] in names, f"version {version}: {info}; {one}"
        reported = one.outcome["metrics"] if one.outcome else {}
        counts = {name: count for name, count in counts.items() if reported.get(name, 0) is not None}
        if self.has_requests:
            logged = {name: int(info["metrics"][name]) for name in counts}
            assert logged == counts, f"version {version} has {logged}, expected {counts}: {one}"
        if one.outcome is not None:
            if (
                not self.has_requests and "numDeletedRows" not in reported
            ):  # of whole files with position files
                counts.pop("numDeletedRows", None)
            reported = {name: one.outcome["metrics"][name] for name in counts}
            assert reported == counts, f"version {version}: {reported} reported, expected {counts}: {one}"

    def _check_idle(self, told: Iterable[Told], state: State) -> None:
        for one in told:
            _, counts = after(state, one.statement)
            rows = {name: count for name, count in counts.items() if name != "numKeys"}
            assert not any(rows.values()), f"there was something to do: {one}"

    def _check_reads(self, version: int, reads: Iterable[Mapping[str, int]], state: State) -> None:
        for read in reads:
            found, expected = Counter(read), _texts(state.rows or ())
            assert found == expected, (
                f"a reader of version {version} missed {expected - found} and saw {found - expected}"
            )

    def _check_rows(self, version: int, state: State, one: Told) -> None:
        found, expected = _texts(self.rows(self._versions[version])), _texts(state.rows or ())
        assert found == expected, (
            f"version {version}: lost {expected - found}, gained {found - expected} with {one}"
        )


def _numbered(one: Told, numbers: Mapping[int, int]) -> Told:
    """What was told, with the number of the version; a version that is not in the history stays."""
    if one.version is None or one.outcome is None:
        return one
    return replace(one, outcome={**one.outcome, "version": numbers.get(one.version, one.version)})


_TRIES = ("numCommitTries", "numRuns", "numFilesUnited")


def _texts(rows: Iterable[Row]) -> Counter[str]:
    return Counter(map(row_text, rows))


def _by_version(told: Iterable[Told]) -> dict[int, list[Told]]:
    found: dict[int, list[Told]] = {}
    for one in told:
        found.setdefault(one.version or 0, []).append(one)
    return found


def _by_version_read(journals: Iterable[Path]) -> dict[int, list[dict[str, int]]]:
    """What readers found; that they found it twice is checked here."""
    found: dict[int, list[dict[str, int]]] = {}
    for journal in journals:
        for line in _lines(journal):
            assert line["rows"] == line["again"], f"version {line['version']} was read twice, differently"
            found.setdefault(line["version"], []).append(line["rows"])
    return found
