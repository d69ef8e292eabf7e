"""Which delete files belong to which data files, before sequence numbers are compared (`delvec.deletes`).

    vector             the data file that it references
    position file      the data file that it references, or whose path is both bounds of its paths;
                       else the data files of its partition spec and partition
    equality file      the data files of its partition spec and partition; all data files if that spec is
                       unpartitioned

A vector, or a position file of one data file, must have the data file's spec and partition; a vector must
also not be older than its data file, and be the only one. Otherwise the metadata is damaged: it is not
certain which rows are deleted.

The work grows with the files and with the deletes, not with their product: deletes of a partition are one
group, which all files of the partition share; position files of one data file are a group of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.chunked import Mask, Rows, one_chunk
from delvec.errors import FormatError
from delvec.iceberg.live_entries import SPEC_ID
from delvec.iceberg.manifest import EQUALITY_DELETES, POSITION_DELETES
from delvec.iceberg.stats import PARTITION, values_of
from delvec.iceberg.tree.entries import CONTENT_STATS
from delvec.partition_spec import PartitionSpec
from delvec.transforms import VOID

PUFFIN = "puffin"
NONE = -1

_PATH_ID = 2147483546
"""Field id of ``file_path`` in position-delete files."""


@dataclass(frozen=True, slots=True)
class DeleteScopes:
    """Deletes of each data file, by rows of the tables of data files and of deletes.

    vector    the row of its vector; `NONE` where it has none
    group     an index into ``groups``: the deletes that other files share; `NONE` where there are none
    own       an index into ``groups``: the position files of this file alone; `NONE` where there are none
    groups    each distinct set of deletes other than vectors, as ascending rows
    """

    vector: Rows
    group: Rows
    own: Rows
    groups: tuple[tuple[int, ...], ...]


def find_scopes(data: pa.Table, deletes: pa.Table, specs: Mapping[int, PartitionSpec]) -> DeleteScopes:
    """The deletes of each data file. Both are tables of `live_entries`."""
    count = len(data)
    nothing = np.full(count, NONE, np.int64)
    if not len(deletes) or not count:
        return DeleteScopes(nothing, nothing, nothing, ())
    content = one_chunk(deletes.column("content")).to_numpy()
    is_puffin = pc.equal(deletes.column("file_format"), PUFFIN).to_numpy()
    is_vector = (content == POSITION_DELETES) & is_puffin
    is_position = (content == POSITION_DELETES) & ~is_puffin
    is_equality = content == EQUALITY_DELETES
    referenced = referenced_files(deletes)
    has_file = pc.is_valid(referenced).to_numpy(zero_copy_only=False)
    data_class, delete_class = partition_classes(data, deletes)
    files = _Files(data, deletes, referenced, data_class, delete_class)

    vector = files.vectors(np.flatnonzero(is_vector))
    own = files.position_files(np.flatnonzero(is_position & has_file))
    is_global = is_equality & _is_of(deletes, _unpartitioned(specs))
    of_partition = np.flatnonzero((is_position & ~has_file) | (is_equality & ~is_global))
    groups = _Groups(np.flatnonzero(is_global), of_partition, delete_class[of_partition])
    group = groups.of_classes(data_class)
    own_group = np.full(count, NONE, np.int64)
    for file, rows in own.items():
        own_group[file] = groups.number(rows)
    return DeleteScopes(vector, group, own_group, tuple(groups.members))


def referenced_files(deletes: pa.Table) -> pa.Array:
    """The recorded path of the only data file that a vector or a position file is about; null if there may be
    several, and for equality files.
    """
    referenced = one_chunk(deletes.column("referenced_data_file"))
    is_position = pc.equal(one_chunk(deletes.column("content")), POSITION_DELETES)
    if pc.all(pc.or_(pc.is_valid(referenced), pc.invert(is_position))).as_py():
        return pc.if_else(is_position, referenced, pa.scalar(None, referenced.type))
    lower, upper = (values_of(deletes.column(name), _PATH_ID) for name in ("lower_bounds", "upper_bounds"))
    try:
        bound = pc.if_else(pc.equal(lower, upper), lower, pa.scalar(None, lower.type)).cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8: no path
        bound = pa.nulls(len(deletes), pa.string())
    return pc.if_else(is_position, pc.coalesce(referenced, bound), pa.scalar(None, pa.string()))


def partition_classes(data: pa.Table, deletes: pa.Table) -> tuple[Rows, Rows]:
    """A number for each data file and each delete file: equal if partition spec and partition are equal.

    Nulls are equal to each other, and so are NaNs.
    """
    classes = np.concatenate([one_chunk(table.column(SPEC_ID)).to_numpy() for table in (data, deletes)])
    classes = classes.astype(np.int64)
    for name in data.column_names:
        if name.startswith(PARTITION):
            values = pa.chunked_array(
                [*data.column(name).chunks, *deletes.column(name).chunks], data.schema.field(name).type
            )
            _, classes = np.unique(classes, return_inverse=True)
            codes = _codes(one_chunk(values))
            classes = classes * (int(codes.max(initial=0)) + 1) + codes
    return classes[: len(data)], classes[len(data) :]


def partition_numbers(deletes: pa.Table, specs: Mapping[int, PartitionSpec]) -> pa.Array:
    """``ScanPlan.deletes.scope`` of delete files: a number for each spec and partition, null if the delete is
    global.
    """
    _, classes = partition_classes(deletes.slice(0, 0), deletes)
    is_equality = one_chunk(deletes.column("content")).to_numpy() == EQUALITY_DELETES
    return pa.array(classes, mask=is_equality & _is_of(deletes, _unpartitioned(specs)))


def _codes(values: pa.Array) -> Rows:
    """A number for each distinct value, null included."""
    if pt.is_floating(values.type):
        bits = pa.int32() if values.type == pa.float32() else pa.int64()
        is_nan = pc.is_nan(values)
        values = pc.if_else(pc.fill_null(is_nan, False), pa.scalar(np.nan, values.type), values)  # noqa: FBT003
        values = values.view(bits)
    if pt.is_null(values.type):
        return np.zeros(len(values), np.int64)
    codes: Rows = pc.fill_null(values.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64) + 1


@dataclass(frozen=True, slots=True)
class _Files:
    """Data files and the deletes that name them, with the classes of their partitions."""

    data: pa.Table
    deletes: pa.Table
    referenced: pa.Array
    data_class: Rows
    delete_class: Rows

    def vectors(self, rows: Rows) -> Rows:
        """The row of each file's vector, of the vectors at ``rows``."""
        paths = self.referenced.take(pa.array(rows))
        if paths.null_count:
            raise self._damaged(
                int(rows[paths.is_null().to_numpy(zero_copy_only=False)][0]), "has no data file"
            )
        if len(paths.unique()) < len(paths):
            raise self._two_vectors(rows, paths)
        found = np.full(len(self.data), NONE, np.int64)
        if not len(rows):
            return found
        index = pc.index_in(one_chunk(self.data.column("file_path")), value_set=paths)
        files = np.flatnonzero(index.is_valid().to_numpy(zero_copy_only=False))
        found[files] = rows[index.drop_null().to_numpy()]
        self._verify_vectors(found[files])
        if CONTENT_STATS not in self.deletes.column_names:  # vectors of trees need not say their partition
            self._verify_partitions(files, found[files])
        sequences = (
            one_chunk(table.column("sequence_number")).to_numpy() for table in (self.data, self.deletes)
        )
        data, delete = next(sequences)[files], next(sequences)[found[files]]
        if (older := np.flatnonzero(delete < data)).size:
            first = older[0]
            problem = f"has the sequence number {delete[first]}, expected at least {data[first]}, that of"
            raise self._damaged(int(found[files][first]), problem, int(files[first]))
        return found

    def position_files(self, rows: Rows) -> dict[int, list[int]]:
        """The position files of single data files, by the row of the data file."""
        paths = self.referenced.take(pa.array(rows))
        distinct = paths.unique()
        index = pc.index_in(one_chunk(self.data.column("file_path")), value_set=distinct)
        file_of = np.full(len(distinct), NONE, np.int64)
        live = np.flatnonzero(index.is_valid().to_numpy(zero_copy_only=False))
        file_of[index.drop_null().to_numpy()] = live
        files = file_of[pc.index_in(paths, value_set=distinct).to_numpy()]
        of_live = files != NONE
        self._verify_partitions(files[of_live], rows[of_live])
        by_file: dict[int, list[int]] = {}
        for file, row in zip(files[of_live].tolist(), rows[of_live].tolist(), strict=True):
            by_file.setdefault(file, []).append(row)
        return by_file

    def _verify_vectors(self, rows: Rows) -> None:
        chosen = pa.array(rows)
        for name in ("content_offset", "content_size"):
            values = one_chunk(self.deletes.column(name).take(chosen))
            bad = pc.fill_null(pc.less(values, 0), True).to_numpy(zero_copy_only=False)  # noqa: FBT003
            if bad.any():
                raise self._damaged(int(rows[bad][0]), f"has no valid {name}")

    def _verify_partitions(self, files: Rows, rows: Rows) -> None:
        other = np.flatnonzero(self.data_class[files] != self.delete_class[rows])
        if other.size:
            first = other[0]
            problem = "has another partition spec or partition than its data file"
            raise self._damaged(int(rows[first]), problem, int(files[first]))

    def _two_vectors(self, rows: Rows, paths: pa.Array) -> FormatError:
        counts = paths.value_counts()
        path = counts.field("values").filter(pc.greater(counts.field("counts"), 1))[0].as_py()
        first, second = rows[pc.equal(paths, path).to_numpy(zero_copy_only=False)][:2]
        places = " and ".join(self._path(int(row)) for row in (first, second))
        return FormatError(f"data file has two vectors, in {places}, expected one", path=path)

    def _damaged(self, row: int, problem: str, file: int | None = None) -> FormatError:
        of_file = "" if file is None else f" {self.data.column('file_path')[file].as_py()}"
        return FormatError(f"delete file {problem}{of_file}", path=self._path(row))

    def _path(self, row: int) -> str:
        return str(self.deletes.column("file_path")[row].as_py())


