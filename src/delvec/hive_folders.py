"""Folder names of the form ``column=value``, as Hive and Spark write them."""

from __future__ import annotations

import re

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""The value in the name of a folder whose partition value is null."""

_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_TO_ESCAPE = re.compile("[\x00-\x1f\x7f\"#%'*/:=?\\\\{\\[\\]^]")


def escaped(text: str) -> str:
    """The text as Spark writes it into the name of a folder."""
    return _TO_ESCAPE.sub(lambda match: f"%{ord(match[0]):02X}", text)


def unescaped(text: str) -> str:
    """The text as Spark decodes it: each escape is a character, never a byte of one."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def folder(column: str, value: str | None) -> str:
    """The folder of a value, given as text."""
    return f"{escaped(column)}={NULL_FOLDER if value is None else escaped(value)}"
