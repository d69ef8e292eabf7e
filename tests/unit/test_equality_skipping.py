"""Equality deletes that a scan does not load: by the bounds of the data files, and by the condition."""

from __future__ import annotations

import random

import numpy as np
import pytest

from delvec.deletes.equality import NO_SCOPE
from delvec.deletes.equality_skipping import needed_deletes
from delvec.deletes.loader import DeleteLoader
from delvec.predicate import parse
from delvec.schema import Field, Primitive, Struct
from delvec.storage import Storage
from equality_tables import EqualityTable

SCHEMA = Struct((Field("id", Primitive("long"), field_id=1), Field("x", Primitive("integer"), field_id=2)))


def keys(*numbers):
    return [{"id": number} for number in numbers]


@pytest.fixture
def table(tmp_path):
    """Two files with the ids 0 to 9 and 100 to 109, and a delete in each of them, between them and above."""
    table = EqualityTable(tmp_path, SCHEMA)
    for first in (0, 100):
        table.data([{"id": first + n, "x": n} for n in range(10)], 1)
    table.bounds["id"] = [(0, 9, 0), (100, 109, 0)]
    for number in (5, 50, 104, 500):
        table.delete(keys(number, number + 1), ["id"], 2, as_vector=True)
    return table


def lowest(deletes):
    return sorted(number for layer in deletes.layers for number in layer.deletes.column("lower").to_pylist())


def condition(text):
    return parse(text, SCHEMA)


def test_deletes_that_meet_no_file_are_not_needed(table):
    assert lowest(needed_deletes(table.plan())) == [5, 104]


def test_files_that_meet_no_delete_are_plain(tmp_path, table):
    table.data(keys(70, 71), 1)
    table.bounds["id"].append((60, 80, 0))
    (layer,) = needed_deletes(table.plan()).layers
    assert (layer.scope != NO_SCOPE).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 5", [5]),
        ("id = 3", []),
        ("id BETWEEN 90 AND 200", [104]),
        ("id IN (1, 2, 6)", [5]),
        ("id > 1000", []),
        ("id IS NULL", []),
        ("x = 1", [5, 104]),
        ("id = 3 AND x = 1", []),
        ("id = 3 OR x = 1", [5, 104]),
        ("NOT id < 100", [104]),
        ("id + 1 = 3", [5, 104]),
        # A condition that could fail for a deleted row sees none.
        ("id = 3 AND 1 / x > 0", [5, 104]),
    ],
)
def test_deletes_that_the_condition_excludes_are_not_needed(table, text, expected):
    assert lowest(needed_deletes(table.plan(), condition(text))) == expected


def test_without_bounds_every_delete_is_needed(table):
    table.bounds.clear()
    assert lowest(needed_deletes(table.plan())) == [5, 50, 104, 500]
    assert lowest(needed_deletes(table.plan(), condition("id = 50"))) == [50]
    table.delete(keys(1), ["id"], 2)  # full rows without recorded bounds
    found = needed_deletes(table.plan(), condition("id = 50"))
    assert [len(layer.deletes) for layer in found.layers] == [2]


def test_keys_that_may_be_null_have_no_bounds(table):
    table.data([{"id": None}], 1)
    table.bounds["id"].append((None, None, 1))
    table.delete([{"id": None}], ["id"], 2)
    (layer,) = needed_deletes(table.plan()).layers
    assert None in layer.deletes.column("lower").to_pylist()
    assert (layer.scope != NO_SCOPE).all()


def test_nothing_is_read_for_a_plan(table, monkeypatch):
    read = []
    original = Storage.read

    def recorded(self, path):
        read.append(path)
        return original(self, path)

    monkeypatch.setattr(Storage, "read", recorded)
    found = needed_deletes(table.plan(), condition("id = 5"))
    assert read == []
    loader = DeleteLoader(Storage(str(table.root)))
    assert loader.load_keys(found.layers[0]).keys.column("key_0").to_pylist() == [5, 6]
    assert len(read) == 1


def test_no_needed_delete_is_left_out(tmp_path):
    """Random ranges, against a comparison of each delete with each file."""
    rng = random.Random(4)
    for round_number in range(30):
        folder = tmp_path / str(round_number)
        folder.mkdir()
        table = EqualityTable(folder, SCHEMA)
        files = [sorted(rng.sample(range(60), 2)) for _ in range(rng.randrange(1, 6))]
        places = [rng.randrange(2) for _ in files]
        for (low, high), place in zip(files, places, strict=True):
            table.data(keys(low, high), 1, place)
        table.bounds["id"] = [(low, high, 0) for low, high in files]
        deletes = [(sorted(rng.sample(range(60), 2)), rng.choice([None, 0, 1])) for _ in range(6)]
        for (low, high), place in deletes:
            table.delete(keys(low, high), ["id"], 2, place, as_vector=True)
        pairs = [
            (file, delete)
            for file, ((low, high), place) in enumerate(zip(files, places, strict=True))
            for delete, ((first, last), scope) in enumerate(deletes)
            if scope in (None, place) and first <= high and last >= low
        ]
        found = needed_deletes(table.plan())
        names = {name for layer in found.layers for name in layer.deletes.column("location").to_pylist()}
        assert names == {str(folder / f"deletes-{delete}.puffin") for _, delete in pairs}
        assert np.flatnonzero(found.has_deletes).tolist() == sorted({file for file, _ in pairs})
