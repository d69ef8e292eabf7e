"""Help is quick: what it loads is held here."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LOADED = {
    "delvec",
    "delvec.byte_size",
    "delvec.cli",
    "delvec.cli.arguments",
    "delvec.cli.change",
    "delvec.cli.changes",
    "delvec.cli.convert",
    "delvec.cli.count",
    "delvec.cli.delete",
    "delvec.cli.demo",
    "delvec.cli.dv",
    "delvec.cli.files",
    "delvec.cli.history",
    "delvec.cli.main",
    "delvec.cli.optimize",
    "delvec.cli.output",
    "delvec.cli.progress",
    "delvec.cli.restore",
    "delvec.cli.rewrite_deletes",
    "delvec.cli.show",
    "delvec.cli.spark",
    "delvec.cli.sql",
    "delvec.cli.tree",
    "delvec.cli.update",
    "delvec.cli.upgrade",
    "delvec.cli.vacuum",
    "delvec.cli.verify",
    "delvec.errors",
    "delvec.version",
}
COMMANDS = (
    *("show", "files", "count", "history", "dv", "tree", "verify"),
    *("delete", "update", "changes", "sql"),
    *("restore", "optimize", "purge", "rewrite-deletes", "vacuum", "upgrade", "convert"),
    "demo",
)
HEAVY = {"numpy", "obstore", "orjson", "pyarrow", "pyiceberg", "pyroaring", "pyspark", "sqlglot"}

PROGRAM = """
import json, sys
from delvec.cli.main import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        *([command, "--help"] for command in COMMANDS),
    ],
    ids=" ".join,
)
def test_what_help_loads(arguments):
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True
    )
    code, modules = json.loads(run.stderr)
    assert code == 0
    assert {name for name in modules if name.split(".")[0] == "delvec"} == LOADED
    assert {name for name in modules if name.split(".")[0] in HEAVY} == set()


def test_help_groups_the_commands_with_a_line_each(delvec, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = delvec("--help").out
    panels = [line.strip("╭─╮ ") for line in text.splitlines() if line.startswith("╭")]
    assert panels == [
        "Options",
        "Inspect tables, without Spark",
        "Query and change rows, in a local Spark session",
        "Maintain tables",
        "Learn",
    ]
    lines = [line.strip("│ ").split()[0] for line in text.splitlines() if line.startswith("│ ")]
    assert [line for line in lines if not line.startswith("-")] == [
        *("show", "files", "count", "history", "dv", "tree", "verify"),
        *("delete", "update", "changes", "sql"),
        *("restore", "optimize", "purge", "rewrite-deletes", "vacuum", "upgrade", "convert"),
        "demo",
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_paragraphs_are_not_broken_at_the_lines_of_the_source(delvec, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "400")
    text, _, _ = delvec(command, "-h").out.partition("╭")
    paragraphs = [line.strip() for line in text.splitlines() if line.strip()]
    assert len(paragraphs) <= 3
    assert all(line.endswith(".") for line in paragraphs[1:])


def test_help_has_examples_and_exit_codes(delvec):
    text = " ".join(delvec("--help").out.split())
    for command in COMMANDS:
        assert command in text
        assert "Example: delvec" in " ".join(delvec(command, "--help").out.split())
    assert "Exit codes: 0 success, 1 verify found errors" in text
    assert "8 conflict with another writer" in text
