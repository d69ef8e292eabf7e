"""Per-file statistics, from the JSON texts of the log to Arrow columns.

    {"numRecords": 3, "tightBounds": true, "minValues": {…}, "maxValues": {…}, "nullCount": {…}}

Only the columns asked for are parsed, for all files at once, by Arrow's JSON reader. Files whose
text it cannot read that way (a NaN written as text, a number too large, broken JSON) are read one
by one, and what does not fit the column's type is unknown: it decides nothing.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from delvec.schema import DataType, Decimal, Primitive, arrow_type

_BLOCK_BYTES = 8 << 20
_TRUNCATED_TO = dt.timedelta(milliseconds=1)
_MICROSECOND = dt.timedelta(microseconds=1)
_AS_TEXT = frozenset({"string", "date", "timestamp", "timestamp_ntz"})
_AS_NUMBER = frozenset({"byte", "short", "integer", "long", "float", "double"})


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column to parse: its physical path and its type."""

    path: tuple[str, ...]
    type: DataType

    @property
    def bounded(self) -> bool:
        """Whether the log can hold bounds of such a column."""
        return isinstance(self.type, Decimal) or (
            isinstance(self.type, Primitive) and self.type.name in _AS_TEXT | _AS_NUMBER
        )


@dataclass(frozen=True, slots=True)
class LeafStats:
    lower: pa.Array
    upper: pa.Array
    null_count: pa.Array


@dataclass(frozen=True, slots=True)
class Parsed:
    record_count: pa.Array
    tight: pa.Array
    leaves: tuple[LeafStats, ...]


def parse(adds: pa.Table, leaves: Sequence[Leaf]) -> Parsed:
    """The statistics of ``leaves`` for each row of ``adds``."""
    texts = adds.column("stats")
    from_texts = _typed([_read_texts(chunk, leaves) for chunk in texts.chunks], leaves)
    if "stats_parsed" not in adds.column_names or not texts.null_count:
        return from_texts
    structs = adds.column("stats_parsed")
    from_structs = _typed([_read_structs(chunk, leaves) for chunk in structs.chunks], leaves)
    return _where(pc.is_valid(texts).combine_chunks(), from_texts, from_structs)


Columns = Mapping[str, pa.Array]


def _typed(chunks: Sequence[Columns], leaves: Sequence[Leaf]) -> Parsed:
    chunks = chunks or [_read_texts(pa.array([], pa.string()), leaves)]
    return Parsed(
        record_count=_joined([c["numRecords"] for c in chunks]),
        tight=pc.fill_null(_joined([c["tightBounds"] for c in chunks]), True),  # noqa: FBT003
        leaves=tuple(
            LeafStats(
                lower=_joined([_bound(c, "minValues", leaf) for c in chunks]),
                upper=_widened(_joined([_bound(c, "maxValues", leaf) for c in chunks])),
                null_count=_joined([_dig(c, ("nullCount", *leaf.path), pa.int64()) for c in chunks]),
            )
            for leaf in leaves
        ),
    )


def _where(condition: pa.Array, left: Parsed, right: Parsed) -> Parsed:
    def chosen(one: Any, other: Any) -> Any:
        arrays = (getattr(one, name) for name in LeafStats.__slots__)
        others = (getattr(other, name) for name in LeafStats.__slots__)
        return LeafStats(*(pc.if_else(condition, a, b) for a, b in zip(arrays, others, strict=True)))

    return Parsed(
        record_count=pc.if_else(condition, left.record_count, right.record_count),
        tight=pc.if_else(condition, left.tight, right.tight),
        leaves=tuple(chosen(one, other) for one, other in zip(left.leaves, right.leaves, strict=True)),
    )


def _read_structs(structs: pa.StructArray, leaves: Sequence[Leaf]) -> Columns:
    kinds = {"numRecords": pa.int64(), "tightBounds": pa.bool_()}
    return {name: _dig({"": structs}, ("", name), kinds.get(name)) for name in _shape(leaves).names}


def _read_texts(texts: pa.Array, leaves: Sequence[Leaf]) -> Columns:
    shape = _shape(leaves)
    texts = pc.fill_null(texts, "{}")
    # A text that starts otherwise could hide in the joined lines: two objects in one, none in the next.
    if pc.all(pc.starts_with(texts, "{")).as_py() is not False:
        try:
            table = _read_lines(texts, shape)
        except pa.ArrowException:
            pass
        else:
            if len(table) == len(texts):
                return {name: table.column(name).combine_chunks() for name in shape.names}
    return _read_one_by_one(texts, shape)


def _read_lines(texts: pa.Array, shape: pa.Schema) -> pa.Table:
    if not len(texts):
        return shape.empty_table()
    lines = pc.binary_join_element_wise(texts, "", "\n")
    _, offsets, data = lines.buffers()
    start, stop = _data_range(lines, offsets)
    return pj.read_json(
        pa.BufferReader(data.slice(start, stop - start)),
        read_options=pj.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pj.ParseOptions(explicit_schema=shape, unexpected_field_behavior="ignore"),
    )


