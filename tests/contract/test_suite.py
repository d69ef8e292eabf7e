"""The suite itself: it says nothing of a format, so that a new format can run it as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contract.kinds import KINDS

FOLDER = Path(__file__).parent
# A log's folder, a property of a format, a module of a format or of its test helpers.
OF_A_FORMAT = re.compile(
    r"_delta_log|(?<![\w.])delta\.[\w`]|delvec\.delta|delta_log|delta_writer|from lake import .*Lake|"
    r"metadata\.json"
)


def named(text: str) -> list[str]:
    return [line for line in text.splitlines() if OF_A_FORMAT.search(line)]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_no_test_names_what_is_a_formats_own(path: Path) -> None:
    if path != Path(__file__):
        assert named(path.read_text()) == []


def test_what_is_a_formats_own_is_noticed() -> None:
    for line in (
        'Path(t) / "_delta_log/0.json"',
        'properties={"delta.appendOnly": "true"}',
        "DELETE FROM delta.`/x`",
        "from delvec.delta.table import DeltaTable",
        "from lake import FLAT, Lake",
    ):
        assert named(line) == [line]


def test_every_kind_has_a_name_of_its_own_and_each_format_a_whole_kind() -> None:
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names)
    formats = {kind.format for kind in KINDS} - {"toy"}  # the toy runs the core only
    assert {kind.format for kind in KINDS if kind.whole} == formats
