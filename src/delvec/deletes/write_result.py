"""What a writer of deletes has written: its files, and the keys that could not be in a vector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from delvec.deletes.encoding import DeleteEncoding
from delvec.deletes.model import DeleteFile


class Fallback(Enum):
    """Why keys are written as full rows on a table that allows vectors of keys. The value ends the name of
    the metric.
    """

    COMPOSITE = "CompositeKey"
    TYPE = "KeyType"
    FORMAT_VERSION = "FormatVersion"
    NULL = "Null"
    NEGATIVE = "Negative"
    TOO_LARGE = "TooLarge"
    SPARSE = "Sparse"
    SIZE = "Size"
    MANY = "Many"


REASONS: Mapping[Fallback, str] = {
    Fallback.COMPOSITE: "the key has several columns",
    Fallback.TYPE: "the key's type has no codec that is used without a hint",
    Fallback.FORMAT_VERSION: "the table's format version has no vectors",
    Fallback.NULL: "the key is null",
    Fallback.NEGATIVE: "the key is negative",
    Fallback.TOO_LARGE: "the key is above the largest number of a vector",
    Fallback.SPARSE: "the keys are too sparse",
    Fallback.SIZE: "the rows are smaller than the vector",
    Fallback.MANY: "there are too many keys for one machine to make a vector of",
}


@dataclass(frozen=True, slots=True)
class DeleteWriteResult:
    """The files that a writer wrote; none if it got no delete.

    fallbacks   the number of keys in full rows that a vector could not have, by the reason
    """

    files: tuple[DeleteFile, ...] = ()
    fallbacks: Mapping[Fallback, int] = field(default_factory=dict)

    @classmethod
    def united(cls, results: Iterable[DeleteWriteResult]) -> DeleteWriteResult:
        """The result of several writers."""
        files: tuple[DeleteFile, ...] = ()
        fallbacks: dict[Fallback, int] = {}
        for result in results:
            files += result.files
            for reason, count in result.fallbacks.items():
                fallbacks[reason] = fallbacks.get(reason, 0) + count
        return cls(files, fallbacks)

    @property
    def metrics(self) -> dict[str, int]:
        """The counts of keys under the names that results of verbs have."""
        counts = {"numKeysInVectors": 0, "numKeysInRows": 0}
        for file in self.files:
            is_vector = file.encoding is DeleteEncoding.DELETION_VECTOR
            counts["numKeysInVectors" if is_vector else "numKeysInRows"] += file.record_count
        return counts | {f"numKeysInRows{reason.value}": count for reason, count in self.fallbacks.items()}
