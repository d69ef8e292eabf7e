"""`delvec optimize` and `delvec purge`: rewrite files, without a change of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from delvec.cli.arguments import Branch, Catalog, ChangedTable, Json, Path, StorageOptions, storage_options
from delvec.cli.output import cell, counted, pairs, size
from delvec.cli.progress import spark_progress
from delvec.cli.spark import local_session, session_settings, store_options

if TYPE_CHECKING:
    from delvec.spark.compaction import CompactionResult, FileSizes
    from delvec.table import Table

Partitions = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="SQL",
        help="Only the partitions that match this condition on partition columns.",
        show_default=False,
    ),
]
TargetFileSize = Annotated[
    int | None,
    typer.Option(
        "--target-file-size",
        metavar="BYTES",
        min=1,
        help="The size of the new files; by default the table's.",
        show_default=False,
    ),
]
DeletedRatio = Annotated[
    float,
    typer.Option(
        "--max-deleted-rows-ratio",
        metavar="SHARE",
        min=0,
        max=1,
        help="Rewrite files with a larger share of deleted rows, whatever their size.",
    ),
]
ZorderBy = Annotated[
    str | None,
    typer.Option(
        "--zorder-by",
        metavar="COLUMNS",
        help="Sort the rows of all files by these columns, with commas between.",
        show_default=False,
    ),
]
BytesPerCommit = Annotated[
    int | None,
    typer.Option(
        "--bytes-per-commit",
        metavar="BYTES",
        min=1,
        help="Commit after so many bytes; by default all in one commit.",
        show_default=False,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be rewritten; change nothing.")]


def optimize(
    path: Path,
    *,
    where: Partitions = None,
    target_file_size: TargetFileSize = None,
    max_deleted_rows_ratio: DeletedRatio = 0.05,
    zorder_by: ZorderBy = None,
    bytes_per_commit: BytesPerCommit = None,
    dry_run: DryRun = False,
    catalog: Catalog = None,
    ref: Branch = None,
    json: Json = False,
    option: StorageOptions = None,
) -> Compacted:
    """Combine small files; rewrite files with many deleted rows.

    Starts a local Spark session. No row changes, and old versions stay readable until a vacuum.
    """
    columns = [name.strip() for name in zorder_by.split(",")] if zorder_by else None

    def run(table: Table) -> CompactionResult:
        return table.optimize(
            where,
            target_file_size,
            max_deleted_rows_ratio,
            columns,
            bytes_per_commit,
            dry_run=dry_run,
        )

    return _run(ChangedTable(path, catalog, ref), "OPTIMIZE", run, json=json, option=option)


def purge(
    path: Path,
    *,
    where: Partitions = None,
    dry_run: DryRun = False,
    catalog: Catalog = None,
    ref: Branch = None,
    json: Json = False,
    option: StorageOptions = None,
) -> Compacted:
    """Rewrite every file with deleted rows, without these rows.

    Starts a local Spark session. No row changes, and old versions stay readable until a vacuum.
    """
    changed = ChangedTable(path, catalog, ref)
    return _run(changed, "PURGE", lambda table: table.purge(where, dry_run=dry_run), json=json, option=option)


def _run(
    changed: ChangedTable,
    operation: str,
    run: Callable[[Table], CompactionResult],
    *,
    json: bool,
    option: Sequence[str] | None,
) -> Compacted:
    from delvec.cli.before_spark import changed_snapshot, verify_writable
    from delvec.row_delta import Verb

    options = storage_options(option)
    storage = store_options(options)
    if (snapshot := changed_snapshot(changed, storage)) is not None:
        verify_writable(snapshot, Verb.COMPACT)
    with local_session(session_settings(options), purpose="rewriting files") as session:
        from delvec.table import Table

        table = Table.open(session, changed.path, changed.catalog, changed.branch, storage_options=storage)
        with spark_progress(session, hidden=json):
            return Compacted(table.location, operation, run(table))


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was rewritten or, after a dry run, what would be."""

    location: str
    operation: str
    run: CompactionResult

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        run = self.run
        return {
            "dry_run": run.dry_run,
            "location": self.location,
            "operation": self.operation,
            "version": run.version,
            "versions": list(run.versions),
            "added": _sizes(run.added),
            "removed": _sizes(run.removed),
            "deleted_rows": run.deleted_rows,
            "groups": run.groups,
            "partitions": run.partitions,
            "considered": run.considered,
            "dropped_groups": run.dropped,
            "clustered": False if run.clustered_by else None,
            "metrics": run.metrics,
        }

    def render(self) -> Iterable[RenderableType]:
        run = self.run
        files = (
            f"{counted(run.removed.count, 'file')} ({size(run.removed.total)}) of {run.considered:,} → "
            f"{counted(run.added.count, 'file')} ({'about ' if run.dry_run else ''}{size(run.added.total)})"
        )
        if run.dry_run:
            yield f"{self.operation} of version {run.version} would rewrite {files}"
            if run.deleted_rows:
                yield f"{counted(run.deleted_rows, 'deleted row')} would be left out"
            return
        unchanged = "" if run.versions else " (unchanged: nothing to rewrite)"
        lines = [
            ("location", cell(self.location)),
            ("operation", self.operation),
            ("version", f"{run.version}{unchanged}"),
        ]
        if run.versions:
            lines += [("rewritten", files), ("deleted rows left out", f"{run.deleted_rows:,}")]
        if len(run.versions) > 1:
            lines.append(("commits", f"{len(run.versions):,}"))
        if run.dropped:
            lines.append(("left to other writers", counted(run.dropped, "group")))
        if run.clustered_by:
            lines.append(("not clustered by", cell(", ".join(run.clustered_by))))
        yield pairs(lines)


def _sizes(sizes: FileSizes) -> Mapping[str, int | None]:
    return {
        "files": sizes.count,
        "bytes": sizes.total,
        "smallest": sizes.smallest,
        "largest": sizes.largest,
    }
