"""How tables and results are shown in a notebook: small HTML tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from delvec.schema import Schema
from delvec.spark.types import spark_type

_MAX_COLUMNS = 20


def column_list(schema: Schema) -> str:
    """The first columns with their types."""
    columns = [f"{field.name} {spark_type(field.type).simpleString()}" for field in schema]
    more = [f"… ({len(columns)} columns)"] if len(columns) > _MAX_COLUMNS else []
    return ", ".join(columns[:_MAX_COLUMNS] + more)


def html_pairs(title: str, pairs: Iterable[tuple[str, object]]) -> str:
    """A table of names and values under a title."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in pairs)
    return f"<table><caption>{escape(title)}</caption><tbody>{rows}</tbody></table>"


def html_rows(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a heading for each column."""
    heading = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape('' if v is None else str(v))}</td>" for v in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>"
