"""Reads the commits of other writers as ``Won``, for `delvec.conflicts`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from delvec import location
from delvec.delta.action_reader import parse_actions
from delvec.delta.actions import Actions
from delvec.delta.log_files import LOG
from delvec.delta.row_ids import DOMAIN as ROW_TRACKING_DOMAIN
from delvec.errors import FormatError, ObjectNotFoundError
from delvec.row_delta import Verb, Won
from delvec.storage import Storage


def read_winner(storage: Storage, version: int) -> Won:
    """What the commit did. A commit that is no longer in the log may have changed anything."""
    path = f"{LOG}/{version:020d}.json"
    try:
        actions = parse_actions(storage.read(path))
    except ObjectNotFoundError:
        return Won(version, "unknown", Verb.ALTER, changed="what is no longer in the log")
    except FormatError as error:
        raise error.at(location.join(storage.root, path)) from None
    return _won(version, actions)


def _won(version: int, actions: Actions) -> Won:
    operation = (actions.commit_info or {}).get("operation")
    adds, removes = _files(actions.adds), _files(actions.removes)
    is_readded = pc.is_in(removes.column("path"), value_set=adds.column("path"))
    removed = removes.filter(pc.invert(is_readded))
    has_larger_vector = _have_larger_vectors(adds, removes.filter(is_readded))
    has_new_rows = pc.and_(pc.invert(has_larger_vector), adds.column("data_change"))
    has_moved_rows = pc.and_(pc.invert(has_larger_vector), pc.invert(adds.column("data_change")))
    added, carried, vectors = (
        adds.column("path").filter(mask).combine_chunks()
        for mask in (has_new_rows, has_moved_rows, has_larger_vector)
    )
    changed = _metadata_change(actions)
    return Won(
        version,
        operation if isinstance(operation, str) else "unknown",
        _verb(changed, adds, removed, vectors, added),
        changed=changed,
        blind=(actions.commit_info or {}).get("isBlindAppend") is True,
        app_ids=frozenset(actions.txns or {}),
        added=added,
        removed=removed.column("path").combine_chunks(),
        rearranged=removed.filter(pc.invert(removed.column("data_change"))).column("path").combine_chunks(),
        carried=carried,
        vectors=vectors,
    )


def _files(actions: pa.Table) -> pa.Table:
    """Path, data_change and the number of deleted rows of each file."""
    return pa.table(
        {
            "path": actions.column("path"),
            "data_change": pc.fill_null(actions.column("data_change"), True),  # noqa: FBT003
            "deleted": pc.fill_null(actions.column("dv_cardinality"), 0),
        }
    )


def _have_larger_vectors(adds: pa.Table, replaced: pa.Table) -> pa.ChunkedArray:
    """Whether each added file only has more deleted rows than before.

    A file with as many or fewer deleted rows counts as a file with new rows.
    """
    positions = pc.index_in(adds.column("path"), value_set=replaced.column("path").combine_chunks())
    before = replaced.column("deleted").take(positions)
    return pc.fill_null(pc.greater(adds.column("deleted"), before), False)  # noqa: FBT003


def _metadata_change(actions: Actions) -> str | None:
    if actions.protocol is not None:
        return "the protocol"
    if actions.metadata is not None:
        return "the table's columns or properties"
    domains = set(actions.domains or {}) - {ROW_TRACKING_DOMAIN}
    return f"domain metadata {', '.join(sorted(domains))}" if domains else None


def _verb(changed: str | None, adds: pa.Table, removed: pa.Table, vectors: pa.Array, added: pa.Array) -> Verb:
    """The kind of the commit, derived from its actions: the names of operations differ between engines."""
    if changed is not None:
        return Verb.ALTER
    deletes_rows = len(vectors) > 0 or bool(pc.any(removed.column("data_change")).as_py())
    if not len(added) and not deletes_rows and (len(adds) or len(removed)):
        return Verb.COMPACT if len(removed) else Verb.REWRITE_DELETES
    if deletes_rows:
        return Verb.UPDATE if len(added) else Verb.DELETE
    return Verb.APPEND
