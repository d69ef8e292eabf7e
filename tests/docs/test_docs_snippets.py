"""What the documentation shows is run: every ``python`` and ``console`` block of README.md and docs/.

The blocks of a page share a working directory, and its Python blocks a namespace. A ``text`` block right
after a Python block is its output; in a console block the lines after a ``$ `` command are. An output that is
not shown is not compared. ``…`` stands for any text in a line, and alone in a line for any lines.

``make`` targets are looked up, not made; ``pip`` is left alone.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

from delvec import name_resolver

ROOT = Path(__file__).resolve().parents[2]
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.is_file()]
WIDTH = "100"
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """A command of a console block, with the output shown after it, None where none is."""

    text: str
    shown: str | None


def blocks(page: str) -> list[Block]:
    return [Block(m[1], m[2], page.count("\n", 0, m.start()) + 1) for m in FENCE.finditer(page)]


def commands(text: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        count = next(i for i, line in enumerate(lines, 1) if not line.endswith("\\"))
        shown = "\n".join(lines[count:]).strip("\n")
        yield Command("\n".join(lines[:count]), shown or None)


def matches(found: str, shown: str) -> bool:
    pattern = ""
    for line in shown.strip("\n").splitlines():
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += ".*?".join(re.escape(piece) for piece in line.rstrip().split("…")) + r"\n"
    lines = "".join(line.rstrip() + "\n" for line in found.strip("\n").splitlines())
    return re.fullmatch(pattern, lines) is not None


def make_targets() -> set[str]:
    makefile = ROOT / "Makefile"
    if not makefile.is_file():
        pytest.skip("there is no Makefile to look targets up in")
    return set(re.findall(r"^([A-Za-z][\w-]*)\s*:(?!=)", makefile.read_text(), re.MULTILINE))


def run_console(block: Block, where: str, folder: Path) -> None:
    environment = {**os.environ, "COLUMNS": WIDTH, "NO_COLOR": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    for command in commands(block.text):
        words = command.text.split()
        if words[0] == "make":
            assert set(words[1:]) <= make_targets(), f"{where}: {command.text}"
            continue
        if words[0] == "pip":
            continue
        run = subprocess.run(
            ["bash", "-c", command.text],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if command.shown is None:
            assert run.returncode == 0, f"{where}: {command.text}\n{run.stdout}"
        else:
            assert matches(run.stdout, command.shown), f"{where}: {command.text}\nprinted:\n{run.stdout}"


def run_python(block: Block, where: str, namespace: dict[str, object]) -> str:
    written = io.StringIO()
    # The lines before it make a traceback name the line of the page.
    code = compile("\n" * block.line + block.text, where, "exec")
    with contextlib.redirect_stdout(written):
        exec(code, namespace)
    return written.getvalue()


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """Variables that a page sets are unset after it."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def folder() -> Iterator[Path]:
    # pytest's own have long names, which the pages' tables would fold.
    with tempfile.TemporaryDirectory(prefix="docs-") as name:
        yield Path(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(name_resolver, "_registered", {})  # names of tables on other pages
    namespace: dict[str, object] = {"__name__": "__main__"}
    found = blocks(page.read_text())
    for block, after in zip_longest(found, found[1:]):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.language == "console":
            run_console(block, where, folder)
        elif block.language == "python":
            printed = run_python(block, where, namespace)
            if after is not None and after.language == "text":
                assert matches(printed, after.text), f"{where} printed:\n{printed}"


def test_a_page_is_taken_apart():
    page = "x\n```python\nprint(1)\n```\n\n```text\n1\n```\n```console\n$ a \\\n  b\nout\n$ c\n```\n"
    first, second, third = blocks(page)
    assert (first.language, first.text, first.line) == ("python", "print(1)\n", 2)
    assert (second.language, second.text) == ("text", "1\n")
    assert list(commands(third.text)) == [Command("a \\\n  b", "out"), Command("c", None)]


@pytest.mark.parametrize(
    ("found", "shown", "same"),
    [
        ("a\nb\n", "a\nb", True),
        ("a  \nb\n\n", "a\nb\n", True),
        ("a\nc\n", "a\nb", False),
        ("a\nb\nc\n", "a\nb", False),
        ("took 3 s\n", "took … s", True),
        ("took 3 s\nmore\n", "took … s", False),
        ("a\nb\nc\nd\n", "a\n…\nd", True),
        ("a\nd\n", "a\n…\nd", True),
        ("a\nb\n", "a\n…\nd", False),
        ("a.c\n", "abc", False),
    ],
)
def test_outputs_are_compared(found, shown, same):
    assert matches(found, shown) is same


def test_a_wrong_output_is_found(tmp_path):
    with pytest.raises(AssertionError, match="printed"):
        run_console(Block("console", "$ echo one\ntwo\n", 1), "page:1", tmp_path)


def test_a_failing_command_is_found(tmp_path):
    with pytest.raises(AssertionError, match="false"):
        run_console(Block("console", "$ false\n", 1), "page:1", tmp_path)
