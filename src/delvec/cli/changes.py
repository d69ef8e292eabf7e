"""`delvec changes`: the rows that commits inserted, deleted and updated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from delvec.cli.arguments import (
    DEFAULT_LIMIT,
    Catalog,
    Json,
    Limit,
    Path,
    Ref,
    Relocate,
    StorageOptions,
    open_source,
    storage_options,
)
from delvec.cli.progress import spark_progress
from delvec.cli.spark import local_session, session_settings, store_options
from delvec.cli.sql import Fetched, fetched
from delvec.errors import InvalidOperationError

if TYPE_CHECKING:
    from delvec.formats import Table

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
    catalog: Catalog = None,
    ref: Ref = None,
    relocate: Relocate = False,
    limit: Limit = DEFAULT_LIMIT,
    json: Json = False,
    option: StorageOptions = None,
) -> Fetched:
    """Print the rows that commits inserted, deleted and updated.

    Starts a local Spark session. Rows are in the order of the commits. A Delta table must have a change feed;
    a version of an Iceberg table is a snapshot id.
    """
    from delvec import location

    _verify_bounds(from_version, from_timestamp, to_version, to_timestamp)
    options = storage_options(option)
    storage = store_options(options)
    may_open = storage or catalog or location.normalize(path).startswith("/")  # else Spark has credentials
    if from_version is not None and to_timestamp is None and may_open:
        source = open_source(path, storage, catalog=catalog, ref=ref, relocate=relocate)
        _verify_range(source, from_version, to_version)
    with local_session(session_settings(options), purpose="reading changes") as session:
        from delvec.change_plan import COMMIT_TIMESTAMP, COMMIT_VERSION
        from delvec.table import Table

        table = Table.open(session, path, catalog, ref, relocate, storage)
        rows = table.changes(
            from_version, to_version, from_timestamp=from_timestamp, to_timestamp=to_timestamp
        )
        with spark_progress(session, hidden=json):
            return fetched(rows.orderBy(COMMIT_TIMESTAMP, COMMIT_VERSION), limit)


def _verify_bounds(
    from_version: int | None, from_timestamp: str | None, to_version: int | None, to_timestamp: str | None
) -> None:
    if (from_version is None) == (from_timestamp is None):
        raise InvalidOperationError("expected one of --from and --from-timestamp")
    if to_version is not None and to_timestamp is not None:
        raise InvalidOperationError("expected at most one of --to and --to-timestamp")


def _verify_range(table: Table, first: int, last: int | None) -> None:
    """Refuse a wrong range before Spark starts."""
    from delvec import formats

    if isinstance(table, formats.ChangeFeed):
        table.change_plan(first, last)
