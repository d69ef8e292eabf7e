"""Conditions for pruning: which files may have a matching row, and which have only matching rows.

A condition is parsed from Spark SQL text and bound to the columns of a table. It is judged by facts about
files (bounds, counts, partition values), never by rows. It is three-valued as in SQL: a row matches if the
condition is TRUE; NULL is no match.

Some parts decide nothing: functions, arithmetic, subqueries, comparisons of two columns, and comparisons in
which Spark converts the column instead of the literal. Such a part could also raise an error when it runs,
and a delete from metadata alone would hide that error. So a condition with such a part never says that a file
has *only* matching rows.

The text is read under the session's settings (``delvec.predicate.settings``). Settings that delvec does not
follow can change the meaning of escapes in strings and of ``${…}``; parts that contain these decide nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from delvec.file_facts import ColumnPath, FileFacts
from delvec.predicate.binding import Names, referenced
from delvec.predicate.file_pruning import Judgement
from delvec.predicate.literals import Reading
from delvec.predicate.parser import parse_expression, translate
from delvec.predicate.settings import SPARK_DEFAULTS, SqlSettings
from delvec.predicate.tree import UNDECIDED, Node, is_decided
from delvec.predicate.value_ranges import surely, unpacked
from delvec.schema import Schema


@dataclass(frozen=True, slots=True)
class Matches:
    """Two answers per file, as numpy boolean arrays.

    may    the file may have a row for which the condition is TRUE
    only   the condition is TRUE for every live row of the file
    """

    may: npt.NDArray[np.bool_]
    only: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition bound to a schema, with the settings under which it was read.

    ``columns`` are all columns that it names, in the schema's spelling, also those in parts that decide
    nothing.
    """

    text: str
    settings: SqlSettings
    columns: frozenset[ColumnPath]
    tree: Node = field(repr=False)

    def match(self, facts: FileFacts) -> Matches:
        """Judges each file. Nothing is concluded about a file that is recorded as empty."""
        outcomes = Judgement(facts).outcomes(self.tree)
        empty = surely(pc.equal(facts.record_count, 0))
        may = pc.or_(outcomes.true, empty)
        only = np.zeros(facts.count, dtype=np.bool_)
        if is_decided(self.tree):
            other = pc.or_(pc.or_(outcomes.false, outcomes.null), empty)
            only = unpacked(pc.and_not(outcomes.true, other))  # no outcome is possible if facts contradict
        return Matches(unpacked(may), only)


def parse(text: str, schema: Schema, settings: SqlSettings = SPARK_DEFAULTS) -> Condition:
    """The condition in ``text`` over the columns of ``schema``.

    Refuses text that is not one expression, and names that no column has or several columns have.
    """
    tree = parse_expression(text, settings)
    names = Names(schema, settings.case_sensitive, text)
    columns = referenced(tree, names)
    node: Node = UNDECIDED
    if is_readable(text, settings):
        node = translate(tree, names, Reading.of(text, settings))
    return Condition(text, settings, columns, node)


def is_readable(text: str, settings: SqlSettings) -> bool:
    """Whether delvec is certain to parse the expression as Spark does.

    Spark may substitute variables, end comments at another place, and keep escapes in names.
    """
    if "\\" in text and ("--" in text or (settings.double_quoted_names and '"' in text)):
        return False
    return settings.known and "${" not in text and not ("--" in text and "\r" in text)
