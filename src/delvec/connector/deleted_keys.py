"""Rows that are deleted by value, in the connector: what the tasks of a scan share about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from delvec.deletes.equality import EqualityDeletes, EqualityLayer
from delvec.deletes.equality_set import EqualityDeleteSet
from delvec.deletes.loader import DeleteLoader
from delvec.plan import ReadSchema, ScanPlan
from delvec.schema import Struct, bare, united

_NO_FILES = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class KeyTests:
    """The layers of equality deletes, without the data files, and how files store the key columns."""

    layers: tuple[EqualityLayer, ...]
    shapes: tuple[ReadSchema, ...]

    @classmethod
    def of(cls, plan: ScanPlan, deletes: EqualityDeletes) -> KeyTests:
        names = {column.path[0] for layer in deletes.layers for column in layer.columns}
        return cls(
            tuple(replace(layer, scope=_NO_FILES, sequence=_NO_FILES) for layer in deletes.layers),
            tuple(_of_keys(shape, plan, names) for shape in plan.read_schemas),
        )

    def load(
        self, loader: DeleteLoader, scopes: Sequence[Sequence[tuple[int, int]]]
    ) -> list[EqualityDeleteSet]:
        """The keys of each layer that may delete rows of files, given their scopes and sequences."""
        every = np.arange(len(scopes))
        sets = []
        for number, layer in enumerate(self.layers):
            scope, sequence = (np.array([of[number][part] for of in scopes], np.int64) for part in (0, 1))
            of_files = replace(layer, scope=scope, sequence=sequence).at(every)
            sets.append(loader.load_keys(of_files))
        return sets


NO_KEYS = KeyTests((), ())


def _of_keys(shape: ReadSchema, plan: ScanPlan, names: set[str]) -> ReadSchema:
    stored = united(shape.schema, plan.dropped)
    return replace(
        shape,
        schema=bare(Struct(tuple(field for field in stored if field.name in names))),
        names=None if shape.names is None else dict(shape.names),
    )
