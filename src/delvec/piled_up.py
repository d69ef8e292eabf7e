"""Deletes that pile up: each scan loads them all, until they are rewritten."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from delvec.deletes.deletes_of_files import applied_deletes
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.formats import Snapshot
from delvec.plan import EQUALITY_FILE, POSITION_FILE, ScanPlan
from delvec.row_delta import DeleteForm, Verb

MANY_DELETES = 100
"""With so many delete files a table gains from rewriting them (docs/maintenance.md has measured scans)."""


@dataclass(frozen=True, slots=True)
class PiledUp:
    """Deletes of rows by keys, or by positions of several data files, that apply to data files.

    deletes        how many there are
    rows, bytes    the keys or positions in them; their size
    is_upgradable  the table's format version stores deletes by position as files
    """

    deletes: int
    rows: int
    bytes: int
    is_upgradable: bool

    @property
    def reason(self) -> str:
        how = " (to position-deletes, or upgrade the table first)" if self.is_upgradable else ""
        return (
            f"{self.deletes:,} deletes with {self.rows:,} keys or positions ({self.bytes:,} bytes), which "
            f"each scan loads{how}"
        )

    @property
    def numbers(self) -> dict[str, int]:
        return {"deletes": self.deletes, "rows": self.rows, "bytes": self.bytes}


def piled_up(snapshot: Snapshot, plan: ScanPlan) -> PiledUp | None:
    """The deletes of all files of a version, if they are many and delvec can rewrite them."""
    if not len(plan.deletes):
        return None
    try:
        has_vectors = snapshot.rules(Verb.REWRITE_DELETES).deletes is DeleteForm.VECTOR
    except (InvalidOperationError, UnsupportedFeatureError):
        return None
    kinds = [EQUALITY_FILE, POSITION_FILE] if has_vectors else [EQUALITY_FILE]
    is_counted = pc.is_in(plan.deletes.column("kind"), value_set=pa.array(kinds))
    found = plan.deletes.filter(pc.and_(is_counted, pa.array(applied_deletes(plan))))
    if len(found) < MANY_DELETES:
        return None
    rows, size = (int(pc.sum(found.column(name)).as_py() or 0) for name in ("cardinality", "length"))
    return PiledUp(len(found), rows, size, not has_vectors)
