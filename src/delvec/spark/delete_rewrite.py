"""What a rewriting of deletes is asked for, and what it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql import Column

from delvec.errors import InvalidOperationError
from delvec.plan import DELETION_VECTOR, EQUALITY_FILE, FULL_ROW, POSITION_FILE, POSITION_VECTOR
from delvec.row_delta import Operation, Request
from delvec.spark.target import OperationResult, shown

VECTORS, POSITIONS, KEY_VECTORS = "deletion-vector", "position-deletes", "equality-vector"
"""What deletes can become: position vectors, position-delete files, vectors of keys."""

_AUTO, _VECTOR, _ROWS, _RESERVED = "auto", "deletion-vector", "full-row", "hash-map"
_ENCODINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {VECTORS: (_AUTO, _VECTOR), POSITIONS: (_AUTO, _ROWS), KEY_VECTORS: (_AUTO, _VECTOR)}
)


@dataclass(frozen=True, slots=True)
class DeleteRewrite:
    """What to rewrite.

    to         what the deletes become
    where      a condition on partition columns: the data files whose deletes are rewritten
    encoding   how the new deletes are stored; ``auto`` and None leave it to delvec. For vectors of keys,
               ``deletion-vector`` makes vectors also of keys that are far apart
    """

    to: str = VECTORS
    where: str | Column | None = None
    encoding: str | None = None

    @property
    def request(self) -> Request:
        condition = None if self.where is None else shown(self.where)
        return Request(Operation.REWRITE_DELETES, condition, deletes_to=self.to)

    def verify(self) -> None:
        if self.to not in _ENCODINGS:
            raise InvalidOperationError(f"to is {self.to!r}, expected one of {', '.join(_ENCODINGS)}")
        if self.encoding == _RESERVED:
            raise InvalidOperationError(
                f"encoding {_RESERVED!r} is reserved, expected one of {', '.join(_ENCODINGS[self.to])}"
            )
        if self.encoding is not None and self.encoding not in _ENCODINGS[self.to]:
            raise InvalidOperationError(
                f"encoding is {self.encoding!r}, expected one of {', '.join(_ENCODINGS[self.to])} with "
                f"to={self.to!r}"
            )


@dataclass(frozen=True, slots=True)
class DeletesRewritten(OperationResult):
    """What a rewriting of deletes did.

    to          what the deletes became
    files       the data files whose deletes were looked at, because deletes of another form apply to them
    rows        the rows of these files whose delete is now stored in the new form
    keys        the keys that are now in vectors of keys
    superseded  the keys that were dropped, because a later delete has them too
    removed     the removed deletes by kind: ``position files``, ``equality files``, ``equality vectors``, and
                ``unused vectors``, whose data files are gone
    kept        the deletes of another form that stay: they apply to data files that were not selected, or
                ``refused`` has a reason
    refused     how many deletes could not become vectors of keys, by reason
    dry_run     nothing was changed, and no row or key was counted
    """

    to: str = VECTORS
    files: int = 0
    rows: int = 0
    keys: int = 0
    superseded: int = 0
    removed: Mapping[str, int] = field(default_factory=dict)
    kept: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    dry_run: bool = False


_KINDS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        (POSITION_FILE, FULL_ROW): "position files",
        (EQUALITY_FILE, FULL_ROW): "equality files",
        (EQUALITY_FILE, DELETION_VECTOR): "equality vectors",
        (POSITION_VECTOR, DELETION_VECTOR): "unused vectors",
    }
)


def kind_counts(deletes: pa.Table) -> dict[str, int]:
    """The number of deletes by kind, for people. A vector of positions is removed only if it is unused."""
    columns = (deletes.column(name).to_pylist() for name in ("kind", "encoding"))
    counts = Counter(zip(*columns, strict=True))
    return {name: counts[pair] for pair, name in _KINDS.items() if counts[pair]}
