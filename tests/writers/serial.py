"""A table in plain Python, changed by one statement at a time: what any number of writers must amount to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from writers.statements import (
    APPEND,
    CREATE,
    DELETE,
    DELETE_KEYS,
    MERGE,
    OPTIMIZE,
    OVERWRITE,
    PROPERTIES,
    PURGE,
    UPDATE,
    UPSERT,
    VACUUM,
    Row,
    Statement,
)

OPERATIONS = {
    APPEND: "WRITE",
    DELETE: "DELETE",
    UPDATE: "UPDATE",
    MERGE: "MERGE",
    OVERWRITE: "WRITE",
    OPTIMIZE: "OPTIMIZE",
    PURGE: "REORG",
    DELETE_KEYS: "DELETE",
    UPSERT: "MERGE",
}
"""The verbs as the history names them."""

SNAPSHOTS = {
    APPEND: ("append",),
    DELETE: ("delete", "overwrite"),
    UPDATE: ("overwrite",),
    MERGE: ("append", "delete", "overwrite"),
    OVERWRITE: ("append", "delete", "overwrite"),
    OPTIMIZE: ("replace",),
    PURGE: ("replace",),
    DELETE_KEYS: ("delete", "overwrite"),
    UPSERT: ("append", "overwrite"),
}
"""The operations that snapshots may have, where the history has no verbs."""


@dataclass(frozen=True, slots=True)
class State:
    """A version of the table. ``rows`` is None where there is no table yet."""

    rows: tuple[Row, ...] | None = None
    properties: dict[str, str] = field(default_factory=dict)
    app_versions: dict[int, int] = field(default_factory=dict)


def after(state: State, statement: Statement) -> tuple[State, dict[str, int]]:
    """The table after the statement, and the counts that the statement must report."""
    match statement.verb:
        case verb if verb == CREATE:
            return State(statement.rows, dict(statement.properties)), {}
        case verb if verb == PROPERTIES:
            return replace(state, properties=state.properties | dict(statement.properties)), {}
        case verb if verb in (OPTIMIZE, PURGE, VACUUM):
            return state, {}
    assert state.rows is not None
    rows, counts = _CHANGES[statement.verb](state.rows, statement)
    if statement.app_version is None:
        return replace(state, rows=rows), counts
    if state.app_versions.get(statement.token, -1) >= statement.app_version:
        return state, {"numOutputRows": 0}
    counted = state.app_versions | {statement.token: statement.app_version}
    return replace(state, rows=rows, app_versions=counted), counts


def _appended(rows: tuple[Row, ...], statement: Statement) -> tuple[tuple[Row, ...], dict[str, int]]:
    new = statement.rows
    if statement.merge_schema:
        names = list(dict.fromkeys(name for row in (*rows, *new) for name in row))
        rows, new = _widened(rows, names), _widened(new, names)
    return rows + new, {"numOutputRows": len(new)}


def _widened(rows: Iterable[Row], names: list[str]) -> tuple[Row, ...]:
    return tuple({name: row.get(name) for name in names} for row in rows)


def _deleted(rows: tuple[Row, ...], statement: Statement) -> tuple[tuple[Row, ...], dict[str, int]]:
    left = tuple(row for row in rows if not statement.matches(row))
    return left, {"numDeletedRows": len(rows) - len(left)}


def _updated(rows: tuple[Row, ...], statement: Statement) -> tuple[tuple[Row, ...], dict[str, int]]:
    def changed(row: Row) -> Row:
        p = (row["p"] + 1) % 3 if statement.moves else row["p"]
        return {**row, "p": p, "v": statement.token, "n": row["n"] + 1}

    count = sum(map(statement.matches, rows))
    new = tuple(changed(row) if statement.matches(row) else row for row in rows)
    return new, {"numUpdatedRows": count}


def _merged(rows: tuple[Row, ...], statement: Statement) -> tuple[tuple[Row, ...], dict[str, int]]:
    source = {row["id"]: row for row in statement.rows}
    limit = statement.delete_from
    new: list[Row] = []
    updated = 0
    for row in rows:
        match = source.get(row["id"])
        if match is None:
            new.append(row)
        elif limit is None or row["n"] < limit:
            new.append({**row, "p": match["p"], "v": match["v"], "n": row["n"] + 1})
            updated += 1
    deleted = len(rows) - len(new)
    known = {row["id"] for row in rows}
    inserted = [row for row in statement.rows if row["id"] not in known]
    counts = {
        "numTargetRowsUpdated": updated,
        "numTargetRowsDeleted": deleted,
        "numTargetRowsInserted": len(inserted),
    }
    return (*new, *inserted), counts


def _overwritten(rows: tuple[Row, ...], statement: Statement) -> tuple[tuple[Row, ...], dict[str, int]]:
    left = tuple(row for row in rows if not statement.matches(row))
    counts = {"numDeletedRows": len(rows) - len(left), "numOutputRows": len(statement.rows)}
    return left + statement.rows, counts


def _without_keys(rows: tuple[Row, ...], statement: Statement) -> tuple[tuple[Row, ...], dict[str, int]]:
    ids = {row["id"] for row in statement.rows}
    left = tuple(row for row in rows if row["id"] not in ids)
    return left, {"numKeys": len(ids), "numDeletedRows": len(rows) - len(left)}


def _upserted(rows: tuple[Row, ...], statement: Statement) -> tuple[tuple[Row, ...], dict[str, int]]:
    left, counts = _without_keys(rows, statement)
    return left + statement.rows, counts | {"numOutputRows": len(statement.rows)}


_CHANGES: dict[str, Any] = {
    APPEND: _appended,
    DELETE: _deleted,
    UPDATE: _updated,
    MERGE: _merged,
    OVERWRITE: _overwritten,
    DELETE_KEYS: _without_keys,
    UPSERT: _upserted,
}
