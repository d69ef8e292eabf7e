"""The ``stats`` of files in the log, parsed into Arrow columns.

    {"numRecords": 3, "tightBounds": true, "minValues": {…}, "maxValues": {…}, "nullCount": {…}}

Only the requested columns are parsed, for all files at once, by Arrow's JSON reader. If it fails (a NaN
written as text, a number too large, broken JSON), each text is parsed by itself, and a value that does not
fit the column's type is unknown: it decides nothing.
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

from delvec.delta.stats.bounds import BOUNDED_TEXTS, has_bounds
from delvec.footers.statistics import MeasuredColumn
from delvec.schema import DataType, Primitive, arrow_type

_BLOCK_BYTES = 8 << 20
CUT_OFF = dt.timedelta(milliseconds=1) - dt.timedelta(microseconds=1)
"""How far the largest timestamp may lie above its recorded bound: writers cut bounds to milliseconds."""


@dataclass(frozen=True, slots=True)
class ParsedColumn:
    """Statistics of one column, one value per file; null where the text does not state it."""

    lower: pa.Array
    upper: pa.Array
    null_count: pa.Array


@dataclass(frozen=True, slots=True)
class ParsedStats:
    """``columns`` are in the order of the request."""

    record_count: pa.Array
    tight: pa.Array
    columns: tuple[ParsedColumn, ...]


def parse(adds: pa.Table, columns: Sequence[MeasuredColumn]) -> ParsedStats:
    """The statistics of ``columns`` for each row of ``adds``.

    They come from the JSON text of the row, or from the struct ``stats_parsed`` if there is no text.
    """
    texts = adds.column("stats")
    from_texts = _typed([_read_texts(chunk, columns) for chunk in texts.chunks], columns)
    if "stats_parsed" not in adds.column_names or not texts.null_count:
        return from_texts
    structs = adds.column("stats_parsed")
    from_structs = _typed([_read_structs(chunk, columns) for chunk in structs.chunks], columns)
    return _either(pc.is_valid(texts).combine_chunks(), from_texts, from_structs)


Parts = Mapping[str, pa.Array]
"""The members of the statistics objects by name, one row per file: ``minValues`` and so on."""


def _typed(chunks: Sequence[Parts], columns: Sequence[MeasuredColumn]) -> ParsedStats:
    chunks = chunks or [_read_texts(pa.array([], pa.string()), columns)]
    return ParsedStats(
        record_count=_joined([c["numRecords"] for c in chunks]),
        tight=pc.fill_null(_joined([c["tightBounds"] for c in chunks]), True),  # noqa: FBT003
        columns=tuple(
            ParsedColumn(
                lower=_joined([_bound(c, "minValues", column) for c in chunks]),
                upper=_raised(_joined([_bound(c, "maxValues", column) for c in chunks])),
                null_count=_joined([_member(c, ("nullCount", *column.path), pa.int64()) for c in chunks]),
            )
            for column in columns
        ),
    )


def _either(has_text: pa.Array, texts: ParsedStats, structs: ParsedStats) -> ParsedStats:
    """For each file the statistics of its text if it has one, else those of its struct."""

    def column(text_column: ParsedColumn, struct_column: ParsedColumn) -> ParsedColumn:
        names = ParsedColumn.__slots__
        return ParsedColumn(
            *(pc.if_else(has_text, getattr(text_column, n), getattr(struct_column, n)) for n in names)
        )

    return ParsedStats(
        record_count=pc.if_else(has_text, texts.record_count, structs.record_count),
        tight=pc.if_else(has_text, texts.tight, structs.tight),
        columns=tuple(map(column, texts.columns, structs.columns)),
    )


def _read_structs(structs: pa.StructArray, columns: Sequence[MeasuredColumn]) -> Parts:
    kinds = {"numRecords": pa.int64(), "tightBounds": pa.bool_()}
    return {name: _member({"": structs}, ("", name), kinds.get(name)) for name in _shape(columns).names}


def _read_texts(texts: pa.Array, columns: Sequence[MeasuredColumn]) -> Parts:
    shape = _shape(columns)
    texts = pc.fill_null(texts, "{}")
    # Each line must be one object: with two in one text and none in another, the line count would be right.
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
    """All texts as lines of one JSON document."""
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


def _shape(columns: Sequence[MeasuredColumn]) -> pa.Schema:
    """The Arrow schema that the JSON of the columns' statistics is read into."""
    bounds: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for column in columns:
        _put(nulls, column.path, pa.int64())
        if has_bounds(column.type):
            _put(bounds, column.path, _read_type(column.type))
    fields = [("numRecords", pa.int64()), ("tightBounds", pa.bool_())]
    if bounds:
        fields += [("minValues", _struct(bounds)), ("maxValues", _struct(bounds))]
    if nulls:
        fields += [("nullCount", _struct(nulls))]
    return pa.schema(fields)


