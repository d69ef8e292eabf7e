"""`delvec vacuum`: deletes files that no retained version needs. It needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.progress import Progress, TextColumn

from delvec.cli.arguments import (
    DEFAULT_LIMIT,
    Catalog,
    Json,
    Limit,
    Path,
    StorageOptions,
    first,
    open_source,
    storage_options,
)
from delvec.cli.change import ChangeOptions, Yes, confirm, verify_can_confirm
from delvec.cli.output import cell, counted, pairs, size
from delvec.cli.progress import error_console

if TYPE_CHECKING:
    from delvec.vacuum import VacuumResult

RetainHours = Annotated[
    float | None,
    typer.Option(
        "--retain-hours",
        metavar="HOURS",
        help="Keep files that versions of the last HOURS hours need; by default the table's retention.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Allow a shorter retention than the table's.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show which files would be deleted; delete none.")]


def vacuum(
    path: Path,
    *,
    retain_hours: RetainHours = None,
    force: Force = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    limit: Limit = DEFAULT_LIMIT,
    catalog: Catalog = None,
    json: Json = False,
    option: StorageOptions = None,
) -> Vacuumed:
    """Delete the files that no retained version needs.

    These are data files and vectors that newer versions replaced, old change files, and files that crashed
    writers left. Shows what would be deleted and asks for confirmation, unless --yes is given.
    """
    from delvec import vacuum

    change = ChangeOptions(dry_run, yes, json, limit)
    verify_can_confirm(change)
    table = open_source(path, storage_options(option), catalog=catalog)

    def run(*, dry: bool) -> Vacuumed:
        with _progress(hidden=json) as report:
            result = vacuum.vacuum(table, retain_hours, dry_run=dry, force=force, report=report)
        return Vacuumed(result, limit)

    if dry_run:
        return run(dry=True)
    if not yes:
        confirm(run(dry=True))
    return run(dry=False)


@contextmanager
def _progress(*, hidden: bool) -> Iterator[Callable[[str, int], None]]:
    """A line with counts on stderr if it is a terminal; removed at the end."""
    console = error_console()
    counts: dict[str, int] = {}
    off = hidden or not console.is_terminal
    with Progress(TextColumn("{task.description}"), console=console, transient=True, disable=off) as line:
        task = line.add_task("vacuum", total=None)

        def report(kind: str, count: int) -> None:
            counts[kind] = counts.get(kind, 0) + count
            line.update(task, description=", ".join(f"{n:,} {name}" for name, n in counts.items()))

        yield report


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What was deleted or, after a dry run, what would be; lists the first ``limit`` paths of a dry run."""

    run: VacuumResult
    limit: int

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        run = self.run
        return {
            "dry_run": run.dry_run,
            "location": run.location,
            "operation": "VACUUM",
            "version": run.version,
            "files": run.files,
            "bytes": run.bytes,
            "folders": run.folders,
            "expired_versions": run.expired_versions,
            "expired_refs": list(run.expired_refs),
            "metrics": run.metrics,
            **({"paths": self._paths()} if run.dry_run else {}),
        }

    def render(self) -> Iterable[RenderableType]:
        run = self.run
        deleted = f"{counted(run.files, 'file')} ({size(run.bytes)})"
        if run.folders:
            deleted += f" and {counted(run.folders, 'empty folder')}"
        if not run.dry_run:
            lines = [
                ("location", cell(run.location)),
                ("operation", "VACUUM"),
                ("version", f"{run.version}"),
                ("deleted", deleted),
            ]
            yield pairs([*lines, ("expired", cell(expired))] if (expired := self._expired()) else lines)
            return
        paths = self._paths()
        yield from map(cell, paths)
        if len(paths) < run.files + run.folders:
            yield f"{run.files + run.folders - len(paths):,} more not shown (--limit)"
        if expired := self._expired():
            yield cell(f"VACUUM would let expire {expired}")
        yield f"VACUUM would delete {deleted}"

    def _expired(self) -> str:
        """The versions, branches and tags that go; empty if none does."""
        run = self.run
        parts = [counted(run.expired_versions, "version")] if run.expired_versions else []
        return ", ".join([*parts, *run.expired_refs])

    def _paths(self) -> list[str]:
        from delvec import location

        paths = self.run.paths[: first(len(self.run.paths), self.limit)]
        return [location.relative(self.run.location, path) or path for path in paths]
