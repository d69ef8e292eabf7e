"""Commits to tables with trees that need care: failures, compactions, new columns, wider types, creation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connector_rows import connector_rows
from delvec import blob, conflicts
from delvec.bitmap import Bitmap
from delvec.detect import open_table
from delvec.errors import InvalidOperationError, StorageError
from delvec.iceberg.swaps import SwapUnknown
from delvec.iceberg.table import IcebergTable
from delvec.iceberg.vector_file import store_vectors
from delvec.predicate import condition
from delvec.row_delta import (
    Committed,
    MetadataChange,
    Operation,
    Read,
    Request,
    RowDelta,
    Unknown,
    Verb,
    VersionTaken,
    added_schema,
)
from delvec.schema import Field, Primitive, Struct
from delvec.storage import Storage
from iceberg_tables.trees import LIMITS, TreeModel


@pytest.fixture(params=[0, 1000], ids=["leaves", "root"])
def model(tmp_path, request):
    return TreeModel(
        tmp_path / "t", root_data_files=request.param, root_deletes=request.param, inline_bytes=0
    )


def appended(model, *counts, p=1):
    files = [model.new_file(count, p) for count in counts]
    model.commit(add=files, verb=Verb.APPEND)
    return [path for path, _, _ in files]


def files_of(model):
    return {file for file in model.root.rglob("*") if file.is_file()}


def test_a_compaction_keeps_its_sequence_number(model):
    one, two = appended(model, 2, 2)
    appended(model, 1)
    files = {file["raw_location"]: file for file in model.snapshot.plan().files.to_pylist()}
    sequence = max(files[path]["data_sequence"] for path in (one, two))
    new = model.new_file(4)
    model.commit(add=[new], remove=[one, two], verb=Verb.COMPACT, data_change=False, data_sequence=sequence)
    model.check()
    files = {file["raw_location"]: file for file in model.snapshot.plan().files.to_pylist()}
    assert files[new[0]]["data_sequence"] == sequence
    assert files[new[0]]["file_sequence"] == model.metadata()["last-sequence-number"]
    assert model.metadata()["snapshots"][-1]["summary"]["operation"] == "replace"


def test_the_second_writer_of_a_version_loses_and_leaves_no_file(model):
    (path,) = appended(model, 5)
    stale, delta = model.snapshot, model.delta(delete={path: [0]})
    model.commit(delete={path: [1]})
    before = files_of(model)
    assert isinstance(model.table.commit(stale, delta), VersionTaken)
    assert files_of(model) == before
    model.check()


@pytest.mark.parametrize("failing", ["snap-", "-m0.parquet", "deletes-"])
def test_a_failing_store_leaves_no_file(model, monkeypatch, failing):
    one, two = appended(model, 5, 5)
    model.commit(delete={one: [1]})
    before = files_of(model)
    put, failed = type(model.table.storage).put, []

    def full(self, name, data):
        if failing in name:
            failed.append(name)
            raise StorageError("the store is full", path=name)
        return put(self, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(type(model.table.storage), "put", full)
        delta = model.delta(delete={one: [2]}, remove=[two], add=[model.new_file(1)])
        before |= files_of(model)
        if failing == "-m0.parquet" and not model.table.snapshot().files.live.root.leaves:
            return  # nothing is flushed
        with pytest.raises(StorageError, match="the store is full"):
            model.table.commit(model.snapshot, delta)
    assert failed
    assert files_of(model) == before
    model.check()


def test_files_of_an_unknown_outcome_stay(model, monkeypatch):
    (path,) = appended(model, 3)
    with monkeypatch.context() as patch:
        patch.setattr(model.table._newest.pointer, "commit", lambda *_: SwapUnknown("no answer"))
        outcome = model.table.commit(model.snapshot, model.delta(delete={path: [0]}))
        assert isinstance(outcome, Unknown)
        assert len(list(model.root.glob(f"metadata/snap-{outcome.version}-*.parquet"))) == 1
        with pytest.raises(StorageError, match=r"cannot tell whether version \d+ was committed"):
            conflicts.commit(
                model.table, model.snapshot, model.delta(delete={path: [0]}), conflicts.ReadsNoRows()
            )
    model.check()


def names_of(model, where):
    snapshot = open_table(str(model.root)).snapshot()
    plan = snapshot.plan(condition.parse(where, snapshot.schema))
    return set(plan.files.column("raw_location").to_pylist()), plan.skipped


def test_new_columns_and_wider_types(model):
    """Leaves and root entries of the older schema stay, and say nothing of the new column."""
    (old,) = appended(model, 3)
    model.commit(delete={old: [0]})
    fields = {field.name: field for field in model.snapshot.schema}
    wider = Field("p", Primitive("long"), field_id=fields["p"].field_id)
    schema = Struct((fields["id"], wider, Field("name", Primitive("string"))))
    model.columns = pa.schema([("id", pa.int64()), ("p", pa.int64()), ("name", pa.string())])
    big = 1 << 40
    rows = [{"id": 500, "p": big, "name": "new"}]
    model.commit(metadata=MetadataChange(schema=Struct((fields["id"], wider))))
    new = model.new_file(1, big, rows=rows)
    model.commit(add=[new], metadata=MetadataChange(schema=schema))
    assert [field.field_id for field in model.snapshot.schema] == [1, 2, 3]
    assert names_of(model, f"p = {big}") == ({new[0]}, 1)
    assert names_of(model, "p = 1") == ({old}, 1)
    assert new[0] in names_of(model, "name = 'new'")[0]
    assert new[0] not in names_of(model, "name = 'other'")[0]
    model.commit(delete={old: [1]})
    found = sorted((row["id"], row["p"], row["name"]) for row in connector_rows(model.root))
    assert found == [(102, 1, None), (500, big, "new")]
    assert not list(model.table.findings(model.snapshot))


def test_bad_properties_are_refused_when_they_are_set(model):
    for name in LIMITS.values():
        with pytest.raises(
            InvalidOperationError, match=f"property {name} is 'many', expected a whole number"
        ):
            model.commit(metadata=MetadataChange(properties={name: "many"}))


@pytest.mark.parametrize("limit", ["0", "1000"])
def test_a_table_that_is_created_with_its_rows(tmp_path, limit):
    storage = Storage(str(tmp_path / "t"))
    table = IcebergTable(storage)
    schema = Struct((Field("id", Primitive("long")),))
    draft = table.draft(schema, properties={"delvec.tree.root-data-files": limit}, format_version=4)
    path = tmp_path / "t/data/a.parquet"
    path.parent.mkdir(parents=True)
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([pa.array([1, 2, 3])], schema=pa.schema([field])), path)
    added = {
        "location": str(path),
        "size": path.stat().st_size,
        "modified_ms": 0,
        "record_count": None,
        "split_offsets": None,
        "partition": {},
    }
    delta = RowDelta(
        draft.base,
        Request(Operation.CREATE),
        Read(),
        Verb.APPEND,
        added=pa.Table.from_pylist([added], added_schema(draft.spec)),
    )
    assert isinstance(table.commit(draft, delta), Committed)
    assert [row["id"] for row in connector_rows(tmp_path / "t")] == [1, 2, 3]
    assert table.snapshot().plan().files.column("first_row_id").to_pylist() == [0]


def test_vectors_that_executors_stored(model):
    """They are in Puffin files of their own."""
    one, two = appended(model, 4, 4)
    framed = [blob.encode(Bitmap.of(1)), blob.encode(Bitmap.of(0, 3))]
    delta = model.delta(delete={one: [1], two: [0, 3]})
    places = store_vectors(model.table.storage, framed, [one, two], folder="data")
    vectors = delta.vectors
    for at, name in enumerate(("location", "offset", "length")):
        column = pa.array([place[at] for place in places], vectors.schema.field(name).type)
        vectors = vectors.set_column(vectors.schema.get_field_index(name), name, column)
    outcome = model.table.commit(model.snapshot, replace(delta, vectors=vectors))
    assert isinstance(outcome, Committed)
    model.files[one], model.files[two] = (model.files[one][0], {1}), (model.files[two][0], {0, 3})
    model.check()


def test_many_writers(tmp_path):
    """Each adds files, deletes rows of its own and removes one, all at the same time."""
    model = TreeModel(
        tmp_path / "t",
        root_data_files=3,
        root_deletes=2,
        leaf_entries=4,
        affiliated_entries=1,
        inline_bytes=0,
    )
    appended(model, 2, 2, 2)

    def write(number):
        own = TreeModel.of(model.root, 4)
        own.first_id(1000 * (number + 1))
        for _ in range(3):
            files = [own.new_file(4) for _ in range(2)]
            own.rebased(add=files, verb=Verb.APPEND)
            own.rebased(delete={files[0][0]: [number % 4]}, verb=Verb.DELETE)
        own.rebased(remove=[files[1][0]], verb=Verb.DELETE)
        return own.files

    with ThreadPoolExecutor(4) as pool:
        for files in pool.map(write, range(4)):
            model.files |= files
    model.check()
    assert not list(model.table.findings(model.snapshot))
    assert len(model.metadata()["snapshots"]) == 1 + 4 * 7
