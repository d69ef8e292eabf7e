"""Shared by the commands that change rows: the dry run, the confirmation, and the summary at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import RenderableType

from delvec.cli.arguments import ChangedTable, first, storage_options
from delvec.cli.output import Result, cell, counted, number, pairs, table
from delvec.cli.progress import error_console, spark_progress
from delvec.cli.spark import local_session, session_settings, store_options
from delvec.errors import InvalidOperationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from delvec.schema import Schema
    from delvec.spark.dry_run import Preview
    from delvec.spark.target import OperationResult
    from delvec.table import Table

Rows = Annotated[
    str | None,
    typer.Option(
        "--where", metavar="SQL", help="Change the rows that match this condition.", show_default=False
    ),
]
All = Annotated[bool, typer.Option("--all", help="Change every row; instead of --where.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would happen to each file; change nothing.")
]

Level = Annotated[
    Literal["serializable", "write-serializable", "snapshot"] | None,
    typer.Option(
        "--isolation",
        metavar="LEVEL",
        help="Isolation level against concurrent writers: serializable, write-serializable or snapshot; "
        "by default the table's.",
        show_default=False,
    ),
]

_OUTCOMES = {
    "removed": "file removed",
    "new-vector": "new vector",
    "grown-vector": "vector grown",
    "rewritten": "file rewritten",
    "keys": "keys stored",
}


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """The options of a command that changes rows."""

    dry_run: bool
    yes: bool
    json: bool
    limit: int


@dataclass(frozen=True, slots=True)
class Change:
    """A change to run.

    verify    refuses a change that is certainly wrong for a table with these columns
    run       runs the change on a table; if its second argument is true, as a dry run
    """

    operation: str
    verify: Callable[[Schema], None]
    run: Callable[[Table, bool], OperationResult]


def run_change(
    table: ChangedTable, change: Change, change_options: ChangeOptions, option: Sequence[str] | None
) -> Result:
    """Run the change, or its dry run. Without ``--yes`` shows the dry run and asks for confirmation first."""
    from delvec.cli.before_spark import changed_snapshot, verify_writable
    from delvec.row_delta import Verb

    verify_can_confirm(change_options)
    options = storage_options(option)
    storage = store_options(options)
    if (snapshot := changed_snapshot(table, storage)) is not None:
        change.verify(snapshot.schema)
        verify_writable(snapshot, Verb.DELETE)  # the least that a change needs
    with local_session(session_settings(options), purpose="changing rows") as session:
        from delvec.table import Table

        target = Table.open(session, table.path, table.catalog, table.branch, storage_options=storage)
        preview = preview_or_confirm(
            session, change_options, lambda: _planned(change.run(target, True), change_options.limit)
        )
        if preview is not None:
            return preview
        with spark_progress(session, hidden=change_options.json):
            result = change.run(target, False)
        return Changed(target.location, change.operation, result.version, result.metrics)


def _planned(dry_run: OperationResult, limit: int) -> Planned:
    from delvec.spark.dry_run import Preview

    assert isinstance(dry_run, Preview)
    return Planned(dry_run, limit)


def preview_or_confirm(
    session: SparkSession, change_options: ChangeOptions, dry_run: Callable[[], Result]
) -> Result | None:
    """With ``--dry-run``, its result. Otherwise None, after the user has confirmed the change."""
    if change_options.yes and not change_options.dry_run:
        return None
    with spark_progress(session, hidden=change_options.json):
        planned = dry_run()
    if change_options.dry_run:
        return planned
    confirm(planned)
    return None


def verify_rows_chosen(where: str | None, *, all_rows: bool) -> None:
    if where is None and not all_rows:
        raise InvalidOperationError("--where is missing: pass a condition, or --all to change every row")
    if where is not None and all_rows:
        raise InvalidOperationError("--where and --all exclude each other: pass one of them")


def verify_can_confirm(change_options: ChangeOptions) -> None:
    """Refuse a change without ``--yes`` if there is no terminal on which to ask for confirmation."""
    if change_options.yes or change_options.dry_run:
        return
    if change_options.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        reason = (
            "--json does not ask for confirmation" if change_options.json else "no terminal to confirm on"
        )
        raise InvalidOperationError(
            f"{reason}: pass --yes to change rows, or --dry-run to see what would change"
        )


def confirm(planned: Result) -> None:
    """Show the dry run on the terminal and ask for confirmation; if the answer is no, raise an error."""
    console = error_console()
    for part in planned.render():
        console.print(part)
    console.print("Continue? [y/N]: ", end="")
    answer = sys.stdin.readline()
    if not answer:  # end of input
        raise typer.Abort
    if answer.strip().lower() not in ("y", "yes"):
        raise InvalidOperationError("not confirmed: nothing was changed")


@dataclass(frozen=True, slots=True)
class Planned:
    """What a statement would do; lists the first ``limit`` of the files that it would change."""

    preview: Preview
    limit: int

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        preview = self.preview
        return {
            "dry_run": True,
            "location": preview.location,
            "operation": preview.operation,
            "version": preview.version,
            "where": preview.where,
            "rows": preview.matching,
            "keys": preview.keys,
            "copied_rows": preview.copied,
            "change_files": preview.change_files,
            "total": len(preview.files),
            "outcomes": {outcome: preview.count(outcome) for outcome in _OUTCOMES},
            "read": preview.read,
            "skipped": preview.skipped,
            "metrics": dict(preview.metrics),
            "files": self._files(),
        }

    def render(self) -> Iterable[RenderableType]:
        files = self._files()
        if files:
            headings = ("file", "rows", "deleted", "matching", "remaining", "outcome")
            grid = table(*headings, numbers=headings[1:5], fold=("file",))
            for file in files:
                counts = (number(file[name]) for name in headings[1:5])
                grid.add_row(cell(file["path"]), *counts, _OUTCOMES[file["outcome"]])
            yield grid
        if len(files) < len(self.preview.files):
            yield f"{len(self.preview.files) - len(files):,} more not shown (--limit)"
        yield from self._summary()

    def _summary(self) -> Iterator[str]:
        preview, count = self.preview, self.preview.count
        if preview.keys is not None:
            yield (
                f"{preview.operation} would store {counted(preview.keys, 'key')}; rows that have one are not "
                f"counted; {counted(len(preview.files), 'file')} of version {preview.version} may lose rows, "
                f"{preview.skipped:,} cannot"
            )
            return
        yield (
            f"{preview.operation} would change {_rows(preview.matching)} "
            f"in {counted(len(preview.files), 'file')} of version {preview.version}"
        )
        if preview.files:
            yield (
                f"files: {count('removed'):,} removed, {counted(count('new-vector'), 'new vector')}, "
                f"{counted(count('grown-vector'), 'vector')} grown, {count('rewritten'):,} rewritten "
                f"({_rows(preview.copied)} copied)"
            )
        if preview.counts.new is not None:
            yield f"new rows: {preview.counts.new:,}"
        if preview.change_files:
            yield "change data files would be written as well"
        yield f"read {counted(preview.read, 'file')} for this preview, skipped {preview.skipped:,}"

    def _files(self) -> list[Mapping[str, Any]]:
        from delvec import location

        files = self.preview.files
        return [
            {"path": location.relative(self.preview.location, file["location"]) or file["location"]}
            | file
            | {"remaining": _remaining(file)}
            for file in files.slice(0, first(len(files), self.limit)).to_pylist()
        ]


def _rows(count: int | None) -> str:
    """A count of rows; a question mark if it is not known."""
    return "? rows" if count is None else counted(count, "row")


def _remaining(file: Mapping[str, Any]) -> int | None:
    if file["rows"] is None or file["matching"] is None:
        return 0 if file["outcome"] == "removed" else None
    remaining: int = file["rows"] - file["deleted"] - file["matching"]
    return remaining


@dataclass(frozen=True, slots=True)
class Changed:
    """What a statement did. If no row matched, ``version`` is the version before it."""

    location: str
    operation: str
    version: int
    metrics: Mapping[str, int | None]

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        return {
            "location": self.location,
            "operation": self.operation,
            "version": self.version,
            "metrics": self.metrics,
        }

    def render(self) -> Iterable[RenderableType]:
        metrics = [
            (name, "unknown" if value is None else f"{value:,}")
            for name, value in self.metrics.items()
            if value != 0
        ]
        yield pairs(
            [
                ("location", cell(self.location)),
                ("operation", self.operation),
                ("version", f"{self.version}" if metrics else f"{self.version} (unchanged: no row matched)"),
                *metrics,
            ]
        )
