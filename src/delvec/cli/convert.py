"""`delvec convert`: makes a table of a folder of Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from delvec.cli.arguments import Json, Path, StorageOptions, storage_options
from delvec.cli.output import cell, counted, pairs, size
from delvec.cli.progress import spark_progress
from delvec.cli.spark import local_session, session_settings, store_options

if TYPE_CHECKING:
    from delvec.spark.convert import Conversion

_Partitions = Annotated[
    str,
    typer.Option(
        "--partition-by",
        metavar="COLUMNS",
        help='The columns whose values are in the names of folders, with types: "day DATE, region STRING".',
        show_default=False,
    ),
]
_NoStatistics = Annotated[
    bool, typer.Option("--no-statistics", help="Record the number of rows only, no values to skip files by.")
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Read all footers and show the table; write nothing.")
]


def convert(
    path: Path,
    *,
    partition_by: _Partitions = "",
    no_statistics: _NoStatistics = False,
    dry_run: _DryRun = False,
    json: Json = False,
    option: StorageOptions = None,
) -> Converted:
    """Make a table of a folder of Parquet files.

    The files stay where they are. Starts a local Spark session.
    """
    from delvec import detect

    options = storage_options(option)
    storage = store_options(options)
    table = detect.table_of_files(path, detect.DEFAULT_FORMAT, storage)  # refuses a table before Spark starts
    with local_session(session_settings(options), purpose="converting files") as session:
        from delvec.spark.convert import convert as commit
        from delvec.spark.convert import plan_conversion

        with spark_progress(session, hidden=json):
            conversion = plan_conversion(session, table, partition_by, None, statistics=not no_statistics)
            version = None if dry_run else commit(conversion)
        return _converted(conversion, version)


def _converted(conversion: Conversion, version: int | None) -> Converted:
    from delvec.spark.types import logical

    files, rules = conversion.files, conversion.rules
    return Converted(
        location=conversion.target.table.location,
        version=version,
        files=len(files),
        size=sum(files.column("size").to_pylist()),
        rows=sum(files.column("record_count").to_pylist()),
        columns={field.name: field.dataType.simpleString() for field in logical(rules.schema)},
        partition_columns=tuple(rules.spec.identity_columns),
    )


@dataclass(frozen=True, slots=True)
class Converted:
    """The new table; ``version`` None: a dry run."""

    location: str
    version: int | None
    files: int
    size: int
    rows: int
    columns: Mapping[str, str]
    partition_columns: tuple[str, ...]

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        return {name: getattr(self, name) for name in Converted.__slots__} | {"dry_run": self.version is None}

    def render(self) -> Iterable[RenderableType]:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        lines = [
            ("location", cell(self.location)),
            ("version", "none (dry run)" if self.version is None else f"{self.version}"),
            ("files", f"{counted(self.files, 'file')}, {size(self.size)}, {counted(self.rows, 'row')}"),
            ("columns", cell(columns)),
        ]
        if self.partition_columns:
            lines.append(("partitioned by", cell(", ".join(self.partition_columns))))
        yield pairs(lines)
