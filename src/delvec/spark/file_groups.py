"""The files of a plan in groups, each of which one native scan reads.

The files of a group store the columns alike, get their partition values the same way, and either all have
deletes or none has.

A scan that applies deletes or partition values must know the file of each row. It identifies the file by a
number: the CRC-32 of the file's name. Spark computes that in a few nanoseconds per row, and Python computes
the same number per file. If names repeat in different folders, the number is computed from the whole path.
Files whose numbers collide even then get a group of their own, which compares the paths themselves. Each of
these ways costs more than the one before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import product

import numpy as np
import pyarrow as pa

from delvec.chunked import Mask, Rows
from delvec.deletes.sets import DeleteSets
from delvec.field_names import schemas_by_id
from delvec.plan import ReadSchema, ScanPlan
from delvec.schema import Field, Schema
from delvec.spark.file_paths import METADATA, file_path, numbers
from delvec.spark.partition_folders import in_folder_names
from delvec.storage import Storage

NUMBER = "number"
"""A column of ``FileGroup.files``: the number that identifies the file (``FileKey``)."""

# No character of these is encoded in a path: Spark returns such names unchanged.
_PLAIN_NAME = re.compile(r"[\w.=-]+", re.ASCII)


class FileKey(Enum):
    """How a scan identifies the file of a row."""

    NAME_NUMBER = "CRC-32 of the file's name"
    PATH_NUMBER = "CRC-32 of the file's path"
    PATH = "the path itself"


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files that one scan reads.

    files      rows of ``ScanPlan.files``, with ``NUMBER`` if ``needs_file_key``
    schema     the table's columns, with the names that these files store
    constants  columns that are not in the files: partition columns
    from_folders   those of the constants whose values the folder names state
    deletes    the delete sets of the files; None if no delete applies to any of them
    keyed      the scan must know the file of each row, even without deletes
    """

    files: pa.Table
    schema: Schema
    constants: tuple[Field, ...]
    from_folders: tuple[Field, ...]
    deletes: DeleteSets | None
    keyed: bool = False
    key: FileKey = FileKey.PATH_NUMBER

    @property
    def locations(self) -> list[str]:
        places: list[str] = self.files.column("location").to_pylist()
        return places

    @property
    def names(self) -> list[str]:
        """The names of the files, without their folders."""
        return [place.rpartition("/")[2] for place in self.locations]

    @property
    def paths(self) -> list[str]:
        """The paths of the files, as Spark returns them."""
        return list(map(file_path, self.locations))

    @property
    def joined(self) -> tuple[Field, ...]:
        """Those of the constants whose values are joined to the rows by file."""
        return tuple(field for field in self.constants if field not in self.from_folders)

    @property
    def values_by_file(self) -> bool:
        """Whether values of constants must be joined to the rows by file."""
        return bool(self.joined)

    @property
    def hides_metadata(self) -> bool:
        """Whether a column of the files has the name of Spark's hidden column ``_metadata``."""
        return METADATA in (field.physical_name.lower() for field in self.schema)

    @property
    def needs_file_key(self) -> bool:
        return self.keyed or self.deletes is not None or self.values_by_file

    def at(self, rows: Rows) -> FileGroup:
        """The group of some of its files."""
        deletes = None if self.deletes is None else self.deletes.at(rows)
        return replace(self, files=self.files.take(pa.array(rows)), deletes=deletes)

    def numbered(self, file_numbers: Rows, key: FileKey) -> FileGroup:
        return replace(self, files=self.files.append_column(NUMBER, pa.array(file_numbers)), key=key)


def file_groups(plan: ScanPlan, storage: Storage, *, keyed: bool = False) -> Iterator[FileGroup]:
    """The plan's files in groups. A delete that delvec does not apply is refused.

    ``keyed``: the scans must know the file of each row.
    """
    sets = DeleteSets.of(plan)
    has_deletes = sets.has_deletes
    for schema, constants, named, has_schema in _stored_schemas(plan, storage):
        in_folders = in_folder_names(plan, named)
        for by_folder, deleted in product((True, False), (False, True)):
            rows = np.flatnonzero(has_schema & (in_folders == by_folder) & (has_deletes == deleted))
            if len(rows):
                files, deletes = plan.files.take(pa.array(rows)), sets.at(rows) if deleted else None
                from_folders = named if by_folder else ()
                yield from _with_file_keys(FileGroup(files, schema, constants, from_folders, deletes, keyed))


def _with_file_keys(group: FileGroup) -> Iterator[FileGroup]:
    """The group with the numbers of its files if it needs them; as two groups if numbers collide."""
    if not group.needs_file_key:
        yield group
        return
    names = group.names
    name_numbers = numbers(names)
    if _has_plain_names(group, names) and len(np.unique(name_numbers)) == len(names):
        yield group.numbered(name_numbers, FileKey.NAME_NUMBER)
        return
    path_numbers = numbers(group.paths)
    is_first = np.zeros(len(names), dtype=bool)
    is_first[np.unique(path_numbers, return_index=True)[1]] = True
    for key, selected in ((FileKey.PATH_NUMBER, is_first), (FileKey.PATH, ~is_first)):
        if selected.any():
            yield group.numbered(path_numbers, key).at(np.flatnonzero(selected))


def _has_plain_names(group: FileGroup, names: Sequence[str]) -> bool:
    """Whether Spark returns the names of the files unchanged, in ``_metadata.file_name``."""
    return not group.hides_metadata and all(map(_PLAIN_NAME.fullmatch, names))


def _stored_schemas(
    plan: ScanPlan, storage: Storage
) -> Iterator[tuple[Schema, tuple[Field, ...], tuple[Field, ...], Mask]]:
    """The distinct ways in which files store the columns, with all constants and with those that folder names
    may state, and which files do so.
    """
    read_schemas = plan.files.column("read_schema").to_numpy()
    for number, read_schema in enumerate(plan.read_schemas):
        selected = read_schemas == number
        constants = _constants(read_schema)
        named = tuple(field for field in constants if field.name not in read_schema.unnamed)
        if not read_schema.by_id:
            yield read_schema.schema, constants, named, selected
            continue
        rows = np.flatnonzero(selected)
        places = plan.files.column("location").take(pa.array(rows)).to_pylist()
        by_schema: dict[Schema, list[int]] = {}
        for row, schema in zip(rows, schemas_by_id(storage, places, read_schema.schema), strict=True):
            by_schema.setdefault(schema, []).append(int(row))
        for schema, members in by_schema.items():
            yield schema, constants, named, np.isin(np.arange(len(read_schemas)), members)


def _constants(read_schema: ReadSchema) -> tuple[Field, ...]:
    by_name = {field.name: field for field in read_schema.schema}
    return tuple(by_name[name] for name in read_schema.constants)
