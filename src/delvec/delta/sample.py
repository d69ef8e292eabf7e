"""A small Delta table to look at: 40 orders in two regions, from which rows were deleted twice.

    version 0   CREATE TABLE AS SELECT   four files of ten rows
    version 1   DELETE                   every third order: a vector on each file, all four in one .bin
    version 2   DELETE                   orders 21 to 26: one vector replaced by a larger one

Names, rows and times are always the same. The log is written as the protocol asks, so any engine that knows
deletion vectors reads it.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delvec import z85
from delvec.bitmap import Bitmap
from delvec.delta import vector_file
from delvec.delta.log_files import LOG
from delvec.errors import InvalidOperationError
from delvec.storage import Storage
from delvec.version import __version__

ROWS_PER_FILE = 10
REGIONS = ("eu", "eu", "us", "us")
CUSTOMERS = ("ada", "bo", "cy", "dee", "eve", "fay", "gus")
CREATED = dt.datetime(2025, 1, 1, 12, tzinfo=dt.UTC)
FIRST_PLACED = dt.date(2024, 11, 20)
BETWEEN_COMMITS = dt.timedelta(hours=1)

_TYPES = {"id": "long", "customer": "string", "amount": "double", "placed": "date", "region": "string"}
_NAMES = uuid.UUID("6f7264e5-7200-5000-8000-64656c766563")

Action = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    region: str
    size: int
    rows: pa.Table


def write(storage: Storage) -> None:
    """Write the table below the storage's root, where no table may be."""
    files = [_write_data(storage, number) for number in range(len(REGIONS))]
    thirds = [_positions(file, lambda order: order % 3 == 1) for file in files]
    larger = thirds[2] | _positions(files[2], lambda order: 21 <= order <= 26)
    first = _write_vectors(storage, thirds, name="vectors-1")
    (second,) = _write_vectors(storage, [larger], name="vectors-2")
    metrics = {"numFiles": len(files), "numOutputRows": sum(len(file.rows) for file in files)}
    create = _info(0, "CREATE TABLE AS SELECT", {}, metrics)
    _commit(storage, 0, [create, _protocol(), _metadata(), *(_add(file) for file in files)])
    metrics = {"numDeletedRows": sum(map(len, thirds)), "numDeletionVectorsAdded": len(files)}
    actions = [_info(1, "DELETE", {"predicate": "id % 3 = 1"}, metrics)]
    for file, vector in zip(files, first, strict=True):
        actions += [_remove(file, 1), _add(file, vector)]
    _commit(storage, 1, actions)
    metrics = {"numDeletedRows": len(larger - thirds[2]), "numDeletionVectorsUpdated": 1}
    delete = _info(2, "DELETE", {"predicate": "id BETWEEN 21 AND 26"}, metrics)
    _commit(storage, 2, [delete, _remove(files[2], 2, first[2]), _add(files[2], second)])


def _positions(file: _File, condition: Callable[[int], bool]) -> Bitmap:
    """The rows of the file whose id satisfies the condition."""
    orders = file.rows["id"].to_pylist()
    return Bitmap.from_iterable(position for position, order in enumerate(orders) if condition(order))


def _rows(number: int) -> pa.Table:
    ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
    columns = {
        "id": pa.array(ids, pa.int64()),
        "customer": pa.array([CUSTOMERS[i % len(CUSTOMERS)] for i in ids]),
        "amount": pa.array([float(i * 37 % 101) + 0.5 for i in ids]),
        "placed": pa.array([FIRST_PLACED + dt.timedelta(days=i) for i in ids]),
    }
    return pa.table(columns)


def _write_data(storage: Storage, number: int) -> _File:
    region, rows = REGIONS[number], _rows(number)
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    data = sink.getvalue().to_pybytes()
    path = f"region={region}/part-{number:05d}.parquet"
    storage.put(path, data)
    return _File(path, region, len(data), rows)


def _write_vectors(storage: Storage, vectors: Sequence[Bitmap], *, name: str) -> list[Action]:
    """One file with all the vectors; returned are their descriptors."""
    identifier = uuid.uuid5(_NAMES, name)
    data, places = vector_file.pack(vectors)
    storage.put(f"deletion_vector_{identifier}.bin", data)
    return [
        {
            "storageType": "u",
            "pathOrInlineDv": z85.encode(identifier.bytes),
            "offset": offset,
            "sizeInBytes": size,
            "cardinality": vector.cardinality,
        }
        for vector, (offset, size) in zip(vectors, places, strict=True)
    ]


def _commit(storage: Storage, version: int, actions: Sequence[Action]) -> None:
    lines = b"".join(orjson.dumps(action) + b"\n" for action in actions)
    if not storage.put_if_absent(f"{LOG}/{version:020d}.json", lines):
        raise InvalidOperationError(f"a table already exists: {storage.root}")


def _millis(version: int) -> int:
    return int((CREATED + version * BETWEEN_COMMITS).timestamp() * 1000)


def _info(version: int, operation: str, parameters: Mapping[str, str], metrics: Mapping[str, int]) -> Action:
    return {
        "commitInfo": {
            "inCommitTimestamp": _millis(version),
            "timestamp": _millis(version),
            "operation": operation,
            "operationParameters": dict(parameters),
            "operationMetrics": {name: str(value) for name, value in metrics.items()},
            **({"readVersion": version - 1} if version else {}),
            "isolationLevel": "Serializable",
            "isBlindAppend": version == 0,
            "engineInfo": f"delvec/{__version__}",
        }
    }


def _protocol() -> Action:
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["deletionVectors"],
            "writerFeatures": ["deletionVectors", "inCommitTimestamp"],
        }
    }


def _metadata() -> Action:
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in _TYPES.items()]
    return {
        "metaData": {
            "id": str(uuid.uuid5(_NAMES, "table")),
            "name": "orders",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": orjson.dumps({"type": "struct", "fields": fields}).decode(),
            "partitionColumns": ["region"],
            "configuration": {
                "delta.enableDeletionVectors": "true",
                "delta.enableInCommitTimestamps": "true",
            },
            "createdTime": _millis(0),
        }
    }


def _add(file: _File, vector: Action | None = None) -> Action:
    body: Action = {
        "path": file.path,
        "partitionValues": {"region": file.region},
        "size": file.size,
        "modificationTime": _millis(0),
        "dataChange": True,
        "stats": orjson.dumps(_stats(file.rows, tight=vector is None)).decode(),
    }
    return {"add": body | ({"deletionVector": vector} if vector else {})}


def _remove(file: _File, version: int, vector: Action | None = None) -> Action:
    body: Action = {
        "path": file.path,
        "deletionTimestamp": _millis(version),
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": {"region": file.region},
        "size": file.size,
    }
    return {"remove": body | ({"deletionVector": vector} if vector else {})}


def _stats(rows: pa.Table, *, tight: bool) -> Action:
    bounds = {name: pc.min_max(rows[name]).as_py() for name in rows.column_names}
    return {
        "numRecords": rows.num_rows,
        "minValues": {name: bound["min"] for name, bound in bounds.items()},
        "maxValues": {name: bound["max"] for name, bound in bounds.items()},
        "nullCount": dict.fromkeys(bounds, 0),
        "tightBounds": tight,
    }
