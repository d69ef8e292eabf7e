"""Kinds of tables of the toy format: proof that the engine and the values in the middle know no format."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contract.kinds.kind import NUMBERED, POSITION_FILES, REQUESTS, VECTORS_OFF, Kind, Written
from contract.kinds.toy_format import DELETES, MANIFESTS, ToyTable
from delvec import detect
from delvec.storage import Storage

_PROPERTIES = {VECTORS_OFF: {DELETES: "rewrite"}, POSITION_FILES: {DELETES: "position file"}}


def _is_toy(storage: Storage) -> bool:
    return bool(storage.list_folder(MANIFESTS))


TOY = detect.Format("Toy", MANIFESTS, _is_toy, ToyTable, re.compile(rf"(.+?)/{MANIFESTS}/.+"))


@dataclass(frozen=True)
class ToyKind(Kind):
    def properties(self, *features: str) -> Mapping[str, str]:
        return {key: value for feature in features for key, value in _PROPERTIES[feature].items()}

    def constraint(self, name: str, condition: str) -> Mapping[str, str]:
        pytest.skip("the toy format has no constraints")

    def written(self, table: Any, version: int | None = None) -> Written:
        number = table.version if version is None else version
        old, new = (self._deletes(table, at) for at in (number - 1, number))
        return Written(
            added=len(new.keys() - old.keys()),
            removed=len(old.keys() - new.keys()),
            more_deleted=sum(new[path] != old[path] for path in new.keys() & old.keys()),
        )

    def changes(self, table: Any, version: int | None = None) -> Counter[tuple[Any, ...]]:
        pytest.skip("the toy format has no change files")

    def lake(self, root: Path, schema: Any, **options: Any) -> Any:
        pytest.skip("only delvec writes tables of the toy format")

    def switch_vectors(self, *, on: bool) -> Mapping[str, str]:
        return {DELETES: "vector" if on else "rewrite"}

    def _deletes(self, table: Any, version: int) -> dict[str, Any]:
        path = Path(table.location) / MANIFESTS / f"{version:08d}.json"
        return {file["path"]: file["delete"] for file in json.loads(path.read_text())["files"]}


_ABILITIES = frozenset({NUMBERED, REQUESTS})

TOY_KINDS = (
    ToyKind("toy", abilities=_ABILITIES, format="toy"),
    ToyKind("toy-position-files", (POSITION_FILES,), abilities=_ABILITIES, format="toy"),
)
