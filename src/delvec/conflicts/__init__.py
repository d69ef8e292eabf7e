"""Who may commit when writers meet: one logic for every format.

rules     verb against verb: what must be looked at before the loser commits
rebase    looking at it: the loser's delta on top of what won, or why the statement must run again
loop      committing until it is settled
"""

from delvec.conflicts.commit_loop import Settled, commit
from delvec.conflicts.rebase import Again, Engine, rebased
from delvec.conflicts.verb_rules import RULES, Rule

__all__ = ["RULES", "Again", "Engine", "Rule", "Settled", "commit", "rebased"]
