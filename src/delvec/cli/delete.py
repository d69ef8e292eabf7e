"""`delvec delete`: deletes rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from delvec.schema import Schema


def delete(
    path: Path,
    *,
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
    """Delete the rows that match --where.

    Starts a local Spark session. Shows what would change and asks for confirmation, unless --yes is given.
    """
    verify_rows_chosen(where, all_rows=all_rows)

    def verify(schema: Schema) -> None:
        from delvec.cli.before_spark import verify_expression

        if where is not None:
            verify_expression(where, schema, "--where")

    change = Change(
        "DELETE",
        verify,
        lambda table, dry: table.delete(where, isolation=isolation, dry_run=dry),
    )
    return run_change(
        ChangedTable(path, catalog, ref), change, ChangeOptions(dry_run, yes, json, limit), option
    )
