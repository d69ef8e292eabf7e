"""`delvec delete`: rows go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delvec.cli.arguments import DEFAULT_LIMIT, Json, Limit, Path, StorageOptions
from delvec.cli.change import All, Asked, Change, DryRun, Level, Rows, Yes, carry_out, verify_rows_chosen
from delvec.cli.output import Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from delvec import formats
    from delvec.schema import Schema
    from delvec.spark.preview import Preview


def delete(
    path: Path,
    *,
    where: Rows = None,
    all_rows: All = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    isolation: Level = None,
    limit: Limit = DEFAULT_LIMIT,
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

    def preview(session: SparkSession, table: formats.Table) -> Preview:
        from delvec.spark.preview import preview_delete

        return preview_delete(session, table, where)

    change = Change("DELETE", verify, preview, lambda table: table.delete(where, isolation=isolation))
    return carry_out(path, change, Asked(dry_run, yes, json, limit), option)
