"""The rules that every delete file keeps, whoever wrote it: one function for each rule.

vector                a Puffin file, with the offset and the length of its blob
vector of keys        compares exactly one column
vector of positions   is about one data file
full rows             Parquet, Avro or ORC
hash map              reserved: no delete file has it
equality deletes      compare at least one column
"""

from __future__ import annotations

from collections.abc import Callable

from delvec.deletes.encoding import PUFFIN, DeleteEncoding
from delvec.deletes.model import DeleteContent, DeleteFile
from delvec.errors import FormatError, UnsupportedFeatureError

ROW_FORMATS = ("parquet", "avro", "orc")


def validate(file: DeleteFile) -> None:
    """Refuse a delete file that breaks a rule. FormatError names the rule and the file."""
    for verify in RULES:
        verify(file)


def verify_encoding_not_reserved(file: DeleteFile) -> None:
    if file.encoding is DeleteEncoding.HASH_MAP:
        raise UnsupportedFeatureError(
            f"delete file has the encoding {file.encoding.text!r}, which is reserved, expected "
            f"{DeleteEncoding.FULL_ROW.text!r} or {DeleteEncoding.DELETION_VECTOR.text!r}: {file.location}",
            feature=file.encoding.text,
        )


def verify_vector_in_puffin(file: DeleteFile) -> None:
    if file.encoding is DeleteEncoding.DELETION_VECTOR and file.file_format != PUFFIN:
        raise FormatError(
            f"deletion vector is in a file of format {file.file_format!r}, expected {PUFFIN!r}",
            path=file.location,
        )


def verify_vector_has_blob(file: DeleteFile) -> None:
    if file.encoding is DeleteEncoding.DELETION_VECTOR and (file.offset is None or file.length is None):
        raise FormatError(
            f"deletion vector has the offset {file.offset} and the length {file.length}, expected both",
            path=file.location,
        )


def verify_one_column_of_vector(file: DeleteFile) -> None:
    is_vector = file.encoding is DeleteEncoding.DELETION_VECTOR
    if is_vector and file.content == DeleteContent.EQUALITY_DELETES and len(file.field_ids) != 1:
        raise FormatError(
            f"equality deletion vector compares {len(file.field_ids)} columns, expected exactly one",
            path=file.location,
        )


def verify_data_file_of_vector(file: DeleteFile) -> None:
    is_vector = file.encoding is DeleteEncoding.DELETION_VECTOR
    if is_vector and file.content == DeleteContent.POSITION_DELETES and file.referenced_file is None:
        raise FormatError("position deletion vector names no data file, expected one", path=file.location)


def verify_format_of_rows(file: DeleteFile) -> None:
    if file.encoding is DeleteEncoding.FULL_ROW and file.file_format not in ROW_FORMATS:
        raise FormatError(
            f"full-row deletes are in a file of format {file.file_format!r}, expected "
            f"{', '.join(ROW_FORMATS)}",
            path=file.location,
        )


def verify_columns_compared(file: DeleteFile) -> None:
    if file.content == DeleteContent.EQUALITY_DELETES and not file.field_ids:
        raise FormatError("equality deletes compare no column, expected at least one", path=file.location)


RULES: tuple[Callable[[DeleteFile], None], ...] = (
    verify_encoding_not_reserved,
    verify_vector_in_puffin,
    verify_one_column_of_vector,
    verify_data_file_of_vector,
    verify_format_of_rows,
    verify_columns_compared,
    verify_vector_has_blob,
)
