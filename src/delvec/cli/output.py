"""The output of every command: tables for people, or one JSON document for programs.

A command returns a ``Result``, which can be rendered as both. This module writes one of them.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Protocol

from rich import box
from rich.console import Console, JustifyMethod, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from delvec.byte_size import size_text

# Width if the output is not a terminal: lines are not wrapped, so that they can be searched.
_UNWRAPPED = 4000
# Names and conditions come from files: control characters are shown instead of sent to the terminal.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code != ord("\n")}

ProgressReport = Callable[[str, int, int], None]


class Result(Protocol):
    """The result of a command."""

    @property
    def exit_code(self) -> int: ...

    def document(self) -> Mapping[str, Any]:
        """For programs: the keys are part of the public interface."""
        ...

    def render(self) -> Iterable[RenderableType]:
        """For people."""
        ...


class Output(Protocol):
    def result(self, result: Result) -> None: ...
    def error(self, kind: str, message: str) -> None: ...


class TextOutput:
    """Tables on stdout, errors as one line on stderr."""

    def result(self, result: Result) -> None:
        console = _console(sys.stdout)
        with console.capture() as captured:
            for part in result.render():
                console.print(part)
        text = captured.get()
        # Tables pad their lines to equal length; in a pipe the padding is removed.
        sys.stdout.write(text if console.is_terminal else _without_padding(text))
        sys.stdout.flush()

    def error(self, kind: str, message: str) -> None:
        del kind
        _print_line("error", "bold red", message)


class JsonOutput:
    """One document on stdout, for results and for errors."""

    def result(self, result: Result) -> None:
        self._write(result.document())

    def error(self, kind: str, message: str) -> None:
        self._write({"error": {"kind": kind, "message": message}})

    def _write(self, document: Mapping[str, Any]) -> None:
        text = json.dumps(json_value(document), indent=2, ensure_ascii=False, allow_nan=False)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def print_warning(message: str) -> None:
    """Print one line on stderr, also with --json."""
    _print_line("warning", "bold yellow", message)


def _print_line(label: str, style: str, message: str) -> None:
    line = Text.assemble((f"{label}:", style), " ", cell(" ".join(message.split())))
    _console(sys.stderr).print(line, soft_wrap=True)


@contextmanager
def progress_bar(*, hidden: bool) -> Iterator[ProgressReport]:
    """A progress bar on stderr if it is a terminal; removed at the end."""
    console = _console(sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, console=console, transient=True, disable=hidden or not console.is_terminal
    ) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, count: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=count)
            bar.update(tasks[what], completed=done)

        yield report


def _console(file: IO[str]) -> Console:
    width = None if file.isatty() or os.environ.get("COLUMNS") else _UNWRAPPED
    return Console(file=file, width=width, markup=False, highlight=False, emoji=False)


def _without_padding(text: str) -> str:
    return "".join(f"{line.rstrip(' ')}\n" for line in text.splitlines())


def table(*headings: str, numbers: Iterable[str] = (), fold: Iterable[str] = ()) -> Table:
    """A table with a line under its headings; ``numbers`` are right-aligned, ``fold`` columns may wrap."""
    grid = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="bold"
    )
    for heading in headings:
        justify: JustifyMethod = "right" if heading in numbers else "left"
        grid.add_column(heading, justify=justify, overflow="fold", no_wrap=heading not in fold)
    return grid


def pairs(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    """Names and values, one pair per line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, value)
    return grid


def cell(value: Any) -> str:
    """A value as text on one line, without control characters; empty for None."""
    if value is None:
        return ""
    if isinstance(value, dt.datetime):
        return time_text(value)
    return str(value).translate(_CONTROLS).replace("\n", " ")


def shortened(name: str, length: int = 18) -> str:
    """A long name without its middle: names of vector files differ at both ends."""
    half = length // 2
    return name if len(name) <= length else f"{name[: half - 1]}…{name[-half:]}"


def number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def size(count: int | None) -> str:
    return "?" if count is None else size_text(count)


def time_text(value: dt.datetime | None) -> str:
    return "" if value is None else value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def json_value(value: Any) -> Any:
    """The value in JSON: times in ISO 8601, decimals and infinities as strings, bytes in base64."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case dt.datetime() | dt.date():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return {str(key): json_value(child) for key, child in value.items()}
        case list() | tuple():
            return [json_value(child) for child in value]
    return str(value)
