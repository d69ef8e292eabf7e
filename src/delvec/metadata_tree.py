"""``MetadataTree``: how a version of a table is stored, from its metadata down to its deletes.

Each format decides what its nodes are. The value itself is the same for all formats:

    version 2                                      a node: kind, name, facts
    ├── commit 00000000000000000001.json           its children, made when they are asked for
    │   └── data file part-1.parquet · 3 rows
    │       └── vector deletion_vector_….bin @ 1
    └── … and 3,214 more                           children above the limit are counted, not made
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from delvec.byte_size import size_text

DEFAULT_LIMIT = 20
"""How many children of a node are shown."""

BYTES = "bytes"
"""The fact that is a number of bytes."""

SEPARATOR = " · "


def _no_children(count: int) -> Sequence[Node]:
    del count
    return ()


@dataclass(frozen=True, slots=True)
class Node:
    """One piece of a table's metadata, or a file that it names.

    facts     what the metadata says about it, by name. None: not recorded. A number whose name is a plural is
              a count; the text leaves out counts of some kind that are 0
    count     number of children
    children  the first so many children
    """

    kind: str
    name: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    count: int = 0
    children: Callable[[int], Sequence[Node]] = _no_children

    @property
    def label(self) -> str:
        """The node on one line, without control characters."""
        return printable(SEPARATOR.join([self.title, *self.fact_texts]))

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def fact_texts(self) -> Sequence[str]:
        texts = (_fact_text(name, value) for name, value in self.facts.items())
        return [text for text in texts if text]

    def first(self, limit: int) -> Sequence[Node]:
        """The first ``limit`` children; all children if the limit is 0."""
        wanted = min(self.count, limit) if limit else self.count
        return self.children(wanted) if wanted else ()


@dataclass(frozen=True, slots=True, repr=False)
class MetadataTree:
    """The tree of a version. Its text is the tree; ``document`` is its JSON form.

    limit   how many children of each node are shown; 0 shows all
    """

    location: str
    root: Node
    limit: int = DEFAULT_LIMIT

    def __str__(self) -> str:
        return "\n".join(_lines(self.root, self.limit))

    def __repr__(self) -> str:
        return str(self)

    def document(self) -> dict[str, Any]:
        """The tree as values of JSON."""
        return {"location": self.location, "tree": _document(self.root, self.limit)}

    def to_json(self) -> str:
        return json.dumps(self.document(), indent=2, ensure_ascii=False)


def more_text(node: Node, shown: int) -> str | None:
    """Says how many children are not shown; None if all are."""
    return f"… and {node.count - shown:,} more" if node.count > shown else None


def _lines(node: Node, limit: int) -> Iterator[str]:
    yield node.label
    children = node.first(limit)
    more = more_text(node, len(children))
    last = len(children) - 1 if more is None else len(children)
    for number, child in enumerate(children):
        branch, below = ("└── ", "    ") if number == last else ("├── ", "│   ")
        first, *rest = _lines(child, limit)
        yield branch + first
        yield from (below + line for line in rest)
    if more is not None:
        yield f"└── {more}"


def _document(node: Node, limit: int) -> dict[str, Any]:
    children = node.first(limit)
    return {
        "kind": node.kind,
        "name": node.name,
        "facts": {name: _json(value) for name, value in node.facts.items()},
        "count": node.count,
        "children": [_document(child, limit) for child in children],
    }


def _fact_text(name: str, value: Any) -> str | None:
    match value:
        case None | [] | () | "":
            return None
        case Mapping():
            return ", ".join(f"{key}={_text(item)}" for key, item in value.items()) or None
        case bool():
            return name if value else None
        case int() if name == BYTES:
            return size_text(value)
        case 0 if " " in name and name.endswith("s"):
            return None  # such as "removed files"
        case int() if name.endswith("s"):
            return f"{value:,} {name if value != 1 else _one(name)}"
        case list() | tuple():
            return f"{name} {', '.join(map(_text, value))}"
    return f"{name} {_text(value)}"


def _one(name: str) -> str:
    """The singular of a name."""
    return name.replace("leaves", "leaf") if name.endswith("leaves") else name.removesuffix("s")


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return "NULL" if value is None else str(value)


def printable(text: str) -> str:
    """The text without control characters: names come from files, and a terminal would obey them."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _json(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if value - value == 0 else str(value)
        case dt.date() | dt.time():
            return value.isoformat()
        case Mapping():
            return {str(key): _json(item) for key, item in value.items()}
        case list() | tuple():
            return [_json(item) for item in value]
    return str(value)
