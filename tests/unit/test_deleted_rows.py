"""``ScanPlan.deleted_rows``: the count that the metadata records, or null where a delete may apply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from delvec.plan import DELETES_SCHEMA, FILES_SCHEMA
from delvec.schema import NO_FIELDS
from equality_tables import EqualityTable

VECTOR = {"kind": "position-vector", "encoding": "deletion-vector", "length": 1, "cardinality": 4}
POSITIONS = {"kind": "position-file", "encoding": "full-row", "length": 1, "cardinality": 9}
VALUES = {"kind": "equality-file", "encoding": "full-row", "length": 1, "cardinality": 9}

CASES = [
    (5, None, [], 0),
    (5, VECTOR, [], 4),
    (5, None, [POSITIONS | {"sequence": 4}], 0),
    (5, None, [POSITIONS | {"sequence": 5}], None),
    (5, VECTOR, [POSITIONS | {"sequence": 6}], 4),
    (5, None, [VALUES | {"sequence": 5}], 0),
    (5, None, [VALUES | {"sequence": 6}], None),
    (5, VECTOR, [VALUES | {"sequence": 6}], None),
    (5, None, [VALUES | {"sequence": 3}, POSITIONS | {"sequence": 7}], None),
    (None, None, [POSITIONS | {"sequence": 0}], None),
    (5, None, [VALUES], None),
    (5, None, [VECTOR], None),
]


@pytest.mark.parametrize(("sequence", "vector", "group", "expected"), CASES)
def test_is_known_only_if_no_other_delete_applies(
    tmp_path: Any, sequence: int | None, vector: Any, group: Any, expected: int | None
) -> None:
    deletes = pa.Table.from_pylist([*group, *([vector] if vector else [])], schema=DELETES_SCHEMA)
    file: dict[str, Any] = {
        name: (FILES_SCHEMA.field(name).type == pa.string() and "x") or 0
        for name in FILES_SCHEMA.names
        if not FILES_SCHEMA.field(name).nullable
    }
    file |= {"data_sequence": sequence, "vector": len(group) if vector else None}
    file |= {"delete_group": 0 if group else None}
    other = {**file, "vector": None, "delete_group": None}
    files = pa.Table.from_pylist([file, other], schema=FILES_SCHEMA)
    groups = (tuple(range(len(group))),) if group else ()
    plan = replace(
        EqualityTable(tmp_path, NO_FIELDS).plan(), files=files, deletes=deletes, delete_groups=groups
    )
    assert plan.deleted_rows.to_pylist() == [expected, 0]
