"""`delvec changes`: the rows that commits inserted, deleted and updated."""

from __future__ import annotations

from typing import Annotated

import typer

from delvec.cli.arguments import DEFAULT_LIMIT, Json, Limit, Path, StorageOptions, storage_options
from delvec.cli.progress import spark_progress
from delvec.cli.spark import local_session, session_settings, store_options
from delvec.cli.sql import Fetched, fetched
from delvec.errors import InvalidOperationError

From = Annotated[
    int | None,
    typer.Option("--from", metavar="N", help="The first version whose changes to print.", show_default=False),
]
To = Annotated[
    int | None,
    typer.Option(
        "--to",
        metavar="N",
        help="The last version whose changes to print; the newest by default.",
        show_default=False,
    ),
]
FromTimestamp = Annotated[
    str | None,
    typer.Option(
        "--from-timestamp",
        metavar="TS",
        help="Instead of --from: the first version at or after this time. ISO 8601, UTC unless it names a "
        "zone.",
        show_default=False,
    ),
]
ToTimestamp = Annotated[
    str | None,
    typer.Option(
        "--to-timestamp",
        metavar="TS",
        help="Instead of --to: the last version at or before this time.",
        show_default=False,
    ),
]


def changes(
    path: Path,
    *,
    from_version: From = None,
    to_version: To = None,
    from_timestamp: FromTimestamp = None,
    to_timestamp: ToTimestamp = None,
    limit: Limit = DEFAULT_LIMIT,
    json: Json = False,
    option: StorageOptions = None,
) -> Fetched:
    """Print the rows that commits inserted, deleted and updated.

    Starts a local Spark session. Rows are in the order of the commits. The table must have a change feed.
    """
    _verify_bounds(from_version, from_timestamp, to_version, to_timestamp)
    options = storage_options(option)
    storage = store_options(options)
    if from_version is not None and to_timestamp is None:
        _verify_range(path, from_version, to_version, storage)
    with local_session(session_settings(options), purpose="reading changes") as session:
        from delvec.change_plan import COMMIT_VERSION
        from delvec.table import Table

        table = Table.open(session, path, storage_options=storage)
        rows = table.changes(
            from_version, to_version, from_timestamp=from_timestamp, to_timestamp=to_timestamp
        )
        with spark_progress(session, hidden=json):
            return fetched(rows.orderBy(COMMIT_VERSION), limit)


def _verify_bounds(
    from_version: int | None, from_timestamp: str | None, to_version: int | None, to_timestamp: str | None
) -> None:
    if (from_version is None) == (from_timestamp is None):
        raise InvalidOperationError("expected one of --from and --from-timestamp")
    if to_version is not None and to_timestamp is not None:
        raise InvalidOperationError("expected at most one of --to and --to-timestamp")


def _verify_range(path: str, first: int, last: int | None, storage: dict[str, str]) -> None:
    """Refuse a wrong range before Spark starts."""
    from delvec import formats
    from delvec.cli.before_spark import readable_table

    table = readable_table(path, storage)
    if isinstance(table, formats.ChangeFeed):
        table.change_plan(first, last)
