"""Verb against verb: what the loser of a race must do, given what won.

    TOP       commit on top
    CHECK     unite the vectors, where no row that was read is gone and no new row would have been read
    REPLAN    find anew which files to replace, and commit
    KEEP      drop what the winner touched from a compaction, and commit the rest
    KEYS      check the new rows' keys against the winner's
    AGAIN     run the statement again on the newest version

The verbs on keys, and compaction, are here before delvec has them: their rules are part of the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from delvec.row_delta import Verb


class Rule(Enum):
    TOP = "commit on top"
    CHECK = "unite, where nothing read has changed"
    REPLAN = "plan anew"
    KEEP = "drop what was touched"
    KEYS = "check keys"
    AGAIN = "run again"


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

_TOP, _CHECK, _REPLAN, _KEEP, _KEYS, _AGAIN = Rule

# A column for each loser, in the order of _LOSERS. A change of properties alone stands on top of rows.
_BY_WINNER = {
    Verb.APPEND: (_TOP, _CHECK, _CHECK, _CHECK, _REPLAN, _TOP, _KEYS, _TOP, _TOP, _TOP),
    Verb.DELETE: (_TOP, _CHECK, _CHECK, _CHECK, _REPLAN, _KEEP, _CHECK, _TOP, _TOP, _TOP),
    Verb.UPDATE: (_TOP, _CHECK, _CHECK, _CHECK, _REPLAN, _KEEP, _KEYS, _TOP, _TOP, _TOP),
    Verb.MERGE: (_TOP, _CHECK, _CHECK, _CHECK, _REPLAN, _KEEP, _KEYS, _TOP, _TOP, _TOP),
    Verb.REPLACE: (_TOP, _CHECK, _CHECK, _CHECK, _REPLAN, _KEEP, _KEYS, _TOP, _TOP, _TOP),
    Verb.COMPACT: (_TOP, _CHECK, _CHECK, _CHECK, _REPLAN, _KEEP, _CHECK, _TOP, _TOP, _TOP),
    Verb.REWRITE_DELETES: (_TOP, _CHECK, _CHECK, _CHECK, _REPLAN, _KEEP, _CHECK, _TOP, _TOP, _TOP),
    Verb.DELETE_KEYS: (_TOP, _TOP, _KEYS, _KEYS, _REPLAN, _KEYS, _KEYS, _TOP, _TOP, _TOP),
    Verb.UPSERT: (_TOP, _CHECK, _KEYS, _KEYS, _REPLAN, _KEYS, _KEYS, _TOP, _TOP, _TOP),
    Verb.ALTER: (_AGAIN,) * len(_LOSERS),
}

RULES: Mapping[tuple[Verb, Verb], Rule] = MappingProxyType(
    {
        (winner, loser): rule
        for winner, rules in _BY_WINNER.items()
        for loser, rule in zip(_LOSERS, rules, strict=True)
    }
)
"""By winner and loser."""
