"""Deletion vector descriptors: where the vector of a data file is stored.

    storageType  pathOrInlineDv                              the vector is
    u            <prefix><20 characters: Z85 of a UUID>      in <table>/<prefix>/deletion_vector_<uuid>.bin
    p            absolute URI                                in that file
    i            Z85 of magic and vector                     here

``offset`` is the position of the blob's length field in its file. ``sizeInBytes`` is the size of magic and
vector. In a plan, the length of a delete is that of the whole blob with its frame.
"""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec import blob, location, z85
from delvec.errors import CorruptVectorError, FormatError
from delvec.plan import DELETES_SCHEMA, DELETION_VECTOR, POSITION_VECTOR

_UUID_CHARACTERS = 20
_STORED, _ABSOLUTE, _INLINE = "u", "p", "i"
# Byte 0 of a vector file is its version, so a missing offset means the first blob.
_FIRST_OFFSET = 1


def vector_file(root: str, encoded: str) -> str:
    """The location of the vector file that a ``u`` descriptor names."""
    if len(encoded) < _UUID_CHARACTERS:
        raise CorruptVectorError(
            f"vector name {encoded!r} has {len(encoded)} characters, expected at least {_UUID_CHARACTERS}"
        )
    prefix, name = encoded[:-_UUID_CHARACTERS], encoded[-_UUID_CHARACTERS:]
    folders = [part for part in prefix.split("/") if part not in ("", ".")]
    if prefix.startswith("/") or ".." in folders:
        raise CorruptVectorError(
            f"vector name {encoded!r} points outside the table, expected a folder inside {root}"
        )
    try:
        identifier = uuid.UUID(bytes=z85.decode(name))
    except FormatError as error:
        raise CorruptVectorError(f"vector name {encoded!r} does not end in a UUID in Z85: {error}") from None
    return location.join(root, "/".join([*folders, f"deletion_vector_{identifier}.bin"]))


def deletes_of(root: str, adds: pa.Table, locations: pa.Array) -> tuple[pa.Array, pa.Table]:
    """The vectors of ``adds`` whose files are at ``locations``.

    Returns for each file the row of its vector, and the rows of ``ScanPlan.deletes``.
    """
    has_vector = pc.is_valid(adds.column("dv_storage")).to_numpy()
    count = int(np.count_nonzero(has_vector))
    rows = np.zeros(len(has_vector), dtype=np.int32)
    rows[has_vector] = np.arange(count, dtype=np.int32)
    index = pa.array(rows, mask=~has_vector)
    if not count:
        return index, DELETES_SCHEMA.empty_table()
    mask = pa.array(has_vector)
    return index, _deletes(root, adds.filter(mask), locations.filter(mask))


def vector_files(root: str, actions: pa.Table) -> pa.Array:
    """The locations of the files that hold vectors of these adds or removes, each once."""
    vectors = actions.filter(pc.is_valid(actions.column("dv_storage")))
    if not len(vectors):
        return pa.array([], pa.string())
    _verify_storage_known(vectors)
    _refuse(
        vectors, pc.is_null(vectors.column("dv_path")), "dv_path", "dv_path of a vector is {}, expected text"
    )
    return _locations(root, vectors).drop_null().unique()


def _deletes(root: str, adds: pa.Table, locations: pa.Array) -> pa.Table:
    storage = adds.column("dv_storage").combine_chunks()
    _verify_storage_known(adds)
    _verify_sizes(adds)
    inline = pc.equal(storage, _INLINE)
    frame = pc.if_else(inline, 0, blob.FRAME_SIZE)
    size = adds.column("dv_size").cast(pa.int64())
    columns = {
        "kind": _repeated(POSITION_VECTOR, len(adds)),
        "encoding": _repeated(DELETION_VECTOR, len(adds)),
        "location": _locations(root, adds),
        "inline": _inline_bytes(adds),
        "offset": pc.if_else(inline, None, pc.fill_null(adds.column("dv_offset"), _FIRST_OFFSET)).cast(
            pa.int64()
        ),
        "length": pc.add(size, frame),
        "cardinality": adds.column("dv_cardinality"),
        "referenced_file": locations,
    }
    arrays = [columns.get(f.name, pa.nulls(len(adds), f.type)) for f in DELETES_SCHEMA]
    return pa.table(arrays, schema=DELETES_SCHEMA)


def _verify_storage_known(adds: pa.Table) -> None:
    is_known = pc.is_in(adds.column("dv_storage"), value_set=pa.array([_STORED, _ABSOLUTE, _INLINE]))
    _refuse(adds, pc.invert(is_known), "dv_storage", "vector storage type is {!r}, expected u, p or i")


def _verify_sizes(adds: pa.Table) -> None:
    for column in ("dv_path", "dv_size", "dv_cardinality"):
        _refuse(
            adds, pc.is_null(adds.column(column)), column, f"{column} of a vector is {{}}, expected a value"
        )
    for column in ("dv_size", "dv_cardinality", "dv_offset"):
        negative = pc.fill_null(pc.less(adds.column(column), 0), False)  # noqa: FBT003
        _refuse(adds, negative, column, f"{column} of a vector is {{}}, expected no less than 0")


def _refuse(adds: pa.Table, bad: pa.ChunkedArray, column: str, message: str) -> None:
    if pc.any(bad).as_py():
        row = adds.filter(bad).slice(0, 1)
        raise CorruptVectorError(
            message.format(row.column(column)[0].as_py()), path=row.column("path")[0].as_py()
        )


def _locations(root: str, adds: pa.Table) -> pa.Array:
    """The location of each vector's file. Many vectors share a file, so each name is decoded only once."""
    storage = adds.column("dv_storage").combine_chunks()
    storage_and_path = pc.if_else(
        pc.equal(storage, _INLINE), None, pc.binary_join_element_wise(storage, adds.column("dv_path"), "")
    )
    names = (
        storage_and_path.combine_chunks().dictionary_encode()
        if isinstance(storage_and_path, pa.ChunkedArray)
        else storage_and_path.dictionary_encode()
    )
    locations = [_location(root, name[0], name[1:]) for name in names.dictionary.to_pylist()]
    return pa.array(locations, pa.string()).take(names.indices)


def _location(root: str, storage: str, path: str) -> str:
    if storage == _STORED:
        return vector_file(root, path)
    if not location.is_absolute(path):
        raise CorruptVectorError(
            f"vector path {path!r} is relative, expected an absolute one (storage type p)"
        )
    return location.resolve(root, path)


def _inline_bytes(adds: pa.Table) -> pa.Array:
    vectors: list[bytes | None] = [None] * len(adds)
    storage = adds.column("dv_storage")
    for row in np.flatnonzero(pc.equal(storage, _INLINE).to_numpy()):
        text, size = adds.column("dv_path")[row].as_py(), adds.column("dv_size")[row].as_py()
        try:
            data = z85.decode(text)
        except FormatError as error:
            raise CorruptVectorError(
                f"inline vector: {error}", path=adds.column("path")[row].as_py()
            ) from None
        _verify_inline_size(data, size, adds.column("path")[row].as_py())
        vectors[row] = data[:size]
    return pa.array(vectors, pa.binary())


def _verify_inline_size(data: bytes, size: int, path: str) -> None:
    # Z85 encodes groups of four bytes, so up to three zeros are added.
    if not size <= len(data) < size + 4 or any(data[size:]):
        raise CorruptVectorError(
            f"inline vector has {len(data)} bytes, expected {size} and zeros up to a multiple of 4", path=path
        )


def _repeated(value: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), count)
