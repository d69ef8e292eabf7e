"""What a writer must do if another writer committed first, for each pair of verbs.

    TOP       commit on top
    CHECK     unite the vectors, if all rows that were read are still live and no new row would have been read
    REPLAN    find again which files to replace, and commit
    KEEP      drop the groups of files that the other writer changed from a compaction, and commit the rest
    KEYS      the same; rows that the other writer deleted by their keys count as rows that it deleted
    RERUN     run the statement again on the newest version

A key delete and an upsert read nothing, so they commit on top of everything but a change of metadata. Their
deletes have the newest sequence number, and so apply to the rows of all commits before them. A compaction on
top of them keeps the sequence number of its old rows, so that these deletes apply to its new files.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from delvec.row_delta import Verb


class Rule(Enum):
    TOP = "commit on top"
    CHECK = "unite the vectors, if no row that was read has changed"
    REPLAN = "plan again"
    KEEP = "drop changed files"
    KEYS = "unite the vectors, if no row that was read has changed or lost its key"
    RERUN = "run again"


_LOSERS = (
    Verb.APPEND,
    Verb.DELETE,
    Verb.UPDATE,
    Verb.MERGE,
    Verb.REPLACE,
    Verb.COMPACT,
    Verb.REWRITE_DELETES,
    Verb.DELETE_KEYS,
    Verb.UPSERT,
    Verb.ALTER,
)

_TOP, _CHECK, _REPLAN, _KEEP, _KEYS, _RERUN = Rule

# A column for each losing verb, in the order of _LOSERS. A change of properties is committed on top of rows.
_BY_WINNER = {
    Verb.APPEND: (_TOP, _CHECK, _CHECK, _CHECK, _REPLAN, _TOP, _CHECK, _TOP, _TOP, _TOP),
    Verb.DELETE: (_TOP, _CHECK, _CHECK, _CHECK, _REPLAN, _KEEP, _CHECK, _TOP, _TOP, _TOP),
    Verb.UPDATE: (_TOP, _CHECK, _CHECK, _CHECK, _REPLAN, _KEEP, _CHECK, _TOP, _TOP, _TOP),
    Verb.MERGE: (_TOP, _CHECK, _CHECK, _CHECK, _REPLAN, _KEEP, _CHECK, _TOP, _TOP, _TOP),
    Verb.REPLACE: (_TOP, _CHECK, _CHECK, _CHECK, _REPLAN, _KEEP, _CHECK, _TOP, _TOP, _TOP),
    Verb.COMPACT: (_TOP, _CHECK, _CHECK, _CHECK, _REPLAN, _KEEP, _CHECK, _TOP, _TOP, _TOP),
    Verb.REWRITE_DELETES: (_TOP, _CHECK, _CHECK, _CHECK, _REPLAN, _KEEP, _CHECK, _TOP, _TOP, _TOP),
    Verb.DELETE_KEYS: (_TOP, _KEYS, _KEYS, _KEYS, _REPLAN, _KEEP, _CHECK, _TOP, _TOP, _TOP),
    Verb.UPSERT: (_TOP, _KEYS, _KEYS, _KEYS, _REPLAN, _KEEP, _CHECK, _TOP, _TOP, _TOP),
    Verb.ALTER: (_RERUN,) * len(_LOSERS),
}

RULES: Mapping[tuple[Verb, Verb], Rule] = MappingProxyType(
    {
        (winner, loser): rule
        for winner, rules in _BY_WINNER.items()
        for loser, rule in zip(_LOSERS, rules, strict=True)
    }
)
"""By the verb that committed first, and the verb that lost."""
