"""The ``stats`` texts of files that are in the log already, when their ``add`` action is written again.

`wide_stats_texts` is for a file that gets a vector. `stats_texts` is for a file whose checkpoint had its
statistics only as a struct.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

_LARGEST_INTEGER = 2**63 - 1
_TO_ESCAPE = r'[\x00-\x1f"\\]'


def wide_stats_texts(
    stats: pa.Array | pa.ChunkedArray,
    record_counts: pa.Array | pa.ChunkedArray,
    *,
    deleted: pa.Array | pa.ChunkedArray | None = None,
) -> pa.Array:
    """The texts of files that get a vector. Their bounds become wide (``tightBounds`` is false): they still
    hold, but perhaps no live row has the bound as its value.

    ``record_counts`` are the files' rows, deleted ones included; they become ``numRecords`` if a text has
    none. ``deleted`` is the cardinality of each file's old vector. Tight statistics count the nulls of live
    rows only, so a column that is null in all live rows gets the null count that means "all rows" in wide
    statistics.
    """
    texts, counts = stats.to_pylist(), record_counts.to_pylist()
    old = [0] * len(texts) if deleted is None else [count or 0 for count in deleted.to_pylist()]
    rows = zip(texts, counts, old, strict=True)
    return pa.array([_wide_text(text, count, cardinality) for text, count, cardinality in rows], pa.string())


def stats_texts(adds: pa.Table) -> pa.ChunkedArray:
    """The statistics of each row of ``adds`` in JSON, from ``stats_parsed`` if it has no text."""
    texts = adds.column("stats")
    if "stats_parsed" not in adds.column_names or not texts.null_count:
        return texts
    structs = adds.column("stats_parsed")
    from_structs = pa.chunked_array([_json(chunk) for chunk in structs.chunks], pa.string())
    return pc.coalesce(texts, from_structs)


def _wide_text(text: str | None, record_count: int | None, deleted: int) -> str:
    stats = _parsed(text)
    if not isinstance(stats.get("numRecords"), int):
        stats = {"numRecords": record_count, **{k: v for k, v in stats.items() if k != "numRecords"}}
    if stats["numRecords"] is None:
        del stats["numRecords"]
    elif stats.get("tightBounds") is not False and deleted and isinstance(stats.get("nullCount"), dict):
        stats["nullCount"] = _wide_null_counts(stats["nullCount"], stats["numRecords"], deleted)
    stats["tightBounds"] = False
    return orjson.dumps(stats).decode()


def _wide_null_counts(counts: Mapping[str, Any], record_count: int, deleted: int) -> dict[str, Any]:
    wide: dict[str, Any] = {}
    for name, count in counts.items():
        if isinstance(count, dict):
            wide[name] = _wide_null_counts(count, record_count, deleted)
        else:
            wide[name] = record_count if count == record_count - deleted else count
    return wide


def _parsed(text: str | None) -> dict[str, Any]:
    """The object in ``text``, its numbers kept digit by digit; empty if the text is not an object."""
    try:
        tree = json.loads(
            text or "{}", parse_float=_verbatim, parse_int=_integer, parse_constant=lambda _: None
        )
    except ValueError:
        return {}
    return tree if isinstance(tree, dict) else {}


def _verbatim(digits: str) -> Any:
    return orjson.Fragment(digits.encode())


def _integer(digits: str) -> Any:
    number = int(digits)
    return number if abs(number) <= _LARGEST_INTEGER else _verbatim(digits)


def _json(values: pa.Array) -> pa.Array:
    """Each value as JSON text; null where it is null or of a type that statistics do not have."""
    kind = values.type
    if pa.types.is_struct(kind):
        return _json_objects(values)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return values.cast(pa.string())
    if pa.types.is_floating(kind):
        finite = pc.if_else(pc.is_finite(values), values, pa.scalar(None, kind))
        return finite.cast(pa.float64()).cast(pa.string())
    if pa.types.is_date(kind):
        return _quoted(values.cast(pa.string()))
    if pa.types.is_timestamp(kind):
        zone = "" if kind.tz is None else "Z"
        milliseconds = pc.floor_temporal(values, unit="millisecond").cast(pa.timestamp("ms"))
        return _quoted(pc.binary_join_element_wise(_iso(milliseconds), zone, ""))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _json_strings(values.cast(pa.string()))
    return pa.nulls(len(values), pa.string())


def _json_objects(structs: pa.StructArray) -> pa.Array:
    """Each struct as a JSON object of its members that are not null."""
    members = [pa.array([""] * len(structs), pa.string())]
    for field in structs.type:
        name = "," + orjson.dumps(field.name).decode() + ":"
        value = _json(pc.struct_field(structs, field.name))
        members.append(pc.fill_null(pc.binary_join_element_wise(name, value, ""), ""))
    # Every member starts with a comma; the first comma is cut off.
    joined = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*members, ""), 1)
    objects = pc.binary_join_element_wise("{", joined, "}", "")
    return pc.if_else(structs.is_valid(), objects, pa.scalar(None, pa.string()))


def _json_strings(texts: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(texts, _TO_ESCAPE)).as_py():
        return _quoted(texts)
    escaped = [None if text is None else orjson.dumps(text).decode() for text in texts.to_pylist()]
    return pa.array(escaped, pa.string())


def _iso(moments: pa.Array) -> pa.Array:
    return pc.strftime(moments, format="%Y-%m-%dT%H:%M:%S")


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")
