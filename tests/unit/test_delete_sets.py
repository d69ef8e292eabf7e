"""Delete sets: which deletes apply to which files, and what they delete, position files included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delvec import blob, verify
from delvec.bitmap import Bitmap
from delvec.cli.dv import list_vectors
from delvec.connector import tasks
from delvec.connector.batches import BatchScan, read_parts
from delvec.deletes import position_file
from delvec.deletes.deletes_of_files import match_deletes
from delvec.deletes.examine import examine
from delvec.deletes.loader import DeleteLoader
from delvec.deletes.new_vectors import new_vector, with_new_vectors
from delvec.deletes.sets import DeleteSets, described
from delvec.errors import FormatError
from delvec.file_facts import ConstantColumn
from delvec.plan import DELETES_SCHEMA, FILES_SCHEMA, Base, ReadSchema, ScanPlan
from delvec.row_delta import VECTORS_SCHEMA
from delvec.schema import Field, Primitive, Struct
from delvec.storage import Storage, open_storage

SCHEMA = Struct((Field("id", Primitive("long")),))
ROWS = 10


class NoFacts:
    """Of files about which nothing but their rows is recorded."""

    def __init__(self, counts: pa.Array) -> None:
        self.record_count = counts
        self.count = len(counts)
        self.tight = pa.array([False] * len(counts))

    def column(self, _path: object) -> ConstantColumn | None:
        return None

    def at(self, rows: np.ndarray) -> NoFacts:
        return NoFacts(self.record_count.take(pa.array(rows)))


class Tables:
    """Data files of ten rows each, and deletes of every kind, as a plan."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.files: list[dict[str, object]] = []
        self.deletes: list[dict[str, object]] = []
        self.groups: list[tuple[int, ...]] = []

    def file(self, **values: object) -> str:
        number = len(self.files)
        raw = f"data {number}.parquet"
        place = self.put(raw, pa.table({"id": pa.array(range(ROWS * number, ROWS * (number + 1)))}))
        base = {"file_id": number, "location": place, "raw_location": raw, "file_format": "parquet"}
        base |= {"size": self.storage.head(place).size, "record_count": ROWS, "spec_id": 0, "read_schema": 0}
        self.files.append(base | {"match": "some"} | values)
        return raw

    def put(self, name: str, table: pa.Table) -> str:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        self.storage.put(name, sink.getvalue().to_pybytes())
        return f"{self.storage.root}/{name}"

    def vector(self, *rows: int) -> int:
        data = blob.encode_bare(Bitmap.of(*rows))
        delete = {"kind": "position-vector", "encoding": "deletion-vector", "inline": data}
        self.deletes.append(delete | {"length": len(data), "cardinality": len(rows)})
        return len(self.deletes) - 1

    def positions(self, *rows: tuple[str, int], **values: object) -> int:
        paths, numbers = [path for path, _ in rows], [row for _, row in rows]
        table = pa.table({"file_path": pa.array(paths, pa.string()), "pos": pa.array(numbers, pa.int64())})
        return self.position_table(table, **values)

    def position_table(self, table: pa.Table, **values: object) -> int:
        place = self.put(f"deletes {len(self.deletes)}.parquet", table)
        delete = {"kind": "position-file", "encoding": "full-row", "location": place, "length": 1}
        self.deletes.append(delete | {"cardinality": len(table)} | values)
        return len(self.deletes) - 1

    def group(self, *deletes: int) -> int:
        self.groups.append(deletes)
        return len(self.groups) - 1

    def plan(self) -> ScanPlan:
        files = pa.Table.from_pylist(self.files, schema=FILES_SCHEMA)
        partition = pa.StructArray.from_buffers(pa.struct([]), len(files), [None])
        return ScanPlan(
            location=self.storage.root,
            base=Base(0),
            schema=SCHEMA,
            specs={},
            read_schemas=(ReadSchema(SCHEMA, by_id=False, constants=()),),
            condition=None,
            files=files.append_column("partition", partition),
            facts=NoFacts(files.column("record_count").combine_chunks()),
            deletes=pa.Table.from_pylist(self.deletes, schema=DELETES_SCHEMA),
            delete_groups=tuple(self.groups),
            carry=pa.table({}),
            skipped=0,
        )

    def deleted(self) -> list[list[int] | None]:
        """The deleted rows of each file; None where no delete applies."""
        loaded = DeleteLoader(self.storage).load(DeleteSets.of(self.plan()))
        return [None if bitmap is None else list(bitmap) for bitmap in loaded]


