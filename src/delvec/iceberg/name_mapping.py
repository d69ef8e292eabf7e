"""Name mappings: the field ids of columns in data files that record no ids.

    schema.name-mapping.default = [{"field-id": 1, "names": ["id", "order_id"], "fields": [...]}, …]

Each name has one field id among its siblings. The elements of a list are named ``element``, the keys and
values of a map ``key`` and ``value``. Without ``field-id`` the entry maps no column, only those inside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from delvec.errors import FormatError
from delvec.iceberg.json_object import JsonObject, parse_json, short_text

PROPERTY = "schema.name-mapping.default"

_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class MappedField:
    """The field id of a name, and the names of the fields inside that field."""

    field_id: int | None
    inside: NameMapping


@dataclass(frozen=True, slots=True)
class NameMapping:
    """The fields of a struct, or of a data file, by the names that they may have in data files."""

    by_name: Mapping[str, MappedField] = field(default_factory=dict)

    def find(self, name: str) -> MappedField | None:
        return self.by_name.get(name)


def table_name_mapping(properties: Mapping[str, str]) -> NameMapping | None:
    """The name mapping in a table's properties; None if it has none."""
    text = properties.get(PROPERTY)
    if text is None:
        return None
    tree = parse_json(text, f"property {PROPERTY}")
    if not isinstance(tree, list):
        raise FormatError(f"property {PROPERTY} is {short_text(tree)}, expected a list")
    return _mapping([JsonObject(item, f"an item of {PROPERTY}") for item in tree], depth=0)


def _mapping(items: list[JsonObject], *, depth: int) -> NameMapping:
    if depth > _MAX_DEPTH:
        raise FormatError(f"property {PROPERTY} is nested more than {_MAX_DEPTH} times")
    by_name: dict[str, MappedField] = {}
    for item in items:
        mapped = MappedField(
            item.number_or_none("field-id"), _mapping(item.children("fields"), depth=depth + 1)
        )
        for name in item.texts("names"):
            if name in by_name:
                raise FormatError(f"property {PROPERTY} maps the name {name!r} twice, expected once")
            by_name[name] = mapped
    return NameMapping(by_name)
