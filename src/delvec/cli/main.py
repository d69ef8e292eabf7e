"""`delvec`: the commands, and how each ends.

    0   fine                                4   a file that breaks its format
    1   verify found errors                 5   something delvec does not do
    2   a bad command line or condition     6   the store failed
    3   no such table or file               7   anything else
    8   another writer came first

The modules of the commands import what is heavy only when they run: `delvec --help` is to be quick.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from delvec.cli.delete import delete
from delvec.cli.demo import demo
from delvec.cli.dv import dv
from delvec.cli.files import files
from delvec.cli.history import history
from delvec.cli.output import JsonOutput, Output, TextOutput
from delvec.cli.show import show
from delvec.cli.spark import FAILED as OTHER
from delvec.cli.spark import REFUSED as USAGE
from delvec.cli.spark import spark_exit_code, spark_message
from delvec.cli.sql import sql
from delvec.cli.update import update
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

INTERRUPTED = 130  # as shells count a process that a signal ended
BROKEN_PIPE = 141

# The first that an error is an instance of counts.
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

# typer brings its own copy of click; the errors' root is found in whichever it uses.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0].__bases__[0]

app = typer.Typer(
    add_completion=False,
    help="Look into lakehouse tables and their deletion vectors, without Spark; and change rows, with it.",
    epilog="Exit codes: 0 fine, 1 verify found errors, 2 bad command line, 3 no such table or file, "
    "4 bad file, 5 unsupported, 6 storage failed, 7 anything else, 8 another writer came first.",
)


@app.callback(invoke_without_command=True)
def _delvec(
    show_version: Annotated[bool, typer.Option("--version", help="Show the version of delvec.")] = False,
) -> None:
    if show_version:
        print(f"delvec {__version__}")
        raise typer.Exit


for _command, _example in (
    (show, "delvec show /lake/orders --version 3"),
    (files, "delvec files /lake/orders --where \"region = 'eu' AND amount > 90\""),
    (history, "delvec history s3://lake/orders --limit 5 --option region=eu-west-1"),
    (dv, "delvec dv /lake/orders --file part-00002.parquet --ranges 20"),
    (verify, "delvec verify /lake/orders --json"),
    (delete, "delvec delete /lake/orders --where \"placed < DATE'2020-01-01'\" --dry-run"),
    (update, 'delvec update /lake/orders --set "amount = amount * 2" --where "id = 7" --yes'),
    (sql, 'delvec sql "SELECT count(*) FROM delvec.`/lake/orders` WHERE region = :r" --param r=eu'),
    (demo, "delvec demo"),
):
    app.command(epilog=f"Example: {_example}")(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, the process's own by default; returns the exit code."""
    argv = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show
    output: Output = JsonOutput() if "--json" in argv else TextOutput()
    try:
        return _run(argv, output)
    except BrokenPipeError:
        # What is still buffered is flushed at exit, into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _run(argv: Sequence[str], output: Output) -> int:
    try:
        result: Any = app(argv, prog_name="delvec", standalone_mode=False)
    except DelvecError as error:
        output.error(type(error).__name__, str(error))
        return next(code for kind, code in EXIT_CODES if isinstance(error, kind))
    except _UsageError as error:
        output.error("UsageError", f"{error.format_message()} (see delvec --help)")  # type: ignore[attr-defined]
        return USAGE
    except (typer.Abort, KeyboardInterrupt):
        output.error("Interrupted", "interrupted")
        return INTERRUPTED
    except Exception as error:
        refused = spark_exit_code(error)
        if refused is not None:
            output.error(type(error).__name__, spark_message(error))
            return refused
        # A mistake of ours: what led to it helps to find it.
        traceback.print_exc()
        output.error(type(error).__name__, f"unexpected {type(error).__name__}: {error}")
        return OTHER
    if result is None or isinstance(result, int):
        return result or 0
    output.result(result)
    code: int = result.exit_code
    return code
