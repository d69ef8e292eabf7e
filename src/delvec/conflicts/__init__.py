"""Conflicts between concurrent writers, for every format.

rebase            decides: moves a delta on top of the commits that were first, or returns the conflict
verb_pairs        for each pair of verbs: what must be checked before the second writer commits
winners           the commits that were first, with their files as ids
kept_groups       a compaction without the groups of files that other commits changed
key_deletes       conflicts of deletes by key that no row decides
contended_files   files that both writers changed, with the rows that each deleted
commit_loop       commits, and rebases after each lost attempt
probe             questions of the checks to the statement that made the delta
"""

from delvec.conflicts.commit_loop import Rerun, Settled, commit
from delvec.conflicts.conflict import Conflict
from delvec.conflicts.probe import ConflictProbe, ReadsNoRows
from delvec.conflicts.rebase import Rebased, rebased
from delvec.conflicts.verb_pairs import RULES, Rule

__all__ = [
    "RULES",
    "Conflict",
    "ConflictProbe",
    "ReadsNoRows",
    "Rebased",
    "Rerun",
    "Rule",
    "Settled",
    "commit",
    "rebased",
]
