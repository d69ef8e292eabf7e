"""The declared types of columns with ``char`` and ``varchar``, in the text form that Spark records.

Spark stores such a column as a string and records its type in the column's metadata:
``struct<a:char(4),n:int>``. The column's type is known, so it guides the parser of this text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from delvec.schema import Array, DataType, Field, Map, Primitive, Struct, Text, char, is_string, varchar

CHAR_OR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""The key of the declared type in Spark's metadata of a column."""

COLLATIONS = "__COLLATIONS"
"""The key of the collations of a column and its fields in Spark's metadata."""

_CHAR = re.compile(r"(?<!var)char\(")

_SQL_NAMES = MappingProxyType({"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"})
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LENGTH = re.compile(r"(var)?char\((\d+)\)", re.IGNORECASE)
_ANY_TYPE = re.compile(r"[a-z_0-9]+(\s+collate\s+\w+)?(\(\s*\d+\s*(,\s*-?\d+\s*)?\))?", re.IGNORECASE)


def is_collated(metadata: Mapping[str, Any]) -> bool:
    """Whether Spark's metadata of the column has a collation, or a padded type, for any of its strings."""
    declared_type = str(metadata.get(CHAR_OR_VARCHAR, "")).lower()
    return COLLATIONS in metadata or _CHAR.search(declared_type) is not None


def declared(data_type: DataType, *, physical: bool = False) -> str:
    """The type in SQL; ``physical``: with the names of fields in data files."""
    match data_type:
        case Array(element):
            return f"array<{declared(element, physical=physical)}>"
        case Map(key, value):
            return f"map<{declared(key, physical=physical)},{declared(value, physical=physical)}>"
        case Struct(fields):
            return f"struct<{','.join(_declared_field(field, physical=physical) for field in fields)}>"
        case Primitive(name) if not isinstance(data_type, Text):
            return _SQL_NAMES.get(name, name)
    return str(data_type)


def _declared_field(field: Field, *, physical: bool) -> str:
    name = field.physical_name if physical else field.name
    quoted = name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"
    return f"{quoted}:{declared(field.type, physical=physical)}"


def with_lengths(data_type: DataType, text: str) -> DataType:
    """``data_type`` with the string lengths that ``text`` declares; ValueError if the text is another
    type.
    """
    reader = _Reader(text)
    result = reader.read(data_type)
    reader.verify_end()
    return result


class _Reader:
    """Parses the text of a declared type, guided by the type that it must have."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self, data_type: DataType) -> DataType:
        match data_type:
            case Array(element):
                self._expect("array<")
                element = self.read(element)
                self._expect(">")
                return replace(data_type, element=element)
            case Map(key, value):
                self._expect("map<")
                key = self.read(key)
                self._expect(",")
                value = self.read(value)
                self._expect(">")
                return replace(data_type, key=key, value=value)
            case Struct(fields):
                return self._struct(fields)
        return self._leaf(data_type)

    def verify_end(self) -> None:
        if self._rest().strip():
            raise ValueError(f"{self._rest()!r} after the type")

    def _struct(self, fields: tuple[Field, ...]) -> Struct:
        self._expect("struct<")
        declared_fields = []
        for number, field in enumerate(fields):
            if number:
                self._expect(",")
            self._name(field.name)
            self._expect(":")
            declared_fields.append(_with_type(field, self.read(field.type)))
        self._expect(">")
        return Struct(tuple(declared_fields))

    def _leaf(self, data_type: DataType) -> DataType:
        self._skip_spaces()
        length = _LENGTH.match(self._text, self._at)
        if length and is_string(data_type):
            self._at = length.end()
            return (varchar if length[1] else char)(int(length[2]))
        match = _ANY_TYPE.match(self._text, self._at)
        if match is None:
            raise ValueError(f"{self._rest()!r} where a type is expected")
        self._at = match.end()
        return data_type

    def _name(self, name: str) -> None:
        quoted = "`" + name.replace("`", "``") + "`"
        self._expect(quoted if self._rest().lstrip().startswith("`") else name)

    def _expect(self, words: str) -> None:
        self._skip_spaces()
        if not self._rest().lower().startswith(words.lower()):
            raise ValueError(f"{self._rest()!r} where {words!r} is expected")
        self._at += len(words)

    def _skip_spaces(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _rest(self) -> str:
        return self._text[self._at :]


def _with_type(field: Field, data_type: DataType) -> Field:
    return field if data_type == field.type else replace(field, type=data_type)
