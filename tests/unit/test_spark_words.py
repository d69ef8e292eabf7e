"""Vectors as one array of words: where each file's are, and for which vectors it is made at all."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="pyspark is absent")

from delvec.bitmap import Bitmap
from delvec.spark import vector_words
from delvec.spark.file_paths import numbers


def words(vectors):
    """By numbers as files of one writer have them."""
    names = [f"part-{number:05d}-0a1b2c3d-c000.snappy.parquet" for number in range(len(vectors))]
    return vector_words.words_of(vectors, numbers(names))


def deleted(found, number, rows):
    """Which of the rows are deleted, by the definition of the words and slots."""
    first = found.slots[(number >> found.shift) & (len(found.slots) - 1)]
    places = [int(first) + min(row >> 6, found.each - 1) for row in rows]
    return [row for row, place in zip(rows, places, strict=True) if int(found.words[place]) >> (row & 63) & 1]


def test_words_say_what_the_vectors_say():
    rng = random.Random(8)
    for _ in range(30):
        rows = rng.choice([1, 64, 4096, 5000, 30_000])
        some = [
            rng.sample(range(rows), rng.randrange(min(rows, 400) + 1)) for _ in range(rng.randrange(1, 6))
        ]
        own = np.array(rng.sample(range(2**32), len(some)))
        found = vector_words.words_of([Bitmap.from_iterable(positions) for positions in some], own)
        assert found is not None
        assert [deleted(found, int(number), range(rows + 70)) for number in own] == [
            sorted(positions) for positions in some
        ]
        assert len(found.words) == len(some) * found.each


@pytest.mark.parametrize("position", [0, 63, 64, 4095, 4096, 2**17 - 1])
def test_words_end_with_the_chunk_of_the_last_deleted_row_and_one_without_a_bit(position):
    found = words([Bitmap.of(position), Bitmap.of(0)])
    assert found.each == (position // 4096 + 1) * 64 + 1
    assert found.words[found.each - 1] == found.words[-1] == 0


def test_vectors_of_no_row():
    assert words([Bitmap(), Bitmap.of(3), Bitmap()]).each == 65
    found = words([Bitmap()])
    assert (found.each, found.words.tolist(), found.slots.tolist()) == (1, [0], [0])


def test_a_slot_of_no_file_is_before_all_words():
    found = vector_words.words_of([Bitmap.of(5)] * 3, np.array([0, 1, 2]))
    assert sorted(found.slots)[1:] == [0, found.each, 2 * found.each]
    assert min(found.slots) + found.each < 0


@pytest.mark.parametrize("own", [[0, 2**31], [7, 7 + 2**23, 7 + 2**24], list(range(0, 2**32, 2**27))])
def test_numbers_that_are_alike_in_most_bits_have_slots_of_their_own(own):
    found = vector_words.words_of([Bitmap.of(n) for n in range(len(own))], np.array(own))
    assert [deleted(found, number, range(100)) for number in own] == [[n] for n in range(len(own))]


def test_files_are_joined_where_no_few_bits_tell_them_apart():
    assert vector_words.words_of([Bitmap.of(1)] * 3, np.array([7, 8, 7 + 2**31])) is None


def test_so_many_files_are_joined():
    assert words([Bitmap.of(1)] * vector_words.FEW_FILES) is not None
    assert words([Bitmap.of(1)] * (vector_words.FEW_FILES + 1)) is None


def test_so_many_words_are_joined():
    most = Bitmap.from_range(0, vector_words.MOST_BYTES * 8 - 4096)
    assert len(words([most]).words) * 8 == vector_words.MOST_BYTES - 512 + 8
    assert words([most, Bitmap.of(1)]) is None


@pytest.mark.parametrize("step", [4096, 8000])
def test_rows_in_most_chunks_have_words(step):
    assert words([Bitmap.from_numpy(np.arange(0, 10_000_000, step))]) is not None


@pytest.mark.parametrize("positions", [np.arange(0, 10_000_000, 10_000), np.array([9_999_999])])
def test_what_is_shipped_grows_with_the_deleted_rows(positions):
    """Rows far apart, or one that is far from the first: chunks have a fraction of the words' size."""
    assert words([Bitmap.from_numpy(positions)]) is None
