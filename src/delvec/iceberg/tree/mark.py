"""The mark of tables whose snapshots are trees, as reserved properties of the table.

    delvec.tree-profile   the layout of manifests (`profile_seed`)
    delvec.tree-since     the table's last sequence number before it had trees

Format version 4 alone does not say it: other writers' tables of that version still have manifest lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from delvec.errors import FormatError, InvalidOperationError, UnsupportedFeatureError
from delvec.iceberg.tree.profile_seed import PROFILE

if TYPE_CHECKING:
    from delvec.iceberg.metadata import SnapshotRecord

TREE_VERSION = 4
MARK, SINCE = "delvec.tree-profile", "delvec.tree-since"
RESERVED = frozenset({MARK, SINCE})

_OTHER_V4 = "format version 4 with manifest lists"


def marks(last_sequence_number: int) -> dict[str, str]:
    """The properties of a table that gets trees."""
    return {MARK: PROFILE, SINCE: str(last_sequence_number)}


def verify_mark(properties: Mapping[str, str]) -> None:
    """Refuse a table of version 4 without the mark, and one with another profile."""
    found = properties.get(MARK)
    if found is None:
        raise UnsupportedFeatureError(
            f"Iceberg format version is 4 without the property {MARK}={PROFILE}: another writer made the "
            "table, expected one that delvec made, or version 1, 2 or 3",
            feature=_OTHER_V4,
        )
    if found != PROFILE:
        raise UnsupportedFeatureError(
            f"property {MARK} is {found!r}, expected {PROFILE}", feature=f"tree profile {found}"
        )


def verify_marks_unchanged(properties: Mapping[str, str], changes: Mapping[str, str | None]) -> None:
    """Refuse to set or unset a mark, unless it gets the value that it has."""
    for name in RESERVED & changes.keys():
        if changes[name] != properties.get(name):
            raise InvalidOperationError(f"property {name} is reserved: delvec sets it, it cannot be changed")


def verify_only_trees(properties: Mapping[str, str], snapshots: Iterable[SnapshotRecord]) -> None:
    """Refuse a snapshot with a manifest list that is newer than the upgrade to version 4: its writer did not
    know that the table has trees.
    """
    text = properties.get(SINCE, "")
    if not text.isdecimal():
        raise FormatError(f"property {SINCE} is {text!r}, expected a sequence number")
    for record in snapshots:
        if record.root_manifest is None and record.sequence_number > int(text):
            raise UnsupportedFeatureError(
                f"snapshot {record.snapshot_id} has a manifest list, but is newer than the upgrade to format "
                "version 4, expected a root manifest: another writer committed it",
                feature=_OTHER_V4,
            )
