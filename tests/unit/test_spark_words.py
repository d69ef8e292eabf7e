"""Vectors as one array of words: where each file's are, and for which vectors it is made at all."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="pyspark is absent")

from delvec.bitmap import Bitmap
from delvec.spark import words
from delvec.spark.words import gathered


def deleted(found, file, rows):
    """Which of the rows are deleted, by the definition of the words."""
    held = [row for row in rows if row < found.rows[file]]
    return [row for row in held if int(found.words[found.first[file] + (row >> 6)]) >> (row & 63) & 1]


def test_words_say_what_the_vectors_say():
    rng = random.Random(8)
    for _ in range(30):
        rows = rng.choice([1, 64, 4096, 5000, 30_000])
        some = [
            rng.sample(range(rows), rng.randrange(min(rows, 400) + 1)) for _ in range(rng.randrange(1, 6))
        ]
        found = gathered([Bitmap.from_iterable(positions) for positions in some])
        assert found is not None
        assert [deleted(found, file, range(rows + 70)) for file in range(len(some))] == [
            sorted(positions) for positions in some
        ]
        assert len(found.words) == sum(found.rows) // 64


@pytest.mark.parametrize("position", [0, 63, 64, 4095, 4096, 2**18 - 1])
def test_words_end_with_the_chunk_of_the_last_deleted_row(position):
    found = gathered([Bitmap.of(position), Bitmap.of(0)])
    assert found.rows == ((position // 4096 + 1) * 4096, 4096)
    assert found.first == (0, found.rows[0] // 64)


def test_vectors_of_no_row():
    assert gathered([Bitmap(), Bitmap.of(3), Bitmap()]).rows == (0, 4096, 0)
    found = gathered([Bitmap()])
    assert (found.rows, len(found.words)) == ((0,), 0)


def test_so_many_files_are_joined():
    assert gathered([Bitmap.of(1)] * words.FEW_FILES) is not None
    assert gathered([Bitmap.of(1)] * (words.FEW_FILES + 1)) is None


def test_so_many_words_are_joined():
    most = Bitmap.from_range(0, words.MOST_BYTES * 8)
    assert len(gathered([most]).words) * 8 == words.MOST_BYTES
    assert gathered([most, Bitmap.of(1)]) is None


@pytest.mark.parametrize("step", [4096, 8000])
def test_rows_in_most_chunks_have_words(step):
    assert gathered([Bitmap.from_numpy(np.arange(0, 10_000_000, step))]) is not None


@pytest.mark.parametrize("positions", [np.arange(0, 10_000_000, 10_000), np.array([9_999_999])])
def test_what_is_shipped_grows_with_the_deleted_rows(positions):
    """Rows far apart, or one that is far from the first: chunks have a fraction of the words' size."""
    assert gathered([Bitmap.from_numpy(positions)]) is None