def _put(tree: dict[str, Any], path: tuple[str, ...], kind: pa.DataType) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = kind


def _struct(tree: Mapping[str, Any]) -> pa.DataType:
    fields = [(name, _struct(kind) if isinstance(kind, dict) else kind) for name, kind in tree.items()]
    return pa.struct(fields)


def _read_type(data_type: DataType) -> pa.DataType:
    if isinstance(data_type, Primitive) and data_type.name in BOUNDED_TEXTS:
        return pa.string()
    return arrow_type(data_type)


def _member(parts: Parts, path: Sequence[str], kind: pa.DataType | None) -> pa.Array:
    """The array at ``path``, nulls where it is absent or cannot be read as ``kind``."""
    array = parts.get(path[0])
    if array is None:
        return pa.nulls(len(next(iter(parts.values()))), kind or pa.null())
    for name in path[1:]:
        if not pa.types.is_struct(array.type) or array.type.get_field_index(name) < 0:
            return pa.nulls(len(array), kind or pa.null())
        array = pc.struct_field(array, name)
    if kind is None or array.type == kind:
        return array
    try:
        return array.cast(kind)
    except pa.ArrowException:
        return pa.nulls(len(array), kind)


def _bound(parts: Parts, side: str, column: MeasuredColumn) -> pa.Array:
    kind = arrow_type(column.type)
    if not has_bounds(column.type):
        return pa.nulls(len(parts["numRecords"]), kind)
    bounds = _member(parts, (side, *column.path), None)
    if bounds.type == kind:
        return bounds
    if pa.types.is_timestamp(kind) and pa.types.is_date(bounds.type):
        return bounds.cast(kind)  # written before the column was widened
    try:
        return bounds.cast(kind)
    except pa.ArrowException:
        return pa.array([_value(value, column.type) for value in bounds.to_pylist()], kind)


def _raised(upper: pa.Array) -> pa.Array:
    """Upper bounds of timestamps, raised by the most that a writer may have cut off."""
    if not pa.types.is_timestamp(upper.type):
        return upper
    return pc.add(upper, pa.scalar(CUT_OFF, pa.duration("us")))


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    kinds = {array.type for array in arrays if array.type != pa.null()}
    kind = kinds.pop() if kinds else pa.null()
    return pa.concat_arrays([array.cast(kind) for array in arrays])


def _read_one_by_one(texts: pa.Array, shape: pa.Schema) -> Parts:
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
    """``value`` if an Arrow array of ``kind`` accepts it, else None."""
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
    """One bound, parsed alone because Arrow could not cast the whole array."""
    try:
        match data_type:
            case Primitive("date"):
                return dt.date.fromisoformat(text[:10])
            case Primitive("timestamp"):
                time = dt.datetime.fromisoformat(text)
                return time if time.tzinfo is not None else None  # without a zone it is not a point in time
            case Primitive("timestamp_ntz"):
                return dt.datetime.fromisoformat(text).replace(tzinfo=None)
    except (ValueError, TypeError):
        pass
    return None
