"""``KeyLake``: a small Iceberg table, and commits of deletes by key that tests make by hand."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from delvec.bitmap import Bitmap
from delvec.deletes.encoding import DeleteEncoding
from delvec.deletes.key_vector import KeyVector, vector_file
from delvec.deletes.model import DeleteContent, DeleteFile, added_deletes
from delvec.detect import open_table
from delvec.row_delta import (
    REMOVED_DELETES_SCHEMA,
    Committed,
    Operation,
    Read,
    Request,
    RowDelta,
    Verb,
)
from iceberg_tables.writer import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("name", pa.string())])
ROWS = [{"id": number, "p": number % 2, "name": f"n{number}"} for number in range(10)]


class KeyLake:
    """A table with two data files, one for each ``p``, and commits of deletes."""

    def __init__(self, root, version=3, *, partition_by=("p",), gate="true"):
        self.root = root
        self.writer = IcebergWriter(root, COLUMNS, format_version=version, partition_by=list(partition_by))
        self.writer.properties["write.delete.equality-vector.enabled"] = gate
        for p in range(2):
            self.writer.add_file([row for row in ROWS if row["p"] == p])
        self.writer.commit()
        self.table = open_table(str(root))

    @property
    def snapshot(self):
        return self.table.snapshot()

    def rows(self, *keys, column="id", **values):
        """A Parquet file of keys."""
        field = COLUMNS.field(column)
        field_id = COLUMNS.names.index(column) + 1
        field = pa.field(column, field.type, metadata={"PARQUET:field_id": str(field_id)})
        path = self.root / f"data/keys-{len(list(self.root.rglob('*')))}.parquet"
        pq.write_table(pa.table([pa.array(keys, field.type)], schema=pa.schema([field])), path)
        return DeleteFile(
            DeleteContent.EQUALITY_DELETES,
            str(path),
            "parquet",
            len(keys),
            path.stat().st_size,
            DeleteEncoding.FULL_ROW,
            (field_id,),
            **values,
        )

    def vector(self, *keys, **values):
        data, where = vector_file(KeyVector(1, Bitmap.of(*keys)))
        path = self.root / f"data/keys-{len(list(self.root.rglob('*')))}.puffin"
        path.write_bytes(data)
        return DeleteFile(
            DeleteContent.EQUALITY_DELETES,
            str(path),
            "puffin",
            len(keys),
            path.stat().st_size,
            DeleteEncoding.DELETION_VECTOR,
            (1,),
            offset=where.offset,
            length=where.length,
            lower=min(keys),
            upper=max(keys),
            **values,
        )

    def delta(self, *files, remove=(), verb=Verb.DELETE_KEYS, **options):
        snapshot = self.snapshot
        spec = next((spec for spec in snapshot.specs.values() if spec.fields), snapshot.spec)
        removed = [{"location": place, "offset": offset, "entry": None} for place, offset in remove]
        return RowDelta(
            snapshot.base,
            Request(Operation.DELETE),
            Read(blind=True),
            verb,
            added_deletes=added_deletes(files, spec),
            removed_deletes=pa.Table.from_pylist(removed, schema=REMOVED_DELETES_SCHEMA),
            **options,
        )

    def commit(self, *files, **options):
        outcome = self.table.commit(self.snapshot, self.delta(*files, **options))
        assert isinstance(outcome, Committed), outcome
        return outcome

    def entries(self):
        """The entries of delete files, with the manifest list's row."""
        head = open_table(str(self.root)).snapshot().files.live
        return head.deletes().to_pylist()

    def summary(self):
        return self.snapshot.record.summary
