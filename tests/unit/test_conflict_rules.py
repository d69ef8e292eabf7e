"""The table of verbs against verbs is whole, and the document shows it as it is."""

from __future__ import annotations

import itertools
from pathlib import Path

from delvec.conflicts import RULES, Rule
from delvec.row_delta import Verb

DOCUMENT = Path(__file__).parents[2] / "docs" / "concurrency.md"
WORDS = {
    Rule.TOP: "rebase",
    Rule.CHECK: "check",
    Rule.REPLAN: "replan",
    Rule.KEEP: "keep rest",
    Rule.KEYS: "keys",
    Rule.RERUN: "rerun",
}


def test_every_verb_has_a_rule_against_every_other() -> None:
    assert set(RULES) == set(itertools.product(Verb, Verb))


def test_the_document_says_the_same() -> None:
    text = DOCUMENT.read_text()
    lines = text[text.index("<!-- rules: begin -->") : text.index("<!-- rules: end -->")].splitlines()
    head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|")
    shown = {(row[0], loser): cell for row in rows for loser, cell in zip(head[1:], row[1:], strict=True)}
    assert shown == {(str(won), str(lost)): WORDS[rule] for (won, lost), rule in RULES.items()}
