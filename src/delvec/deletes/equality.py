"""Equality files: which apply to which data files, as a description that can be loaded.

    A row is deleted if an equality file that applies to its data file has a row with the same values in the
    columns that it compares. Null equals null; but a field of a struct that is null differs from a null
    field of a struct that is there. Other columns of an equality file are ignored.

    An equality file applies to the data files of its group whose data sequence is below its own sequence.
    A sequence that is not recorded excludes nothing.

Pairs of files are never made: a table can have a thousand equality files that apply to each of its files.
Equality files that compare the same columns and are in the same groups form a *scope*; of a scope only the
largest sequence of each key counts. A data file can be in several scopes, such as its partition and the whole
table. So scopes are put into *layers*: in a layer each data file is in one scope at most, and a scan applies
a layer with one look-up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Mask, Rows
from delvec.deletes.supported_kinds import verify_applied
from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.file_facts import ColumnPath
from delvec.plan import DELETES_SCHEMA, EQUALITY_FILE, ScanPlan
from delvec.schema import Array, DataType, Map, Primitive, Schema, Struct

NO_SCOPE = -1
_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max

LAYER_SCHEMA = pa.schema(
    [
        *(
            DELETES_SCHEMA.field(name)
            for name in ("encoding", "location", "offset", "length", "cardinality", "lower", "upper")
        ),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("scope", pa.int64(), nullable=False),
    ]
)
"""Columns of ``EqualityLayer.deletes``: as in ``ScanPlan.deletes``, and the scope. A sequence that is not
recorded is the largest number.
"""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column that equality files compare.

    path     its names in ``ScanPlan.stored_schema``, outermost first
    names    the names that it and the structs around it may have in an equality file without field ids,
             outermost first
    is_null  what is compared is whether the column is null: of structs around a compared column
    """

    field_id: int
    path: ColumnPath
    type: DataType
    names: tuple[tuple[str, ...], ...]
    is_null: bool = False


@dataclass(frozen=True, slots=True)
class EqualityLayer:
    """Equality files that compare the same columns, in scopes that share no data file.

    deletes     a row of ``LAYER_SCHEMA`` for each equality file
    scope       of each data file; ``NO_SCOPE``: no equality file of the layer applies to it
    sequence    of each data file: equality files with a larger sequence apply. It is the largest sequence of
                an equality file that does not apply, so data files between two deletes have the same one
    """

    columns: tuple[KeyColumn, ...]
    deletes: pa.Table
    scope: Rows
    sequence: Rows

    @property
    def has_deletes(self) -> Mask:
        """For each data file whether an equality file applies to it."""
        has_deletes: Mask = self.scope != NO_SCOPE
        return has_deletes

    @property
    def rows(self) -> int | None:
        """The number of rows of the equality files; None if it is not recorded."""
        counts = self.deletes.column("cardinality")
        return None if counts.null_count else int(pc.sum(counts).as_py() or 0)

    @property
    def size(self) -> int:
        """The bytes of the equality files."""
        return int(pc.sum(self.deletes.column("length")).as_py() or 0)

    def at(self, rows: Rows) -> EqualityLayer:
        """The layer for some of the data files; equality files that apply to none of them are left out."""
        layer = replace(self, scope=self.scope[rows], sequence=self.sequence[rows])
        return replace(layer, deletes=self.deletes.filter(pa.array(_is_used(layer))))

    def without(self, files: Mask) -> EqualityLayer:
        """The layer without some of the data files: it is known that they lose no row."""
        layer = replace(self, scope=np.where(files, NO_SCOPE, self.scope))
        return replace(layer, deletes=self.deletes.filter(pa.array(_is_used(layer))))


@dataclass(frozen=True, slots=True)
class EqualityDeletes:
    """The equality files of a plan's data files, not loaded."""

    layers: tuple[EqualityLayer, ...]
    files: int

    @classmethod
    def of(cls, plan: ScanPlan) -> EqualityDeletes:
        """The equality files of the plan. A delete that delvec does not apply is refused."""
        verify_applied(plan)
        files = len(plan.files)
        layers = []
        for field_ids, scopes in _scopes(plan).items():
            columns = key_columns(plan, field_ids)
            layers += [_layer(plan, columns, together) for together in _disjoint(scopes)]
        return cls(tuple(layer for layer in layers if len(layer.deletes)), files)

    @property
    def has_deletes(self) -> Mask:
        """For each data file whether any equality file applies to it."""
        any_applies = np.zeros(self.files, dtype=bool)
        for layer in self.layers:
            any_applies |= layer.has_deletes
        return any_applies

    def at(self, rows: Rows) -> EqualityDeletes:
        """The equality files of some of the data files, by their rows. The layers stay the same."""
        return EqualityDeletes(tuple(layer.at(rows) for layer in self.layers), len(rows))


FieldIds = tuple[int, ...]
Groups = tuple[int, ...]
Scopes = Mapping[Groups, Sequence[int]]
"""Equality files, as rows of ``ScanPlan.deletes``, by the groups that they are in."""


