"""Avro schemas as Iceberg writes them: each field has an id, which is how readers find it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from delvec.iceberg.avro_schema import Json
from delvec.schema import DataType, Decimal, Fixed, Primitive


def required(field_id: int, name: str, kind: Json) -> Json:
    return {"name": name, "type": kind, "field-id": field_id}


def optional(field_id: int, name: str, kind: Json) -> Json:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}


def record(name: str, fields: Iterable[Json]) -> Json:
    return {"type": "record", "name": name, "fields": list(fields)}


def list_of(element_id: int, kind: Json) -> Json:
    return {"type": "array", "items": kind, "element-id": element_id}


def map_of(key_id: int, value_id: int, kind: Json) -> Json:
    """A map by column ids. Avro's own maps have only texts as keys."""
    fields = [required(key_id, "key", "int"), required(value_id, "value", kind)]
    return {"type": "array", "logicalType": "map", "items": record(f"k{key_id}_v{value_id}", fields)}


_TYPES: Mapping[str, Json] = MappingProxyType(
    {
        "boolean": "boolean",
        "integer": "int",
        "long": "long",
        "float": "float",
        "double": "double",
        "string": "string",
        "binary": "bytes",
        "date": {"type": "int", "logicalType": "date"},
        "time": {"type": "long", "logicalType": "time-micros"},
        "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
        "timestamp_ntz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
        "timestamp_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
        "timestamp_ntz_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
        "uuid": {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"},
    }
)


def avro_type(data_type: DataType) -> Json:
    """The Avro type of partition values; ``null`` for types that have none."""
    match data_type:
        case Decimal(precision, scale):
            return {
                "type": "fixed",
                "name": f"decimal_{precision}_{scale}",
                "size": ((10**precision).bit_length() + 8) // 8,
                "logicalType": "decimal",
                "precision": precision,
                "scale": scale,
            }
        case Fixed(length):
            return {"type": "fixed", "name": f"fixed_{length}", "size": length}
        case Primitive(name):
            return _TYPES.get(name, "null")
    return "null"


class TypeNames:
    """Avro defines a type with a name once; later uses give the name."""

    def __init__(self) -> None:
        self._defined: set[str] = set()

    def once(self, kind: Json) -> Json:
        """The type, or its name if it was defined before."""
        if not isinstance(kind, dict) or "name" not in kind:
            return kind
        if kind["name"] in self._defined:
            return kind["name"]
        self._defined.add(kind["name"])
        return kind


def avro_name(name: str) -> str:
    """The name in characters that Avro allows; others become ``_x`` and their number in hexadecimal."""
    written = re.sub(r"[^A-Za-z0-9_]", lambda match: f"_x{ord(match[0]):X}", name)
    return f"_{written}" if written[:1].isdigit() else written
