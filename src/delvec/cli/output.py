"""One way out for every command: tables for people, or one JSON document for programs.

A command returns a ``Result``, which can be both; which of them is written is decided here and nowhere else.
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

# Not on a terminal lines are left whole, so that they can be searched.
_UNFOLDED = 4000
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
# Names and conditions come from files: what would steer a terminal is shown instead.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code != ord("\n")}

ProgressReport = Callable[[str, int, int], None]


class Result(Protocol):
    """What a command found out."""

    @property
    def exit_code(self) -> int: ...

    def document(self) -> Mapping[str, Any]:
        """For programs: the keys are part of the interface and stay."""
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
        # Tables pad their lines to equal length, which only makes them longer where they are piped.
        sys.stdout.write(text if console.is_terminal else _without_padding(text))
        sys.stdout.flush()

    def error(self, kind: str, message: str) -> None:
        del kind
        _print_line("error", "bold red", message)


class JsonOutput:
    """One document on stdout, whatever happens."""

    def result(self, result: Result) -> None:
        self._write(result.document())

    def error(self, kind: str, message: str) -> None:
        self._write({"error": {"kind": kind, "message": message}})

    def _write(self, document: Mapping[str, Any]) -> None:
        text = json.dumps(json_value(document), indent=2, ensure_ascii=False, allow_nan=False)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def print_warning(message: str) -> None:
    """One line on stderr, with --json too."""
    _print_line("warning", "bold yellow", message)


def _print_line(label: str, style: str, message: str) -> None:
    line = Text.assemble((f"{label}:", style), " ", cell(" ".join(message.split())))
    _console(sys.stderr).print(line, soft_wrap=True)


@contextmanager
def progress_bar(*, hidden: bool) -> Iterator[ProgressReport]:
    """A bar on stderr while it is a terminal, gone when done."""
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
    unfolded = None if file.isatty() or os.environ.get("COLUMNS") else _UNFOLDED
    return Console(file=file, width=unfolded, markup=False, highlight=False, emoji=False)


def _without_padding(text: str) -> str:
    return "".join(f"{line.rstrip(' ')}\n" for line in text.splitlines())


def table(*headings: str, numbers: Iterable[str] = (), fold: Iterable[str] = ()) -> Table:
    """A table with a line under its headings; ``numbers`` stand right, ``fold`` may take several lines."""
    made = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="bold"
    )
    for heading in headings:
        justify: JustifyMethod = "right" if heading in numbers else "left"
        made.add_column(heading, justify=justify, overflow="fold", no_wrap=heading not in fold)
    return made


def pairs(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    """Names and what they are, one below the other."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, value)
    return grid


def cell(value: Any) -> str:
    """A value as text on one line, without anything that a terminal would obey; nothing where it is None."""
    if value is None:
        return ""
    if isinstance(value, dt.datetime):
        return moment(value)
    return str(value).translate(_CONTROLS).replace("\n", " ")


def shortened(name: str, length: int = 18) -> str:
    """The name with its middle left out where it is long: names of vector files differ at both ends."""
    half = length // 2
    return name if len(name) <= length else f"{name[: half - 1]}…{name[-half:]}"


def number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def size(count: int | None) -> str:
    """Bytes in the largest unit that leaves at least one."""
    if count is None:
        return "?"
    power = 0 if count < 1024 else min(int(math.log(count, 1024)), len(_UNITS) - 1)
    return f"{count} B" if not power else f"{count / 1024**power:.1f} {_UNITS[power]}"


def moment(value: dt.datetime | None) -> str:
    return "" if value is None else value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def json_value(value: Any) -> Any:
    """The value as JSON has it: times in ISO 8601, decimals and infinities as text, bytes in base64."""
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
