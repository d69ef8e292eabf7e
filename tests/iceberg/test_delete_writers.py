"""Vectors and position-delete files that delvec writes: read by delvec, by PyArrow, and inside of tables by
DuckDB and pyiceberg.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.deletes.position_file import read_positions
from delvec.iceberg.position_delete_file import store_position_deletes
from delvec.iceberg.single_values import decode
from delvec.iceberg.stats import values_of
from delvec.iceberg.vector_file import store_vectors, write_vectors
from delvec.puffin import PuffinReader
from delvec.row_delta import has_file_id
from delvec.schema import Primitive
from delvec.storage import open_storage
from iceberg_tables import IcebergWriter
from iceberg_tables.avro import POSITION_DELETES
from iceberg_tables.files import File
from iceberg_tables.readers import read_by_duckdb, read_by_pyiceberg
from rows import multiset

FILE_PATH, POS = 2147483546, 2147483545
NAMES = ["s3://b/t/data/a b.parquet", "/t/data/é%41.parquet"]
ROWS = [Bitmap.of(0, 7, 2**33), Bitmap.from_range(5, 3000)]


def test_vectors_are_in_one_puffin_file(tmp_path):
    storage = open_storage(str(tmp_path))
    blobs = [blob.encode(rows) for rows in ROWS]
    file = write_vectors(storage, blobs, NAMES, folder="data/p=1")
    assert file.location.startswith(f"{tmp_path}/data/p=1/")
    assert has_file_id(file.location.rpartition("/")[2])
    data = storage.read(file.location)
    assert len(data) == file.size
    reader = PuffinReader.from_bytes(data)
    assert [reader.read_vector(each) for each in reader.blobs] == ROWS
    assert [data[offset : offset + length] for offset, length in file.places] == blobs
    for written, name, rows in zip(reader.blobs, NAMES, ROWS, strict=True):
        assert written.type == "deletion-vector-v1"
        assert written.fields == (2147483645,)  # the column _pos
        assert (written.snapshot_id, written.sequence_number) == (-1, -1)
        assert written.compression_codec is None
        assert written.properties == {"referenced-data-file": name, "cardinality": str(len(rows))}


def test_vectors_are_stored_for_executors(tmp_path):
    storage = open_storage(str(tmp_path))
    assert store_vectors(storage, [], [], folder="data") == []
    assert not list(tmp_path.iterdir())
    places = store_vectors(storage, [blob.encode(rows) for rows in ROWS], NAMES, folder="")
    assert len({location for location, _, _ in places}) == 1
    for (location, offset, length), rows in zip(places, ROWS, strict=True):
        (stored,) = storage.read_ranges(location, [(offset, length)])
        assert blob.decode(stored) == rows


def test_position_delete_files_are_of_one_data_file_each(tmp_path):
    storage = open_storage(str(tmp_path))
    files = store_position_deletes(storage, NAMES, ROWS, folder="data")
    assert files.column("referenced_data_file").to_pylist() == NAMES
    assert files.column("record_count").to_pylist() == [3, 2995]
    for row, name, rows in zip(files.to_pylist(), NAMES, ROWS, strict=True):
        assert row["location"].startswith(f"{tmp_path}/data/")
        assert has_file_id(row["location"].rpartition("/")[2])
        assert row["file_size"] == storage.head(row["location"]).size
        assert read_positions(storage, row["location"], [name], rows=len(rows)) == {name: rows}
        table = pq.read_table(row["location"])
        assert table.column("pos").to_pylist() == sorted(rows)
        fields = [(field.name, field.type, field.nullable, field.metadata) for field in table.schema]
        assert fields == [
            ("file_path", pa.string(), False, {b"PARQUET:field_id": b"2147483546"}),
            ("pos", pa.int64(), False, {b"PARQUET:field_id": b"2147483545"}),
        ]
        assert pq.read_metadata(row["location"]).metadata[b"delete-type"] == b"position"


def test_statistics_of_position_delete_files(tmp_path):
    files = store_position_deletes(open_storage(str(tmp_path)), NAMES, ROWS, folder="data")
    for end, positions in (("lower_bounds", [0, 5]), ("upper_bounds", [2**33, 2999])):
        bounds = files.column(end)
        assert decode(values_of(bounds, FILE_PATH), Primitive("string")).to_pylist() == NAMES
        assert decode(values_of(bounds, POS), Primitive("long")).to_pylist() == positions
    for column in (FILE_PATH, POS):
        assert values_of(files.column("value_counts"), column).to_pylist() == [3, 2995]
        assert values_of(files.column("null_value_counts"), column).to_pylist() == [0, 0]


def test_no_deletes_are_no_files(tmp_path):
    files = store_position_deletes(open_storage(str(tmp_path)), [], [], folder="data")
    assert len(files) == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("read", [read_by_duckdb, read_by_pyiceberg])
@pytest.mark.parametrize("version", [2, 3])
def test_other_engines_apply_the_deletes(tmp_path, version, read):
    columns = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = IcebergWriter(tmp_path / "t", columns, format_version=version, partition_by=["p"])
    files = [table.add_file([{"id": n, "p": p} for n in range(10)]) for p in ("a b", "%41")]
    table.commit()
    rows = {files[0]: [0, 3, 9], files[1]: [5]}
    for delete in (vectors if version > 2 else position_files)(table, rows):
        table._stage(delete)
    table.commit()
    assert len(table.rows()) == 16
    assert multiset(read(table.root)) == multiset(table.rows())


def vectors(table, rows):
    storage = open_storage(str(table.root))
    blobs = [blob.encode(Bitmap.of(*positions)) for positions in rows.values()]
    stored = write_vectors(storage, blobs, [file.path for file in rows], folder="data")
    for (file, positions), (offset, length) in zip(rows.items(), stored.places, strict=True):
        place = {"referenced": file.path, "offset": offset, "length": length}
        yield delete_file(file, positions, stored.location, "PUFFIN", stored.size, **place)


def position_files(table, rows):
    storage = open_storage(str(table.root))
    bitmaps = [Bitmap.of(*positions) for positions in rows.values()]
    stored = store_position_deletes(storage, [file.path for file in rows], bitmaps, folder="data")
    for (file, positions), row in zip(rows.items(), stored.to_pylist(), strict=True):
        yield delete_file(file, positions, row["location"], "PARQUET", row["file_size"])


def delete_file(file, positions, path, kind, size, **place):
    held = {file.path: frozenset(positions)}
    return File(
        POSITION_DELETES,
        path,
        kind,
        file.spec,
        file.partition,
        len(positions),
        size,
        file.schema,
        positions=held,
        **place,
    )
