"""A JSON object whose members are checked when they are read: a wrong type is a FormatError that names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from delvec.errors import FormatError


class JsonObject:
    """An object in a JSON document. ``where`` names it in errors: ``snapshot 3``."""

    __slots__ = ("members", "where")

    def __init__(self, members: Any, where: str) -> None:
        if not isinstance(members, dict):
            raise FormatError(f"{where} is {short_text(members)}, expected an object")
        self.members: dict[str, Any] = members
        self.where = where

    @classmethod
    def parse(cls, text: bytes | str, where: str) -> JsonObject:
        """The object in ``text``, a JSON document."""
        return cls(parse_json(text, where), where)

    def has(self, key: str) -> bool:
        """Whether the member is there and is not null."""
        return self.members.get(key) is not None

    def number(self, key: str, default: int | None = None) -> int:
        """An integer; ``default`` if it is missing, or refused without a default."""
        value = self.number_or_none(key)
        return int(self._required(key, default, "a number")) if value is None else value

    def number_or_none(self, key: str) -> int | None:
        value = self.members.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise self._wrong(key, "a number")

    def text(self, key: str, default: str | None = None) -> str:
        """A text; ``default`` if it is missing, or refused without a default."""
        value = self.text_or_none(key)
        return str(self._required(key, default, "a text")) if value is None else value

    def text_or_none(self, key: str) -> str | None:
        value = self.members.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self._wrong(key, "a text")

    def flag(self, key: str, *, default: bool | None = None) -> bool:
        """True or false; ``default`` if it is missing, or refused without a default."""
        value = self.members.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return bool(self._required(key, default, "true or false")) if value is None else value

    def child(self, key: str) -> JsonObject:
        """The object ``key``."""
        return JsonObject(self.members.get(key), self._name(key))

    def children(self, key: str) -> list[JsonObject]:
        """The objects of the list ``key``; none if it is missing."""
        return [JsonObject(item, f"an item of {self._name(key)}") for item in self._list(key)]

    def texts(self, key: str) -> list[str]:
        """The texts of the list ``key``; none if it is missing."""
        items = self._list(key)
        if not all(isinstance(item, str) for item in items):
            raise self._wrong(key, "a list of texts")
        return items

    def numbers(self, key: str) -> list[int]:
        """The integers of the list ``key``; none if it is missing."""
        items = self._list(key)
        if not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
            raise self._wrong(key, "a list of numbers")
        return items

    def text_map(self, key: str) -> Mapping[str, str]:
        """The object ``key`` whose members are all texts; empty if it is missing."""
        members = self.members.get(key)
        if members is None:
            return {}
        if not isinstance(members, dict) or not all(isinstance(value, str) for value in members.values()):
            raise self._wrong(key, "an object of texts")
        return members

    def _list(self, key: str) -> list[Any]:
        items = self.members.get(key)
        if items is None:
            return []
        if not isinstance(items, list):
            raise self._wrong(key, "a list")
        return items

    def _required(self, key: str, default: Any, expected: str) -> Any:
        if default is None:
            raise self._wrong(key, expected)
        return default

    def _name(self, key: str) -> str:
        return f"{key} of {self.where}"

    def _wrong(self, key: str, expected: str) -> FormatError:
        found = short_text(self.members[key]) if key in self.members else "missing"
        return FormatError(f"{self._name(key)} is {found}, expected {expected}")


def parse_json(text: bytes | str, where: str) -> Any:
    """The value of a JSON document; FormatError if it is not one."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise FormatError(f"{where} is not JSON: {error}") from None


def short_text(value: Any) -> str:
    """A value for an error message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
