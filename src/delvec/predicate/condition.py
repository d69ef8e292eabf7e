"""Conditions for pruning: which files may hold a matching row, and which hold only such rows.

A condition is Spark SQL text. It is judged from facts about files (bounds, counts, partition values)
and never from rows, three-valued as in SQL: a row matches where the condition is TRUE; NULL is no match.

What cannot be understood decides nothing: functions, arithmetic, subqueries, comparisons of two
columns, and comparisons in which Spark would convert the column rather than the literal. Such a part
could also raise an error when it runs, and a delete from metadata alone would hide that error; so a
condition with such a part never says of a file that it holds *only* matching rows.

The text is read under the session's settings (``delvec.predicate.settings``). Where it holds what settings
that are not looked at read in another way (escapes in strings, ``${…}``), the parts that depend on it decide
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from delvec.file_facts import ColumnPath, FileFacts
from delvec.predicate.binding import Names, referenced
from delvec.predicate.evaluation import Judgement
from delvec.predicate.literals import Reading
from delvec.predicate.parser import parse_expression, translate
from delvec.predicate.settings import SPARK_DEFAULTS, SqlSettings
from delvec.predicate.tree import UNDECIDED, Node, is_decided
from delvec.predicate.value_ranges import surely, unpacked
from delvec.schema import Schema


@dataclass(frozen=True, slots=True)
class Matches:
    """Two answers per file, as numpy boolean arrays.

    ``may``: the file may hold a row for which the condition is TRUE. ``only``: the condition is TRUE
    for every live row of the file.
    """

    may: npt.NDArray[np.bool_]
    only: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition bound to a schema, with the settings under which it was read.

    ``columns`` are the columns it names, in the schema's spelling, those in parts that decide nothing
    as well.
    """

    text: str
    settings: SqlSettings
    columns: frozenset[ColumnPath]
    tree: Node = field(repr=False)

    def match(self, facts: FileFacts) -> Matches:
        """What the condition makes of each file. A file recorded as empty is not decided upon."""
        found = Judgement(facts).outcomes(self.tree)
        empty = surely(pc.equal(facts.record_count, 0))
        may = pc.or_(found.true, empty)
        only = np.zeros(facts.count, dtype=np.bool_)
        if is_decided(self.tree):
            other = pc.or_(pc.or_(found.false, found.null), empty)
            only = unpacked(pc.and_not(found.true, other))  # nothing possible: facts that contradict
        return Matches(unpacked(may), only)


def parse(text: str, schema: Schema, settings: SqlSettings = SPARK_DEFAULTS) -> Condition:
    """The condition that ``text`` is, over the columns of ``schema``.

    Refuses what is no expression, more than one, or names a column that the schema does not have or
    has twice.
    """
    tree = parse_expression(text, settings)
    names = Names(schema, settings.case_sensitive, text)
    columns = referenced(tree, names)
    node: Node = UNDECIDED
    if is_readable(text, settings):
        node = translate(tree, names, Reading.of(text, settings))
    return Condition(text, settings, columns, node)


def is_readable(text: str, settings: SqlSettings) -> bool:
    """Whether delvec is sure to see the expression that Spark sees.

    Spark may fill in variables, end comments elsewhere, and keep escapes in names.
    """
    if "\\" in text and ("--" in text or (settings.double_quoted_names and '"' in text)):
        return False
    return settings.known and "${" not in text and not ("--" in text and "\r" in text)
