"""`delvec sql`: runs a statement in Spark's syntax, on tables of any format."""

from __future__ import annotations

import decimal
import json as json_texts
import pathlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from delvec.cli.arguments import DEFAULT_LIMIT, Json, Limit, storage_options
from delvec.cli.change import ChangeOptions, DryRun, Planned, Yes, preview_or_confirm, verify_can_confirm
from delvec.cli.output import Result, cell, counted, table
from delvec.cli.progress import spark_progress
from delvec.cli.spark import local_session, session_settings, store_options
from delvec.errors import InvalidOperationError, ObjectNotFoundError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Text = Annotated[
    str | None,
    typer.Argument(
        metavar="TEXT", help="The SQL statement. A table is written delvec.`path`.", show_default=False
    ),
]
File = Annotated[
    str | None,
    typer.Option(
        "--file",
        metavar="F",
        help="Read the statement from this file; - reads standard input.",
        show_default=False,
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="NAME=VALUE",
        help="The value of the parameter :NAME: a JSON number, string, true, false or null; "
        "other text is a string. May be repeated.",
        show_default=False,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        help="A Spark setting (spark.…) or a Hadoop setting (fs.…). May be repeated.",
        show_default=False,
    ),
]

_QUERY_WORDS = ("SELECT", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "SET")
_AMBIGUOUS_WORDS = ("WITH", "FROM", "(")  # both queries and statements that change rows may start with these


def sql(
    text: Text = None,
    *,
    file: File = None,
    param: Parameters = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    limit: Limit = DEFAULT_LIMIT,
    json: Json = False,
    option: Settings = None,
) -> Result:
    """Run a SQL statement and print its result.

    Starts a local Spark session. Asks for confirmation before a statement that is not a query, unless --yes
    is given.
    """
    from delvec.cli.before_spark import verify_statement

    statement, values = _statement(text, file), parameters(param) or None
    settings = _settings(option)
    verify_statement(statement, store_options(settings))
    change_options = ChangeOptions(dry_run, yes, json, limit)
    changes = not is_query(statement)
    if changes:
        verify_can_confirm(change_options)
    elif dry_run:
        raise InvalidOperationError("--dry-run does not apply to a query: pass a statement that changes rows")
    with local_session(settings, purpose="running SQL") as session:
        if changes:
            dry_run_result = preview_or_confirm(
                session, change_options, lambda: _planned(session, statement, values, change_options)
            )
            if dry_run_result is not None:
                return dry_run_result
        with spark_progress(session, hidden=json):
            return fetched(_run(session, statement, values), limit)


@dataclass(frozen=True, slots=True)
class Fetched:
    """The first rows of a result; ``columns`` are names and types, and a name may occur twice."""

    columns: tuple[tuple[str, str], ...]
    rows: Sequence[Sequence[Any]]
    truncated: bool

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        return {
            "columns": [{"name": name, "type": kind} for name, kind in self.columns],
            "rows": self.rows,
            "truncated": self.truncated,
        }

    def render(self) -> Iterable[RenderableType]:
        if not self.columns:
            yield "done"
            return
        headings = [cell(name) for name, _ in self.columns]
        grid = table(*headings, fold=headings)
        for row in self.rows:
            grid.add_row(*("NULL" if value is None else cell(value) for value in row))
        yield grid
        more = "; more not shown (--limit)" if self.truncated else ""
        yield counted(len(self.rows), "row") + more


def parameters(texts: Sequence[str] | None) -> dict[str, Any]:
    """The values by name; refuses text that is not NAME=VALUE."""
    values: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise InvalidOperationError(f"--param {text!r} is not NAME=VALUE")
        if name in values:
            raise InvalidOperationError(f"--param sets {name} twice")
        values[name] = _value(value)
    return values


def _value(text: str) -> Any:
    """A JSON number, boolean, null or string; any other text is itself the value."""
    try:
        value = json_texts.loads(text, parse_float=_fraction, parse_constant=_no_number)
    except ValueError:
        return text
    return text if isinstance(value, list | dict) else value


def _fraction(text: str) -> decimal.Decimal | float:
    """A decimal unless it has an exponent, as in SQL."""
    return float(text) if "e" in text.lower() else decimal.Decimal(text)


def _no_number(text: str) -> Any:
    raise ValueError(text)  # NaN and Infinity are not JSON


def is_query(statement: str) -> bool:
    """Whether the statement certainly changes nothing. A statement that cannot be tokenized may change
    rows.
    """
    from delvec.statements.cursor import ROW_CHANGES
    from delvec.statements.lexer import tokenize

    try:
        words = [token.word or token.text for token in tokenize(statement)]
    except InvalidOperationError:
        return False
    if words[0] not in _AMBIGUOUS_WORDS:
        return words[0] in _QUERY_WORDS
    return not any(word in ROW_CHANGES for word in words)


def _statement(text: str | None, file: str | None) -> str:
    if (text is None) == (file is None):
        problem = "no statement" if text is None else "TEXT and --file exclude each other"
        raise InvalidOperationError(f"{problem}: pass either TEXT or --file")
    if text is not None:
        return text
    assert file is not None
    if file == "-":
        return sys.stdin.read()
    try:
        return pathlib.Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ObjectNotFoundError("no such file", path=file) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOperationError(f"cannot read --file: {error}") from None


def _settings(option: Sequence[str] | None) -> dict[str, str]:
    options = storage_options(option)
    settings = session_settings(options)
    for name in options:
        if name not in settings and f"spark.hadoop.{name}" not in settings:
            raise InvalidOperationError(
                f"--option {name} is not a Spark setting: expected a name that starts with spark. or fs."
            )
    return settings


def fetched(frame: DataFrame, limit: int) -> Fetched:
    columns = tuple((field.name, field.dataType.simpleString()) for field in frame.schema)
    if not columns:
        return Fetched((), (), truncated=False)
    # Fetch one row more than is shown, to know whether there are more.
    rows = _rows(frame.limit(limit + 1) if limit else frame)
    return Fetched(columns, rows[:limit] if limit else rows, truncated=bool(limit) and len(rows) > limit)


def _rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    if "variant" in frame.schema.simpleString():  # Arrow has no type for it
        return [tuple(row) for row in frame.collect()]
    return list(zip(*(column.to_pylist() for column in frame.toArrow().columns), strict=True))


def _run(session: SparkSession, statement: str, values: Mapping[str, Any] | None) -> DataFrame:
    import delvec

    return delvec.sql(session, statement, None if values is None else dict(values))


def _planned(
    session: SparkSession, statement: str, values: Mapping[str, Any] | None, change_options: ChangeOptions
) -> Result:
    from delvec.statements.dry_run import preview_statement

    preview = preview_statement(session, statement, None if values is None else dict(values))
    if preview is not None:
        return Planned(preview, change_options.limit)
    if change_options.dry_run:
        raise InvalidOperationError(
            "--dry-run does not support this statement: expected a DELETE, UPDATE, MERGE or INSERT OVERWRITE "
            "of a delvec table"
        )
    return WithoutPreview(statement)


@dataclass(frozen=True, slots=True)
class WithoutPreview:
    """A statement that has no dry run."""

    statement: str

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        return {"statement": self.statement}

    def render(self) -> Iterable[RenderableType]:
        yield cell(self.statement.strip())
        yield "no preview for this statement"
