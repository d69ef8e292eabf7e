"""Loading delete sets: many deletes with few requests, and each delete once.

Deletes that are stored in one file are read together, several files at a time. Each delete is checked against
what the metadata records about it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa

from delvec.bitmap import Bitmap
from delvec.deletes.equality import LAYER_SCHEMA, EqualityLayer
from delvec.deletes.equality_set import ALWAYS, SCOPE, SEQUENCE, EqualityDeleteSet, scoped, top_level
from delvec.deletes.examine import Examined, examine
from delvec.deletes.key_columns import key_fields
from delvec.deletes.model import DeleteContent, DeleteFile
from delvec.deletes.position_index import PositionDeleteIndex
from delvec.deletes.sets import DESCRIPTION_SCHEMA, DeleteSets
from delvec.deletes.stored_keys import stored_keys
from delvec.deletes.validate import validate
from delvec.errors import InvalidOperationError
from delvec.plan import POSITION_VECTOR, ScanPlan
from delvec.schema import Schema
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
        deletes = [
            scoped(layer.columns, self._keys[key], scope=file[SCOPE], sequence=file[SEQUENCE])
            for key, file in zip(keys, files, strict=True)
        ]
        united = EqualityDeleteSet.every if every else EqualityDeleteSet.collapse
        return united(layer.columns, deletes)

    def position_deletes(self, files: Iterable[DeleteFile], data_file: str) -> PositionDeleteIndex:
        """The rows of one data file that any of these delete files deletes, in whatever encoding.
        ``data_file``: as the metadata names it.
        """
        rows = [_position_row(file, data_file) for file in files]
        described = DeleteSets.from_description(pa.Table.from_pylist(rows, schema=DESCRIPTION_SCHEMA))
        return PositionDeleteIndex.merged(
            PositionDeleteIndex(bitmap or Bitmap()) for bitmap in self.load(described)
        )

    def equality_deletes(self, files: Sequence[DeleteFile], schema: Schema) -> EqualityDeleteSet:
        """The keys that these delete files delete, in whatever encoding. They compare the same columns."""
        for file in files:
            validate(file)
            if file.content != DeleteContent.EQUALITY_DELETES or file.field_ids != files[0].field_ids:
                raise InvalidOperationError(
                    f"delete file compares the columns {list(file.field_ids)}, expected equality deletes by "
                    f"{list(files[0].field_ids)}: {file.location}"
                )
        columns = tuple(map(top_level, key_fields(schema, files[0].field_ids)))
        rows = [_key_row(file) for file in files]
        none = np.zeros(0, np.int64)
        return self.load_keys(
            EqualityLayer(columns, pa.Table.from_pylist(rows, schema=LAYER_SCHEMA), none, none)
        )

    def by_file(self, plan: ScanPlan) -> dict[int, Bitmap]:
        """The rows of each file of the plan that are deleted by position, by file id."""
        ids = plan.files.column("file_id").to_pylist()
        bitmaps = self.load(DeleteSets.of(plan))
        return {file_id: bitmap or Bitmap() for file_id, bitmap in zip(ids, bitmaps, strict=True)}


def _position_row(file: DeleteFile, data_file: str) -> dict[str, Any]:
    """The delete of positions as a row of ``DESCRIPTION_SCHEMA``."""
    validate(file)
    is_vector = file.kind == POSITION_VECTOR
    if file.content != DeleteContent.POSITION_DELETES or (is_vector and file.referenced_file != data_file):
        raise InvalidOperationError(
            f"delete file is of {file.referenced_file or 'keys'}, expected positions of {data_file}: "
            f"{file.location}"
        )
    return {
        "data_file": data_file,
        "file_path": data_file,
        "kind": file.kind,
        "encoding": file.encoding.text,
        "location": file.location,
        "offset": file.offset,
        "length": file.length if is_vector else file.size,
        "cardinality": file.record_count,
        "referenced_file": file.referenced_file,
        "file_format": file.file_format,
    }


def _key_row(file: DeleteFile) -> dict[str, Any]:
    """The delete of keys as a row of ``LAYER_SCHEMA``."""
    return {
        "encoding": file.encoding.text,
        "location": file.location,
        "offset": file.offset,
        "length": file.size if file.length is None else file.length,
        "cardinality": file.record_count,
        "sequence": ALWAYS if file.sequence is None else file.sequence,
        "scope": 0,
    }


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
