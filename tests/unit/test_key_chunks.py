"""Chunks of bits for classes of data files, beside a plain model: each class, each key."""

from __future__ import annotations

import numpy as np
import pytest

from delvec.spark.key_chunks import CLASS_SHIFT, DeletedKeys, key_chunks
from delvec.spark.vector_chunks import CHUNK_BYTES

FIRST, LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
MOST = 1 << 30


def bits(table):
    """(class, key) for each bit."""
    found = []
    for chunk, words in zip(table.column("key").to_pylist(), table.column("words").to_pylist(), strict=True):
        number, first = chunk >> CLASS_SHIFT, (chunk & ((1 << CLASS_SHIFT) - 1)) << 12
        for at, word in enumerate(words):
            found += [(number, first + 64 * at + bit) for bit in range(64) if word >> bit & 1]
    return found


def deleted_keys(rows):
    keys, scopes, sequences = np.array(rows, np.int64).reshape(-1, 3).T
    return DeletedKeys(keys, scopes, sequences)


@pytest.mark.parametrize("seed", range(30))
def test_each_class_has_the_keys_of_its_scope_that_are_newer(seed):
    rng = np.random.default_rng(seed)
    span = int(rng.choice([5, 200, 20_000, 2**56]))
    keys = {
        (int(key), int(scope)): int(rng.choice([*range(9), LAST]))
        for key, scope in zip(
            rng.integers(0, span, 60), rng.integers(0, int(rng.choice([1, 4])), 60), strict=True
        )
    }
    rows = [(key, scope, sequence) for (key, scope), sequence in keys.items()]
    classes = {(int(rng.integers(-1, 5)), int(rng.choice([*range(9), FIRST]))) for _ in range(12)}
    scopes, sequences = np.array(sorted(classes), np.int64).T
    table = key_chunks(deleted_keys(rows), scopes, sequences, most_bytes=MOST)
    found = bits(table)
    assert len(set(table.column("key").to_pylist())) == len(table)
    assert sorted(found) == sorted(
        (number, key)
        for number, (scope, sequence) in enumerate(sorted(classes))
        for key, of_scope, largest in rows
        if of_scope == scope and largest > sequence
    )
    size = len(table) * CHUNK_BYTES
    assert len(key_chunks(deleted_keys(rows), scopes, sequences, most_bytes=size)) == len(table)
    if size:
        assert key_chunks(deleted_keys(rows), scopes, sequences, most_bytes=size - 1) is None


def test_no_keys():
    nothing = np.zeros(1, np.int64)
    assert len(key_chunks(deleted_keys([]), nothing, nothing, most_bytes=MOST)) == 0


def test_many_classes_of_many_keys_are_counted_before_they_are_made():
    """A stream: each of 50,000 commits is a class. All classes together would have 25 billion keys."""
    keys = np.arange(1_000_000)
    deleted = DeletedKeys(keys * 4096, np.zeros_like(keys), keys // 20)
    sequences = np.arange(50_000)
    assert key_chunks(deleted, np.zeros_like(sequences), sequences, most_bytes=64 << 20) is None
