"""Position-delete files: Parquet files with a row for each deleted row.

    file_path   string   the data file, as the metadata records it (``raw_location`` of a plan)
    pos         long     the row's position in that file, from 0

Other columns are ignored. Rows may be in any order and may repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delvec.bitmap import MAX_POSITION, Bitmap
from delvec.errors import FormatError
from delvec.storage import Storage

FILE_PATH, POS = "file_path", "pos"

_BATCH_ROWS = 1 << 20


def read_positions(
    storage: Storage,
    place: str,
    file_paths: Sequence[str],
    *,
    rows: int | None = None,
    only: str | None = None,
) -> dict[str, Bitmap]:
    """The deleted rows of the data files ``file_paths`` in the position file at ``place``.

    A data file that the position file does not name has no entry. ``rows`` is the recorded number of rows,
    ``only`` the single data file that the position file may name, if the metadata records them.
    """
    try:
        with storage.open_input(place) as source:
            file = pq.ParquetFile(source, pre_buffer=True)
            _verify_columns(file.schema_arrow)
            _verify_count(file.metadata.num_rows, rows)
            return _positions(file, file_paths, only)
    except FormatError as error:
        raise error.at(place) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _unreadable(place, error) from error


def read_paths(storage: Storage, place: str) -> pa.Array:
    """The data files that the position file at ``place`` names."""
    try:
        with storage.open_input(place) as source:
            file = pq.ParquetFile(source, pre_buffer=True)
            _verify_columns(file.schema_arrow)
            paths = file.read(columns=[FILE_PATH]).column(FILE_PATH).cast(pa.string())
    except FormatError as error:
        raise error.at(place) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _unreadable(place, error) from error
    return paths.unique()


def _unreadable(place: str, error: Exception) -> FormatError:
    reason = " ".join(str(error).split())
    return FormatError(f"position file cannot be read as Parquet: {reason}", path=place)


def _positions(file: pq.ParquetFile, file_paths: Sequence[str], only: str | None) -> dict[str, Bitmap]:
    selected = pa.array(sorted(set(file_paths)), pa.string())
    positions: dict[str, list[Bitmap]] = {}
    for batch in file.iter_batches(_BATCH_ROWS, columns=[FILE_PATH, POS]):
        paths, numbers = batch.column(FILE_PATH).cast(pa.string()), batch.column(POS).cast(pa.int64())
        _verify_values(paths, numbers)
        _verify_only(paths, only)
        for path, bitmap in _by_path(paths, numbers, selected).items():
            positions.setdefault(path, []).append(bitmap)
    return {path: Bitmap().union(*bitmaps) for path, bitmaps in positions.items()}


def _by_path(paths: pa.Array, positions: pa.Array, selected: pa.Array) -> dict[str, Bitmap]:
    """The positions of each of the paths ``selected``."""
    number = pc.fill_null(pc.index_in(paths, value_set=selected), -1).to_numpy(zero_copy_only=False)
    order = np.argsort(number, kind="stable")
    ordered, rows = number[order], positions.to_numpy()[order]
    bounds = np.searchsorted(ordered, np.arange(len(selected) + 1))
    return {
        selected[n].as_py(): Bitmap.from_numpy(rows[start:end])
        for n, (start, end) in enumerate(pairwise(bounds))
        if start < end
    }


def _verify_columns(schema: pa.Schema) -> None:
    for name, is_expected, expected in (
        (FILE_PATH, _is_text, "a string"),
        (POS, pa.types.is_integer, "an integer"),
    ):
        indices = schema.get_all_field_indices(name)
        if len(indices) != 1:
            raise FormatError(f"position file has {len(indices)} columns {name!r}, expected one")
        kind = schema.field(indices[0]).type
        if not is_expected(kind):
            raise FormatError(f"column {name!r} of a position file is {kind}, expected {expected}")


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _verify_count(rows: int, recorded: int | None) -> None:
    if recorded is not None and rows != recorded:
        raise FormatError(f"position file has {rows} rows, expected {recorded}")


def _verify_values(paths: pa.Array, positions: pa.Array) -> None:
    if paths.null_count or positions.null_count:
        raise FormatError("position file contains a null, expected a file path and a position in each row")
    if not len(positions):
        return
    bounds = pc.min_max(positions).as_py()
    if bounds["min"] < 0 or bounds["max"] > MAX_POSITION:
        raise FormatError(
            f"position file has positions from {bounds['min']} to {bounds['max']}, "
            f"expected 0 to {MAX_POSITION}"
        )


def _verify_only(paths: pa.Array, only: str | None) -> None:
    """Refuse a row of another data file than the one that the metadata records for the position file."""
    other = paths[:0] if only is None else paths.filter(pc.not_equal(paths, only))
    if len(other):
        raise FormatError(
            f"position file deletes rows of {other[0].as_py()!r}, expected only rows of {only!r}"
        )
