"""Only `delta/` and `detect` name things of Delta: its properties, its log folder, its metrics; and only
`iceberg/` and `detect` those of Iceberg: its properties, its metadata files, the members of its metadata.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import delvec
from delvec import operation_metrics as metrics

SOURCE = Path(delvec.__file__).parent
KNOW_DELTA = ("delta", "detect.py", "operation_metrics.py")
NEUTRAL = sorted(path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in KNOW_DELTA)

# delta.`path` is SQL that users write; delta.appendOnly is a property.
_PROPERTY = re.compile(r"(?<![\w.`])delta\.[A-Za-z]")
_LOG = re.compile(r"\b_delta_log\b")

_ICEBERG = re.compile(
    r"\b(?:write|commit|history\.expire|schema\.name-mapping)\.[a-z]+[.-][a-z]+"
    r"|\bversion-hint\b|\.metadata\.json\b|\bmanifest[- ]lists?\b|\bsnapshot-(?:id|log)\b"
    r"|\b(?:total|added|deleted)-(?:records|data-files|delete-files|position-deletes|equality-deletes|dvs)\b"
)
NOT_ICEBERG = sorted(
    path
    for path in SOURCE.rglob("*.py")
    if path.relative_to(SOURCE).parts[0] not in ("iceberg", "detect.py", "puffin")  # Puffin is Iceberg's
)

_ALLOWED = {
    ("statements/run_show.py", "numFiles"),
    ("statements/run_compaction.py", "numDeletionVectorsRemoved"),
    ("statements/run_compaction.py", "numFiles"),
}
"""Columns of the results of DESCRIBE DETAIL and OPTIMIZE have names of metrics."""


def metric_names() -> set[str]:
    """The names of metrics: the texts of `operation_metrics.py` that are one word in camel case."""
    tree = ast.parse(Path(metrics.__file__).read_text())
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {text for text in texts if isinstance(text, str) and re.fullmatch(r"[a-z]+([A-Z]\w*)+", text)}


@cache
def texts(path: Path) -> list[tuple[int, str]]:
    """Strings, the constant parts of f-strings, and comments, with their lines. Names of variables are left
    out.
    """
    return list(_texts(path))


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    with path.open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def words_of_delta(path: Path) -> list[str]:
    inside = path.relative_to(SOURCE).as_posix()
    names = re.compile(rf"\b({'|'.join(sorted(metric_names()))})\b")
    found = []
    for line, text in texts(path):
        matches = [*_PROPERTY.findall(text), *_LOG.findall(text), *names.findall(text)]
        found += [f"{inside}:{line}: {match}" for match in matches if (inside, match) not in _ALLOWED]
    return found


def words_of_iceberg(path: Path) -> list[str]:
    return [f"{line}: {match}" for line, text in texts(path) for match in _ICEBERG.findall(text)]


def test_no_other_module_names_things_of_iceberg() -> None:
    found = {path.relative_to(SOURCE).as_posix(): words_of_iceberg(path) for path in NOT_ICEBERG}
    assert {path: words for path, words in found.items() if words} == {}


@pytest.mark.parametrize(
    "text", ['"write.delete.mode"', "# the manifest list", 'f"{x} total-records"', '"v1.metadata.json"']
)
def test_such_a_name_of_iceberg_is_found(tmp_path: Path, text: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(f"{text}\n")
    assert words_of_iceberg(path)


def test_the_metrics_are_known() -> None:
    assert {"numDeletedRows", "numTargetRowsInserted", "numCommitTries", "executionTimeMs"} <= metric_names()


@pytest.mark.parametrize("path", NEUTRAL, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_no_module_above_the_formats_names_things_of_delta(path: Path) -> None:
    assert words_of_delta(path) == []


@pytest.mark.parametrize(
    "text", ['"delta.appendOnly"', "# reads _delta_log", 'f"{x} numDeletedRows"', '"""See delta.x."""']
)
def test_such_a_name_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    path = tmp_path / "module.py"
    path.write_text(f"{text}\n")
    assert words_of_delta(path)
