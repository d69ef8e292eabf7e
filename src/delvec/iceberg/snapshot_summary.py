"""The summary of a new snapshot: what it added and removed, and the totals, under Iceberg's names.

Its operation is one of

    append     only data files are added
    delete     only data files are removed, or deletes added
    overwrite  data files are added, and others removed or given deletes
    replace    files are written anew, and no row changes

Totals that the previous snapshot does not record are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.iceberg.delete_scopes import PUFFIN
from delvec.iceberg.live_entries import SPEC_ID
from delvec.iceberg.manifest import ADDED, DATA_FILE, DELETED, EQUALITY_DELETES, POSITION_DELETES
from delvec.iceberg.stats import PARTITION
from delvec.version import __version__

APPEND, DELETE, OVERWRITE, REPLACE = "append", "delete", "overwrite", "replace"

ENGINE = {"engine-name": "delvec", "engine-version": __version__}

_TOTALS = {
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}
_KEY_TOTALS = {
    "equality-delete-vectors": ("added-equality-delete-vectors", "removed-equality-delete-vectors"),
    "equality-delete-files": ("added-equality-row-files", "removed-equality-row-files"),
    "edv-size-bytes": ("added-edv-size-bytes", "removed-edv-size-bytes"),
}
"""delvec's own totals, of tables that have or had equality deletes. The counts stay inside this module."""


def operation_of(entries: pa.Table, *, data_change: bool) -> str:
    """The operation of a commit with these new and removed entries."""
    if not data_change:
        return REPLACE
    is_data = pc.equal(entries.column("content"), DATA_FILE)
    is_added = pc.equal(entries.column("status"), ADDED)
    adds_data = _any(pc.and_(is_data, is_added))
    if not adds_data:
        return DELETE
    others = pc.or_(pc.invert(is_data), pc.invert(is_added))
    return OVERWRITE if _any(others) else APPEND


def empty_summary() -> dict[str, str]:
    """The summary of a first snapshot that has no files."""
    return {
        "operation": APPEND,
        "changed-partition-count": "0",
        **dict.fromkeys(_TOTALS, "0"),
        **ENGINE,
    }


def unchanged_summary(previous: Mapping[str, str]) -> dict[str, str]:
    """The summary of a snapshot with the files of the previous one."""
    kept = {name: previous[name] for name in (*_TOTALS, *_KEY_TOTALS) if name in previous}
    return {"changed-partition-count": "0", **kept}


def summary(entries: pa.Table, previous: Mapping[str, str] | None) -> dict[str, str]:
    """The counts of the new and removed ``entries``, and the totals, if the ``previous`` summary has them.

    ``previous``: None for the first snapshot of the table.
    """
    counts: Counter[str] = Counter()
    for status, word in ((ADDED, "added"), (DELETED, "removed")):
        _count(counts, entries.filter(pc.equal(entries.column("status"), status)), word)
    own = {name for names in _KEY_TOTALS.values() for name in names}
    texts = {name: str(count) for name, count in counts.items() if count and name not in own}
    texts["changed-partition-count"] = str(_partitions(entries))
    for total, (plus, minus) in _TOTALS.items():
        before = 0 if previous is None else _number(previous.get(total))
        _set_total(texts, total, before, counts[plus] - counts[minus])
    had_none = previous is None or previous.get("total-equality-deletes") == "0"
    for total, (plus, minus) in _KEY_TOTALS.items():
        before = _number((previous or {}).get(total))
        if before is not None or (had_none and counts["added-equality-deletes"]):
            _set_total(texts, total, before or 0, counts[plus] - counts[minus])
    return texts


def _set_total(texts: dict[str, str], total: str, before: int | None, change: int) -> None:
    if before is not None and before + change >= 0:
        texts[total] = str(before + change)


def _count(counts: Counter[str], entries: pa.Table, word: str) -> None:
    contents = entries.column("content").to_numpy()
    is_vector = pc.equal(entries.column("file_format"), PUFFIN).to_numpy()
    records = entries.column("record_count").to_numpy()
    sizes = pc.coalesce(entries.column("content_size"), entries.column("file_size")).to_numpy()
    data, position, equality = (contents == kind for kind in (DATA_FILE, POSITION_DELETES, EQUALITY_DELETES))
    gone = "deleted" if word == "removed" else word
    counts[f"{gone}-data-files"] += int(data.sum())
    counts[f"{gone}-records"] += int(records[data].sum())
    counts[f"{word}-delete-files"] += int((~data).sum())
    counts[f"{word}-dvs"] += int((position & is_vector).sum())
    counts[f"{word}-position-delete-files"] += int((position & ~is_vector).sum())
    counts[f"{word}-position-deletes"] += int(records[position].sum())
    counts[f"{word}-equality-delete-files"] += int(equality.sum())
    counts[f"{word}-equality-deletes"] += int(records[equality].sum())
    counts[f"{word}-equality-delete-vectors"] += int((equality & is_vector).sum())
    counts[f"{word}-equality-row-files"] += int((equality & ~is_vector).sum())
    counts[f"{word}-edv-size-bytes"] += int(sizes[equality & is_vector].sum())
    counts[f"{word}-files-size"] += int(sizes.sum())


def _partitions(entries: pa.Table) -> int:
    """The number of partitions with a new or removed file."""
    names = [SPEC_ID, *(name for name in entries.column_names if name.startswith(PARTITION))]
    codes = np.zeros(len(entries), np.int64)
    for name in names:
        column = entries.column(name).combine_chunks()
        if pa.types.is_null(column.type):
            continue
        encoded = pc.fill_null(column.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
        _, codes = np.unique(np.stack([codes, encoded]), axis=1, return_inverse=True)
        codes = codes.reshape(-1)
    return len(np.unique(codes))


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _any(mask: pa.ChunkedArray) -> bool:
    return bool(pc.any(mask).as_py())
