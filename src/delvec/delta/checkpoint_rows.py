"""The file actions of a checkpoint as Arrow structs, made in batches from the flat tables of `actions`.

add.stats                    JSON text, unless ``delta.checkpoint.writeStatsAsJson`` is false
add.stats_parsed             a typed struct, unless ``delta.checkpoint.writeStatsAsStruct`` is false
add.partitionValues_parsed   typed partition values, written together with ``stats_parsed``
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from delvec.delta.actions import ADD_TYPE, ADDS_SCHEMA, DESCRIPTOR_TYPE, REMOVE_TYPE, REMOVES_SCHEMA
from delvec.delta.partition_values import partition_texts, partition_values
from delvec.delta.stats import parser
from delvec.delta.stats.bounds import has_bounds
from delvec.delta.stats.columns import stats_rules
from delvec.delta.stats.texts import stats_texts
from delvec.errors import FormatError
from delvec.schema import Field, Primitive

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot

STATS_AS_JSON = "delta.checkpoint.writeStatsAsJson"
STATS_AS_STRUCT = "delta.checkpoint.writeStatsAsStruct"

_BATCH_ROWS = 128 * 1024
_ZONED = r"(?:Z|[+-]\d{2}:?\d{2})$"
_CUT_OFF = pa.scalar(parser.CUT_OFF, pa.duration("us"))

Tree = dict[str, Any]


class FileRows:
    """Turns live files and tombstones of one snapshot into a checkpoint's ``add`` and ``remove`` structs."""

    def __init__(self, snapshot: Snapshot) -> None:
        properties = snapshot.properties
        self._as_json = _is_on(properties, STATS_AS_JSON)
        self._as_struct = _is_on(properties, STATS_AS_STRUCT)
        self._columns = stats_rules(snapshot.schema, snapshot.partition_columns, properties).columns
        self._partitions = self._parsed_partitions(snapshot) if self._as_struct else []
        self.add_type = self._adds(snapshot.adds.slice(0, 0)).type
        self.remove_type = _structs(REMOVES_SCHEMA.empty_table(), REMOVE_TYPE, {}).type

    def adds(self, files: pa.Table) -> Iterator[pa.StructArray]:
        for start in range(0, len(files), _BATCH_ROWS):
            yield self._adds(files.slice(start, _BATCH_ROWS))

    def removes(self, files: pa.Table) -> Iterator[pa.StructArray]:
        for start in range(0, len(files), _BATCH_ROWS):
            yield _structs(files.slice(start, _BATCH_ROWS), REMOVE_TYPE, {})

    def _adds(self, files: pa.Table) -> pa.StructArray:
        parsed_columns: dict[str, pa.Array] = {}
        if self._as_struct:
            if self._partitions:
                maps = files.column("partition_values")
                values = {f.physical_name: partition_values(maps, f) for f in self._partitions}
                parsed_columns["partitionValues_parsed"] = _nested(values, len(files))
            parsed_columns["stats_parsed"] = self._stats(files)
        texts = stats_texts(files) if self._as_json else pa.nulls(len(files), pa.string())
        position = files.schema.get_field_index("stats")
        structs = _structs(files.set_column(position, "stats", texts), ADD_TYPE, parsed_columns)
        return structs if self._as_json else _without(structs, "stats")

    def _stats(self, files: pa.Table) -> pa.StructArray:
        parsed = parser.parse(
            files.select([n for n in ("stats", "stats_parsed") if n in files.schema.names]), self._columns
        )
        lowers: Tree = {}
        uppers: Tree = {}
        nulls: Tree = {}
        for column, stats in zip(self._columns, parsed.columns, strict=True):
            if column.type == Primitive("void"):
                continue
            _put(nulls, column.path, stats.null_count.cast(pa.int64()))
            if has_bounds(column.type):
                _put(lowers, column.path, stats.lower)
                _put(uppers, column.path, _cut(stats.upper))
        tree = {
            "numRecords": parsed.record_count.cast(pa.int64()),
            "tightBounds": parsed.tight,
            "minValues": lowers,
            "maxValues": uppers,
            "nullCount": nulls,
        }
        has_stats = _has_stats(files)
        return _nested(
            {name: part for name, part in tree.items() if not isinstance(part, dict) or part},
            len(files),
            has_stats,
        )

    def _parsed_partitions(self, snapshot: Snapshot) -> list[Field]:
        """The partition columns; empty if a value cannot be typed, such as a timestamp without a zone."""
        fields = [f for f in snapshot.schema if f.name in snapshot.partition_columns]
        maps = snapshot.adds.column("partition_values")
        try:
            for field in fields:
                texts = partition_texts(maps, field.physical_name)
                if (
                    field.type == Primitive("timestamp")
                    and pc.any(pc.invert(pc.match_substring_regex(texts, _ZONED))).as_py()
                ):
                    return []
                partition_values(maps, field)
        except FormatError:
            return []
        return fields


def _has_stats(files: pa.Table) -> pa.ChunkedArray:
    has_stats = pc.is_valid(files.column("stats"))
    if "stats_parsed" in files.column_names:
        has_stats = pc.or_(has_stats, pc.is_valid(files.column("stats_parsed")))
    return has_stats


def _structs(files: pa.Table, kind: pa.StructType, parsed_columns: Mapping[str, pa.Array]) -> pa.StructArray:
    """The rows of a flat table as structs of ``kind``, whose fields are in the same order."""
    columns = iter([_one_array(column) for column in files.select(_flat_names(kind)).columns])
    arrays: dict[str, pa.Array] = {}
    for field in kind:
        if field.name == "deletionVector":
            descriptor = [next(columns) for _ in DESCRIPTOR_TYPE]
            arrays[field.name] = pa.StructArray.from_arrays(
                descriptor, fields=list(DESCRIPTOR_TYPE), mask=pc.is_null(descriptor[0])
            )
        else:
            arrays[field.name] = next(columns)
    # Actions in a checkpoint change no data, and its tombstones have no tags.
    arrays["dataChange"] = pa.repeat(pa.scalar(False), len(files))  # noqa: FBT003
    if kind is REMOVE_TYPE:
        del arrays["tags"]
    arrays |= parsed_columns
    return pa.StructArray.from_arrays(list(arrays.values()), names=list(arrays))


def _flat_names(kind: pa.StructType) -> list[str]:
    return list((ADDS_SCHEMA if kind is ADD_TYPE else REMOVES_SCHEMA).names)


def _without(structs: pa.StructArray, name: str) -> pa.StructArray:
    names = [field.name for field in structs.type if field.name != name]
    return pa.StructArray.from_arrays([structs.field(field) for field in names], names=names)


def _nested(tree: Tree, rows: int, is_valid: pa.Array | None = None) -> pa.StructArray:
    arrays = {name: _nested(part, rows) if isinstance(part, dict) else part for name, part in tree.items()}
    mask = None if is_valid is None else pc.invert(_one_array(is_valid))
    return pa.StructArray.from_arrays(list(arrays.values()), names=list(arrays), mask=mask)


def _put(tree: Tree, path: tuple[str, ...], column: pa.Array) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = column


def _cut(upper: pa.Array) -> pa.Array:
    return pc.subtract(upper, _CUT_OFF) if pa.types.is_timestamp(upper.type) else upper


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def _is_on(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "true").lower() == "true"
