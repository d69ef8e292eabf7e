"""Iceberg tables are read so far. Every way to change one ends here."""

from __future__ import annotations

from typing import NoReturn

from delvec.errors import UnsupportedFeatureError


def refuse_writing(location: str) -> NoReturn:
    raise UnsupportedFeatureError(
        f"Iceberg tables cannot be written yet: {location}", feature="iceberg write"
    )
