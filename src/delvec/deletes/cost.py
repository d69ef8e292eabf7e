"""``EncodingCostEstimator``: which encoding new deletes are likely to have, before they are seen.

    positions of one data file       a vector
    positions of a partition         full rows
    keys of one LONG column          a vector, if it is the cheaper one and the keys are less than half of the
                                     table's rows
    all other keys                   full rows

It is advice. The writer decides when it is closed, by the real bytes (`delvec.deletes.equality_writer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from delvec.deletes.codecs import codec_for
from delvec.deletes.encoding import DeleteEncoding
from delvec.deletes.model import DeleteContent
from delvec.errors import InvalidOperationError
from delvec.schema import DataType, Primitive, Schema, is_string

_DENSE = 0.5
_COMPRESSION = 3  # of Parquet
_PATH_BYTES, _POSITION_BYTES = 256, 8
_VECTOR_OVERHEAD = 1024  # of the Puffin file
_OTHER = 32
_BYTES: Mapping[str, int] = MappingProxyType(
    {"integer": 4, "long": 8, "float": 4, "double": 8, "date": 4, "timestamp": 8, "timestamp_ntz": 8}
    | {"binary": 128}
)
_STRING = 64


@dataclass(frozen=True, slots=True)
class EncodingCostEstimator:
    """Estimates from the number of deletes and the types of the compared columns, in bytes."""

    def choose_encoding(
        self,
        content: DeleteContent,
        delete_count: int,
        total_rows: int,
        schema: Schema,
        field_ids: Sequence[int] = (),
    ) -> DeleteEncoding:
        """The encoding to expect. ``total_rows``: of the table; ``field_ids``: the compared columns."""
        vector = self.vector_cost(content, delete_count, schema, field_ids)
        if vector is None:
            return DeleteEncoding.FULL_ROW
        is_sparse = delete_count < total_rows * _DENSE
        is_cheaper = vector < self.full_row_cost(content, delete_count, schema, field_ids)
        return DeleteEncoding.DELETION_VECTOR if is_sparse and is_cheaper else DeleteEncoding.FULL_ROW

    def full_row_cost(
        self, content: DeleteContent, delete_count: int, schema: Schema, field_ids: Sequence[int] = ()
    ) -> int:
        """The approximate bytes of the deletes as rows of a Parquet file."""
        row = _PATH_BYTES + _POSITION_BYTES
        if content == DeleteContent.EQUALITY_DELETES:
            row = sum(_size(data_type) for data_type in _types(schema, field_ids))
        return delete_count * row // _COMPRESSION

    def vector_cost(
        self, content: DeleteContent, delete_count: int, schema: Schema, field_ids: Sequence[int] = ()
    ) -> int | None:
        """The approximate bytes of the deletes as a vector; None if they cannot be one, or would be one only
        by a hint of the table.
        """
        if content == DeleteContent.EQUALITY_DELETES:
            types = _types(schema, field_ids)
            codec = codec_for(types[0]) if len(types) == 1 else None
            if codec is None or not codec.is_automatic:
                return None
        return delete_count + _VECTOR_OVERHEAD


def _types(schema: Schema, field_ids: Sequence[int]) -> list[DataType]:
    types = {field.field_id: field.type for field in schema}
    for field_id in field_ids:
        if field_id not in types:
            raise InvalidOperationError(
                f"key column has the field id {field_id}, expected the id of a top-level column"
            )
    return [types[field_id] for field_id in field_ids]


def _size(data_type: DataType) -> int:
    if is_string(data_type):
        return _STRING
    return _BYTES.get(data_type.name, _OTHER) if isinstance(data_type, Primitive) else _OTHER
