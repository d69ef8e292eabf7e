"""The rules of a leaf manifest, besides those of every entry: one function for each rule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delvec.iceberg.tree.entries import (
    DATA,
    DATA_CONTENT,
    EQUALITY_DELETES,
    MANIFEST_DV,
    MANIFESTS,
    POSITION_DELETES,
    ROOT_CONTENT,
)
from delvec.iceberg.tree.entry_rules import CheckedEntries, Rule


def two_levels(entries: CheckedEntries) -> str | None:
    wrong = entries.of(*MANIFESTS, MANIFEST_DV)
    return entries.first(
        wrong, "leaf has an entry that only the root may have, expected files and their deletes"
    )


def only_data_in_data_manifests(entries: CheckedEntries) -> str | None:
    return entries.first(~entries.of(DATA), "data manifest has an entry that is no data file")


def only_deletes_in_delete_manifests(entries: CheckedEntries) -> str | None:
    wrong = ~entries.of(POSITION_DELETES, EQUALITY_DELETES)
    return entries.first(wrong, "delete manifest has an entry that is no delete")


def one_kind_of_deletes(entries: CheckedEntries) -> str | None:
    equality = entries.of(EQUALITY_DELETES)
    if not np.any(entries.of(POSITION_DELETES)):
        return None
    return entries.first(equality, "delete manifest has equality deletes beside vectors, expected one kind")


_DATA_RULES: Sequence[Rule] = (two_levels, only_data_in_data_manifests)
_DELETE_RULES: Sequence[Rule] = (two_levels, only_deletes_in_delete_manifests, one_kind_of_deletes)


def rules_of(content: str) -> Sequence[Rule]:
    """The rules of a leaf with this content."""
    return _DATA_RULES if content == DATA_CONTENT else _DELETE_RULES


def leaf_content(found: str, expected: str) -> str | None:
    """What a leaf says it holds is what its entry in the root says."""
    if found == expected:
        return None
    levels = ": manifests have two levels" if found == ROOT_CONTENT else ""
    return f"content of a leaf is {found}, expected {expected}{levels}"


def no_affiliated_equality_deletes(entries: CheckedEntries) -> str | None:
    """Of a delete manifest that is affiliated with a data manifest."""
    wrong = entries.of(EQUALITY_DELETES)
    return entries.first(wrong, "affiliated delete manifest has equality deletes, expected only vectors")
