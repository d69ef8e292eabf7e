"""Equality deletes against a plain Python model: random files, sequences, partitions, columns, values and
encodings.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from delvec.deletes.equality import EqualityDeletes
from delvec.schema import Field, Primitive, Struct
from equality_tables import EqualityTable, by_connector, ordered

SCHEMA = Struct(
    (
        Field("a", Primitive("long"), field_id=1),
        Field("b", Primitive("string"), field_id=2),
        Field("c", Primitive("double"), field_id=3),
    )
)
ROW = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-2, 5) | st.sampled_from([2**56 - 1, 2**56, -(2**63)]),
        "b": st.none() | st.sampled_from(["", "x", "y"]),
        "c": st.none() | st.sampled_from([0.0, -0.0, float("nan"), 1.5]),
    }
)
KEYS = st.sampled_from([["a"], ["a"], ["b"], ["c"], ["c", "a"], ["a", "b", "c"]])
PARTITION = st.none() | st.integers(0, 1)
DATA = st.tuples(st.lists(ROW, max_size=8), st.integers(0, 3), st.integers(0, 1))
DELETE = st.tuples(st.lists(ROW, max_size=5), KEYS, st.integers(1, 3), PARTITION, st.booleans())


@settings(max_examples=100, deadline=None)
@given(st.lists(DATA, min_size=1, max_size=4), st.lists(DELETE, max_size=5))
def test_live_rows(data: list[Any], deletes: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = EqualityTable(Path(folder), SCHEMA)
        for rows, sequence, partition in data:
            table.data(rows, sequence, partition)
        for rows, columns, sequence, partition, as_vector in deletes:
            table.delete(rows, columns, sequence, partition, as_vector=as_vector)
        plan = table.plan()
        assert ordered(by_connector(plan)) == ordered(table.live())
        layers = EqualityDeletes.of(plan).layers
        assert len(layers) <= 2 * len({tuple(sorted(columns)) for _, columns, _, _, _ in deletes})


def test_a_row_of_the_same_sequence_is_not_deleted(tmp_path: Path) -> None:
    """Also if an older file needs that delete, and a newer delete applies to the file."""
    table = EqualityTable(tmp_path, SCHEMA)
    for sequence in (1, 2):
        table.data([{"a": 1}, {"a": 9}], sequence)
    table.delete([{"a": 1}], ["a"], 2)
    table.delete([{"a": 9}], ["a"], 3)
    assert [row["a"] for row in by_connector(table.plan())] == [1]
