"""The delete sets of data files: which of their rows are deleted by position, as a description to be loaded.

The only way from a plan to deleted positions. Scan, connector, removal, conflicts and ``verify`` all describe
the deletes of a plan with ``DeleteSets.of`` and load them with `delvec.deletes.loader`. A description is
small: it says where each delete is stored. Sets that are too large for the driver are loaded on executors,
which get the description as an Arrow table. Rows that are deleted by value are in `delvec.deletes.equality`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Mask, Rows, one_chunk
from delvec.deletes.deletes_of_files import match_deletes
from delvec.deletes.supported_kinds import verify_applied, verify_positions
from delvec.plan import DELETES_SCHEMA, FILES_SCHEMA, ScanPlan

DATA_FILE = "data_file"
_FILE_COLUMNS = {DATA_FILE: "location", "file_path": "raw_location"}
_DELETE_COLUMNS = (
    "kind",
    "encoding",
    "location",
    "inline",
    "offset",
    "length",
    "cardinality",
    "referenced_file",
    "file_format",
)

DESCRIPTION_SCHEMA = pa.schema(
    [
        *(FILES_SCHEMA.field(column).with_name(name) for name, column in _FILE_COLUMNS.items()),
        *(DELETES_SCHEMA.field(name) for name in _DELETE_COLUMNS),
    ]
)
"""Columns of a described delete set: a row for each pair of a data file and a delete that applies to it.

data_file   the file's ``location``
file_path   the file's ``raw_location``, by which position files name it
others      as in ``ScanPlan.deletes``
"""

_DESCRIPTION_TYPE = pa.struct(list(DESCRIPTION_SCHEMA))


@dataclass(frozen=True, slots=True)
class DeleteSets:
    """The deletes of some data files, not loaded.

    files     a row for each data file: ``data_file`` and ``file_path`` of ``DESCRIPTION_SCHEMA``
    deletes   a row for each delete: the other columns
    file, delete   pairs of rows of both: the delete applies to the file; ordered by file
    """

    files: pa.Table
    deletes: pa.Table
    file: Rows
    delete: Rows

    @classmethod
    def of(cls, plan: ScanPlan) -> DeleteSets:
        """The delete sets of the plan's files. A delete that delvec does not apply is refused."""
        verify_applied(plan)
        matches = match_deletes(plan)
        return cls(_files(plan), plan.deletes.select(_DELETE_COLUMNS), matches.file, matches.delete)

    @classmethod
    def of_vectors(cls, vectors: pa.Table) -> DeleteSets:
        """The delete sets of vectors, given as rows of ``ScanPlan.deletes``; each has its own data file."""
        places = vectors.column("referenced_file")
        files = dict.fromkeys(_FILE_COLUMNS, places)
        return cls.from_description(
            pa.table({**files, **{name: vectors.column(name) for name in _DELETE_COLUMNS}})
        )

    @classmethod
    def from_description(cls, description: pa.Table) -> DeleteSets:
        """The inverse of `describe`, except that each row of ``description`` has a file of its own."""
        description = description.select(DESCRIPTION_SCHEMA.names).cast(DESCRIPTION_SCHEMA)
        verify_positions(description)
        rows = np.arange(len(description))
        return cls(description.select(list(_FILE_COLUMNS)), description.select(_DELETE_COLUMNS), rows, rows)

    def __len__(self) -> int:
        """The number of data files."""
        return len(self.files)

    @property
    def has_deletes(self) -> Mask:
        """For each file whether any delete applies to it."""
        has_delete = np.zeros(len(self.files), dtype=bool)
        has_delete[self.file] = True
        return has_delete

    @property
    def most_deleted(self) -> pa.Array:
        """An upper bound of each file's deleted rows, by the recorded counts; null where one is missing."""
        counts = self.deletes.column("cardinality").take(pa.array(self.delete))
        is_recorded = pc.is_valid(counts).to_numpy()
        sums, unknown = np.zeros(len(self.files), np.int64), np.zeros(len(self.files), dtype=bool)
        np.add.at(sums, self.file, pc.fill_null(counts, 0).to_numpy())
        unknown[self.file[~is_recorded]] = True
        return pa.array(sums, mask=unknown)

    def at(self, rows: Rows) -> DeleteSets:
        """The delete sets of some of the files, by their rows."""
        place = np.full(len(self.files), -1, np.int64)
        place[rows] = np.arange(len(rows))
        file = place[self.file]
        order = np.argsort(file[file >= 0], kind="stable")
        pairs = np.flatnonzero(file >= 0)[order]
        return DeleteSets(self.files.take(pa.array(rows)), self.deletes, file[pairs], self.delete[pairs])

    def pairs_at(self, pairs: Rows | Mask) -> DeleteSets:
        """The delete sets with only some of the pairs of a file and a delete. The files stay the same."""
        return replace(self, file=self.file[pairs], delete=self.delete[pairs])

    def describe(self) -> pa.Table:
        """A row of ``DESCRIPTION_SCHEMA`` for each pair, in the order of the pairs."""
        files, deletes = self.files.take(pa.array(self.file)), self.deletes.take(pa.array(self.delete))
        return pa.table([*files.columns, *deletes.columns], schema=DESCRIPTION_SCHEMA)

    def describe_by_file(self) -> pa.ListArray:
        """For each file the list of its rows of ``describe``; empty where no row is deleted."""
        pairs = self.describe().combine_chunks().to_struct_array()
        pairs = one_chunk(pairs)
        offsets = np.searchsorted(self.file, np.arange(len(self.files) + 1))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pairs.cast(_DESCRIPTION_TYPE))


def described(files: Sequence[Sequence[Mapping[str, Any]]]) -> DeleteSets:
    """The delete sets of files, each given by its rows of ``describe_by_file``."""
    pairs = DeleteSets.from_description(
        pa.Table.from_pylist([row for rows in files for row in rows], schema=DESCRIPTION_SCHEMA)
    )
    file = np.repeat(np.arange(len(files)), [len(rows) for rows in files])
    names = [dict.fromkeys(_FILE_COLUMNS) | {n: rows[0][n] for n in _FILE_COLUMNS if rows} for rows in files]
    return replace(pairs, files=pa.Table.from_pylist(names, schema=pairs.files.schema), file=file)


def _files(plan: ScanPlan) -> pa.Table:
    return pa.table({name: plan.files.column(column) for name, column in _FILE_COLUMNS.items()})