def _scopes(plan: ScanPlan) -> Mapping[FieldIds, Scopes]:
    is_equality = pc.equal(plan.deletes.column("kind"), EQUALITY_FILE).to_numpy()
    if not is_equality.any():
        return {}
    groups_of: dict[int, list[int]] = defaultdict(list)
    for group in sorted(plan.files.column("delete_group").unique().drop_null().to_pylist()):
        for delete in plan.delete_groups[group]:
            if is_equality[delete]:
                groups_of[delete].append(group)
    field_ids = plan.deletes.column("field_ids").to_pylist()
    scopes: dict[FieldIds, dict[Groups, list[int]]] = defaultdict(lambda: defaultdict(list))
    for delete, groups in groups_of.items():
        if not field_ids[delete]:
            place = plan.deletes.column("location")[delete].as_py()
            raise FormatError("equality file has no field ids, expected the ids of its columns", path=place)
        scopes[tuple(sorted(set(field_ids[delete])))][tuple(groups)].append(delete)
    return scopes


def _disjoint(scopes: Scopes) -> Sequence[Scopes]:
    """The scopes in layers, in each of which no group is in two scopes."""
    layers: list[dict[Groups, Sequence[int]]] = []
    used: list[set[int]] = []
    for groups, deletes in sorted(scopes.items(), key=lambda scope: -len(scope[0])):
        layer = next((n for n, others in enumerate(used) if others.isdisjoint(groups)), len(layers))
        if layer == len(layers):
            layers.append({})
            used.append(set())
        layers[layer][groups] = deletes
        used[layer].update(groups)
    return layers


def _layer(plan: ScanPlan, columns: tuple[KeyColumn, ...], scopes: Scopes) -> EqualityLayer:
    scope_of_group = np.full(len(plan.delete_groups) + 1, NO_SCOPE, np.int64)
    for number, groups in enumerate(scopes):
        scope_of_group[list(groups)] = number
    group = pc.fill_null(plan.files.column("delete_group"), len(plan.delete_groups)).to_numpy()
    rows = pa.array([delete for deletes in scopes.values() for delete in deletes], pa.int64())
    scope = np.repeat(np.arange(len(scopes)), [len(deletes) for deletes in scopes.values()])
    deletes = plan.deletes.take(rows)
    sequence = pc.fill_null(deletes.column("sequence"), _LAST)
    parts = [*(deletes.column(name) for name in LAYER_SCHEMA.names[:-2]), sequence, pa.array(scope)]
    data_sequence = pc.fill_null(plan.files.column("data_sequence"), _FIRST).to_numpy()
    steps = np.unique(np.append(sequence.to_numpy(), _FIRST))
    layer = EqualityLayer(
        columns,
        pa.table(parts, schema=LAYER_SCHEMA),
        scope_of_group[group],
        steps[np.searchsorted(steps, data_sequence, side="right") - 1],
    )
    newest = np.full(len(scopes) + 1, _FIRST, np.int64)
    np.maximum.at(newest, scope, sequence.to_numpy())
    return layer.without(layer.sequence >= newest[layer.scope])


def _is_used(layer: EqualityLayer) -> Mask:
    """Which equality files apply to some data file."""
    scopes, sequences = (layer.deletes.column(name).to_numpy() for name in ("scope", "sequence"))
    oldest = np.full(max(scopes.max(initial=0), layer.scope.max(initial=0)) + 2, _LAST, np.int64)
    used = layer.has_deletes
    np.minimum.at(oldest, layer.scope[used], layer.sequence[used])
    is_used: Mask = (oldest[scopes] < sequences) & np.isin(scopes, layer.scope[used])
    return is_used


def key_columns(plan: ScanPlan, field_ids: Sequence[int]) -> tuple[KeyColumn, ...]:
    """The columns of these ids, and the structs around them; refused if the table never had one, or if its
    values cannot be compared.
    """
    known = {column.field_id: column for column in _columns(plan, plan.stored_schema)}
    for field_id in field_ids:
        if field_id not in known:
            raise FormatError(
                f"an equality file compares the column with field id {field_id}, which is in no schema",
                path=plan.location,
            )
        kind = known[field_id].type
        if isinstance(kind, Struct | Array | Map) or kind in (Primitive("variant"), Primitive("void")):
            name = ".".join(known[field_id].path)
            raise UnsupportedFeatureError(
                f"an equality file compares column {name} of type {kind}, expected a primitive type: "
                f"{plan.location}",
                feature=f"equality delete by {kind}",
            )
    columns: dict[tuple[ColumnPath, bool], KeyColumn] = {}
    for column in (known[field_id] for field_id in field_ids):
        for depth in range(1, len(column.path)):
            (struct,) = (other for other in known.values() if other.path == column.path[:depth])
            columns[struct.path, True] = replace(struct, type=Primitive("boolean"), is_null=True)
        columns[column.path, False] = column
    return tuple(columns.values())


def _columns(
    plan: ScanPlan, schema: Schema, path: ColumnPath = (), names: tuple[tuple[str, ...], ...] = ()
) -> list[KeyColumn]:
    """All fields with an id, also those of structs."""
    columns = []
    for field in schema:
        if field.field_id is None:
            continue
        mapped = dict.fromkeys(
            name for shape in plan.read_schemas for name in (shape.names or {}).get(field.field_id, ())
        )
        own = (*mapped, field.physical_name) if field.physical_name not in mapped else tuple(mapped)
        column = KeyColumn(field.field_id, (*path, field.name), field.type, (*names, own))
        columns.append(column)
        if isinstance(field.type, Struct):
            columns += _columns(plan, field.type, column.path, column.names)
    return columns
