"""Loading delete sets: many deletes with few requests, and each delete once.

Deletes that are stored in one file are read together, several files at a time. Each delete is checked against
what the metadata records about it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa

from delvec.bitmap import Bitmap
from delvec.deletes.equality import EqualityLayer
from delvec.deletes.equality_set import SCOPE, SEQUENCE, EqualityDeleteSet, key_names
from delvec.deletes.examine import Examined, examine
from delvec.deletes.sets import DeleteSets
from delvec.deletes.stored_keys import stored_keys
from delvec.plan import ScanPlan
from delvec.storage import Storage, in_parallel


class DeleteLoader:
    """Loads delete sets and caches them: one statement reads no delete twice.

    Stored deletes never change, so a delete that was loaded for one version is valid for all versions.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._loaded: dict[Hashable, Bitmap] = {}
        self._keys: dict[Hashable, list[pa.ChunkedArray]] = {}

    def load(self, sets: DeleteSets) -> list[Bitmap | None]:
        """The deleted rows of each file; None if no delete applies to it.

        Raises the error of the first delete that cannot be trusted: the rows of its file are unknown.
        """
        keys = _keys(sets)
        is_new = np.array([key not in self._loaded for key in keys], dtype=bool)
        new_keys = list(compress(keys, is_new))
        for examined in examine(self.storage, sets.pairs_at(is_new)):
            self._loaded[new_keys[examined.pair]] = trusted(examined)
        files: list[Bitmap | None] = [None] * len(sets)
        for file, key in zip(sets.file.tolist(), keys, strict=True):
            loaded = files[file]
            files[file] = self._loaded[key] if loaded is None else loaded | self._loaded[key]
        return files

    def load_keys(self, layer: EqualityLayer, *, every: bool = False) -> EqualityDeleteSet:
        """The keys of the layer's equality files, whatever their encoding; ``every``: all deletes of each
        key, not only the newest.
        """
        files = layer.deletes.to_pylist()
        keys = [(file["location"], file["offset"], layer.columns) for file in files]
        new = {key: file for key, file in zip(keys, files, strict=True) if key not in self._keys}

        def read(file: Mapping[str, Any]) -> list[pa.ChunkedArray]:
            return stored_keys(self.storage, file, layer.columns)

        self._keys.update(zip(new, in_parallel(read, new.values()), strict=True))
        deletes = []
        for key, file in zip(keys, files, strict=True):
            columns = dict(zip(key_names(layer.columns), self._keys[key], strict=True))
            count = len(self._keys[key][0])
            for name in (SCOPE, SEQUENCE):
                columns[name] = pa.repeat(pa.scalar(file[name], pa.int64()), count)
            deletes.append(pa.table(columns))
        united = EqualityDeleteSet.every if every else EqualityDeleteSet.collapse
        return united(layer.columns, deletes)

    def by_file(self, plan: ScanPlan) -> dict[int, Bitmap]:
        """The rows of each file of the plan that are deleted by position, by file id."""
        ids = plan.files.column("file_id").to_pylist()
        bitmaps = self.load(DeleteSets.of(plan))
        return {file_id: bitmap or Bitmap() for file_id, bitmap in zip(ids, bitmaps, strict=True)}


def trusted(examined: Examined) -> Bitmap:
    """The deleted rows; raises the error of a delete that cannot be trusted."""
    if examined.bitmap is None:
        assert examined.error is not None
        raise examined.error
    return examined.bitmap


def _keys(sets: DeleteSets) -> list[Hashable]:
    """For each pair a key that identifies the delete and the data file."""
    deletes = sets.deletes.select(["location", "offset", "inline"]).take(pa.array(sets.delete))
    paths = sets.files.column("file_path").take(pa.array(sets.file))
    return list(zip(*(column.to_pylist() for column in (*deletes.columns, paths)), strict=True))
