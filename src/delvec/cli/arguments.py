"""Arguments that several commands have, with one name, one meaning and one help text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from delvec.errors import InvalidOperationError

if TYPE_CHECKING:
    from delvec.formats import Table

DEFAULT_LIMIT = 100

Path = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="The table: a folder or a URL (file:, s3:, gs:, abfss:, …).", show_default=False
    ),
]
Catalog = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="NAME",
        help="PATH is a name such as db.orders in this catalog of pyiceberg's configuration.",
        show_default=False,
    ),
]
Ref = Annotated[
    str | None,
    typer.Option("--ref", metavar="NAME", help="Read this branch or tag of the table.", show_default=False),
]
Branch = Annotated[
    str | None,
    typer.Option("--ref", metavar="NAME", help="Change this branch of the table.", show_default=False),
]
Relocate = Annotated[
    bool,
    typer.Option(
        "--relocate", help="The table was copied: take its files from where it is now, not where recorded."
    ),
]
Version = Annotated[
    int | None,
    typer.Option(
        "--version",
        metavar="N",
        help="Read this version of the table instead of the newest.",
        show_default=False,
    ),
]
Timestamp = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        metavar="TS",
        help="Read the table as of this time: ISO 8601, UTC unless it names a zone.",
        show_default=False,
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="SQL",
        help="List only files that may contain rows that match this condition.",
        show_default=False,
    ),
]
Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=0, help="Show at most N entries; 0 shows all.")
]
Rows = Annotated[
    int,
    typer.Option("--rows", metavar="N", min=0, help="Also print N live rows; starts a local Spark session."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        help="A storage option, such as region=eu-west-1. May be repeated.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class ChangedTable:
    """The table that a command changes: a path, or a name in a catalog; and its branch."""

    path: str
    catalog: str | None = None
    branch: str | None = None


def open_source(
    path: str,
    options: Mapping[str, str],
    *,
    catalog: str | None = None,
    ref: str | None = None,
    relocate: bool = False,
) -> Table:
    """The table at a path, or with a name in a catalog; at a branch or tag if one is given."""
    from delvec import formats, name_resolver

    reference = name_resolver.reference_to(path, catalog=catalog, relocate=relocate)
    return formats.on_ref(name_resolver.open_table(reference, lambda _: options), ref)


def storage_options(texts: Sequence[str] | None) -> dict[str, str]:
    """The options as a mapping; refuses text that is not KEY=VALUE."""
    options: dict[str, str] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            # The message does not repeat the text: without its key, a value may be a secret.
            raise InvalidOperationError("--option is not KEY=VALUE")
        options[key] = value
    return options


def first(count: int, limit: int) -> int:
    """How many of ``count`` entries are shown; a limit of 0 shows all."""
    return min(count, limit) if limit else count
