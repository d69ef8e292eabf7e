"""Deletes of any format as sets: of row positions, or of keys.

encoding, model, validate   how a delete file stores deletes, what describes it, and the rules that it keeps
codecs             values of key columns as numbers of a vector
cost               which encoding to expect, before the deletes are seen
writers            chooses how new deletes are stored: equality_writer, position_writer
supported_kinds    refuses, by name, kinds and encodings of deletes that delvec cannot apply
deletes_of_files   which deletes apply to which data file
sets               the deletes by position of a plan's files, described and not loaded
equality           the deletes by value of a plan's files, described and not loaded
equality_file, stored_keys, equality_set, equality_bounds   their keys: read, looked up, and compared with
                   files' bounds
loader, examine    loading these sets; examine returns an error for each bad one
position_index     the deleted rows of one data file
position_file      Parquet files of positions
new_vectors        new vectors, united with the old deletes
"""

from delvec.deletes.codecs import DeletionVectorCodec, codec_for, codec_named, register
from delvec.deletes.cost import EncodingCostEstimator
from delvec.deletes.encoding import DeleteEncoding
from delvec.deletes.equality_set import EqualityDeleteSet
from delvec.deletes.loader import DeleteLoader
from delvec.deletes.model import DeleteContent, DeleteFile, DeleteScope
from delvec.deletes.position_index import PositionDeleteIndex
from delvec.deletes.validate import validate
from delvec.deletes.write_result import DeleteWriteResult
from delvec.deletes.writers import DeleteGranularity, DeleteWriterFactory

__all__ = [
    "DeleteContent",
    "DeleteEncoding",
    "DeleteFile",
    "DeleteGranularity",
    "DeleteLoader",
    "DeleteScope",
    "DeleteWriteResult",
    "DeleteWriterFactory",
    "DeletionVectorCodec",
    "EncodingCostEstimator",
    "EqualityDeleteSet",
    "PositionDeleteIndex",
    "codec_for",
    "codec_named",
    "register",
    "validate",
]