@pytest.fixture
def tables(tmp_path) -> Tables:
    return Tables(open_storage(str(tmp_path / "t")))


def test_vectors_and_position_files_side_by_side(tables: Tables) -> None:
    tables.file()
    tables.file(vector=tables.vector(3, 7))
    third = tables.file()
    tables.files[2]["delete_group"] = tables.group(tables.positions((third, 4), (third, 0)))
    assert tables.deleted() == [None, [3, 7], [0, 4]]
    plan = tables.plan()
    assert plan.deleted_rows.to_pylist() == [0, 2, None]
    assert DeleteSets.of(plan).has_deletes.tolist() == [False, True, True]


def test_several_position_files_of_several_files_are_united(tables: Tables) -> None:
    a, b = tables.file(delete_group=0), tables.file(delete_group=0)
    c = tables.file(delete_group=1)
    first = tables.positions((b, 9), (a, 1), (c, 5), (a, 1))
    second = tables.positions((a, 2), (b, 9), ("elsewhere.parquet", 3))
    tables.group(first, second)
    tables.group(second)
    assert tables.deleted() == [[1, 2], [9], []]
    assert tables.plan().deleted_rows.null_count == 3


@pytest.mark.parametrize(
    ("data", "delete", "applies"),
    [(1, 2, True), (2, 2, True), (3, 2, False), (None, 2, True), (3, None, True), (None, None, True)],
)
def test_a_position_file_applies_to_rows_that_are_not_newer(
    tables: Tables, data: int | None, delete: int | None, applies: bool
) -> None:
    name = tables.file(data_sequence=data, delete_group=0)
    tables.group(tables.positions((name, 4), sequence=delete))
    assert tables.deleted() == [[4] if applies else None]


def test_a_vector_replaces_the_position_files_of_its_file(tables: Tables) -> None:
    a, b = tables.file(delete_group=0), tables.file(delete_group=0)
    tables.files[0]["vector"] = tables.vector(1)
    tables.group(tables.positions((a, 5), (b, 6)))
    assert tables.deleted() == [[1], [6]]
    assert tables.plan().deleted_rows.to_pylist() == [1, None]


def test_pairs_are_in_the_order_of_the_files(tables: Tables) -> None:
    for _ in range(3):
        tables.file(delete_group=0)
    tables.files[1] |= {"vector": tables.vector(1), "delete_group": None}
    tables.group(*(tables.positions(("x", n)) for n in range(2)))
    matches = match_deletes(tables.plan())
    assert (matches.file.tolist(), matches.delete.tolist()) == ([0, 0, 1, 2, 2], [1, 2, 0, 1, 2])
    assert match_deletes(tables.plan().at(np.array([0]))).file.tolist() == [0, 0]


def test_sets_of_some_files(tables: Tables) -> None:
    names = [tables.file(delete_group=0) for _ in range(4)]
    tables.file()
    tables.group(tables.positions(*((name, n) for n, name in enumerate(names))))
    sets = DeleteSets.of(tables.plan()).at(np.array([3, 4, 1]))
    assert list(map(_list, DeleteLoader(tables.storage).load(sets))) == [[3], None, [1]]
    assert len(sets) == 3


def _list(bitmap: Bitmap | None) -> list[int] | None:
    return None if bitmap is None else list(bitmap)


def test_descriptions_load_the_same_sets(tables: Tables) -> None:
    """What executors get: flat, or as a list for each file."""
    names = [tables.file(delete_group=0) for _ in range(2)]
    tables.file(vector=tables.vector(8))
    tables.file()
    tables.group(*(tables.positions((names[0], n), (names[1], n + 1)) for n in (3, 5)))
    sets = DeleteSets.of(tables.plan())
    by_file = described(sets.describe_by_file().to_pylist())
    assert list(map(_list, DeleteLoader(tables.storage).load(by_file))) == [[3, 5], [4, 6], [8], None]
    flat = DeleteSets.from_description(sets.describe())
    assert list(map(_list, DeleteLoader(tables.storage).load(flat))) == [[3], [5], [4], [6], [8]]


