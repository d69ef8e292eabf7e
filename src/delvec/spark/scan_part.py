"""The rows of one native scan with their places, and the vectors that leave the deleted ones out.

A scan with vectors and one without are parts of one table. What filters or joins their rows does so part by
part: a union ends the code that Spark generates for a scan, and every row would be written out before it.

Vectors cost time for each row that they are asked about. So they are applied last where that is safe: after a
join or a condition that cannot raise an error. A condition that can must not see a deleted row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delvec.spark.vector_filter import Words, is_live
from delvec.spark.vector_join import CHUNK_BITS, FILE_SHIFT

# Spark moves no condition below a filter that is not deterministic.
_BARRIER = "spark_partition_id() >= 0"
# Each part is analysed by itself: more of them are united first.
_MOST_PARTS = 4


@dataclass(frozen=True, slots=True)
class PlaceNames:
    """The columns of a part that are not the table's.

    path, row   where the row is (`scan.place_columns`)
    number      of its file, and ``index``, the position as Spark's reader gave it: to look up vectors
    """

    path: str
    row: str
    number: str
    index: str


@dataclass(frozen=True, slots=True)
class ScanPart:
    """The rows of one scan, deleted ones among them. ``vectors``: words, or chunks to join; None: no row is
    deleted, and the frame has neither ``number`` nor ``index``.
    """

    frame: DataFrame
    names: PlaceNames
    vectors: Words | DataFrame | None = None

    def renamed(self, names: PlaceNames) -> ScanPart:
        """The part with its places under other names."""
        old, new = self.names, names
        pairs = {old.path: new.path, old.row: new.row, old.number: new.number, old.index: new.index}
        return replace(self, frame=self.frame.withColumnsRenamed(pairs), names=names)

    def live(self) -> DataFrame:
        """The live rows. A condition that is put on them sees no other row, whatever Spark does."""
        rows = self.without_deleted(self.frame)
        return rows.where(_BARRIER) if isinstance(self.vectors, DataFrame) else rows

    def where(self, condition: Column, *, safe: bool) -> DataFrame:
        """The live rows for which the condition is true; ``safe``: it cannot raise an error."""
        if safe and self.vectors is not None:
            return self.without_deleted(self.frame.where(condition))
        return self.live().where(condition)

    def join(self, other: DataFrame, on: Column, how: str, *, safe_after: str | None) -> DataFrame:
        """The live rows joined to another frame.

        ``safe_after``: where ``on`` cannot raise an error, a column of the other frame that is never
        negative. Vectors are looked up by it too, so that Spark cannot do it before an inner join. Conditions
        that are put on the pairs see no deleted row either.
        """
        if safe_after is None or how != "inner" or self.vectors is None:
            return self.live().join(other, on, how)
        return self.without_deleted(self.frame.join(other, on, how), after=safe_after).where(_BARRIER)

    def without_deleted(self, frame: DataFrame, *, after: str | None = None) -> DataFrame:
        """The rows of ``frame``, which come from this part, but for the deleted ones."""
        names = self.names
        number = names.number if after is None else f"({names.number} + least({after}, 0L))"
        match self.vectors:
            case None:
                return frame
            case Words():
                lost = lost_row(names.index, names.path)
                live = is_live(frame.sparkSession, self.vectors, number=number, row=names.index, lost=lost)
                frame = frame.where(live)
            case chunks:
                deleted = deleted_rows(number, names.row, *chunks.columns)
                frame = frame.join(chunks, F.expr(deleted), "left_anti")
        return frame.drop(names.number, names.index)


def few_parts(parts: Sequence[ScanPart]) -> Sequence[ScanPart]:
    """The parts, united where each of them would be analysed too often."""
    if len(parts) <= _MOST_PARTS:
        return parts
    return [replace(parts[0], frame=united([part.live() for part in parts]), vectors=None)]


def united(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.union, frames)


def deleted_rows(number: str, row: str, key: str, words: str) -> str:
    """The condition of the join: that a row, by its file's number and its position, is in a chunk of vectors
    and its bit is set there.
    """
    chunk = f"shiftleft({number}, {FILE_SHIFT}) | shiftright({row}, {CHUNK_BITS})"
    word = f"{words}[CAST(shiftright({row}, 6) & 63 AS INT)]"
    return f"({chunk}) = {key} AND getbit({word}, CAST({row} & 63 AS INT)) = 1"


def lost_row(index: str, name: str) -> str:
    """What a row comes to where its position or its file is not known."""
    return f"CASE WHEN {index} IS NULL THEN {no_position(name)} ELSE {unknown_file(name)} END"


def unknown_file(name: str) -> str:
    """What a row comes to where its file is none of the plan's; ``name``: the expression for its name."""
    return f"raise_error(concat('a scan read a file that is not in its plan: ', {name}))"


def no_position(name: str) -> str:
    """What a row comes to where its position is not known."""
    return f"raise_error(concat('this Spark does not provide the positions of rows in ', {name}))"
