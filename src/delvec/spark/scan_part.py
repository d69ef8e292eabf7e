"""The rows of one native scan with their places, and the data that identifies deleted rows.

The scans of a plan are parts of one table. Verbs filter and join each part and unite the results: a union
ends the code that Spark generates for a scan, so every row would be copied before the filter.

Looking up whether a row is deleted takes time for each row. So deleted rows are filtered out last if that is
safe: after a join or a condition that cannot raise an error. A condition that can raise one must not see a
deleted row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delvec.spark.vector_chunks import CHUNK_BITS, FILE_SHIFT
from delvec.spark.vector_words import Words, is_live

BARRIER = "spark_partition_id() >= 0"
"""A filter that keeps all rows. Spark does not move a condition below a filter that is not deterministic."""

# Spark analyses each part separately. More parts than this are united first.
_MOST_PARTS = 4


@dataclass(frozen=True, slots=True)
class PlaceNames:
    """The columns of a part that are not columns of the table.

    path, row       where the row is (`scan.place_columns`)
    number, index   the number of its file, and its position as Spark's reader returned it; only if rows are
                    deleted
    """

    path: str
    row: str
    number: str
    index: str


@dataclass(frozen=True, slots=True)
class ScanPart:
    """The rows of one scan, deleted rows included.

    ``deleted`` identifies the deleted rows: words for a filter, or chunks to join. None: no row is deleted,
    and the frame has no columns ``number`` and ``index``.
    """

    frame: DataFrame
    names: PlaceNames
    deleted: Words | DataFrame | None = None

    def renamed(self, names: PlaceNames) -> ScanPart:
        """The part with other names for the columns of its places."""
        old, new = self.names, names
        pairs = {old.path: new.path, old.row: new.row, old.number: new.number, old.index: new.index}
        return replace(self, frame=self.frame.withColumnsRenamed(pairs), names=names)

    def live(self) -> DataFrame:
        """The live rows. A condition on them sees no deleted row, whatever Spark's optimizer does."""
        rows = self.without_deleted(self.frame)
        return rows.where(BARRIER) if isinstance(self.deleted, DataFrame) else rows

    def where(self, condition: Column, *, safe: bool) -> DataFrame:
        """The live rows for which the condition is true; ``safe``: the condition cannot raise an error."""
        if safe and self.deleted is not None:
            return self.without_deleted(self.frame.where(condition))
        return self.live().where(condition)

    def join(self, other: DataFrame, on: Column, how: str, *, safe_after: str | None) -> DataFrame:
        """The live rows joined to another frame. Conditions on the pairs see no deleted row either.

        ``safe_after`` is None if ``on`` can raise an error. Otherwise it is a column of the other frame that
        is never negative: the look-up uses it, so that Spark cannot move the look-up below an inner join.
        """
        if safe_after is None or how != "inner" or self.deleted is None:
            return self.live().join(other, on, how)
        return self.without_deleted(self.frame.join(other, on, how), after=safe_after).where(BARRIER)

    def without_deleted(self, frame: DataFrame, *, after: str | None = None) -> DataFrame:
        """The rows of ``frame``, which come from this part, without the deleted ones."""
        names = self.names
        number = names.number if after is None else f"({names.number} + least({after}, 0L))"
        match self.deleted:
            case None:
                return frame
            case Words():
                lost = lost_row(names.index, names.path)
                live = is_live(frame.sparkSession, self.deleted, number=number, row=names.index, lost=lost)
                frame = frame.where(live)
            case chunks:
                condition = deleted_rows(number, names.row, *chunks.columns)
                frame = frame.join(chunks, F.expr(condition), "left_anti")
        return frame.drop(names.number, names.index)


def few_parts(parts: Sequence[ScanPart]) -> Sequence[ScanPart]:
    """The parts, united into one if they are too many to analyse each of them."""
    if len(parts) <= _MOST_PARTS:
        return parts
    return [replace(parts[0], frame=united([part.live() for part in parts]), deleted=None)]


def united(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.union, frames)


def deleted_rows(number: str, row: str, key: str, words: str) -> str:
    """The condition of the join: the row's chunk has this key, and the row's bit is set in its words.

    ``number`` is the number of the row's file, ``row`` its position.
    """
    chunk = f"shiftleft({number}, {FILE_SHIFT}) | shiftright({row}, {CHUNK_BITS})"
    word = f"{words}[CAST(shiftright({row}, 6) & 63 AS INT)]"
    return f"({chunk}) = {key} AND getbit({word}, CAST({row} & 63 AS INT)) = 1"


def lost_row(index: str, name: str) -> str:
    """Raises the error for a row whose position or file is not known."""
    return f"CASE WHEN {index} IS NULL THEN {no_position(name)} ELSE {unknown_file(name)} END"


def unknown_file(name: str) -> str:
    """Raises the error for a row whose file is not in the plan; ``name`` is an expression for its name."""
    return f"raise_error(concat('a scan read a file that is not in its plan: ', {name}))"


def no_position(name: str) -> str:
    """Raises the error for a row whose position is not known."""
    return f"raise_error(concat('this Spark does not provide the positions of rows in ', {name}))"
