"""An Avro schema in the form in which its records are read as columns.

Records inside of records take no bytes of their own, so the fields of a record become columns of the record
around it. A column's name is the path of field ids to it: ``2.100`` is the field 100 of the record in the
field 2. A field without an id keeps its name. Logical types are dropped (columns get their types from the
table's metadata), and types that are named again are written out.

    boolean int long float double string bytes      the name
    fixed                                           {"type": "fixed", "name": …, "size": …}
    array                                           {"type": "array", "items": …}
    record inside of an array or of a union         {"type": "record", "name": …, "fields": […]}
    union of null and one type                      ["null", …] or [… , "null"]
    other unions, enum, map                         written out: not every reader has them
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from delvec.errors import FormatError

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "string", "bytes"})
_LEAST_BYTES = {"null": 0, "float": 4, "double": 8}  # all others: 1
_MAX_DEPTH = 32
_MAX_TYPES = 20_000
_MAX_FIXED = 64 * 1024

Json = Any


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """The columns of records, in the order of their bytes: each with its type.

    ``least_bytes``: no record has fewer.
    """

    columns: Mapping[str, Json]
    least_bytes: int

    @property
    def json(self) -> Json:
        """The schema of one flat record with these columns."""
        fields = [{"name": name, "type": kind} for name, kind in self.columns.items()]
        return {"type": "record", "name": "entry", "fields": fields}


def flatten(schema: Json) -> RecordSchema:
    """The columns of the records that ``schema`` describes."""
    reader = _Reader()
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise FormatError("Avro schema is not a record")
    columns: dict[str, Json] = {}
    least = reader.flatten(schema, "", columns, depth=0)
    return RecordSchema(columns, least)


@dataclass(slots=True)
class _Reader:
    """``named``: the definitions so far. ``count``: types written out, to bound what references repeat."""

    named: dict[str, Json] = field(default_factory=dict)
    count: int = 0

    def flatten(self, record: Json, path: str, columns: dict[str, Json], *, depth: int) -> int:
        """Add the columns of ``record`` to ``columns``. Returns the least number of bytes of a record."""
        self._step(depth)
        self._define(record)
        least = 0
        for item in _fields(record):
            name = path + _name(item)
            kind = self._resolved(item.get("type"))
            if isinstance(kind, dict) and kind.get("type") == "record":
                least += self.flatten(kind, f"{name}.", columns, depth=depth + 1)
                continue
            if name in columns:
                raise FormatError(f"Avro schema has the field {name} twice")
            columns[name], size = self._type(kind, depth=depth + 1)
            least += size
        return least

    def _type(self, kind: Json, *, depth: int) -> tuple[Json, int]:
        """The type in plain form, and the least number of bytes of its values."""
        self._step(depth)
        kind = self._resolved(kind)
        if isinstance(kind, list):
            branches = [self._type(branch, depth=depth + 1) for branch in kind]
            if not branches:
                raise FormatError("Avro schema has a union of no types")
            return [plain for plain, _ in branches], 1 + min(size for _, size in branches)
        if isinstance(kind, str):
            return kind, _LEAST_BYTES.get(kind, 1)
        self._define(kind)
        match kind["type"]:
            case "record":
                return self._record(kind, depth)
            case "array":
                items, size = self._type(kind.get("items"), depth=depth + 1)
                if not size:  # a false number of items would not end with the data
                    raise FormatError("Avro schema has an array whose items take no bytes")
                return {"type": "array", "items": items}, 1
            case "map":
                return {"type": "map", "values": self._type(kind.get("values"), depth=depth + 1)[0]}, 1
            case "fixed":
                return self._fixed(kind.get("size"))
            case "enum":
                return {"type": "enum", "name": f"e{self.count}", "symbols": kind.get("symbols")}, 1
        raise FormatError(f"Avro schema has the type {str(kind['type'])[:40]!r}")

    def _record(self, record: Json, depth: int) -> tuple[Json, int]:
        name, fields, least = f"r{self.count}", [], 0
        for item in _fields(record):
            plain, size = self._type(item.get("type"), depth=depth + 1)
            fields.append({"name": _name(item), "type": plain})
            least += size
        return {"type": "record", "name": name, "fields": fields}, least

    def _fixed(self, size: Json) -> tuple[Json, int]:
        if not isinstance(size, int) or not 0 <= size <= _MAX_FIXED:
            raise FormatError(f"Avro schema has a fixed type of {size!s:.20} bytes")
        return {"type": "fixed", "name": f"x{self.count}", "size": size}, size

    def _resolved(self, kind: Json) -> Json:
        """The type without names of other types and without objects that only hold a primitive type."""
        for _ in range(_MAX_DEPTH):
            if isinstance(kind, dict) and isinstance(kind.get("type"), dict | list):
                kind = kind["type"]
            elif isinstance(kind, dict) and isinstance(kind.get("type"), str):
                if kind["type"] not in _PRIMITIVES and kind["type"] not in self.named:
                    return kind
                kind = kind["type"]
            elif isinstance(kind, list) or (isinstance(kind, str) and kind in _PRIMITIVES):
                return kind
            elif isinstance(kind, str) and kind in self.named:
                return self.named[kind]
            else:
                break
        raise FormatError(f"Avro schema has the type {kind!s:.40}")

    def _define(self, kind: Json) -> None:
        name = kind.get("name")
        if isinstance(name, str):
            space = kind.get("namespace")
            self.named[name] = kind
            if isinstance(space, str):
                self.named[f"{space}.{name}"] = kind

    def _step(self, depth: int) -> None:
        self.count += 1
        if depth > _MAX_DEPTH or self.count > _MAX_TYPES:
            raise FormatError("Avro schema is nested too deep or has too many types")


def _fields(record: Json) -> list[dict[str, Json]]:
    fields = record.get("fields")
    if not isinstance(fields, list) or not all(isinstance(item, dict) for item in fields):
        raise FormatError("Avro schema has a record without a list of fields")
    return fields


def _name(item: Mapping[str, Json]) -> str:
    """The field's id as text; its name if it has no id."""
    field_id = item.get("field-id")
    if isinstance(field_id, int):
        return str(field_id)
    if not isinstance(item.get("name"), str):
        raise FormatError("Avro schema has a field without a name")
    return str(item["name"])
