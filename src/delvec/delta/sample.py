"""A small Delta table as an example: 40 orders in two regions, from which rows were deleted twice.

    version 0   CREATE TABLE AS SELECT   four files of ten rows
    version 1   DELETE                   every third order: a vector on each file, all four in one .bin
    version 2   DELETE                   orders 21 to 26: one vector replaced by a larger one

Names, rows and times are always the same: ids and times are passed to the ordinary commit.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delvec import blob, location
from delvec.bitmap import Bitmap
from delvec.delta import creation, properties, vector_file
from delvec.delta.commit import commit
from delvec.delta.snapshot import Snapshot
from delvec.delta.table import DeltaTable
from delvec.errors import InvalidOperationError
from delvec.partition_spec import identity_fields
from delvec.row_delta import (
    VECTORS_SCHEMA,
    Committed,
    Operation,
    Read,
    Request,
    RowCounts,
    RowDelta,
    Verb,
    added_schema,
)
from delvec.schema import Field, Primitive, Struct
from delvec.storage import Storage

ROWS_PER_FILE = 10
REGIONS = ("eu", "eu", "us", "us")
CUSTOMERS = ("ada", "bo", "cy", "dee", "eve", "fay", "gus")
CREATED = dt.datetime(2025, 1, 1, 12, tzinfo=dt.UTC)
FIRST_PLACED = dt.date(2024, 11, 20)
BETWEEN_COMMITS = dt.timedelta(hours=1)

_TYPES = {"id": "long", "customer": "string", "amount": "double", "placed": "date", "region": "string"}
_SCHEMA = Struct(tuple(Field(name, Primitive(kind)) for name, kind in _TYPES.items()))
_NAMES = uuid.UUID("6f7264e5-7200-5000-8000-64656c766563")


_DELETES: tuple[tuple[str, Callable[[int], bool]], ...] = (
    ("id % 3 = 1", lambda order: order % 3 == 1),
    ("id BETWEEN 21 AND 26", lambda order: 21 <= order <= 26),
)
"""The conditions of versions 1 and 2, as text and as functions of an order's id."""


def write(storage: Storage) -> None:
    """Write the table at the storage's root; refuses a location where a table exists."""
    draft = creation.draft(
        storage,
        _SCHEMA,
        partition_by=identity_fields(_SCHEMA, ["region"]),
        table_properties={properties.ENABLE_TIMESTAMPS: "true"},
        now_ms=_millis(0),
        table_id=_id("table"),
    )
    _commit(storage, draft, _creation(storage, draft))
    table = DeltaTable(storage)
    for version in range(1, len(_DELETES) + 1):
        snapshot = table.snapshot()
        _commit(storage, snapshot, _deletion(storage, snapshot, version))


def _creation(storage: Storage, draft: Snapshot) -> RowDelta:
    files = [_write_data(storage, number) for number in range(len(REGIONS))]
    return RowDelta(
        draft.base,
        Request(Operation.CREATE_WITH_ROWS),
        Read(blind=True),
        Verb.ALTER,
        RowCounts(inserted=ROWS_PER_FILE * len(files)),
        added=pa.Table.from_pylist(files, schema=added_schema(draft.spec)),
    )


def _deletion(storage: Storage, snapshot: Snapshot, version: int) -> RowDelta:
    """The deletion of version ``version``: a new vector for each file that loses rows."""
    condition, _ = _DELETES[version - 1]
    before = [_deleted(number, version - 1) for number in range(len(REGIONS))]
    after = [_deleted(number, version) for number in range(len(REGIONS))]
    changed = [number for number in range(len(REGIONS)) if after[number] != before[number]]
    data, places = vector_file.pack([after[number] for number in changed])
    path = f"deletion_vector_{_id(f'vectors-{version}')}.bin"
    storage.put(path, data)
    files = snapshot.plan().files
    file_ids = dict(zip(files["location"].to_pylist(), files["file_id"].to_pylist(), strict=True))
    vectors = [
        {
            "file_id": file_ids[location.join(storage.root, _path(number))],
            "location": location.join(storage.root, path),
            "offset": offset,
            "length": size + blob.FRAME_SIZE,
            "cardinality": len(after[number]),
            "deleted": len(after[number]) - len(before[number]),
        }
        for number, (offset, size) in zip(changed, places, strict=True)
    ]
    return RowDelta(
        snapshot.base,
        Request(Operation.DELETE, condition),
        Read(condition),
        Verb.DELETE,
        RowCounts(deleted=sum(vector["deleted"] for vector in vectors)),
        vectors=pa.Table.from_pylist(vectors, schema=VECTORS_SCHEMA),
    )


def _deleted(number: int, version: int) -> Bitmap:
    """The rows of a file that are deleted in a version."""
    conditions = [is_deleted for _, is_deleted in _DELETES[:version]]
    rows = range(ROWS_PER_FILE)
    return Bitmap.from_iterable(
        row for row in rows if any(is_deleted(number * ROWS_PER_FILE + row) for is_deleted in conditions)
    )


def _write_data(storage: Storage, number: int) -> dict[str, Any]:
    """Write a data file; returns its row of ``RowDelta.added``."""
    ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
    columns = {
        "id": pa.array(ids, pa.int64()),
        "customer": pa.array([CUSTOMERS[i % len(CUSTOMERS)] for i in ids]),
        "amount": pa.array([float(i * 37 % 101) + 0.5 for i in ids]),
        "placed": pa.array([FIRST_PLACED + dt.timedelta(days=i) for i in ids]),
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    data = sink.getvalue().to_pybytes()
    storage.put(_path(number), data)
    return {
        "location": location.join(storage.root, _path(number)),
        "size": len(data),
        "modified_ms": _millis(0),
        "partition": {"region": REGIONS[number]},
    }


def _path(number: int) -> str:
    return f"region={REGIONS[number]}/part-{number:05d}.parquet"


def _commit(storage: Storage, base: Snapshot, delta: RowDelta) -> None:
    version = base.version + 1
    outcome = commit(
        storage, base, delta, clock=lambda: _millis(version), new_id=lambda: _id(f"commit-{version}")
    )
    if not isinstance(outcome, Committed):
        raise InvalidOperationError(f"a table already exists: {storage.root}")


def _id(name: str) -> uuid.UUID:
    return uuid.uuid5(_NAMES, name)


def _millis(version: int) -> int:
    return int((CREATED + version * BETWEEN_COMMITS).timestamp() * 1000)