def test_a_position_file_is_read_once_for_all_its_files(tables: Tables) -> None:
    names = [tables.file(delete_group=0) for _ in range(20)]
    tables.group(tables.positions(*((name, 1) for name in names)))
    loader, sets = DeleteLoader(tables.storage), DeleteSets.of(tables.plan())
    tables.storage.requests.clear()
    assert list(map(_list, loader.load(sets))) == [[1]] * 20
    requests = sum(tables.storage.requests.values())
    assert requests == 1
    loader.load(sets)
    assert sum(tables.storage.requests.values()) == requests


def test_the_upper_bound_of_deleted_rows(tables: Tables) -> None:
    a = tables.file(delete_group=0)
    tables.file(vector=tables.vector(1, 2, 3))
    tables.file()
    tables.file(delete_group=1)
    tables.group(tables.positions((a, 1), (a, 2)), tables.positions((a, 1)))
    tables.group(tables.positions((a, 1), cardinality=None))
    assert DeleteSets.of(tables.plan()).most_deleted.to_pylist() == [3, 3, 0, None]


def test_many_rows_in_batches(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_file, "_BATCH_ROWS", 3)
    a, b = tables.file(delete_group=0), tables.file(delete_group=0)
    tables.group(tables.positions(*((name, row) for row in range(8) for name in (b, a))))
    assert tables.deleted() == [list(range(8)), list(range(8))]


def test_columns_of_other_types_and_more_columns(tables: Tables) -> None:
    name = tables.file(delete_group=0)
    paths = pa.array([name, name], pa.large_string()).dictionary_encode()
    table = pa.table({"row": ["x", "y"], "pos": pa.array([2, 4], pa.int32()), "file_path": paths})
    tables.group(tables.position_table(table))
    assert tables.deleted() == [[2, 4]]


def test_an_empty_position_file(tables: Tables) -> None:
    tables.file(delete_group=0)
    tables.group(tables.positions())
    assert tables.deleted() == [[]]


PATHS, POSITIONS = pa.array(["data 0.parquet"]), pa.array([1])
BAD = [
    (pa.table({"pos": POSITIONS}), {}, "has 0 columns 'file_path', expected one"),
    (pa.table({"file_path": PATHS}), {}, "has 0 columns 'pos', expected one"),
    (pa.table({"file_path": PATHS, "pos": pa.array([1.0])}), {}, "is double, expected an integer"),
    (pa.table({"file_path": pa.array([1]), "pos": POSITIONS}), {}, "is int64, expected a string"),
    (pa.table({"file_path": PATHS, "pos": pa.array([-1])}), {}, "positions from -1 to -1, expected 0 to"),
    (pa.table({"file_path": PATHS, "pos": pa.array([None], pa.int64())}), {}, "contains a null"),
    (pa.table({"file_path": pa.array([None], pa.string()), "pos": POSITIONS}), {}, "contains a null"),
    (pa.table({"file_path": PATHS, "pos": POSITIONS}), {"cardinality": 2}, "has 1 rows, expected 2"),
]


@pytest.mark.parametrize(("table", "values", "message"), BAD)
def test_a_bad_position_file_is_named(
    tables: Tables, table: pa.Table, values: dict[str, object], message: str
) -> None:
    tables.file(delete_group=0)
    tables.group(tables.position_table(table, **values))
    with pytest.raises(FormatError, match=rf"{message}.*: .*deletes 0\.parquet$"):
        tables.deleted()


def test_a_position_file_of_one_file_names_no_other(tables: Tables) -> None:
    name = tables.file(delete_group=0)
    place = tables.files[0]["location"]
    tables.group(tables.positions((name, 1), ("other.parquet", 2), referenced_file=place))
    with pytest.raises(FormatError, match=r"deletes rows of 'other\.parquet', expected only rows of 'data 0"):
        tables.deleted()


