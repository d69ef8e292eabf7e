"""Checks manifests against the rules of the tree when they are read and before they are written.

    entry_rules   of every entry
    root_rules    of a root: tracking, manifest vectors, affinity
    leaf_rules    of a leaf: two levels, content

Rules that need several leaves are checked by `verify` only (`tree_rules`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg.tree.entries import ROOT_CONTENT
from delvec.iceberg.tree.entry_rules import ENTRY_RULES, CheckedEntries, Rule
from delvec.iceberg.tree.leaf_rules import leaf_content, no_affiliated_equality_deletes, rules_of
from delvec.iceberg.tree.manifest_file import ManifestFile
from delvec.iceberg.tree.root_rules import ROOT_RULES, changes_of_snapshot


def verify_root(
    root: ManifestFile, path: str, *, snapshot_id: int | None = None, sequence_number: int | None = None
) -> None:
    """Refuse a root that breaks a rule. ``snapshot_id``, ``sequence_number``: of the snapshot that has it."""
    if root.content != ROOT_CONTENT:
        raise FormatError(f"content of a root manifest is {root.content}, expected root", path=path)
    entries = CheckedEntries(root.entries)
    _verify_not_encrypted(entries, path)
    problem = next(_problems(entries, (*ENTRY_RULES, *ROOT_RULES)), None)
    if problem is None and snapshot_id is not None and sequence_number is not None:
        problem = changes_of_snapshot(entries, snapshot_id, sequence_number)
    if problem is not None:
        raise FormatError(problem, path=path)


def verify_leaf(leaf: ManifestFile, content: str, path: str, *, is_affiliated: bool = False) -> None:
    """Refuse a leaf that breaks a rule. ``content``: what its entry in the root says it holds."""
    problem = leaf_content(leaf.content, content)
    if problem is None:
        entries = CheckedEntries(leaf.entries)
        _verify_not_encrypted(entries, path)
        problem = next(_problems(entries, (*ENTRY_RULES, *rules_of(content))), None)
        if problem is None and is_affiliated:
            problem = no_affiliated_equality_deletes(entries)
    if problem is not None:
        raise FormatError(problem, path=path)


def _problems(entries: CheckedEntries, rules: Sequence[Rule]) -> Iterator[str]:
    for rule in rules:
        problem = rule(entries)
        if problem is not None:
            yield problem


def _verify_not_encrypted(entries: CheckedEntries, path: str) -> None:
    encrypted = entries.first(entries.has("key_metadata"), "file is encrypted")
    if encrypted is not None:
        raise UnsupportedFeatureError(f"{encrypted}: {path}", feature="encryption")
