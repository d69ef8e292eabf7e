"""Values of table properties. A value that cannot be read is refused by the property's name."""

from __future__ import annotations

from collections.abc import Mapping

from delvec.errors import InvalidOperationError


def flag(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    """A property that is true or false. Iceberg's own library takes any other text as false."""
    text = properties.get(name)
    return default if text is None else text.strip().lower() == "true"


def whole_number(properties: Mapping[str, str], name: str, *, default: int, least: int = 0) -> int:
    """A property that is a whole number, ``least`` or more."""
    text = properties.get(name)
    if text is None:
        return default
    number = int(text) if text.strip().lstrip("-").isdecimal() else None
    if number is None or number < least:
        raise InvalidOperationError(f"property {name} is {text!r}, expected a whole number, {least} or more")
    return number
