"""The tables of a ``ScanPlan``, from tables of `live_files`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Mask, Rows, one_chunk
from delvec.deletes.encoding import DeleteEncoding, text_of_id
from delvec.errors import FormatError
from delvec.iceberg.delete_scopes import NONE, PUFFIN, DeleteScopes, partition_numbers, referenced_files
from delvec.iceberg.key_bounds import key_bounds
from delvec.iceberg.live_entries import FILE_ID, SPEC_ID, LiveEntries
from delvec.iceberg.manifest import EQUALITY_DELETES, POSITION
from delvec.iceberg.stats import PARTITION
from delvec.partition_spec import PartitionSpec
from delvec.plan import (
    DELETES_SCHEMA,
    DELETION_VECTOR,
    EQUALITY_FILE,
    FILES_SCHEMA,
    FULL_ROW,
    MATCH_ALL,
    MATCH_SOME,
    POSITION_FILE,
    POSITION_VECTOR,
)
from delvec.schema import Schema

if TYPE_CHECKING:
    from delvec.iceberg.locations import Locations

_ENTRY = FILES_SCHEMA.field("entry").type
_OF_FILES = (FILE_ID, SPEC_ID, POSITION, "file_path", "file_format", "file_size", "record_count")
_SEQUENCES = ("sequence_number", "file_sequence_number", "first_row_id")


def columns_of_files(entries: pa.Table) -> pa.Table:
    """The columns of entries that `files_table` needs: no statistics."""
    partition = [name for name in entries.column_names if name.startswith(PARTITION)]
    return entries.select([*_OF_FILES, *_SEQUENCES, *partition])


def files_table(
    live: LiveEntries | None,
    locations: Locations,
    entries: pa.Table,
    *,
    scopes: DeleteScopes,
    only: Mask,
    read_schema: pa.Array,
) -> pa.Table:
    """``ScanPlan.files`` of these entries; ``only``: all rows of the file match.

    ``live``: None if the entries are of several snapshots.
    """
    count = len(entries)
    columns = {
        "file_id": entries.column(FILE_ID),
        "location": locations.resolve_many(entries.column("file_path")),
        "raw_location": entries.column("file_path"),
        "file_format": entries.column("file_format"),
        "size": entries.column("file_size"),
        "record_count": entries.column("record_count"),
        "spec_id": entries.column(SPEC_ID),
        "read_schema": read_schema,
        "data_sequence": entries.column("sequence_number"),
        "file_sequence": entries.column("file_sequence_number"),
        "first_row_id": entries.column("first_row_id"),
        "row_version": _row_versions(entries),
        "vector": _numbers(scopes.vector),
        "delete_group": _numbers(scopes.group),
        "own_deletes": _numbers(scopes.own),
        "match": pa.array([MATCH_SOME, MATCH_ALL], pa.string()).take(pa.array(only.astype(np.int8))),
        "entry": _entries(live, entries),
    }
    arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in FILES_SCHEMA]
    table = pa.table(arrays, schema=FILES_SCHEMA)
    return table.append_column("partition", _partition(entries))


def used_deletes(scopes: DeleteScopes, rows: Rows) -> tuple[DeleteScopes, Rows]:
    """The scopes of the data files at ``rows``, with rows of only the deletes that they have, and these."""
    vector, group, own = scopes.vector[rows], scopes.group[rows], scopes.own[rows]
    used_groups = np.unique(np.concatenate([group, own]))
    used_groups = used_groups[used_groups != NONE]
    members = [np.array(scopes.groups[number], np.int64) for number in used_groups.tolist()]
    used = np.unique(np.concatenate([vector[vector != NONE], *members]))
    groups = tuple(tuple(np.searchsorted(used, part).tolist()) for part in members)

    def renumbered(numbers: Rows, among: Rows) -> Rows:
        return np.where(numbers == NONE, NONE, np.searchsorted(among, numbers))

    return (
        DeleteScopes(
            renumbered(vector, used), renumbered(group, used_groups), renumbered(own, used_groups), groups
        ),
        used,
    )


def deletes_table(
    live: LiveEntries | None,
    locations: Locations,
    deletes: pa.Table,
    *,
    schema: Schema,
    specs: Mapping[int, PartitionSpec],
) -> pa.Table:
    """``ScanPlan.deletes`` of these entries. ``schema``: of the plan, ``specs``: of the table."""
    count = len(deletes)
    is_equality = pc.equal(one_chunk(deletes.column("content")), EQUALITY_DELETES)
    is_vector = pc.equal(one_chunk(deletes.column("file_format")), PUFFIN)
    size = one_chunk(deletes.column("file_size"))
    content_size, offset = (one_chunk(deletes.column(name)) for name in ("content_size", "content_offset"))
    lower, upper = key_bounds(deletes, schema)
    position_kind = pc.if_else(is_vector, pa.scalar(POSITION_VECTOR), pa.scalar(POSITION_FILE))
    columns = {
        "kind": pc.if_else(is_equality, pa.scalar(EQUALITY_FILE), position_kind),
        "encoding": _encodings(deletes, is_vector),
        "location": locations.resolve_many(deletes.column("file_path")),
        "offset": pc.if_else(is_vector, offset, pa.scalar(None, pa.int64())),
        "length": pc.if_else(is_vector, content_size, size),
        "cardinality": deletes.column("record_count"),
        "sequence": deletes.column("sequence_number"),
        "referenced_file": locations.resolve_many(referenced_files(deletes)),
        "file_format": pc.if_else(
            is_vector, pa.scalar(None, pa.string()), one_chunk(deletes.column("file_format"))
        ),
        "field_ids": one_chunk(deletes.column("equality_ids")).cast(pa.list_(pa.int32())),
        "lower": lower,
        "upper": upper,
        "spec_id": deletes.column(SPEC_ID),
        "scope": partition_numbers(deletes, specs),
        "entry": _entries(live, deletes),
    }
    arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in DELETES_SCHEMA]
    return pa.table(arrays, schema=DELETES_SCHEMA)


def _encodings(deletes: pa.Table, is_puffin: pa.Array) -> pa.Array:
    """The encoding of each delete. Another engine may have dropped the recorded one, or 0 may stand for "not
    recorded": a Puffin file has a vector all the same. An encoding that delvec does not apply keeps its name.
    """
    recorded = one_chunk(deletes.column("encoding"))
    _verify_vectors_in_puffin(deletes, recorded, is_puffin)
    texts = pc.if_else(is_puffin, pa.scalar(DELETION_VECTOR), pa.scalar(FULL_ROW))
    for number in recorded.unique().drop_null().to_pylist():
        if number not in (DeleteEncoding.FULL_ROW.id, DeleteEncoding.DELETION_VECTOR.id):
            is_other = pc.fill_null(pc.equal(recorded, number), fill_value=False)
            texts = pc.if_else(is_other, pa.scalar(text_of_id(number)), texts)
    return texts


def _verify_vectors_in_puffin(deletes: pa.Table, recorded: pa.Array, is_puffin: pa.Array) -> None:
    is_vector = pc.equal(recorded, DeleteEncoding.DELETION_VECTOR.id)
    wrong = deletes.filter(pc.fill_null(pc.and_(is_vector, pc.invert(is_puffin)), fill_value=False))
    if len(wrong):
        path, file_format = (wrong.column(name)[0].as_py() for name in ("file_path", "file_format"))
        raise FormatError(
            f"deletion vector is in a file of format {file_format!r}, expected {PUFFIN!r}", path=path
        )


def _row_versions(entries: pa.Table) -> pa.Array:
    """The version of rows without one of their own: the data sequence number, if the file has row ids."""
    has_ids = pc.is_valid(one_chunk(entries.column("first_row_id")))
    return pc.if_else(has_ids, one_chunk(entries.column("sequence_number")), pa.scalar(None, pa.int64()))


def _entries(live: LiveEntries | None, entries: pa.Table) -> pa.Array:
    if live is None:
        return pa.nulls(len(entries), _ENTRY)
    manifests = live.manifest_paths(one_chunk(entries.column(FILE_ID)))
    positions = one_chunk(entries.column(POSITION))
    return pa.StructArray.from_arrays([manifests, positions], fields=list(_ENTRY))


def _numbers(rows: Rows) -> pa.Array:
    return pa.array(rows, pa.int32(), mask=rows == NONE)


def _partition(entries: pa.Table) -> pa.Array:
    names = [name for name in entries.column_names if name.startswith(PARTITION)]
    if not names:
        return pa.StructArray.from_buffers(pa.struct([]), len(entries), [None])
    values = [one_chunk(entries.column(name)) for name in names]
    return pa.StructArray.from_arrays(values, names=[name.removeprefix(PARTITION) for name in names])
