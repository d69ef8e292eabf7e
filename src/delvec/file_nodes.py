"""Data files and their deletes as nodes of a `MetadataTree`, for every format."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from delvec import location
from delvec.chunked import Rows
from delvec.deletes.deletes_of_files import match_deletes, match_equality_files
from delvec.metadata_tree import BYTES, Node
from delvec.plan import DELETION_VECTOR, EQUALITY_FILE, POSITION_FILE, POSITION_VECTOR, ScanPlan

_KINDS = {POSITION_VECTOR: "vector", POSITION_FILE: "position deletes", EQUALITY_FILE: "equality deletes"}


def file_nodes(plan: ScanPlan, rows: Rows) -> list[Node]:
    """The files of the plan at the ascending ``rows``. Their children are the deletes that apply to them."""
    selected = plan.at(rows)
    deletes: dict[int, list[int]] = defaultdict(list)
    for matches in (match_deletes(selected), match_equality_files(selected)):
        for file, delete in zip(matches.file.tolist(), matches.delete.tolist(), strict=True):
            deletes[file].append(delete)
    return [_file_node(plan, file, deletes[number]) for number, file in enumerate(selected.files.to_pylist())]


def delete_nodes(root: str, deletes: pa.Table, *, of_file: bool = False) -> list[Node]:
    """Deletes of the table at ``root``, with the columns of ``ScanPlan.deletes``. ``of_file``: they are shown
    below their data file, whose name is not repeated.
    """
    return [_delete_node(root, delete, of_file=of_file) for delete in deletes.to_pylist()]


def _file_node(plan: ScanPlan, file: Mapping[str, Any], deletes: Sequence[int]) -> Node:
    facts = {
        "rows": file["record_count"],
        BYTES: file["size"],
        "partition": plan.partition_of(file),
        "sequence": file["data_sequence"],
    }
    return Node(
        "data file",
        _short(plan.location, file["location"]),
        facts,
        len(deletes),
        lambda count: delete_nodes(
            plan.location, plan.deletes.take(pa.array(deletes[:count], pa.int64())), of_file=True
        ),
    )


def _delete_node(root: str, delete: Mapping[str, Any], *, of_file: bool) -> Node:
    is_vector = delete["kind"] == POSITION_VECTOR
    inline, offset = delete["location"] is None, delete["offset"]
    name = "inline" if inline else _short(root, delete["location"])
    facts = {
        "deleted rows" if is_vector else "rows": delete["cardinality"],
        BYTES: delete["length"],
        "field ids": delete["field_ids"],
        "sequence": delete["sequence"],
        "of": None if of_file or not delete["referenced_file"] else _short(root, delete["referenced_file"]),
    }
    kind = _KINDS.get(delete["kind"], delete["kind"])
    if delete["kind"] == EQUALITY_FILE and delete["encoding"] == DELETION_VECTOR:
        kind = "vector of keys"
    return Node(kind, name if offset is None or inline else f"{name} @ {offset}", facts)


def _short(root: str, place: str) -> str:
    """The path relative to the table; the whole location of a file outside of it."""
    return location.relative(root, place) or place
