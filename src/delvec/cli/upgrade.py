"""`delvec upgrade`: gives a table a later version of its format. It needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from delvec.cli.arguments import Catalog, Json, Path, StorageOptions, open_source, storage_options
from delvec.cli.change import ChangeOptions, Yes, confirm, verify_can_confirm
from delvec.cli.output import Result, cell, pairs

_FormatVersion = Annotated[
    int, typer.Option("--format-version", metavar="N", help="The format version to upgrade to.")
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show both versions; change nothing.")]


def upgrade(
    path: Path,
    *,
    format_version: _FormatVersion = 3,
    dry_run: _DryRun = False,
    yes: Yes = False,
    catalog: Catalog = None,
    json: Json = False,
    option: StorageOptions = None,
) -> Result:
    """Give a table a later version of its format.

    Changes the metadata only, without Spark. There is no way back, and readers that do not know the version
    can no longer read the table. Asks for confirmation, unless --yes is given.
    """
    from delvec import formats

    verify_can_confirm(ChangeOptions(dry_run, yes, json, 0))
    table = open_source(path, storage_options(option), catalog=catalog)
    formats.upgradable(table)
    before = table.snapshot().format_version
    planned = Upgraded(table.location, before, format_version, dry_run=True)
    if dry_run:
        return planned
    if not yes:
        confirm(planned)
    formats.upgrade(table, format_version)
    return Upgraded(table.location, before, table.snapshot().format_version)


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The format versions before and after; None: the format has no such number."""

    location: str
    before: int | None
    after: int | None
    dry_run: bool = False

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        return {
            "dry_run": self.dry_run,
            "location": self.location,
            "operation": "UPGRADE",
            "before": self.before,
            "after": self.after,
        }

    def render(self) -> Iterable[RenderableType]:
        would = " (not changed yet)" if self.dry_run else ""
        yield pairs(
            [("location", cell(self.location)), ("format version", f"{self.before} → {self.after}{would}")]
        )
