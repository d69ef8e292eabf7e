"""`delvec count`: the number of rows, without Spark where the metadata decides."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from delvec.cli.arguments import (
    Catalog,
    Json,
    Path,
    Ref,
    Relocate,
    StorageOptions,
    Timestamp,
    Version,
    open_source,
    storage_options,
)
from delvec.cli.output import counted
from delvec.cli.progress import spark_progress
from delvec.cli.spark import local_session, session_settings, store_options

if TYPE_CHECKING:
    from delvec.formats import Snapshot, Table

Rows = Annotated[
    str | None,
    typer.Option(
        "--where", metavar="SQL", help="Count only the rows that match this condition.", show_default=False
    ),
]


def count(
    path: Path,
    *,
    where: Rows = None,
    version: Version = None,
    timestamp: Timestamp = None,
    catalog: Catalog = None,
    ref: Ref = None,
    relocate: Relocate = False,
    json: Json = False,
    option: StorageOptions = None,
) -> RowCount:
    """Count the rows, or only those that match --where.

    Reads the metadata. Starts a local Spark session only if files must be read.
    """
    from delvec.cli.before_spark import verify_expression

    options = storage_options(option)
    table = open_source(path, store_options(options), catalog=catalog, ref=ref, relocate=relocate)
    snapshot = table.snapshot(version, timestamp)
    rows = None if where is not None and _other_settings(options) else _recorded(snapshot, where)
    read = rows is None
    if rows is None:
        if where is not None:
            verify_expression(where, snapshot.schema, "--where")
        rows = _counted_by_spark(table, snapshot, where, options, hidden=json)
    return RowCount(table.location, snapshot.version, where, rows, read)


@dataclass(frozen=True, slots=True)
class RowCount:
    """``read``: whether rows had to be read."""

    location: str
    version: int
    where: str | None
    rows: int
    read: bool

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        return {name: getattr(self, name) for name in RowCount.__slots__}

    def render(self) -> Iterable[RenderableType]:
        yield counted(self.rows, "row") + f" in version {self.version}"


def _other_settings(options: Mapping[str, str]) -> bool:
    """Whether the session may read a condition differently: another time zone, for example."""
    return "SPARK_REMOTE" in os.environ or bool(session_settings(options))


def _recorded(snapshot: Any, where: str | None) -> int | None:
    """The number of rows by the metadata; None if a file must be read."""
    from delvec.predicate import SPARK_DEFAULTS
    from delvec.recorded_count import recorded_rows

    recorded = recorded_rows(snapshot, where, SPARK_DEFAULTS)
    return None if recorded is None or len(recorded.undecided.files) else recorded.rows


def _counted_by_spark(
    table: Table, snapshot: Snapshot, where: str | None, options: Mapping[str, str], *, hidden: bool
) -> int:
    with local_session(session_settings(options), purpose="reading rows") as session:
        from delvec.spark.count import count_rows

        with spark_progress(session, hidden=hidden):
            return count_rows(session, snapshot, table.storage, where)
