"""Loading the vectors of a plan: few requests, and no vector that cannot be trusted."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.deletes.loader import DeleteLoader
from delvec.deletes.sets import DeleteSets
from delvec.delta import vector_file
from delvec.errors import CorruptVectorError, DelvecError
from delvec.plan import DELETES_SCHEMA
from delvec.storage import Storage, open_storage

_NUMBERS = itertools.count()
VECTORS = [Bitmap.of(n, n + 5, 1000 + n) for n in range(40)]


@pytest.fixture
def storage() -> Storage:
    return open_storage(f"memory://loader-{next(_NUMBERS)}/t")


def stored(storage: Storage, *, files: int = 4) -> pa.Table:
    """Forty vectors in a few files."""
    rows = []
    for number in range(files):
        vectors = VECTORS[number::files]
        data, places = vector_file.pack(vectors)
        storage.put(f"{number}.bin", data)
        for vector, (offset, size) in zip(vectors, places, strict=True):
            rows.append(delete(f"{storage.root}/{number}.bin", offset, size + blob.FRAME_SIZE, vector))
    return pa.Table.from_pylist(rows, schema=DELETES_SCHEMA)


def delete(location: str | None, offset: int | None, length: int, vector: Bitmap) -> dict[str, object]:
    return {
        "kind": "position-vector",
        "encoding": "deletion-vector",
        "location": location,
        "offset": offset,
        "length": length,
        "cardinality": len(vector),
        "referenced_file": "/t/data.parquet",
    }


def load_vectors(storage: Storage, deletes: pa.Table) -> list[Bitmap | None]:
    return DeleteLoader(storage).load(DeleteSets.of_vectors(deletes))


def changed(deletes: pa.Table, row: int, **values: object) -> pa.Table:
    rows = deletes.to_pylist()
    rows[row] |= values
    return pa.Table.from_pylist(rows, schema=DELETES_SCHEMA)


def test_many_vectors_with_one_request_a_file(storage: Storage) -> None:
    deletes = stored(storage)
    storage.requests.clear()
    loaded = load_vectors(storage, deletes)
    assert loaded == [VECTORS[n] for file in range(4) for n in range(file, 40, 4)]
    assert sum(storage.requests.values()) == 4


def test_some_files_in_any_order(storage: Storage) -> None:
    sets = DeleteSets.of_vectors(stored(storage, files=1))
    storage.requests.clear()
    assert DeleteLoader(storage).load(sets.at(np.array([30, 2]))) == [VECTORS[30], VECTORS[2]]
    assert sum(storage.requests.values()) == 1


def test_no_delete_is_read_twice(storage: Storage) -> None:
    sets, loader = DeleteSets.of_vectors(stored(storage, files=1)), DeleteLoader(storage)
    first = loader.load(sets.at(np.arange(30)))
    storage.requests.clear()
    assert loader.load(sets.at(np.arange(30))) == first
    assert not storage.requests
    assert loader.load(sets) == VECTORS
    assert sum(storage.requests.values()) == 1


def test_inline_and_none(storage: Storage) -> None:
    bare = blob.encode_bare(VECTORS[0])
    inline = delete(None, None, len(bare), VECTORS[0]) | {"inline": bare}
    deletes = pa.Table.from_pylist([inline], schema=DELETES_SCHEMA)
    assert load_vectors(storage, deletes) == [VECTORS[0]]
    assert load_vectors(storage, DELETES_SCHEMA.empty_table()) == []


def test_a_missing_vector_file_is_named(storage: Storage) -> None:
    deletes = stored(storage)
    storage.delete(["2.bin"])
    with pytest.raises(CorruptVectorError, match=r"vector file is missing.*t/2\.bin"):
        load_vectors(storage, deletes)


def test_a_cut_off_vector_file_is_named(storage: Storage) -> None:
    deletes = stored(storage)
    storage.put("1.bin", storage.read("1.bin")[:-7])
    with pytest.raises(CorruptVectorError, match=r"expected at least \d+: .*t/1\.bin at \d+"):
        load_vectors(storage, deletes)


def test_a_wrong_crc_names_file_and_offset(storage: Storage) -> None:
    deletes = stored(storage)
    data = bytearray(storage.read("3.bin"))
    data[20] ^= 4
    storage.put("3.bin", bytes(data))
    with pytest.raises(CorruptVectorError, match=r"CRC is 0x\w{8}, expected 0x\w{8}: .*t/3\.bin at 1$"):
        load_vectors(storage, deletes)


def test_a_wrong_cardinality_is_refused(storage: Storage) -> None:
    with pytest.raises(CorruptVectorError, match=r"3.*expected 4.*\.bin at"):
        load_vectors(storage, changed(stored(storage), 7, cardinality=4))


@pytest.mark.parametrize("values", [{"offset": 2}, {"length": 20}, {"offset": 0}, {"offset": 10**9}])
def test_a_wrong_place_is_refused(storage: Storage, values: dict[str, object]) -> None:
    with pytest.raises(CorruptVectorError, match=r"\.bin at"):
        load_vectors(storage, changed(stored(storage), 5, **values))


def test_a_corrupt_inline_vector_names_its_data_file(storage: Storage) -> None:
    inline = delete(None, None, 5, VECTORS[0]) | {"inline": b"\xd1\xd3\x39\x64?"}
    with pytest.raises(DelvecError, match=r"inline vector of /t/data\.parquet"):
        load_vectors(storage, pa.Table.from_pylist([inline], schema=DELETES_SCHEMA))
