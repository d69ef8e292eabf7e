"""Partition transforms: functions from a column's value to the partition value of its row.

    identity                 the value itself
    bucket[N]                a hash of the value, modulo N
    truncate[W]              the next multiple of W below a number; the first W characters or bytes
    year, month, day, hour   the number of whole units since 1970-01-01 00:00 UTC, negative before it
    void                     null

The names are those of Iceberg's specification. `spark.transforms` computes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from delvec.errors import InvalidOperationError
from delvec.schema import Array, DataType, Decimal, Fixed, Map, Primitive, Struct, is_string

_WITH_WIDTH = re.compile(r"(bucket|truncate)\[(\d{1,10})\]")
_MAX_WIDTH = 2**31 - 1
_SQL_NAMES = {"year": "years", "month": "months", "day": "days", "hour": "hours"}

_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_TIMESTAMPS = frozenset({"timestamp", "timestamp_ntz", "timestamp_ns", "timestamp_ntz_ns"})
_SOURCES: dict[str, frozenset[str]] = {
    "bucket": _INTEGERS | _TIMESTAMPS | {"date", "time", "string", "binary", "uuid"},
    "truncate": _INTEGERS | {"string", "binary"},
    "year": _TIMESTAMPS | {"date"},
    "month": _TIMESTAMPS | {"date"},
    "day": _TIMESTAMPS | {"date"},
    "hour": _TIMESTAMPS,
}


@dataclass(frozen=True, slots=True)
class Transform:
    """A transform by its name; ``width`` is the N of a bucket and the W of a truncate.

    A transform that delvec does not know has its whole text as the name. It can be compared, but never
    computed.
    """

    name: str
    width: int | None = None

    def __str__(self) -> str:
        return self.name if self.width is None else f"{self.name}[{self.width}]"

    @property
    def is_known(self) -> bool:
        if self.name in ("bucket", "truncate"):
            return self.width is not None and 0 < self.width <= _MAX_WIDTH
        return self.width is None and self.name in (*_SOURCES, IDENTITY.name, VOID.name)

    def of(self, column: str) -> str:
        """The transform of a column as SQL's PARTITIONED BY has it: ``bucket(16, id)``."""
        if self == IDENTITY:
            return column
        name = _SQL_NAMES.get(self.name, self.name)
        return f"{name}({column})" if self.width is None else f"{name}({self.width}, {column})"

    def result_type(self, source: DataType) -> DataType:
        """The type of the partition values of a column of type ``source``.

        A transform that is unknown, or is not defined for the type, is refused (InvalidOperationError).
        """
        if not self.is_known:
            raise InvalidOperationError(
                f"partition transform {self} is unknown, expected identity, bucket[N], truncate[W], year, "
                "month, day, hour or void"
            )
        if not self._accepts(source):
            raise InvalidOperationError(f"partition transform {self} is not defined for type {source}")
        match self.name:
            case "bucket" | "year" | "month" | "hour":
                return Primitive("integer")
            case "day":
                return Primitive("date")
            case "truncate" if is_string(source):
                return Primitive("string")
        return source

    def _accepts(self, source: DataType) -> bool:
        match self.name, source:
            case "void", _:
                return True
            case _, Struct() | Array() | Map() | Primitive("variant" | "void" | "geometry" | "geography"):
                return False
            case "identity", _:
                return True
            case name, Primitive(kind):
                return kind in _SOURCES[name]
            case name, Decimal():
                return name in ("bucket", "truncate")
            case name, Fixed():
                return name == "bucket"
        return False


IDENTITY = Transform("identity")
VOID = Transform("void")


def parse_transform(text: str) -> Transform:
    """The transform that a table's metadata names. Any other text is one that delvec does not know."""
    if match := _WITH_WIDTH.fullmatch(text):
        parsed = Transform(match[1], int(match[2]))
        return parsed if parsed.is_known else Transform(text)
    return Transform(text)
