"""The live data files and delete files of a snapshot, as plans, commits and others read them.

An entry's ``file_id`` is the number of its manifest in the snapshot and its position in the manifest, so that
it is the same whichever manifests a plan reads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Rows, one_chunk
from delvec.errors import FormatError
from delvec.file_facts import SelectableFacts
from delvec.iceberg import manifest_list
from delvec.iceberg.manifest import ENTRIES_SCHEMA
from delvec.iceberg.stats import PARTITION
from delvec.partition_spec import PartitionSpec
from delvec.predicate import Condition
from delvec.schema import Schema, arrow_type
from delvec.storage import in_parallel

MANIFEST_SHIFT = 32
_FEW_ROWS = 512

FILE_ID, SPEC_ID = "file_id", "spec_id"


class LiveEntries(ABC):
    """The live data files and delete files of one snapshot. Manifests are read when they are needed.

    ``manifests`` has a row for each manifest, with its ``path`` and its ``content``. The tables have the
    columns of ``manifest.ENTRIES_SCHEMA``, then ``file_id``, ``spec_id``, and a column ``partition.<name>``
    for each partition field of all specs, null where the file's spec does not have it.
    """

    def __init__(self, manifests: pa.Table, specs: Mapping[int, PartitionSpec]) -> None:
        self.manifests = manifests
        self._specs = specs
        self._fields = {field.name: field for spec in specs.values() for field in spec.fields}
        contents = manifests.column("content").to_numpy()
        self.data_manifests: Rows = np.flatnonzero(contents == manifest_list.DATA)
        self.delete_manifests: Rows = np.flatnonzero(contents == manifest_list.DELETES)
        self._loaded: dict[int, pa.Table] = {}
        self._tables: dict[bytes, pa.Table] = {}

    @property
    def schema(self) -> pa.Schema:
        """The columns of the tables."""
        partition = [pa.field(PARTITION + f.name, arrow_type(f.type)) for f in self._fields.values()]
        return pa.schema(
            [*ENTRIES_SCHEMA, pa.field(FILE_ID, pa.int64()), pa.field(SPEC_ID, pa.int32()), *partition]
        )

    def is_loaded(self, numbers: Rows) -> bool:
        """Whether these manifests are read already."""
        return all(number in self._loaded for number in numbers.tolist())

    def entries(self, numbers: Rows) -> pa.Table:
        """The live entries of manifests, by their ascending rows in ``manifests``."""
        key = numbers.tobytes()
        table = self._tables.get(key)
        if table is None:
            missing = [number for number in numbers.tolist() if number not in self._loaded]
            self._loaded.update(zip(missing, in_parallel(self._read, missing), strict=True))
            table = _united([self._loaded[number] for number in numbers.tolist()], self.schema)
            if len(numbers) in (len(self.data_manifests), len(self.delete_manifests)):
                self._tables[key] = table
        return table

    def data(self) -> pa.Table:
        """All live data files."""
        return self.entries(self.data_manifests)

    def deletes(self) -> pa.Table:
        """All live delete files."""
        return self.entries(self.delete_manifests)

    def names(self, file_ids: pa.Array) -> pa.Array:
        """The recorded paths of data files by their ids."""
        ids = np.asarray(file_ids, dtype=np.int64)
        entries = self.entries(manifests_of(ids))
        rows = np.searchsorted(one_chunk(entries.column(FILE_ID)).to_numpy(), ids)
        return one_chunk(entries.column("file_path").take(pa.array(rows)))

    def file_ids(self, names: pa.Array) -> pa.Array:
        """The ids of data files by their recorded paths; null for a file that is not live."""
        entries = self.data()
        rows = pc.index_in(names, value_set=one_chunk(entries.column("file_path")))
        return one_chunk(entries.column(FILE_ID).take(rows))

    def manifest_paths(self, file_ids: pa.Array) -> pa.Array:
        """The recorded path of the manifest of each file."""
        numbers = np.asarray(file_ids, dtype=np.int64) >> MANIFEST_SHIFT
        return one_chunk(self.manifests.column("path")).take(pa.array(numbers))

    def delete_rows(self, entries: pa.StructArray) -> pa.Array:
        """The rows in ``manifests`` of the delete manifests in which deletes are (``plan.entry``)."""
        paths = one_chunk(self.manifests.column("path")).take(pa.array(self.delete_manifests))
        found = pc.index_in(entries.field("manifest"), value_set=paths)
        if found.null_count:
            path = entries.field("manifest").filter(found.is_null())[0].as_py()
            raise FormatError("manifest of a delete is not in the snapshot", path=path)
        return pa.array(self.delete_manifests).take(found)

    @abstractmethod
    def facts(self, entries: pa.Table, schema: Schema) -> SelectableFacts:
        """Facts about data files, which are live entries, for conditions on columns of ``schema``."""

    @abstractmethod
    def needed_data(self, condition: Condition, schema: Schema) -> tuple[Rows, int]:
        """The data manifests that may have a file in which the condition matches, and the number of live
        files in the others.
        """

    @abstractmethod
    def needed_deletes(self, data: pa.Table) -> Rows:
        """The delete manifests that may have a delete of these data files, which are live entries."""

    @abstractmethod
    def _read(self, number: int) -> pa.Table:
        """The live entries of a manifest."""


def manifests_of(file_ids: Rows) -> Rows:
    """The rows in ``LiveEntries.manifests`` of the manifests that list these files, ascending."""
    return np.unique(file_ids >> MANIFEST_SHIFT)


def _united(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """The rows of all tables. Many small ones become one chunk, so that columns are read in few steps."""
    if not tables:
        return schema.empty_table()
    table = pa.concat_tables(tables)
    return table.combine_chunks() if len(table) < _FEW_ROWS * len(tables) else table
