"""`delvec restore`: gives a table the state of an older version, without Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from delvec.cli.arguments import (
    Branch,
    Catalog,
    Json,
    Path,
    StorageOptions,
    open_source,
    storage_options,
)
from delvec.cli.change import ChangeOptions, Yes, confirm, verify_can_confirm
from delvec.cli.output import Result, cell, counted, pairs
from delvec.errors import InvalidOperationError

if TYPE_CHECKING:
    from delvec.restore import Restored

_ToVersion = Annotated[
    int | None,
    typer.Option("--version", metavar="N", help="Go back to this version.", show_default=False),
]
_ToTime = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        metavar="TS",
        help="Go back to the version that was the newest at this time: ISO 8601, UTC unless it names a zone.",
        show_default=False,
    ),
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be restored; change nothing.")]


def restore(
    path: Path,
    *,
    version: _ToVersion = None,
    timestamp: _ToTime = None,
    dry_run: _DryRun = False,
    yes: Yes = False,
    catalog: Catalog = None,
    ref: Branch = None,
    json: Json = False,
    option: StorageOptions = None,
) -> Result:
    """Give the table the state of an older version.

    Restores rows, columns and properties, without Spark. Shows what would change and asks for confirmation,
    unless --yes is given.
    """
    from delvec.restore import restore as restore_table

    if (version is None) == (timestamp is None):
        raise InvalidOperationError("pass one of --version and --timestamp")
    at = None if timestamp is None else _instant(timestamp)
    verify_can_confirm(ChangeOptions(dry_run, yes, json, 0))
    table = open_source(path, storage_options(option), catalog=catalog, ref=ref)
    if dry_run or not yes:
        planned = RestoredTable(
            table.location, restore_table(table, version=version, timestamp=at, dry_run=True)
        )
        if dry_run:
            return planned
        confirm(planned)
    return RestoredTable(table.location, restore_table(table, version=version, timestamp=at))


def _instant(text: str) -> dt.datetime:
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOperationError(
            f"--timestamp is {text!r}, expected ISO 8601 such as 2025-01-31T12:00:00Z"
        ) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class RestoredTable:
    """What a restore did, or would do."""

    location: str
    restored: Restored

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        restored = self.restored
        return {
            "dry_run": restored.dry_run,
            "location": self.location,
            "operation": "RESTORE",
            "version": restored.version,
            "restored_version": restored.restored_version,
            "files": asdict(restored.counts),
            "metrics": restored.metrics,
        }

    def render(self) -> Iterable[RenderableType]:
        restored, files = self.restored, self.restored.counts
        would = "would be " if restored.dry_run else ""
        yield pairs(
            [
                ("location", cell(self.location)),
                ("version", f"{restored.version}{self._note()}"),
                (
                    f"{would}restored",
                    f"{counted(files.restored_files, 'file')}, {files.restored_bytes:,} bytes",
                ),
                (f"{would}removed", f"{counted(files.removed_files, 'file')}, {files.removed_bytes:,} bytes"),
                ("afterwards", f"{counted(files.files_after, 'file')}, {files.bytes_after:,} bytes"),
            ]
        )

    def _note(self) -> str:
        restored = self.restored
        if restored.dry_run:
            return f" (would get the state of version {restored.restored_version})"
        return f" (has the state of version {restored.restored_version})"
