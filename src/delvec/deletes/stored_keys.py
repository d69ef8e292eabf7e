"""The keys of one equality delete, read from its file: full rows or a vector of keys.

A vector has one column. Its codec says what its numbers mean, so a column that was promoted to another type
since still gets the right keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from delvec.deletes.codecs import codec_named
from delvec.deletes.equality import KeyColumn
from delvec.deletes.equality_file import key_values, read_keys
from delvec.deletes.key_vector import read_vector_file
from delvec.errors import FormatError, ObjectNotFoundError, UnsupportedFeatureError
from delvec.plan import DELETION_VECTOR
from delvec.storage import Storage


def stored_keys(
    storage: Storage, delete: Mapping[str, Any], columns: Sequence[KeyColumn]
) -> list[pa.ChunkedArray]:
    """The values of the columns in the table's types, from a row of ``LAYER_SCHEMA``."""
    place = delete["location"]
    if delete["encoding"] != DELETION_VECTOR:
        return read_keys(storage, place, columns, rows=delete["cardinality"])
    try:
        return _keys_of_vector(storage.read(place), delete, columns)
    except FormatError as error:
        raise error.at(place) from None
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(f"{error}: {place}", feature=error.feature) from None
    except ObjectNotFoundError:
        raise FormatError("vector of keys is missing, expected values of deleted rows", path=place) from None


def _keys_of_vector(
    data: bytes, delete: Mapping[str, Any], columns: Sequence[KeyColumn]
) -> list[pa.ChunkedArray]:
    compared = [column for column in columns if not column.is_null]
    if len(compared) != 1:
        raise FormatError(f"vector of keys compares {len(compared)} columns, expected exactly one")
    vector = read_vector_file(
        data,
        field_id=compared[0].field_id,
        offset=delete["offset"],
        length=delete["length"],
        cardinality=delete["cardinality"],
    )
    decoded = codec_named(vector.codec).decode(pa.array(vector.numbers.to_numpy(), pa.int64()))
    return [pa.chunked_array([_values(decoded, column)]) for column in columns]


def _values(decoded: pa.Array, column: KeyColumn) -> pa.Array:
    if column.is_null:  # a struct around the column: a key in a vector is never null
        return pa.repeat(pa.scalar(value=False), len(decoded))
    try:
        return key_values(decoded, column)
    except (pa.ArrowException, NotImplementedError) as error:
        raise FormatError(
            f"vector of keys has {decoded.type} for column {'.'.join(column.path)}, expected {column.type} "
            f"({error})"
        ) from None