def test_a_missing_and_a_damaged_position_file(tables: Tables) -> None:
    a, b = tables.file(delete_group=0), tables.file(delete_group=1)
    tables.group(tables.positions((a, 1)))
    tables.group(tables.positions((b, 1)))
    tables.storage.delete(["deletes 0.parquet"])
    tables.storage.put("deletes 1.parquet", b"no Parquet")
    found = sorted(examine(tables.storage, DeleteSets.of(tables.plan())), key=lambda each: each.pair)
    assert "position file is missing" in str(found[0].error)
    assert "cannot be read as Parquet" in str(found[1].error)
    with pytest.raises(FormatError, match=r"position file"):
        tables.deleted()


def test_verify_checks_position_files(tables: Tables) -> None:
    a, b = tables.file(delete_group=0), tables.file(delete_group=0)
    tables.file(vector=tables.vector(0))
    tables.group(tables.positions((a, 1), (a, 1), (b, ROWS)), tables.positions((a, 1), (a, 2)))
    report = verify.verify_plan(tables.plan(), tables.storage)
    assert (report.vectors, report.delete_files, report.deleted_rows) == (1, 2, 4)
    assert [finding.message for finding in report.findings if finding.severity == "error"] == [
        f"vector deletes row {ROWS}, but the file has {ROWS} rows"
    ]


def test_the_connector_applies_position_files(tables: Tables) -> None:
    a, b = tables.file(delete_group=0), tables.file(delete_group=0)
    tables.file(vector=tables.vector(*range(9)))
    tables.group(tables.positions((a, 0), (b, 9)), tables.positions((a, 9)))
    plan = tables.plan()
    parts = list(tasks.file_parts(plan, ["id"]))
    scan = BatchScan(tables.storage, tasks.shapes(plan, ["id"]))
    batches = read_parts(scan, parts)
    assert [row["id"] for batch in batches for row in batch.to_pylist()] == [*range(1, 9), *range(10, 19), 29]


def test_dv_lists_position_files(tables: Tables) -> None:
    a = tables.file(delete_group=0)
    tables.group(tables.positions((a, 4), (a, 5)))
    (found,) = list_vectors(tables.plan(), tables.storage, ranges=5, limit=0).vectors
    assert (found["cardinality"], found["ranges"], found["containers"]) == (2, [[4, 6]], None)
    assert (found["path"], found["offset"], found["error"]) == ("deletes 0.parquet", None, None)


def test_a_new_vector_has_the_old_rows(tables: Tables) -> None:
    first, second = new_vector(5, Bitmap.of(1, 2), None), new_vector(6, Bitmap.of(1, 2), Bitmap.of(2, 3))
    assert (first["cardinality"], first["deleted"]) == (2, 2)
    assert (second["cardinality"], second["deleted"]) == (3, 1)
    assert list(blob.decode(second["rows"])) == [1, 2, 3]


def test_a_plan_with_new_vectors_instead_of_its_deletes(tables: Tables) -> None:
    name = tables.file(delete_group=0)
    tables.group(tables.positions((name, 4)))
    vectors = pa.Table.from_pylist([new_vector(0, Bitmap.of(7), None)], schema=VECTORS_SCHEMA)
    plan = with_new_vectors(tables.plan(), vectors)
    (bitmap,) = DeleteLoader(tables.storage).load(DeleteSets.of(plan))
    assert _list(bitmap) == [7]
    assert plan.deleted_rows.to_pylist() == [1]


def test_a_plan_without_files(tables: Tables) -> None:
    plan = tables.plan()
    sets = DeleteSets.of(plan)
    assert (len(sets), plan.deleted_rows.to_pylist()) == (0, [])
    assert sets.describe_by_file().to_pylist() == []
    assert DeleteLoader(tables.storage).load(sets) == []


def test_files_in_several_chunks(tables: Tables) -> None:
    """As snapshots have them."""
    names = [tables.file() for _ in range(3)]
    tables.files[0]["vector"] = tables.vector(0)
    tables.files[2]["delete_group"] = tables.group(tables.positions((names[2], 2)))
    plan = tables.plan()
    chunks = pa.concat_tables([plan.files.slice(0, 1), plan.files.slice(1, 2)])
    plan = replace(plan, files=chunks)
    assert plan.deleted_rows.to_pylist() == [1, 0, None]
    assert list(map(_list, DeleteLoader(tables.storage).load(DeleteSets.of(plan)))) == [[0], None, [2]]
