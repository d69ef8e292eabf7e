"""The partitions of new deletes.

A delete's partition is that of the data file that it is about, or of a delete that it replaces, or the one
that the delta names. Without any of these it is global: an equality delete whose partition spec has no fields
applies to all data files. A table without such a spec gets one, which does not become the default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Rows, one_chunk, rows_of
from delvec.deletes.model import DeleteFile, delete_files
from delvec.errors import InvalidOperationError
from delvec.iceberg.live_entries import SPEC_ID
from delvec.iceberg.metadata import TableMetadata
from delvec.iceberg.metadata_updates import Update, add_spec
from delvec.iceberg.new_entries import PUFFIN
from delvec.iceberg.stats import PARTITION
from delvec.row_delta import RowDelta
from delvec.transforms import VOID

if TYPE_CHECKING:
    from delvec.iceberg.snapshot import Snapshot


def global_spec_updates(metadata: TableMetadata, delta: RowDelta) -> list[Update]:
    """The update that adds a partition spec without fields, if the delta needs one and there is none."""
    is_needed = any(is_global(file) for file in delete_files(delta.added_deletes))
    if not is_needed or global_spec_id(metadata) is not None:
        return []
    return [add_spec({"spec-id": max(metadata.raw_specs) + 1, "fields": []})]


def global_spec_id(metadata: TableMetadata) -> int | None:
    """The partition spec of global deletes: the default one if possible, one without fields rather than one
    with void ones.
    """
    fields = {spec_id: spec.fields for spec_id, spec in metadata.specs.items()}
    found = [spec_id for spec_id, spec in fields.items() if all(f.transform == VOID for f in spec)]
    found.sort(key=lambda spec_id: (spec_id != metadata.default_spec_id, len(fields[spec_id]), spec_id))
    return found[0] if found else None


def is_global(file: DeleteFile) -> bool:
    """Whether the delete applies to all data files."""
    has_place = file.referenced_file is not None or file.scope.beside is not None
    return not has_place and file.scope.spec_id is None


def partition_columns(
    files: Sequence[DeleteFile], base: Snapshot, after: TableMetadata, given: pa.Table
) -> dict[str, pa.Array]:
    """Columns of the entries of new deletes: spec and partition of each, and the recorded name of the data
    file that it is about. ``given``: the deletes as ``RowDelta.added_deletes``.
    """
    schema = base.files.live.schema
    names = [name for name in schema.names if name.startswith(PARTITION)]
    parts: list[pa.Table] = []
    order: list[int] = []
    for chosen, table in (
        _of_files(files, base),
        _of_deletes(files, base),
        _of_delta(files, given, names, schema),
        _of_all_files(files, after, names, schema),
    ):
        order += chosen
        parts.append(
            table.select(["referenced_data_file", SPEC_ID, *names]).cast(_part_schema(schema, names))
        )
    table = pa.concat_tables(parts).take(pa.array(np.argsort(np.array(order, np.int64))))
    return {name: one_chunk(table.column(name)) for name in table.column_names}


def _part_schema(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in ("referenced_data_file", SPEC_ID, *names)])


def _of_files(files: Sequence[DeleteFile], base: Snapshot) -> tuple[list[int], pa.Table]:
    """The deletes that are about one data file."""
    chosen = [at for at, file in enumerate(files) if file.referenced_file is not None]
    data = base.files.live.data() if chosen else base.files.live.schema.empty_table()
    known = base.locations.resolve_many(data.column("file_path"))
    wanted = pa.array([files[at].referenced_file for at in chosen], pa.string())
    rows = pc.index_in(wanted, value_set=known)
    if rows.null_count:
        missing = wanted.filter(rows.is_null())[0].as_py()
        raise InvalidOperationError(f"a new delete is about {missing}, which is not a data file of the table")
    entries = rows_of(data, rows.to_numpy(zero_copy_only=False).astype(np.int64))
    at = entries.schema.get_field_index("referenced_data_file")
    return chosen, entries.set_column(at, "referenced_data_file", entries.column("file_path"))


def _of_deletes(files: Sequence[DeleteFile], base: Snapshot) -> tuple[list[int], pa.Table]:
    """The deletes that are beside others."""
    places = {at: file.scope.beside for at, file in enumerate(files) if file.referenced_file is None}
    besides = {at: beside for at, beside in places.items() if beside is not None}
    if not besides:
        return [], base.files.live.schema.empty_table()
    entries = rows_of(base.files.live.deletes(), delete_rows(base, list(besides.values())))
    return list(besides), _without_referenced(entries)


def _of_delta(
    files: Sequence[DeleteFile], given: pa.Table, names: Sequence[str], schema: pa.Schema
) -> tuple[list[int], pa.Table]:
    """The deletes whose partition the delta names."""
    chosen = [at for at, file in enumerate(files) if file.scope.spec_id is not None]
    columns: dict[str, pa.Array] = {
        "referenced_data_file": pa.nulls(len(chosen), pa.string()),
        SPEC_ID: pa.array([files[at].scope.spec_id for at in chosen], pa.int32()),
        **{name: pa.nulls(len(chosen), schema.field(name).type) for name in names},
    }
    if chosen:
        values = one_chunk(given.column("partition")).take(pa.array(chosen, pa.int64()))
        columns |= {PARTITION + field.name: values.field(field.name) for field in values.type}
    return chosen, pa.table(columns)


def _of_all_files(
    files: Sequence[DeleteFile], after: TableMetadata, names: Sequence[str], schema: pa.Schema
) -> tuple[list[int], pa.Table]:
    """The global deletes."""
    chosen = [at for at, file in enumerate(files) if is_global(file)]
    columns = {
        "referenced_data_file": pa.nulls(len(chosen), pa.string()),
        SPEC_ID: pa.array([global_spec_id(after)] * len(chosen), pa.int32()),
        **{name: pa.nulls(len(chosen), schema.field(name).type) for name in names},
    }
    return chosen, pa.table(columns)


def _without_referenced(entries: pa.Table) -> pa.Table:
    at = entries.schema.get_field_index("referenced_data_file")
    return entries.set_column(at, "referenced_data_file", pa.nulls(len(entries), pa.string()))


def delete_rows(base: Snapshot, places: Sequence[tuple[str, int | None]]) -> Rows:
    """The rows of live deletes by location, and offset if they are vectors."""
    deletes = base.files.live.deletes()
    locations = base.locations.resolve_many(deletes.column("file_path")).to_pylist()
    columns = (deletes.column(name).to_pylist() for name in ("file_format", "content_offset"))
    offsets = [offset if kind == PUFFIN else None for kind, offset in zip(*columns, strict=True)]
    known = {place: row for row, place in enumerate(zip(locations, offsets, strict=True))}
    for location, offset in places:
        if (location, offset) not in known:
            raise InvalidOperationError(
                f"a delete to replace is not in snapshot {base.version}: {location}"
                + ("" if offset is None else f" at {offset}")
            )
    return np.array([known[place] for place in places], np.int64)