def _data_range(lines: pa.Array, offsets: pa.Buffer) -> tuple[int, int]:
    width = 8 if pa.types.is_large_string(lines.type) else 4
    view = memoryview(offsets).cast("b")
    at = [
        int.from_bytes(view[i * width : (i + 1) * width], "little")
        for i in (lines.offset, lines.offset + len(lines))
    ]
    return at[0], at[1]


def _shape(leaves: Sequence[Leaf]) -> pa.Schema:
    bounds: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for leaf in leaves:
        _plant(nulls, leaf.path, pa.int64())
        if leaf.bounded:
            _plant(bounds, leaf.path, _read_type(leaf.type))
    fields = [("numRecords", pa.int64()), ("tightBounds", pa.bool_())]
    if bounds:
        fields += [("minValues", _struct(bounds)), ("maxValues", _struct(bounds))]
    if nulls:
        fields += [("nullCount", _struct(nulls))]
    return pa.schema(fields)


def _plant(tree: dict[str, Any], path: tuple[str, ...], kind: pa.DataType) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = kind


def _struct(tree: Mapping[str, Any]) -> pa.DataType:
    fields = [(name, _struct(kind) if isinstance(kind, dict) else kind) for name, kind in tree.items()]
    return pa.struct(fields)


def _read_type(data_type: DataType) -> pa.DataType:
    if isinstance(data_type, Primitive) and data_type.name in _AS_TEXT:
        return pa.string()
    return arrow_type(data_type)


def _dig(columns: Columns, path: Sequence[str], kind: pa.DataType | None) -> pa.Array:
    """The column at ``path``, nulls where it is absent or cannot be read as ``kind``."""
    column = columns.get(path[0])
    if column is None:
        return pa.nulls(len(next(iter(columns.values()))), kind or pa.null())
    for name in path[1:]:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            return pa.nulls(len(column), kind or pa.null())
        column = pc.struct_field(column, name)
    if kind is None or column.type == kind:
        return column
    try:
        return column.cast(kind)
    except pa.ArrowException:
        return pa.nulls(len(column), kind)


def _bound(columns: Columns, side: str, leaf: Leaf) -> pa.Array:
    kind = arrow_type(leaf.type)
    if not leaf.bounded:
        return pa.nulls(len(columns["numRecords"]), kind)
    found = _dig(columns, (side, *leaf.path), None)
    if found.type == kind:
        return found
    if pa.types.is_timestamp(kind) and pa.types.is_date(found.type):
        return found.cast(kind)  # written before the column was widened
    try:
        return found.cast(kind)
    except pa.ArrowException:
        return pa.array([_value(value, leaf.type) for value in found.to_pylist()], kind)


def _widened(upper: pa.Array) -> pa.Array:
    """Upper bounds of timestamps were cut to milliseconds, so the largest value may lie above."""
    if not pa.types.is_timestamp(upper.type):
        return upper
    return pc.add(upper, pa.scalar(_TRUNCATED_TO - _MICROSECOND, pa.duration("us")))


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    kinds = {array.type for array in arrays if array.type != pa.null()}
    kind = kinds.pop() if kinds else pa.null()
    return pa.concat_arrays([array.cast(kind) for array in arrays])


def _read_one_by_one(texts: pa.Array, shape: pa.Schema) -> Columns:
    trees = [_tree(text) for text in texts.to_pylist()]
    return {
        field.name: pa.array([_fit(t.get(field.name), field.type) for t in trees], field.type)
        for field in shape
    }


def _tree(text: str) -> Mapping[str, Any]:
    try:
        tree = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return tree if isinstance(tree, dict) else {}


def _fit(value: Any, kind: pa.DataType) -> Any:
    """``value`` where an Arrow array of ``kind`` takes it, else None."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        if not isinstance(value, dict):
            return None
        return {field.name: _fit(value.get(field.name), field.type) for field in kind}
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else None
    if pa.types.is_boolean(kind):
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    return _fit_number(value, kind)


def _fit_number(value: Any, kind: pa.DataType) -> Any:
    try:
        if pa.types.is_decimal(kind):
            exact = decimal.Decimal(str(value))
            return exact if exact.is_finite() and pa.scalar(exact, kind).as_py() == exact else None
        number = float(value) if pa.types.is_floating(kind) else value
        if isinstance(number, float) and not pa.types.is_floating(kind):
            return None
        return number if pa.scalar(number, kind).is_valid else None
    except (ValueError, TypeError, OverflowError, ArithmeticError, pa.ArrowException):
        return None


def _value(text: Any, data_type: DataType) -> Any:
    """One bound that Arrow did not parse among others."""
    try:
        match data_type:
            case Primitive("date"):
                return dt.date.fromisoformat(text[:10])
            case Primitive("timestamp"):
                found = dt.datetime.fromisoformat(text)
                return found if found.tzinfo is not None else None  # a local time of an unknown place
            case Primitive("timestamp_ntz"):
                return dt.datetime.fromisoformat(text).replace(tzinfo=None)
    except (ValueError, TypeError):
        pass
    return None
