"""`delvec tree`: how a version of a table is stored, from its metadata down to its deletes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from delvec.cli.arguments import (
    Catalog,
    Json,
    Path,
    Ref,
    Relocate,
    StorageOptions,
    Timestamp,
    Version,
    open_source,
    storage_options,
)

if TYPE_CHECKING:
    from delvec.metadata_tree import MetadataTree, Node

DEFAULT_LIMIT = 20

ChildLimit = Annotated[
    int,
    typer.Option("--limit", metavar="N", min=0, help="Show at most N entries below each entry; 0 shows all."),
]


def tree(
    path: Path,
    *,
    limit: ChildLimit = DEFAULT_LIMIT,
    version: Version = None,
    timestamp: Timestamp = None,
    catalog: Catalog = None,
    ref: Ref = None,
    relocate: Relocate = False,
    json: Json = False,
    option: StorageOptions = None,
) -> TreeResult:
    """Show the metadata files, with data files and deletes."""
    from delvec.browse import metadata_tree

    del json
    source = open_source(path, storage_options(option), catalog=catalog, ref=ref, relocate=relocate)
    return TreeResult(metadata_tree(source, source.snapshot(version, timestamp), limit=limit))


@dataclass(frozen=True, slots=True)
class TreeResult:
    tree: MetadataTree

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        return self.tree.document()

    def render(self) -> Iterable[RenderableType]:
        yield _branch(self.tree.root, self.tree.limit)


def _branch(node: Node, limit: int) -> Tree:
    from delvec.metadata_tree import more_text

    branch = Tree(_label(node), guide_style="dim")
    children = node.first(limit)
    for child in children:
        branch.add(_branch(child, limit))
    more = more_text(node, len(children))
    if more is not None:
        branch.add(Text(f"{more} (--limit)", style="dim"))
    return branch


def _label(node: Node) -> Text:
    from delvec.metadata_tree import SEPARATOR, printable

    name = Text.assemble((node.kind, "bold"), " ", printable(node.name))
    facts = (Text(printable(text), style="cyan") for text in node.fact_texts)
    return Text(SEPARATOR).join([name, *facts])
