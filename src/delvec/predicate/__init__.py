"""Conditions for pruning: which files may have a matching row, and which have only matching rows.

condition      the value `Condition`, and `parse`, which makes it from Spark SQL text
settings       the session settings that change how Spark reads a condition
parser         Spark SQL text to a tree of conditions that can be judged
binding        names in a condition, resolved to columns
tree           the tree
literals       values of literals
date_times     dates and times in literals
comparison     a literal, converted to the type of the column that it is compared with
value_ranges   facts about a column as ranges of its values
file_pruning   the tree, judged over the facts about each file
"""

from delvec.predicate.condition import Condition, Matches, parse
from delvec.predicate.settings import SPARK_DEFAULTS, SqlSettings

__all__ = ["SPARK_DEFAULTS", "Condition", "Matches", "SqlSettings", "parse"]
