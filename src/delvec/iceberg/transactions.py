"""Versions of idempotent writers: a table property for each writer, set by the commit that has its rows.

A property outlives the snapshot, whose summary goes when the snapshot expires.
"""

from __future__ import annotations

from collections.abc import Mapping

from delvec.row_delta import Txn

_PREFIX = "delvec.txn."


def txn_properties(txn: Txn) -> dict[str, str]:
    return {f"{_PREFIX}{txn.app_id}": str(txn.version)}


def txn_versions(properties: Mapping[str, str]) -> dict[str, int]:
    """The last committed version of each writer, by its ``app_id``."""
    return {
        name.removeprefix(_PREFIX): int(text)
        for name, text in properties.items()
        if name.startswith(_PREFIX) and text.lstrip("-").isdecimal()
    }
