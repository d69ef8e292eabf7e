"""Statistics of new data files, from their Parquet footers alone.

    {"numRecords": 3, "minValues": {…}, "maxValues": {…}, "nullCount": {…}, "tightBounds": true}

Columns stand under their physical names, nested as they are in the table. A statistic that the footer does
not state beyond doubt is left out: it would otherwise hide rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from delvec.delta.stats.bounds import Stored, lower_bound, stored, upper_bound
from delvec.delta.stats.columns import StatsRules, stats_rules
from delvec.delta.stats.parser import Leaf
from delvec.delta.stats.texts import stats_texts, widened
from delvec.errors import FormatError
from delvec.schema import Array, Map, Primitive
from delvec.storage import Storage, in_parallel

__all__ = ["WRITTEN_SCHEMA", "StatsRules", "stats_rules", "stats_texts", "widened", "written_stats"]

WRITTEN_SCHEMA = pa.schema(
    [
        pa.field("record_count", pa.int64(), nullable=False),
        pa.field("stats", pa.string(), nullable=False),
    ]
)

# Spark notes here that dates and timestamps are in the calendar of old, in which days have other numbers.
_OLD_CALENDAR = b"org.apache.spark.legacyDateTime"
_CALENDAR_TYPES = ("date", "timestamp")
# These take NaN for the largest number, as Spark does. All others leave it out of account.
_NAN_IS_LARGEST = re.compile(r"parquet-mr version 1\.(\d|1[0-7])\.")

Path = tuple[str, ...]


def written_stats(storage: Storage, locations: Sequence[str], rules: StatsRules) -> pa.Table:
    """Number of rows and statistics of each file, in the order of ``locations``, as ``WRITTEN_SCHEMA``."""
    found = in_parallel(lambda location: _file_stats(storage, location, rules), locations)
    counts, texts = [count for count, _ in found], [text for _, text in found]
    return pa.table([pa.array(counts, pa.int64()), pa.array(texts, pa.string())], schema=WRITTEN_SCHEMA)


def _file_stats(storage: Storage, location: str, rules: StatsRules) -> tuple[int, str]:
    with storage.open_input(location) as source:
        try:
            footer = _Footer(pq.read_metadata(source))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise FormatError(f"data file is not readable as Parquet: {error}", path=location) from None
    return footer.record_count, footer.stats_text(rules)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the file over all its row groups; None where a row group does not say.

    ``lower`` and ``upper`` are also None where all values are null.
    """

    null_count: int | None
    lower: Any = None
    upper: Any = None


class _Footer:
    def __init__(self, metadata: pq.FileMetaData) -> None:
        self._metadata = metadata
        paths = list(_leaf_paths(metadata.schema.to_arrow_schema()))
        if len(paths) != metadata.num_columns or len(set(paths)) != len(paths):
            raise ValueError(f"its {metadata.num_columns} columns have ambiguous names")
        self._positions = {path: position for position, path in enumerate(paths)}
        self._groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        self._old_calendar = _OLD_CALENDAR in (metadata.metadata or {})
        self._nan_is_largest = _NAN_IS_LARGEST.match(metadata.created_by or "") is not None

    @property
    def record_count(self) -> int:
        return int(self._metadata.num_rows)

    def stats_text(self, rules: StatsRules) -> str:
        lowers: dict[str, Any] = {}
        uppers: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        for leaf in rules.leaves:
            _plant(nulls, leaf.path, self._null_count(leaf))
            if leaf.bounded and leaf.path in self._positions:
                lower, upper = self._bounds(leaf, rules.string_length)
                _plant(lowers, leaf.path, lower)
                _plant(uppers, leaf.path, upper)
        stats = {
            "numRecords": self.record_count,
            "minValues": lowers,
            "maxValues": uppers,
            "nullCount": nulls,
            "tightBounds": True,
        }
        return orjson.dumps(stats).decode()

    def _null_count(self, leaf: Leaf) -> int | None:
        if leaf.type == Primitive("void"):
            return None
        if leaf.type == Primitive("variant"):
            path = (*leaf.path, "metadata")  # every variant that is not null has it
        elif isinstance(leaf.type, Array | Map):
            return self._null_collections(leaf.path)
        else:
            path = leaf.path
        if path not in self._positions:
            return None if self._holds(leaf.path) else self.record_count  # a column not written is null
        return self._column(self._positions[path], None).null_count

    def _null_collections(self, path: Path) -> int | None:
        """A footer counts empty arrays and null elements too: only where there are none it tells."""
        inside = [position for held, position in self._positions.items() if held[: len(path)] == path]
        if not inside:
            return self.record_count
        return 0 if any(self._column(position, None).null_count == 0 for position in inside) else None

    def _bounds(self, leaf: Leaf, string_length: int) -> tuple[Any, Any]:
        position = self._positions[leaf.path]
        if self._old_calendar and isinstance(leaf.type, Primitive) and leaf.type.name in _CALENDAR_TYPES:
            return None, None
        schema = self._metadata.schema.column(position)
        how = stored(schema.physical_type, schema.logical_type.to_json())
        column = self._column(position, how)
        if how is None or column.lower is None:
            return None, None
        lower = lower_bound(column.lower, how, leaf.type, string_length)
        if how.kind == "float" and not self._nan_is_largest:
            return lower, None
        return lower, upper_bound(column.upper, how, leaf.type, string_length)

    def _column(self, position: int, how: Stored | None) -> _Column:
        """One column's statistics; its bounds only where ``how`` says how to read them."""
        null_count: int | None = 0
        lowers, uppers, known = [], [], how is not None
        for group in self._groups:
            chunk = group.column(position)
            found = chunk.statistics
            nulls = found.null_count if found is not None and found.has_null_count else None
            null_count = None if null_count is None or nulls is None else null_count + nulls
            if not known or nulls == chunk.num_values:
                continue
            if found is None or not found.has_min_max:
                known = False
                continue
            assert how is not None
            lowers.append(how.read(found.min_raw))
            uppers.append(how.read(found.max_raw))
        # A NaN compares with nothing, so among several bounds it would be lost.
        if not known or not lowers or any(value != value for value in lowers):  # noqa: PLR0124
            return _Column(null_count)
        upper = next((value for value in uppers if value != value), None)  # noqa: PLR0124
        return _Column(null_count, min(lowers), max(uppers) if upper is None else upper)

    def _holds(self, path: Path) -> bool:
        return any(held[: len(path)] == path for held in self._positions)


def _leaf_paths(fields: Iterable[pa.Field], path: Path = ()) -> Iterator[Path]:
    """The path of each Parquet column, in their order: names with dots in them stay whole."""
    for field in fields:
        here, kind = (*path, field.name), field.type
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        if pa.types.is_struct(kind):
            yield from _leaf_paths(kind, here)
        elif pa.types.is_map(kind):
            yield from _leaf_paths(
                [kind.key_field.with_name("key"), kind.item_field.with_name("value")], here
            )
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            yield from _leaf_paths([kind.value_field], here)
        else:
            yield here


def _plant(tree: dict[str, Any], path: Path, value: Any) -> None:
    if value is None:
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value
