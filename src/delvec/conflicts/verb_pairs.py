"""What a writer must do if another writer committed first, for each pair of verbs.

    TOP       commit on top
    CHECK     unite the vectors, if all rows that were read are still live and no new row would have been read
    REPLAN    find again which files to replace, and commit
    KEEP      drop the groups of files that the other writer changed from a compaction, and commit the rest
    KEYS      check the new rows' keys against the other writer's
    RERUN     run the statement again on the newest version

The table has rules for the verbs on keys already, though delvec does not have these verbs yet.
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
    KEYS = "check keys"
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
    Verb.DELETE_KEYS: (_TOP, _TOP, _KEYS, _KEYS, _REPLAN, _KEYS, _CHECK, _TOP, _TOP, _TOP),
    Verb.UPSERT: (_TOP, _CHECK, _KEYS, _KEYS, _REPLAN, _KEYS, _CHECK, _TOP, _TOP, _TOP),
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
