"""`delvec rewrite-deletes`: store deletes in another form, without a change of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import RenderableType

from delvec.cli.arguments import Branch, Catalog, ChangedTable, Json, Path, StorageOptions, storage_options
from delvec.cli.output import cell, counted, pairs
from delvec.cli.progress import spark_progress
from delvec.cli.spark import local_session, session_settings, store_options

if TYPE_CHECKING:
    from delvec.spark.delete_rewrite import DeletesRewritten

To = Annotated[
    Literal["deletion-vector", "position-deletes", "equality-vector"],
    typer.Option(
        "--to",
        metavar="FORM",
        help="What deletes become: deletion-vector (of positions), position-deletes (files, in format "
        "versions without vectors) or equality-vector (of keys; no data is read).",
    ),
]
Partitions = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="SQL",
        help="Only the partitions that match this condition on partition columns; a delete that applies to "
        "others too stays.",
        show_default=False,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        help="How new deletes are stored: auto, deletion-vector or full-row, as far as the form allows; by "
        "default as the table's properties say.",
        show_default=False,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show which deletes would go; change nothing.")]


def rewrite_deletes(
    path: Path,
    *,
    to: To = "deletion-vector",
    where: Partitions = None,
    encoding: Encoding = None,
    dry_run: DryRun = False,
    catalog: Catalog = None,
    ref: Branch = None,
    json: Json = False,
    option: StorageOptions = None,
) -> Rewritten:
    """Store deletes in another form, such as vectors.

    Starts a local Spark session. No row changes, and old versions stay readable until a vacuum.
    """
    from delvec.cli.before_spark import changed_snapshot, verify_writable
    from delvec.row_delta import Verb

    changed = ChangedTable(path, catalog, ref)
    options = storage_options(option)
    storage = store_options(options)
    if (snapshot := changed_snapshot(changed, storage)) is not None:
        verify_writable(snapshot, Verb.REWRITE_DELETES)
    with local_session(session_settings(options), purpose="rewriting deletes") as session:
        from delvec.table import Table

        table = Table.open(session, changed.path, changed.catalog, changed.branch, storage_options=storage)
        with spark_progress(session, hidden=json):
            run = table.rewrite_deletes(to, where, encoding, dry_run=dry_run)
        return Rewritten(table.location, run)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What was rewritten or, after a dry run, what would be."""

    location: str
    run: DeletesRewritten

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        run = self.run
        return {
            "dry_run": run.dry_run,
            "location": self.location,
            "to": run.to,
            "version": run.version,
            "files": run.files,
            "rows": run.rows,
            "keys": run.keys,
            "superseded": run.superseded,
            "removed": run.removed,
            "kept": run.kept,
            "refused": run.refused,
            "metrics": run.metrics,
        }

    def render(self) -> Iterable[RenderableType]:
        run = self.run
        removed = ", ".join(f"{count:,} {kind}" for kind, count in run.removed.items()) or "no deletes"
        if run.dry_run:
            would = f"REWRITE DELETES of version {run.version} would replace {removed}"
            yield f"{would} by {run.to}: {counted(run.files, 'data file')}, {run.kept:,} deletes stay"
            return
        unchanged = "" if run.removed or run.rows else " (unchanged: nothing to rewrite)"
        lines = [("location", cell(self.location)), ("version", f"{run.version}{unchanged}")]
        if not unchanged:
            lines += [("replaced", removed), ("by", run.to), ("data files", f"{run.files:,}")]
        counts = (
            ("rows", run.rows),
            ("keys", run.keys),
            ("keys that later deletes have", run.superseded),
            ("deletes that stay", run.kept),
        )
        lines += [(name, f"{count:,}") for name, count in counts if count]
        lines += [(f"stay: {reason}", f"{count:,}") for reason, count in run.refused.items()]
        yield pairs(lines)
