"""Manifest entries of files that a commit adds: data files, vectors, position files, as in `live_files`."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from delvec.chunked import one_chunk
from delvec.deletes.encoding import DeleteEncoding
from delvec.errors import InvalidOperationError
from delvec.iceberg.live_entries import SPEC_ID
from delvec.iceberg.locations import Locations
from delvec.iceberg.manifest import ADDED, DATA_FILE, POSITION_DELETES
from delvec.iceberg.stats import PARTITION
from delvec.iceberg.tree.entries import CONTENT_STATS
from delvec.partition_spec import PartitionSpec
from delvec.row_delta import RowDelta

PARQUET, PUFFIN = "parquet", "puffin"


def data_entries(
    schema: pa.Schema,
    delta: RowDelta,
    spec: PartitionSpec,
    locations: Locations,
    statistics: Mapping[str, pa.Array],
    *,
    snapshot_id: int,
) -> pa.Table:
    """The entries of the delta's new data files. Their sequence number is the commit's, unless their rows
    keep an older one.
    """
    added = delta.added
    sequence = pa.scalar(delta.data_sequence, pa.int64())
    columns = {
        "sequence_number": pa.repeat(sequence, len(added)),
        "content": _repeated(DATA_FILE, pa.int32(), len(added)),
        "file_path": recorded(locations, added.column("location")),
        "file_format": _repeated(PARQUET, pa.string(), len(added)),
        "record_count": added.column("record_count"),
        "file_size": added.column("size"),
        "split_offsets": added.column("split_offsets").cast(pa.large_list(pa.int64())),
        "sort_order_id": _repeated(0, pa.int32(), len(added)),
        SPEC_ID: _repeated(spec.spec_id, pa.int32(), len(added)),
        **statistics,
    }
    values = one_chunk(added.column("partition"))
    for at, field in enumerate(spec.fields):
        columns[PARTITION + field.name] = values.field(at)
    return added_entries(schema, columns, len(added), snapshot_id)


def delete_entries(data: pa.Table, deletes: pa.Table, locations: Locations, *, snapshot_id: int) -> pa.Table:
    """The entries of stored deletes of the data files ``data``, row for row: each has its file's partition.

    ``deletes`` has the absolute ``location`` of the file with the deletes, and other columns of its entry.
    Vectors have a ``content_offset``.
    """
    count = len(data)
    file_format = PUFFIN if "content_offset" in deletes.column_names else PARQUET
    encoding = DeleteEncoding.inferred(file_format).id
    columns = {
        "content": _repeated(POSITION_DELETES, pa.int32(), count),
        "file_path": recorded(locations, deletes.column("location")),
        "file_format": _repeated(file_format, pa.string(), count),
        "encoding": _repeated(encoding, pa.int32(), count),
        "referenced_data_file": data.column("file_path"),
        SPEC_ID: data.column(SPEC_ID),
        **{name: deletes.column(name) for name in deletes.column_names if name != "location"},
    }
    for name in data.column_names:
        if name.startswith(PARTITION) or name == CONTENT_STATS:
            columns[name] = data.column(name)
    return added_entries(data.schema, columns, count, snapshot_id)


def recorded(locations: Locations, places: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The locations as the metadata records them: below the recorded location of the table."""
    prefix = locations.recorded.rstrip("/")
    return pa.array([f"{prefix}/{path}" for path in _inside(locations, places)], pa.string())


def _inside(locations: Locations, places: pa.Array | pa.ChunkedArray) -> list[str]:
    home = (locations.home or "").rstrip("/") + "/"
    paths = []
    for place in places.to_pylist():
        if not place.startswith(home):
            raise InvalidOperationError(
                f"new file {place} is not in the table, expected it below {locations.home}"
            )
        paths.append(place[len(home) :])
    return paths


def added_entries(
    schema: pa.Schema, columns: Mapping[str, pa.Array | pa.ChunkedArray], count: int, snapshot_id: int
) -> pa.Table:
    given = {
        **columns,
        "status": _repeated(ADDED, pa.int32(), count),
        "snapshot_id": _repeated(snapshot_id, pa.int64(), count),
    }
    arrays = [
        one_chunk(given[field.name]).cast(field.type) if field.name in given else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


def _repeated(value: object, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)
