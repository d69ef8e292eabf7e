"""Commits that came first, and whether a delta can still stand on top of them.

`conflict` is a function of values alone: what was read and written, and what won. It errs on the side of a
conflict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from delvec import location, predicate
from delvec.delta.actions import Actions
from delvec.delta.commit_file import parse_actions
from delvec.delta.facts import SnapshotFacts
from delvec.delta.file_changes import paths_of
from delvec.delta.lineage import DOMAIN as ROW_TRACKING_DOMAIN
from delvec.delta.log import LOG
from delvec.errors import FormatError, InvalidOperationError
from delvec.predicate import Condition
from delvec.row_delta import RowDelta
from delvec.schema import Primitive, Schema
from delvec.storage import Storage

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot

# Whether they match depends on the session's time zone, which the delta does not tell.
_ZONED = (Primitive("timestamp"), Primitive("date"), Primitive("timestamp_ntz"))


@dataclass(frozen=True, slots=True)
class Winner:
    version: int
    operation: str
    actions: Actions


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a delta read and wrote. ``blind``: it read nothing and removes nothing.

    ``touched`` and ``read`` are paths as recorded; ``condition`` None: every row was read.
    """

    blind: bool
    touched: frozenset[str]
    read: frozenset[str]
    condition: str | None
    app_id: str | None
    schema: Schema
    partition_columns: tuple[str, ...]


def footprint(snapshot: Snapshot, delta: RowDelta) -> Footprint:
    touched = paths_of(snapshot, delta.removed) | paths_of(snapshot, delta.vectors.column("file_id"))
    return Footprint(
        blind=delta.read.blind and not touched,
        touched=touched,
        read=paths_of(snapshot, delta.read.files),
        condition=delta.read.condition,
        app_id=delta.txn.app_id if delta.txn else None,
        schema=snapshot.schema,
        partition_columns=snapshot.partition_columns,
    )


def read_winner(storage: Storage, version: int) -> Winner:
    path = f"{LOG}/{version:020d}.json"
    data = storage.read(path)
    try:
        actions = parse_actions(data)
    except FormatError as error:
        raise error.at(location.join(storage.root, path)) from None
    operation = (actions.commit_info or {}).get("operation")
    return Winner(version, operation if isinstance(operation, str) else "unknown", actions)


def conflict(mine: Footprint, winner: Winner) -> str | None:
    """Why the delta cannot stand on top of the winner; None where it can."""
    won = winner.actions
    if won.protocol is not None:
        return "it changed the protocol"
    if won.metadata is not None:
        return "it changed the table's columns or properties"
    if mine.app_id is not None and mine.app_id in (won.txns or {}):
        return f"it is of the same application {mine.app_id!r}"
    if set(won.domains or {}) - {ROW_TRACKING_DOMAIN}:
        return f"it changed domain metadata {', '.join(sorted(won.domains or {}))}"
    if mine.blind:
        return None
    gone = pc.is_in(
        won.removes.column("path"), value_set=pa.array(sorted(mine.touched | mine.read), pa.string())
    )
    if pc.any(gone).as_py():
        path = won.removes.column("path").filter(gone)[0].as_py()
        return f"it changed or removed file {path}, which this operation {_did(path, mine)}"
    if mine.condition is None and pc.any(won.removes.column("data_change")).as_py():
        return "it removed rows, and this operation read the whole table"
    return _new_rows(mine, won)


def _did(path: str, mine: Footprint) -> str:
    return "changes too" if path in mine.touched else "read"


def _new_rows(mine: Footprint, won: Actions) -> str | None:
    """Whether rows came that the operation would have read; the files it only put vectors on bring none."""
    old = pc.is_in(won.adds.column("path"), value_set=won.removes.column("path"))
    new = won.adds.filter(pc.and_not(pc.fill_null(won.adds.column("data_change"), True), old))  # noqa: FBT003
    if not len(new):
        return None
    if mine.condition is None:
        return "it added rows, and this operation read the whole table"
    if _may_match(mine, new):
        return f"it added rows that may satisfy {mine.condition!r}"
    return None


def _may_match(mine: Footprint, adds: pa.Table) -> bool:
    assert mine.condition is not None
    facts = SnapshotFacts(adds, mine.schema, mine.partition_columns)
    for ansi in (True, False):
        try:
            condition = predicate.parse(mine.condition, mine.schema, ansi=ansi)
        except InvalidOperationError:
            return True  # names of a join's other side, and the like
        if _depends_on_zone(condition, mine.schema) or condition.match(facts).may.any():
            return True
    return False


def _depends_on_zone(condition: Condition, schema: Schema) -> bool:
    for path in condition.columns:
        found = schema.find(path[0], case_sensitive=True)
        if not found or len(path) > 1 or found[0].type in _ZONED:
            return True
    return False
