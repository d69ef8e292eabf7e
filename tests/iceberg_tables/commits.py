"""A table that is written by commits of deltas, without Spark, and what must be in it.

The model is a mapping of data files to their rows and deleted rows. What is on disk is read by fastavro and
JSON as the specification says, by DuckDB, and by pyiceberg.
"""

from __future__ import annotations

import io
import json
import uuid
from collections import Counter
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from delvec import blob, conflicts
from delvec.bitmap import Bitmap
from delvec.deletes.loader import DeleteLoader
from delvec.detect import open_table
from delvec.partition_spec import UNPARTITIONED
from delvec.row_delta import (
    VECTORS_SCHEMA,
    Committed,
    Operation,
    Read,
    Request,
    RowDelta,
    Verb,
    added_schema,
)
from iceberg_tables.readers import read_by_duckdb, read_by_pyiceberg
from iceberg_tables.writer import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32())])


class Model:
    """A table with files of the rows 0, 1, 2, …, and what must be in it."""

    def __init__(self, root, version, *, partitioned=True, **properties):
        writer = IcebergWriter(
            root, COLUMNS, format_version=version, partition_by=["p"] if partitioned else []
        )
        writer.properties |= {name.replace("_", "."): value for name, value in properties.items()}
        writer.write_metadata()
        self._open(root, version)

    @classmethod
    def of(cls, root, version):
        """The model of a table that exists, without files yet."""
        model = cls.__new__(cls)
        model._open(root, version)
        return model

    def _open(self, root, version):
        self.root, self.version = Path(root), version
        self.table = open_table(str(root))
        self.files = {}  # recorded path → (rows, deleted positions)
        self._next = 100

    @property
    def snapshot(self):
        return self.table.snapshot()

    columns = COLUMNS

    def new_file(self, count, p=1, *, rows=None):
        """A data file, as ``RowDelta.added`` has it."""
        if rows is None:
            rows = [{"id": self._next + number, "p": p} for number in range(count)]
            self._next += count
        path = self.root / f"data/p={p}/{uuid.uuid4()}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        fields = [
            pa.field(field.name, field.type, metadata={"PARQUET:field_id": str(at + 1)})
            for at, field in enumerate(self.columns)
        ]
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(fields)), path)
        return str(path), rows, p

    def delta(self, *, add=(), remove=(), delete=None, verb=Verb.MERGE, snapshot=None, **options):
        """``delete``: the positions to delete, by path."""
        snapshot = snapshot or self.snapshot
        spec = snapshot.spec if snapshot.spec.fields else UNPARTITIONED
        added = [
            {
                "location": path,
                "size": Path(path).stat().st_size,
                "modified_ms": 0,
                "record_count": None,
                "split_offsets": None,
                "partition": {"p": p} if spec.fields else {},
            }
            for path, _, p in add
        ]
        vectors = []
        for path, positions in (delete or {}).items():
            old = self.files[path][1]
            every = old | set(positions)
            vectors.append(
                {
                    "file_id": self.ids([path], snapshot)[0],
                    "rows": blob.encode(Bitmap.from_iterable(sorted(every))),
                    "cardinality": len(every),
                    "deleted": len(every - old),
                }
            )
        return RowDelta(
            snapshot.base,
            Request(Operation.MERGE),
            Read(blind=True),
            verb,
            added=pa.Table.from_pylist(added, added_schema(spec)),
            removed=pa.array(self.ids(remove, snapshot), pa.int64()),
            vectors=pa.Table.from_pylist(vectors, VECTORS_SCHEMA),
            **options,
        )

    def ids(self, paths, snapshot=None):
        return (snapshot or self.snapshot).file_ids(pa.array(list(paths), pa.string())).to_pylist()

    def first_id(self, number):
        """The ``id`` of the next new row."""
        self._next = number

    def rebased(self, *, add=(), remove=(), delete=None, **options):
        """Commit on top of what other writers committed meanwhile."""
        base = self.snapshot
        delta = self.delta(add=add, remove=remove, delete=delete, snapshot=base, **options)
        outcome = conflicts.commit(self.table, base, delta, conflicts.ReadsNoRows())
        assert isinstance(outcome, conflicts.Settled), outcome
        self._apply(add, remove, delete)

    def commit(self, *, add=(), remove=(), delete=None, **options):
        delta = self.delta(add=add, remove=remove, delete=delete, **options)
        outcome = self.table.commit(self.snapshot, delta)
        assert isinstance(outcome, Committed), outcome
        self._apply(add, remove, delete)
        return outcome

    def _apply(self, add, remove, delete):
        for path in remove:
            del self.files[path]
        for path, positions in (delete or {}).items():
            rows, deleted = self.files[path]
            self.files[path] = rows, deleted | set(positions)
            if len(self.files[path][1]) == len(rows):
                del self.files[path]
        self.files |= {path: (rows, set()) for path, rows, _ in add}

    def rows(self):
        return Counter(
            (row["id"], row["p"])
            for rows, deleted in self.files.values()
            for at, row in enumerate(rows)
            if at not in deleted
        )

    # What is on disk, read as the specification says

    def metadata(self):
        hint = (self.root / "metadata/version-hint.text").read_text()
        return json.loads((self.root / f"metadata/v{hint}.metadata.json").read_text())

    def entries(self):
        """The entries of the current snapshot, each with its row of the manifest list."""
        for current, manifest in self.manifests():
            for entry in avro(manifest["manifest_path"]):
                yield current, manifest, entry

    def check(self):
        self.check_plan()
        self.check_entries()

    def check_plan(self):
        snapshot = open_table(str(self.root)).snapshot()
        plan = snapshot.plan()
        deleted = DeleteLoader(snapshot.storage).by_file(plan)
        found = {
            file["raw_location"]: set(deleted.get(file["file_id"], Bitmap()))
            for file in plan.files.to_pylist()
        }
        assert found == {path: positions for path, (_, positions) in self.files.items()}

    def check_entries(self):
        """Statuses, sequence numbers, row ids and counts are those that the specification asks for."""
        metadata, row_ids, live = self.metadata(), [], Counter()
        for current, manifest, entry in self.entries():
            file, status = entry["data_file"], entry["status"]
            is_new = manifest["added_snapshot_id"] == current["snapshot-id"]
            assert (status == 1) <= (entry["snapshot_id"] == manifest["added_snapshot_id"])
            assert (status == 2) <= (entry["snapshot_id"] == manifest["added_snapshot_id"])
            if status != 1 and "sequence_number" in entry:  # manifests of version 1 have none
                assert entry["sequence_number"] is not None
                assert entry["file_sequence_number"] is not None
            if status != 2:
                live[file["file_path"], file.get("content_offset")] += 1
                sequence = entry.get("sequence_number")
                assert (manifest["sequence_number"] if sequence is None else sequence) >= manifest[
                    "min_sequence_number"
                ]
            if is_new:
                assert manifest["sequence_number"] == current["sequence-number"]
        assert set(live.values()) <= {1}
        for _, manifest in self.manifests():
            if self.version > 2 and manifest["content"] == 0:
                first = manifest["first_row_id"]
                assert first is not None
                for entry in avro(manifest["manifest_path"]):
                    if entry["status"] == 2:
                        continue
                    file = entry["data_file"]
                    if file.get("first_row_id") is None:
                        row_ids.append(range(first, first + file["record_count"]))
                        first += file["record_count"]
                    else:
                        start = file["first_row_id"]
                        row_ids.append(range(start, start + file["record_count"]))
                assert first <= metadata["next-row-id"]
        every = [number for ids in row_ids for number in ids]
        assert len(every) == len(set(every))
        sequences = [snapshot["sequence-number"] for snapshot in metadata["snapshots"]]
        assert metadata["last-sequence-number"] == max(sequences, default=0)

    def manifests(self):
        metadata = self.metadata()
        head = metadata["current-snapshot-id"]
        return [
            (snapshot, manifest)
            for snapshot in metadata["snapshots"]
            if snapshot["snapshot-id"] == head
            for manifest in avro(snapshot["manifest-list"])
        ]

    def check_others(self):
        mine = self.rows()
        for read in (read_by_duckdb, read_by_pyiceberg):
            assert Counter((row["id"], row["p"]) for row in read(str(self.root))) == mine, read.__name__


def avro(path):
    return list(fastavro.reader(io.BytesIO(Path(path).read_bytes())))
