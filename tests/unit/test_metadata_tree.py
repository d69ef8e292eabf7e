"""The tree of a table as text and as JSON, whatever the format."""

from __future__ import annotations

import datetime as dt
import json

from delvec.metadata_tree import MetadataTree, Node

AT = dt.datetime(2025, 1, 31, 12, tzinfo=dt.UTC)


def wide(count: int, made: list[int]) -> Node:
    """A node with many children, which records how many of them were made."""

    def children(first: int) -> list[Node]:
        made.append(first)
        return [Node("file", str(number)) for number in range(first)]

    return Node("root", "r", {}, count, children)


def test_the_text_of_a_tree():
    leaves = [Node("vector", "v", {"deleted rows": 1, "bytes": 40}), Node("vector", "w")]
    inner = Node("file", "f", {"rows": 1200, "bytes": 2048}, 2, lambda count: leaves[:count])
    root = Node("version", "3", {"at": AT}, 2, lambda count: [inner, Node("file", "g")][:count])
    assert str(MetadataTree("/t", root)).splitlines() == [
        "version 3 · at 2025-01-31 12:00:00 UTC",
        "├── file f · 1,200 rows · 2.0 KiB",
        "│   ├── vector v · 1 deleted row · 40 B",
        "│   └── vector w",
        "└── file g",
    ]


def test_children_above_the_limit_are_counted_and_not_made():
    made: list[int] = []
    tree = MetadataTree("/t", wide(3_216, made), limit=2)
    assert str(tree).splitlines() == ["root r", "├── file 0", "├── file 1", "└── … and 3,214 more"]
    document = tree.document()["tree"]
    assert (document["count"], len(document["children"])) == (3_216, 2)
    assert made == [2, 2]


def test_a_limit_of_0_shows_all():
    tree = MetadataTree("/t", wide(30, []), limit=0)
    assert len(str(tree).splitlines()) == 31


def test_facts_in_text_and_json():
    assert str(MetadataTree("/t", Node("m", "n", {"rows": 0, "removed files": 0}))) == "m n · 0 rows"
    facts = {"partition": {"day": dt.date(2025, 1, 2), "p": None}, "ids": [1, 2], "size": 3, "of": None}
    tree = MetadataTree("/t", Node("file", "f", {**facts, "live": True, "ratio": float("nan")}))
    assert str(tree) == "file f · day=2025-01-02, p=NULL · ids 1, 2 · size 3 · live · ratio nan"
    assert json.loads(tree.to_json())["tree"]["facts"] == {
        "partition": {"day": "2025-01-02", "p": None},
        "ids": [1, 2],
        "size": 3,
        "of": None,
        "live": True,
        "ratio": "nan",
    }


def test_control_characters_of_names_are_shown_and_not_sent():
    assert str(MetadataTree("/t", Node("file", "a\x1b[31m\nb"))) == "file a\\x1b[31m\\x0ab"
