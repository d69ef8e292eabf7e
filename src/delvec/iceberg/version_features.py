"""Format versions: which of them delvec writes, and which one a schema needs, by its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from delvec.errors import UnsupportedFeatureError

READABLE_VERSIONS = (1, 2, 3, 4)
WRITABLE_VERSIONS = (2, 3, 4)

_TYPES_OF_V3 = ("timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "geography")


def verify_readable_version(version: int, path: str) -> None:
    """Refuse a table of a format version that delvec does not read."""
    if version not in READABLE_VERSIONS:
        raise UnsupportedFeatureError(
            f"Iceberg format version is {version}, expected 1, 2, 3 or 4: {path}",
            feature=f"format version {version}",
        )


def verify_writable_version(version: int, location: str) -> None:
    """Refuse a table of a format version that delvec does not write."""
    if version not in WRITABLE_VERSIONS:
        raise UnsupportedFeatureError(
            f"Iceberg format version is {version}, which delvec only reads, expected 2, 3 or 4 (upgrade): "
            f"{location}",
            feature=f"format version {version}",
        )


def verify_schema_version(schema: Mapping[str, Any], version: int) -> None:
    """Refuse a type that this format version does not have, and a default for rows that exist already."""
    if version >= 3:
        return
    for name, data_type, default in _columns(schema, ""):
        if data_type.startswith(_TYPES_OF_V3):
            raise UnsupportedFeatureError(
                f"column {name} is of type {data_type}, expected a type of format version {version}: this "
                "type needs version 3",
                feature=f"type {data_type}",
            )
        if default is not None:
            raise UnsupportedFeatureError(
                f"column {name} has the initial default {default!r}, expected none: defaults need format "
                "version 3",
                feature="initial-default",
            )


def _columns(tree: Any, where: str) -> Iterator[tuple[str, str, Any]]:
    """Each place that has a primitive type: its name, its type, its initial default."""
    for field in tree.get("fields", ()):
        name = f"{where}{field['name']}"
        yield from _places(field["type"], name, field.get("initial-default"))


def _places(data_type: Any, name: str, default: Any) -> Iterator[tuple[str, str, Any]]:
    if isinstance(data_type, str):
        yield name, data_type, default
        return
    if default is not None:
        yield name, str(data_type["type"]), default
    yield from _columns(data_type, f"{name}.")
    for part in ("element", "key", "value"):
        if part in data_type:
            yield from _places(data_type[part], f"{name}.{part}", None)
