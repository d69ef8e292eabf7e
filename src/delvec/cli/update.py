"""`delvec update`: sets columns of rows to new values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from delvec.cli.arguments import (
    DEFAULT_LIMIT,
    Branch,
    Catalog,
    ChangedTable,
    Json,
    Limit,
    Path,
    StorageOptions,
)
from delvec.cli.change import (
    All,
    Change,
    ChangeOptions,
    DryRun,
    Level,
    Rows,
    Yes,
    run_change,
    verify_rows_chosen,
)
from delvec.cli.output import Result
from delvec.errors import InvalidOperationError

if TYPE_CHECKING:
    from delvec.schema import Schema
    from delvec.spark.target import OperationResult
    from delvec.table import Table


Set = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="COLUMN=SQL",
        help="A column and its new value: an SQL expression over the old row. May be repeated.",
        show_default=False,
    ),
]
# A name, or a part of it, may be in backquotes and then contain any character.
_ASSIGNMENT = re.compile(r"\s*((?:`(?:[^`]|``)*`|[^`=])+?)\s*=(?!=)(.*)", re.DOTALL)


def update(
    path: Path,
    *,
    assignment: Set,
    where: Rows = None,
    all_rows: All = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    isolation: Level = None,
    limit: Limit = DEFAULT_LIMIT,
    catalog: Catalog = None,
    ref: Branch = None,
    json: Json = False,
    option: StorageOptions = None,
) -> Result:
    """Set columns to new values in the rows that match --where.

    Starts a local Spark session. Shows what would change and asks for confirmation, unless --yes is given.
    """
    verify_rows_chosen(where, all_rows=all_rows)
    assignments = assigned(assignment)

    def verify(schema: Schema) -> None:
        from delvec.cli.before_spark import verify_column, verify_expression

        for column, value in assignments.items():
            verify_column(column, schema, "--set")
            verify_expression(value, schema, f"--set {column} =")
        if where is not None:
            verify_expression(where, schema, "--where")

    def run(table: Table, dry_run: bool) -> OperationResult:
        return table.update(assignments, where, isolation=isolation, dry_run=dry_run)

    change = Change("UPDATE", verify, run)
    return run_change(
        ChangedTable(path, catalog, ref), change, ChangeOptions(dry_run, yes, json, limit), option
    )


def assigned(texts: Sequence[str]) -> dict[str, str]:
    """The expression for each column; refuses text that is not ``column = expression``."""
    assignments: dict[str, str] = {}
    for text in texts:
        match = _ASSIGNMENT.fullmatch(text)
        if match is None or not match[2].strip():
            raise InvalidOperationError(f"--set {text!r} is not COLUMN=SQL")
        if match[1] in assignments:
            raise InvalidOperationError(f"--set sets column {match[1]} twice")
        assignments[match[1]] = match[2].strip()
    return assignments
