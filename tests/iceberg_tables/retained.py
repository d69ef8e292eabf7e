"""What Iceberg's rules retain: a naive model, step by step as the specification has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Snapshots = Mapping[int, tuple[int | None, int]]
"""By id: the parent, and the time in milliseconds."""

Refs = Mapping[str, Mapping[str, Any]]
"""As in the metadata."""


def expired(
    snapshots: Snapshots, refs: Refs, properties: Mapping[str, str], now: int, older_than: int
) -> tuple[set[str], set[int]]:
    """The refs and the snapshots that expire. A snapshot of no ref is kept while it is young, as in Java."""
    table_age = properties.get("history.expire.max-ref-age-ms")
    table_least = int(properties.get("history.expire.min-snapshots-to-keep", 1))
    live = {
        name: ref
        for name, ref in refs.items()
        if name == "main"
        or (age := ref.get("max-ref-age-ms", table_age)) is None
        or now - snapshots[ref["snapshot-id"]][1] <= int(age)
    }
    retained, seen = set(), set()
    for ref in live.values():
        chain, at = [], ref["snapshot-id"]
        while at in snapshots:
            chain.append(at)
            at = snapshots[at][0] if ref["type"] == "branch" else None
        retained.add(chain[0])
        seen |= set(chain)
        age = ref.get("max-snapshot-age-ms")
        oldest = older_than if age is None else now - age
        least = ref.get("min-snapshots-to-keep", table_least)
        while chain and (least > 0 or snapshots[chain[0]][1] >= oldest):
            retained.add(chain.pop(0))
            least -= 1
    retained |= {number for number in snapshots if number not in seen and snapshots[number][1] >= older_than}
    return set(refs) - set(live), set(snapshots) - retained
