"""Reads log files in JSON: commits, log compactions, and V2 checkpoints in JSON.

Each line is one action: ``{"add": {…}}``, ``{"remove": {…}}``, ``{"metaData": {…}}``, …
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from delvec.delta.actions import (
    ADD_TYPE,
    ADDS_SCHEMA,
    CHANGE_FILE_TYPE,
    CHANGE_FILES_SCHEMA,
    NO_CHANGE_FILES,
    REMOVE_TYPE,
    REMOVES_SCHEMA,
    Actions,
    DomainMetadata,
    Metadata,
    SetTransaction,
    flatten,
    parse_domain,
    parse_metadata,
    parse_protocol,
    parse_sidecar,
    parse_txn,
)
from delvec.delta.features import Protocol
from delvec.delta.file_keys import file_keys
from delvec.errors import FormatError


class NotJsonError(FormatError):
    """A line of a log file that is not JSON."""


def parse_actions(data: bytes) -> Actions:
    """The actions of a JSON log file. Unknown actions and fields are ignored, as the protocol requires."""
    adds: list[dict[str, Any]] = []
    removes: list[dict[str, Any]] = []
    change_files: list[dict[str, Any]] = []
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: dict[str, SetTransaction] = {}
    domains: dict[str, DomainMetadata] = {}
    commit_info: dict[str, Any] | None = None
    sidecars: list[str] = []
    for offset, name, body in _lines(data):
        try:
            match name:
                case "add":
                    adds.append(body)
                case "remove":
                    removes.append(body)
                case "cdc":
                    change_files.append(body)
                case "protocol":
                    protocol = parse_protocol(body)
                case "metaData":
                    metadata = parse_metadata(body)
                case "txn":
                    txn = parse_txn(body)
                    txns[txn.app_id] = txn
                case "domainMetadata":
                    domain = parse_domain(body)
                    domains[domain.domain] = domain
                case "commitInfo":
                    commit_info = body
                case "sidecar":
                    sidecars.append(parse_sidecar(body))
        except FormatError as error:
            raise FormatError(error.message, offset=offset) from None
    return Actions(
        adds=flatten(_structs(adds, ADD_TYPE, "add"), ADDS_SCHEMA),
        removes=flatten(_structs(removes, REMOVE_TYPE, "remove"), REMOVES_SCHEMA),
        protocol=protocol,
        metadata=metadata,
        txns=txns,
        domains=domains,
        commit_info=commit_info,
        sidecars=tuple(sidecars),
        change_files=_change_files(change_files),
    )


def _change_files(bodies: list[dict[str, Any]]) -> pa.Table:
    if not bodies:
        return NO_CHANGE_FILES
    return flatten(_structs(bodies, CHANGE_FILE_TYPE, "cdc"), CHANGE_FILES_SCHEMA)


def parse_commit_info(data: bytes) -> dict[str, Any]:
    """Only the ``commitInfo`` of a commit; empty if the commit has none, which the protocol allows."""
    for _, name, body in _lines(data):
        if name == "commitInfo":
            return body
    return {}


def verify_commit(actions: Actions, version: int) -> None:
    """Refuse a commit that adds a path twice or removes it twice, whatever the vectors.

    The actions of a commit have no order, so neither of the two would be the newer one.
    """
    for verb, table in (("adds", actions.adds), ("removes", actions.removes)):
        if (path := _repeated(table.column("path"))) is not None:
            raise FormatError(f"commit {version} {verb} path {path!r} twice, expected once")
    if len(actions.adds) and len(actions.removes):
        in_both = pc.is_in(file_keys(actions.adds), value_set=file_keys(actions.removes))
        if pc.any(in_both).as_py():
            path = actions.adds.column("path").filter(in_both)[0].as_py()
            raise FormatError(
                f"commit {version} adds and removes path {path!r} with one vector, expected two"
            )


def verify_compaction(actions: Actions, name: str) -> None:
    """Refuse a log compaction that adds or removes the same (path, vector) twice."""
    for verb, table in (("adds", actions.adds), ("removes", actions.removes)):
        if (key := _repeated(file_keys(table))) is not None:
            raise FormatError(f"log compaction {name} {verb} {key!r} twice, expected once")


def _repeated(values: pa.ChunkedArray) -> str | None:
    if len(values) < 2 or pc.count_distinct(values).as_py() == len(values):
        return None
    counts = pc.value_counts(values)
    first: str = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")[0].as_py()
    return first


def _lines(data: bytes) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """(offset, action name, action body) of each action whose body is an object."""
    offset = 0
    for line in data.split(b"\n"):
        if line.strip():
            try:
                tree = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise NotJsonError(f"log line is not JSON: {error}", offset=offset) from None
            if not isinstance(tree, dict):
                raise FormatError(f"log line is a {type(tree).__name__}, expected an object", offset=offset)
            for name, body in tree.items():
                if isinstance(body, dict):
                    yield offset, name, body
                elif body is not None:
                    raise FormatError(
                        f"action {name} is a {type(body).__name__}, expected an object", offset=offset
                    )
        offset += len(line) + 1


def _structs(rows: list[dict[str, Any]], kind: pa.StructType, name: str) -> pa.StructArray:
    for row in rows:
        _verify_vector_stated(row, name)
        _verify_whole_numbers(row, name)
        if (vector := row.get("deletionVector")) is not None:
            _verify_whole_numbers(vector, f"{name}.deletionVector")
    try:
        return pa.array(rows, type=kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise FormatError(f"{name} action has a value of the wrong type: {error}") from None


def _verify_vector_stated(row: dict[str, Any], name: str) -> None:
    # Arrow would turn an empty object into nulls, and deleted rows of the file would be live again.
    vector = row.get("deletionVector")
    if vector is not None and not (isinstance(vector, dict) and isinstance(vector.get("storageType"), str)):
        raise FormatError(f"{name} of {row.get('path')!r} has vector {vector!r}, expected a descriptor")


def _verify_whole_numbers(row: dict[str, Any], name: str) -> None:
    # Arrow would cut off the fraction silently.
    for key, value in row.items():
        if isinstance(value, float) and not value.is_integer():
            raise FormatError(f"{name}.{key} is {value!r}, expected a whole number")
