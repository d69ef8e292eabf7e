"""Vectors as chunks: keys, words, estimates, far beyond any file that could be made here."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is absent")

from delvec.bitmap import Bitmap
from delvec.deletes.sets import DeleteSets
from delvec.spark import vector_chunks
from delvec.spark.vector_chunks import CHUNK_BYTES, CHUNKS_SCHEMA, chunk_batches, chunk_estimate


def positions_in(batches, first_key):
    """The rows that the chunks say are deleted, by the definition of key and words."""
    found = []
    for batch in batches:
        assert batch.schema == CHUNKS_SCHEMA
        for key, words in zip(batch["key"].to_pylist(), batch["words"].to_pylist(), strict=True):
            assert len(words) == 64
            assert any(words), "a chunk without a deleted row is shipped"
            for number, word in enumerate(words):
                found += [(key - first_key) * 4096 + number * 64 + b for b in range(64) if word >> b & 1]
    return found


EDGES = [0, 63, 64, 4095, 4096, 65535, 65536, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**36 - 1, 2**40]


@pytest.mark.parametrize(("first_key", "most"), [(0, 2**41), (7 << 40, 2**41), ((2**39 - 1) << 24, 2**36)])
def test_chunks_say_what_the_vector_says(first_key, most):
    rows = [position for position in EDGES if position < most]
    batches = list(chunk_batches([(first_key, Bitmap.from_iterable(rows))]))
    assert positions_in(batches, first_key) == rows
    assert sum(map(len, batches)) == len({position >> 12 for position in rows})


def test_chunks_of_random_vectors():
    rng = random.Random(4)
    for _ in range(20):
        most = rng.choice([100, 5000, 10**6, 2**34])
        rows = sorted({rng.randrange(most) for _ in range(rng.randrange(1, 500))})
        assert positions_in(chunk_batches([(5 << 40, Bitmap.from_iterable(rows))]), 5 << 40) == rows


def test_chunks_of_several_vectors():
    """Also where one ends and the next begins in the same chunk, and where one is empty."""
    of_files = {
        7 << 31: [0, 4095, 4096],
        3 << 31: [4096, 4097],
        9 << 31: [],
        8 << 31: [4096],
        2**63 - 2**31: [5],
    }
    given = [(key, Bitmap.from_iterable(rows)) for key, rows in of_files.items()]
    (batch,) = chunk_batches(given)
    assert batch["key"].to_pylist() == [7 << 31, (7 << 31) + 1, (3 << 31) + 1, (8 << 31) + 1, 2**63 - 2**31]
    for number, (key, rows) in enumerate([(7 << 31, [0, 4095]), (7 << 31, [4096]), (3 << 31, [4096, 4097])]):
        assert positions_in([batch.slice(number, 1)], key) == rows


@pytest.mark.parametrize(
    ("most", "lots"),
    [(2, [[0], [1], [2], [3]]), (3, [[0], [1, 2], [3]]), (11, [[0, 1], [2, 3]]), (15, [[0, 1, 2, 3]])],
)
def test_small_vectors_are_expanded_together(monkeypatch, most, lots):
    monkeypatch.setattr(vector_chunks, "_POSITIONS_AT_ONCE", most)
    loaded = [Bitmap.from_iterable(range(count)) for count in (9, 2, 1, 3)]
    assert list(vector_chunks._file_groups(loaded)) == lots


def test_no_chunk_of_an_empty_vector():
    assert list(chunk_batches([(0, Bitmap.of())])) == []


def test_vectors_of_many_chunks_come_in_several_batches(monkeypatch):
    monkeypatch.setattr(vector_chunks, "_CHUNKS_AT_ONCE", 3)
    rows = list(range(0, 10 * 4096, 1000))
    batches = list(chunk_batches([(0, Bitmap.from_iterable(rows))]))
    assert [len(batch) for batch in batches] == [3, 3, 3, 1]
    assert positions_in(batches, 0) == rows


def estimate(cardinalities, record_counts):
    """Of files with a vector each."""
    rows = np.arange(len(cardinalities))
    files = pa.table({"data_file": [f"/{row}" for row in rows]})
    deletes = pa.table({"cardinality": pa.array(cardinalities, pa.int64())})
    sets = DeleteSets(files, deletes, rows, rows)
    return chunk_estimate(sets, pa.chunked_array([record_counts], pa.int64()))


@pytest.mark.parametrize(
    ("cardinality", "records", "chunks"),
    [
        (1, 10_000_000, 1),
        (500_000, 1_000_000, 245),
        (3, 10, 1),
        (3, None, 3),
        (5, 4096, 2),
        (0, 100, 0),
    ],
)
def test_the_estimate_is_a_bound(cardinality, records, chunks):
    assert estimate([cardinality], [records]) == chunks * CHUNK_BYTES


def test_a_thousand_files_of_ten_million_rows_with_one_deleted_row_each_ship_kilobytes():
    assert estimate([1] * 1000, [10_000_000] * 1000) < 600_000


def test_a_vector_of_unknown_size_is_no_small_one():
    assert estimate([None], [None]) > 1 << 30
