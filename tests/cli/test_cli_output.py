"""How output looks: for terminals, for pipes, for programs."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from delvec.cli.output import JsonOutput, cell, json_value, shortened, size, table

COMMAND = Path(sys.executable).with_name("delvec")


def test_json_values():
    values = {
        "date": dt.date(2025, 1, 2),
        "time": dt.datetime(2025, 1, 2, 3, tzinfo=dt.UTC),
        "decimal": decimal.Decimal("1.10"),
        "bytes": b"\xff\x00",
        "nan": float("nan"),
        "infinity": float("-inf"),
        "big": 2**63 - 1,
        "list": (1, [b"a"]),
        "none": None,
    }
    assert json_value(values) == {
        "date": "2025-01-02",
        "time": "2025-01-02T03:00:00+00:00",
        "decimal": "1.10",
        "bytes": "/wA=",
        "nan": "nan",
        "infinity": "-inf",
        "big": 2**63 - 1,
        "list": [1, ["YQ=="]],
        "none": None,
    }


def test_json_of_odd_text_is_read_back(capsys):
    JsonOutput().error("Kind", 'quote " newline \n escape \x1b é 日本')
    assert json.loads(capsys.readouterr().out)["error"]["message"] == 'quote " newline \n escape \x1b é 日本'


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1 << 20, "1.0 MiB"),
        (3 << 40, "3.0 TiB"),
        (None, "?"),
    ],
)
def test_sizes(count, text):
    assert size(count) == text


def test_long_names_keep_both_ends():
    assert shortened("deletion_vector_43f0815b-c9ce.bin") == "deletion…-c9ce.bin"
    assert shortened("x" * 18) == "x" * 18
    assert len(shortened("x" * 19)) == 18


def test_what_would_steer_a_terminal_is_shown():
    assert cell("a\x1b[2Jb\x07\x9bc\nd") == "a\\x1b[2Jb\\x07\\x9bc d"


def test_markup_in_names_is_text(delvec, orders):
    run = delvec("files", orders, "--where", "customer = '[bold]'", "--json")
    assert run.json["where"] == "customer = '[bold]'"
    assert "[/nope]" in delvec("show", orders / "[/nope]").err


def test_pipes_get_whole_lines_and_no_colours(orders):
    env = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    run = subprocess.run([COMMAND, "files", orders], capture_output=True, text=True, env=env, check=True)
    lines = run.stdout.splitlines()
    assert sum(".parquet" in line and ".bin @" in line for line in lines) == 4
    assert "\x1b" not in run.stdout
    assert all(line == line.rstrip() for line in lines)


def test_terminals_get_colours_unless_told_otherwise(orders):
    cyan, demo = "\x1b[1;36m", ["demo", "--no-spark", "--path", str(orders)]
    assert cyan in in_terminal(demo, {})
    assert cyan not in in_terminal(demo, {"NO_COLOR": "1"})


def test_wide_cells_are_folded_to_the_terminal(orders):
    lines = in_terminal(["files", str(orders)], {"TERM": "dumb", "COLUMNS": "80"}).splitlines()
    assert max(map(len, lines)) <= 80
    assert "region=us/part-00002.parquet" in "".join(line.split("  ")[0].strip() for line in lines)


def test_headings_stand():
    made = table("a", "b", numbers=("b",), fold=("a",))
    assert [(column.justify, column.no_wrap) for column in made.columns] == [("left", False), ("right", True)]


def in_terminal(arguments: list[str], env: dict[str, str]) -> str:
    """What the command writes to a terminal of its own."""
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    environment |= {"TERM": "xterm-256color", **env}
    with subprocess.Popen(
        [COMMAND, *arguments],
        stdout=theirs,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # how a terminal ends on Linux
                break
            if not piece:
                break
            written += piece
        assert process.wait() == 0
    os.close(ours)
    return written.decode().replace("\r\n", "\n")
