"""The table properties that bound the root manifest and the leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from delvec.iceberg.property_values import whole_number

ROOT_DATA_FILES = "delvec.tree.root-data-files"
ROOT_DELETES = "delvec.tree.root-deletes"
LEAF_ENTRIES = "delvec.tree.leaf-entries"
INLINE_BYTES = "delvec.tree.inline-vector-bytes"
AFFILIATED_ENTRIES = "delvec.tree.affiliated-entries"
AFFILIATED_MANIFESTS = "delvec.tree.affiliated-manifests"
UNAFFILIATED_MANIFESTS = "delvec.tree.unaffiliated-manifests"

_DEFAULTS = {
    ROOT_DATA_FILES: 1_000,
    ROOT_DELETES: 1_000,
    LEAF_ENTRIES: 10_000,
    INLINE_BYTES: 2_048,
    AFFILIATED_ENTRIES: 32,
    AFFILIATED_MANIFESTS: 2,
    UNAFFILIATED_MANIFESTS: 4,
}
_LEAST = {LEAF_ENTRIES: 1, AFFILIATED_ENTRIES: 1, AFFILIATED_MANIFESTS: 1, UNAFFILIATED_MANIFESTS: 1}

PROPERTIES = tuple(_DEFAULTS)


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """When entries leave the root, and how large leaves are.

    root_data_files   with more live data files in the root, they are flushed to data manifests
    root_deletes      with more live vectors and equality deletes in the root, they are flushed to delete
                      manifests
    leaf_entries      the most entries of a leaf that a flush writes
    inline_bytes      the largest manifest vector in the root, in bytes; larger ones are stored in Puffin
    affiliated_entries     from this many vectors on, those of one data manifest get a delete manifest of
                      their own; fewer go to one without affinity
    affiliated_manifests   the most delete manifests that are affiliated with one data manifest
    unaffiliated_manifests the most delete manifests of one kind without affinity; further ones are merged
    """

    root_data_files: int = _DEFAULTS[ROOT_DATA_FILES]
    root_deletes: int = _DEFAULTS[ROOT_DELETES]
    leaf_entries: int = _DEFAULTS[LEAF_ENTRIES]
    inline_bytes: int = _DEFAULTS[INLINE_BYTES]
    affiliated_entries: int = _DEFAULTS[AFFILIATED_ENTRIES]
    affiliated_manifests: int = _DEFAULTS[AFFILIATED_MANIFESTS]
    unaffiliated_manifests: int = _DEFAULTS[UNAFFILIATED_MANIFESTS]

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> TreeLimits:
        """The limits that the table's properties set."""
        return cls(
            *(
                whole_number(properties, name, default=default, least=_LEAST.get(name, 0))
                for name, default in _DEFAULTS.items()
            )
        )
