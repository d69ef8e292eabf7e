"""The files of a plan in groups, each of which one native scan reads.

The files of a group store the columns alike, get their partition values the same way, and either all have
deletes by position or none has; the same for deletes by value. A table can list a file twice, so that its
rows count twice. A scan reads a file once, so the second entry is in another group.

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

from delvec.chunked import Mask, Rows, one_chunk
from delvec.deletes.equality import EqualityDeletes
from delvec.deletes.sets import DeleteSets
from delvec.errors import FormatError
from delvec.field_names import is_absent, schemas_by_id
from delvec.plan import ReadSchema, ScanPlan
from delvec.schema import Field, Schema, united
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
    schema     the columns of ``ScanPlan.stored_schema``, with the names that these files store
    constants  columns that are not in the files: partition columns
    from_folders   those of the constants whose values the folder names state
    deletes    the delete sets of the files; None if no delete by position applies to any of them
    equality   the deletes by value; None if none applies to any of the files
    keyed      the scan must know the file of each row, even without deletes
    """

    files: pa.Table
    schema: Schema
    constants: tuple[Field, ...]
    from_folders: tuple[Field, ...]
    deletes: DeleteSets | None
    equality: EqualityDeletes | None = None
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
        has_deletes = self.deletes is not None or self.equality is not None
        return self.keyed or has_deletes or self.values_by_file

    def at(self, rows: Rows) -> FileGroup:
        """The group of some of its files."""
        deletes = None if self.deletes is None else self.deletes.at(rows)
        equality = None if self.equality is None else self.equality.at(rows)
        return replace(self, files=self.files.take(pa.array(rows)), deletes=deletes, equality=equality)

    def numbered(self, file_numbers: Rows, key: FileKey) -> FileGroup:
        return replace(self, files=self.files.append_column(NUMBER, pa.array(file_numbers)), key=key)


def file_groups(
    plan: ScanPlan, storage: Storage, equality: EqualityDeletes, *, keyed: bool = False
) -> Iterator[FileGroup]:
    """The plan's files in groups. A delete that delvec does not apply is refused.

    ``equality``: the plan's deletes by value. ``keyed``: the scans must know the file of each row.
    """
    sets = DeleteSets.of(plan)
    by_position, by_value = sets.has_deletes, equality.has_deletes
    earlier = _times_listed_before(plan)
    times = range(int(earlier.max(initial=0)) + 1)
    kinds = list(product((True, False), (False, True), (False, True), times))
    for schema, constants, named, has_schema in _stored_schemas(plan, storage):
        in_folders = in_folder_names(plan, named)
        for by_folder, has_positions, has_values, time in kinds:
            members = has_schema & (in_folders == by_folder) & (earlier == time)
            rows = np.flatnonzero(members & (by_position == has_positions) & (by_value == has_values))
            if not len(rows):
                continue
            group = FileGroup(
                plan.files.take(pa.array(rows)),
                schema,
                constants,
                from_folders=named if by_folder else (),
                deletes=sets.at(rows) if has_positions else None,
                equality=equality.at(rows) if has_values else None,
                keyed=keyed,
            )
            yield from _with_file_keys(group)


def verify_listed_once(plan: ScanPlan) -> None:
    """Refuse a plan that lists a data file twice: the place of a row would not say which entry it is of."""
    again = np.flatnonzero(_times_listed_before(plan))
    if len(again):
        place = plan.files.column("location")[int(again[0])].as_py()
        raise FormatError("data file is listed twice, expected once", path=place)


def _times_listed_before(plan: ScanPlan) -> Rows:
    """For each file how many earlier files have its location."""
    codes = one_chunk(plan.files.column("location")).dictionary_encode()
    if len(codes.dictionary) == len(codes):
        return np.zeros(len(codes), np.int64)
    numbers = codes.indices.to_numpy()
    order = np.argsort(numbers, kind="stable")
    starts = np.concatenate([[True], np.diff(numbers[order]) != 0])
    places = np.arange(len(order))
    earlier = np.empty(len(order), np.int64)
    earlier[order] = places - np.maximum.accumulate(np.where(starts, places, 0))
    return earlier


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
        stored = united(read_schema.schema, plan.dropped)
        if not read_schema.by_id:
            constants = _fields(read_schema.schema, read_schema.constants)
            yield stored, constants, _named(constants, read_schema), selected
            continue
        rows = np.flatnonzero(selected)
        places = plan.files.column("location").take(pa.array(rows)).to_pylist()
        by_schema: dict[Schema, list[int]] = {}
        found = schemas_by_id(storage, places, stored, read_schema.names)
        for row, schema in zip(rows, found, strict=True):
            by_schema.setdefault(schema, []).append(int(row))
        for schema, members in by_schema.items():
            is_member = np.isin(np.arange(len(read_schemas)), members)
            for constants, has_constants in _with_constants(plan, read_schema, schema, is_member):
                yield schema, constants, _named(constants, read_schema), has_constants


def _with_constants(
    plan: ScanPlan, read_schema: ReadSchema, schema: Schema, members: Mask
) -> Iterator[tuple[tuple[Field, ...], Mask]]:
    """The constants of files that store the columns as ``schema``, by the files' specs: a column that is not
    in a file comes from the partition value if the file's spec has it.
    """
    absent = {field.name for field in schema if is_absent(field)}
    candidates = absent.intersection(read_schema.from_partition)
    spec_ids = plan.files.column("spec_id").to_numpy()
    by_names: dict[tuple[str, ...], Mask] = {}
    for spec_id in np.unique(spec_ids[members]).tolist():
        of_spec = candidates.intersection(plan.specs[spec_id].identity_columns)
        names = (*read_schema.constants, *sorted(of_spec))
        by_names[names] = by_names.get(names, np.zeros_like(members)) | (members & (spec_ids == spec_id))
    for names, files in by_names.items():
        yield _fields(read_schema.schema, names), files


def _fields(schema: Schema, names: Sequence[str]) -> tuple[Field, ...]:
    by_name = {field.name: field for field in schema}
    return tuple(by_name[name] for name in names)


def _named(constants: tuple[Field, ...], read_schema: ReadSchema) -> tuple[Field, ...]:
    """Those of the constants whose values folder names may state."""
    return tuple(field for field in constants if field.name not in read_schema.unnamed)
