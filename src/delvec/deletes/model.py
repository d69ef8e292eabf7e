"""``DeleteFile``: one delete of positions or of keys as a writer describes it, whatever its encoding.

Plans and deltas have deletes as Arrow tables, a row each (``ScanPlan.deletes``, ``RowDelta.added_deletes``).
`added_deletes` makes such a table for a commit. A commit adds few deletes, so an object for each is cheap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import pyarrow as pa

from delvec.deletes.encoding import DeleteEncoding
from delvec.partition_spec import UNPARTITIONED, PartitionSpec
from delvec.plan import DELETION_VECTOR, EQUALITY_FILE, POSITION_FILE, POSITION_VECTOR
from delvec.row_delta import ADDED_DELETES_SCHEMA, added_deletes_schema


class DeleteContent(IntEnum):
    """What a delete names: rows by their position in a data file, or rows by values of columns."""

    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


@dataclass(frozen=True, slots=True)
class DeleteScope:
    """The data files that a delete may apply to: those of one partition of a spec, or all of the table.

    spec_id    the partition spec; None: all data files
    partition  the value of each partition field, by its name
    beside     instead of both: location and offset of a delete of the table, whose scope the new one has
    beside_spec   the partition spec of that delete; None: it is for all data files
    """

    spec_id: int | None = None
    partition: Mapping[str, Any] = field(default_factory=dict)
    beside: tuple[str, int | None] | None = None
    beside_spec: int | None = None

    @property
    def stated_spec(self) -> int | None:
        """The partition spec that a vector of keys states; None: it is for all data files."""
        return self.spec_id if self.beside is None else self.beside_spec


GLOBAL = DeleteScope()


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A delete that is stored.

    location           absolute location of the file
    file_format        ``parquet``, ``avro``, ``orc`` or ``puffin``
    record_count       deleted positions or keys
    size               bytes of the file
    recorded_encoding  None: the metadata does not say
    field_ids          the columns of an equality delete, by field id
    referenced_file    the only data file that a position delete is about
    offset, length     a vector in a Puffin file: where its blob is
    sequence           the sequence number that a rewritten delete keeps; None: that of its commit
    lower, upper       the smallest and the largest key in a vector, as numbers; None: the column has no
                       integers, dates or timestamps
    """

    content: DeleteContent
    location: str
    file_format: str
    record_count: int
    size: int
    recorded_encoding: DeleteEncoding | None = None
    field_ids: tuple[int, ...] = ()
    referenced_file: str | None = None
    offset: int | None = None
    length: int | None = None
    sequence: int | None = None
    scope: DeleteScope = GLOBAL
    lower: int | None = None
    upper: int | None = None

    @property
    def encoding(self) -> DeleteEncoding:
        """The recorded encoding, or else the one that the file format implies."""
        if self.recorded_encoding is not None:
            return self.recorded_encoding
        return DeleteEncoding.inferred(self.file_format)

    @property
    def kind(self) -> str:
        """The kind of the delete in a plan."""
        if self.content == DeleteContent.EQUALITY_DELETES:
            return EQUALITY_FILE
        return POSITION_VECTOR if self.encoding is DeleteEncoding.DELETION_VECTOR else POSITION_FILE


def added_deletes(files: Sequence[DeleteFile], spec: PartitionSpec = UNPARTITIONED) -> pa.Table:
    """The deletes as ``RowDelta.added_deletes``. ``spec``: the partition spec of those with a partition."""
    schema = added_deletes_schema(spec)
    return pa.Table.from_pylist([_row(file) for file in files], schema=schema)


def delete_files(deletes: pa.Table) -> list[DeleteFile]:
    """The inverse of `added_deletes`."""
    return [_delete_file(row) for row in deletes.to_pylist()]


def _row(file: DeleteFile) -> dict[str, Any]:
    scope = file.scope
    row = {
        "kind": file.kind,
        "encoding": file.encoding.text,
        "length": file.size if file.length is None else file.length,
        "file_size": file.size,
        "cardinality": file.record_count,
        "field_ids": list(file.field_ids) or None,
        "spec_id": scope.spec_id,
        "beside": None if scope.beside is None else dict(zip(_PLACE, scope.beside, strict=True)),
        "partition": None if scope.spec_id is None else dict(scope.partition),
    }
    others = [name for name in ADDED_DELETES_SCHEMA.names if name not in row]
    return row | {name: getattr(file, name) for name in others}


def _delete_file(row: Mapping[str, Any]) -> DeleteFile:
    is_vector, beside = row["encoding"] == DELETION_VECTOR, row["beside"]
    return DeleteFile(
        content=_CONTENTS[row["kind"]],
        location=row["location"],
        file_format=row["file_format"],
        record_count=row["cardinality"],
        size=row["file_size"],
        recorded_encoding=DeleteEncoding.from_text(row["encoding"]),
        field_ids=tuple(row["field_ids"] or ()),
        referenced_file=row["referenced_file"],
        offset=row["offset"],
        length=row["length"] if is_vector else None,
        sequence=row["sequence"],
        scope=DeleteScope(
            row["spec_id"],
            row.get("partition") or {},
            None if beside is None else tuple(beside[name] for name in _PLACE),
        ),
        lower=row["lower"],
        upper=row["upper"],
    )


_PLACE = ("location", "offset")
_CONTENTS = {
    POSITION_VECTOR: DeleteContent.POSITION_DELETES,
    POSITION_FILE: DeleteContent.POSITION_DELETES,
    EQUALITY_FILE: DeleteContent.EQUALITY_DELETES,
}
