"""`delvec`: the commands and their exit codes.

    0   success                                  5   a feature that delvec does not support
    1   verify found errors                      6   a storage failure
    2   an invalid command line or statement     7   any other error
    3   a table or file that does not exist      8   a conflict with another writer
    4   an invalid file

The commands import heavy modules only when they run, so that `delvec --help` is fast.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from delvec.cli.changes import changes
from delvec.cli.convert import convert
from delvec.cli.count import count
from delvec.cli.delete import delete
from delvec.cli.demo import demo
from delvec.cli.dv import dv
from delvec.cli.files import files
from delvec.cli.history import history
from delvec.cli.optimize import optimize, purge
from delvec.cli.output import JsonOutput, Output, TextOutput, print_warning
from delvec.cli.restore import restore
from delvec.cli.rewrite_deletes import rewrite_deletes
from delvec.cli.show import show
from delvec.cli.spark import INVALID_STATEMENT as USAGE
from delvec.cli.spark import OTHER_ERROR as OTHER
from delvec.cli.spark import spark_exit_code, spark_message
from delvec.cli.sql import sql
from delvec.cli.tree import tree
from delvec.cli.update import update
from delvec.cli.upgrade import upgrade
from delvec.cli.vacuum import vacuum
from delvec.cli.verify import verify
from delvec.errors import (
    CommitConflictError,
    DelvecError,
    FormatError,
    InvalidOperationError,
    ObjectNotFoundError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from delvec.version import __version__

INTERRUPTED = 130  # the exit codes that shells use for a process ended by SIGINT and by SIGPIPE
BROKEN_PIPE = 141

# The first class that the error is an instance of determines the exit code.
EXIT_CODES: tuple[tuple[type[DelvecError], int], ...] = (
    (InvalidOperationError, USAGE),
    (TableNotFoundError, 3),
    (ObjectNotFoundError, 3),
    (FormatError, 4),
    (UnsupportedFeatureError, 5),
    (StorageError, 6),
    (CommitConflictError, 8),
    (DelvecError, OTHER),
)

# typer may have its own copy of click; this is the base class of usage errors in the copy that it uses.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0].__bases__[0]

app = typer.Typer(
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Inspect lakehouse tables and their deletion vectors, and delete, update and query their rows.",
    epilog="Exit codes: 0 success, 1 verify found errors, 2 invalid command line or statement, 3 table or "
    "file not found, 4 invalid file, 5 unsupported feature, 6 storage failure, 7 other error, 8 conflict "
    "with another writer.",
)


@app.callback(invoke_without_command=True)
def _delvec(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version of delvec and exit.")
    ] = False,
) -> None:
    if show_version:
        print(f"delvec {__version__}")
        raise typer.Exit


def _interruptible(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, with a message if it is interrupted: typer alone would print none."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except KeyboardInterrupt as error:
            raise typer.Abort from error

    return run


_INSPECT = "Inspect tables, without Spark"
_CHANGE = "Query and change rows, in a local Spark session"
_MAINTAIN = "Maintain tables"
_LEARN = "Learn"

for _panel, _command, _example in (
    (_INSPECT, show, "delvec show /lake/orders --version 3"),
    (_INSPECT, files, "delvec files /lake/orders --where \"region = 'eu' AND amount > 90\""),
    (_INSPECT, count, "delvec count /lake/orders --where \"placed >= DATE'2025-01-01'\""),
    (_INSPECT, history, "delvec history s3://lake/orders --limit 5 --option region=eu-west-1"),
    (_INSPECT, dv, "delvec dv /lake/orders --file part-00002.parquet --ranges 20"),
    (_INSPECT, tree, "delvec tree /lake/orders --limit 5"),
    (_INSPECT, verify, "delvec verify /lake/orders --json"),
    (_CHANGE, delete, "delvec delete /lake/orders --where \"placed < DATE'2020-01-01'\" --dry-run"),
    (_CHANGE, update, 'delvec update /lake/orders --set "amount = amount * 2" --where "id = 7" --yes'),
    (_MAINTAIN, restore, "delvec restore /lake/orders --version 3 --dry-run"),
    (_CHANGE, changes, "delvec changes /lake/orders --from 3 --to 5"),
    (_CHANGE, sql, "delvec sql 'SELECT count(*) FROM delvec.`/lake/orders` WHERE region = :r' --param r=eu"),
    (_MAINTAIN, optimize, "delvec optimize /lake/orders --where \"region = 'eu'\" --zorder-by id,placed"),
    (_MAINTAIN, purge, "delvec purge /lake/orders --dry-run"),
    (_MAINTAIN, rewrite_deletes, "delvec rewrite-deletes /lake/orders --to equality-vector --dry-run"),
    (_MAINTAIN, vacuum, "delvec vacuum /lake/orders --dry-run"),
    (_MAINTAIN, upgrade, "delvec upgrade /lake/orders --format-version 3"),
    (_MAINTAIN, convert, 'delvec convert /lake/clicks --partition-by "day DATE, region STRING" --dry-run'),
    (_LEARN, demo, "delvec demo"),
):
    _paragraphs = (" ".join(text.split()) for text in (_command.__doc__ or "").split("\n\n"))
    app.command(rich_help_panel=_panel, help="\n\n".join(_paragraphs), epilog=f"Example: {_example}")(
        _interruptible(_command)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, the process's own by default; returns the exit code."""
    argv = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # for characters that the terminal cannot show
    output: Output = JsonOutput() if "--json" in argv else TextOutput()
    try:
        with _shown_warnings():
            return _run(argv, output)
    except BrokenPipeError:
        # Python flushes its buffers at exit: let it write them to the null device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _usage_message(error: Any) -> str:
    command = "delvec" if error.ctx is None else error.ctx.command_path
    return f"{error.format_message().rstrip('.')} (see {command} --help)"


@contextmanager
def _shown_warnings() -> Iterator[None]:
    """Print delvec's warnings as one line on stderr, without the source line that Python would add."""
    with warnings.catch_warnings():
        show_others: Any = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if category is UserWarning:
                print_warning(str(message))
            else:
                show_others(message, category, *where)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _with_notes(message: str, error: BaseException) -> str:
    """The message and the error's notes, such as which tables were committed before it.

    The notes of an interrupt are on the cause of the error.
    """
    note_lists = (getattr(each, "__notes__", ()) for each in (error, error.__cause__))
    return "; ".join([message, *(note for notes in note_lists for note in notes)])


def _run(argv: Sequence[str], output: Output) -> int:
    try:
        result: Any = app(argv, prog_name="delvec", standalone_mode=False)
    except DelvecError as error:
        output.error(type(error).__name__, _with_notes(str(error), error))
        return next(code for kind, code in EXIT_CODES if isinstance(error, kind))
    except _UsageError as error:
        output.error("UsageError", _usage_message(error))
        return USAGE
    except (typer.Abort, KeyboardInterrupt) as error:
        output.error("Interrupted", _with_notes("interrupted", error))
        return INTERRUPTED
    except Exception as error:
        exit_code = spark_exit_code(error)
        if exit_code is not None:
            output.error(type(error).__name__, _with_notes(spark_message(error), error))
            return exit_code
        # A bug in delvec: print the traceback.
        traceback.print_exc()
        message = f"unexpected {type(error).__name__}: {error}"
        output.error(type(error).__name__, _with_notes(message, error))
        return OTHER
    if result is None or isinstance(result, int):
        return result or 0
    output.result(result)
    code: int = result.exit_code
    return code
