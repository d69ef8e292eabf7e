"""`delvec history`: the commits of a table, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType

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
from delvec.cli.output import cell, table, time_text


def history(
    path: Path,
    *,
    limit: Limit = DEFAULT_LIMIT,
    catalog: Catalog = None,
    ref: Ref = None,
    relocate: Relocate = False,
    json: Json = False,
    option: StorageOptions = None,
) -> CommitList:
    """List the commits, newest first."""
    del json
    source = open_source(path, storage_options(option), catalog=catalog, ref=ref, relocate=relocate)
    # Read one commit more than is shown, to know whether there are more.
    commits = source.history(limit + 1 if limit else None).to_pylist()
    newest = commits[:limit] if limit else commits
    return CommitList(source.location, tuple(map(_commit, newest)), truncated=len(commits) > len(newest))


@dataclass(frozen=True, slots=True)
class CommitList:
    location: str
    commits: tuple[Mapping[str, Any], ...]
    truncated: bool

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        return {"location": self.location, "commits": self.commits, "truncated": self.truncated}

    def render(self) -> Iterable[RenderableType]:
        headings = ("version", "committed", "operation", "parameters", "metrics")
        grid = table(*headings, numbers=("version",), fold=("parameters", "metrics"))
        for commit in self.commits:
            grid.add_row(
                str(commit["version"]),
                time_text(commit["timestamp"]),
                cell(commit["operation"]),
                _texts(commit["parameters"]),
                _texts(commit["metrics"], skip="0"),
            )
        yield grid
        if self.truncated:
            yield f"commits before version {self.commits[-1]['version']} not shown (--limit)"


def _commit(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**row, "parameters": dict(row["parameters"] or ()), "metrics": dict(row["metrics"] or ())}


def _texts(values: Mapping[str, str | None], *, skip: str | None = None) -> str:
    """One value per line. ``skip``: a value to leave out, such as the many metrics that are 0."""
    return "\n".join(cell(f"{name}: {value}") for name, value in values.items() if value != skip)
