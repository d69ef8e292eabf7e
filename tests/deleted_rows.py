"""The deleted rows of a plan's files, for tests that read tables themselves."""

from __future__ import annotations

from delvec.bitmap import Bitmap
from delvec.deletes.loader import DeleteLoader
from delvec.deletes.sets import DeleteSets
from delvec.plan import ScanPlan
from delvec.storage import Storage


def deleted_rows(storage: Storage, plan: ScanPlan) -> list[Bitmap]:
    """The deleted rows of each file, in the order of the plan's files."""
    return [bitmap or Bitmap() for bitmap in DeleteLoader(storage).load(DeleteSets.of(plan))]