class _Groups:
    """Sets of deletes: those for all files, with those of one partition; and those of one file."""

    def __init__(self, for_all: Rows, of_partition: Rows, classes: Rows) -> None:
        self.members: list[tuple[int, ...]] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        order = np.argsort(classes, kind="stable")
        self._classes, starts = np.unique(classes[order], return_index=True)
        common = for_all.tolist()
        parts = np.split(of_partition[order], starts[1:]) if len(starts) else []
        self._of_class = np.array([self.number([*common, *part.tolist()]) for part in parts], np.int64)
        self._common = self.number(common) if common else NONE

    def of_classes(self, classes: Rows) -> Rows:
        """The group of each class of partitions."""
        if not len(self._classes):
            return np.full(len(classes), self._common, np.int64)
        index = np.minimum(np.searchsorted(self._classes, classes), len(self._classes) - 1)
        return np.where(self._classes[index] == classes, self._of_class[index], self._common)

    def number(self, rows: Sequence[int]) -> int:
        """The number of the group of these deletes."""
        key = tuple(sorted(rows))
        number = self._numbers.setdefault(key, len(self.members))
        if number == len(self.members):
            self.members.append(key)
        return number


def _unpartitioned(specs: Mapping[int, PartitionSpec]) -> list[int]:
    """The specs whose equality deletes are for all files: without fields, or with void ones only."""
    return [spec_id for spec_id, spec in specs.items() if all(f.transform == VOID for f in spec.fields)]


def _is_of(deletes: pa.Table, spec_ids: Sequence[int]) -> Mask:
    spec_column = one_chunk(deletes.column(SPEC_ID))
    mask: Mask = pc.is_in(spec_column, value_set=pa.array(spec_ids, pa.int32())).to_numpy(
        zero_copy_only=False
    )
    return mask
