"""Plans of Iceberg snapshots: files, what they inherit, their deletes, and how few manifests are read."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from delvec import plan as plans
from delvec.errors import DelvecError, FormatError, UnsupportedFeatureError
from delvec.iceberg.manifest_cache import MANIFESTS
from delvec.iceberg.table import IcebergTable
from delvec.predicate import parse
from delvec.storage import open_storage
from iceberg_tables import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("s", pa.string()), ("day", pa.date32())])


@pytest.fixture(autouse=True)
def _empty_cache():
    MANIFESTS.clear()


def rows_of(numbers, p=1):
    day = dt.date(2024, 1, 1)
    return [{"id": n, "p": p, "s": f"s{n}", "day": day + dt.timedelta(days=n)} for n in numbers]


def writer(root, version=3, partition_by=("p",), **options):
    return IcebergWriter(root, COLUMNS, format_version=version, partition_by=partition_by, **options)


def opened(table):
    return IcebergTable(open_storage(str(table.root)))


def plan_of(table, where=None, *, version=None, among=None):
    snapshot = opened(table).snapshot(version=version)
    return snapshot.plan(None if where is None else parse(where, snapshot.schema), among=among)


def paths(plan):
    return plan.files.column("raw_location").to_pylist()


def entries_of(table, snapshot_id, *contents):
    return table.snapshots[snapshot_id].entries(*contents)


def groups_of(plan):
    """Of each file's path: the paths of the deletes in its group."""
    locations = plan.deletes.column("location").to_pylist()
    found = {path: set() for path in paths(plan)}
    for column in ("delete_group", "own_deletes"):
        for path, group in zip(found, plan.files.column(column).to_pylist(), strict=True):
            if group is not None:
                found[path] |= {locations[row] for row in plan.delete_groups[group]}
    return found


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_are_those_of_the_snapshot_with_what_they_inherit(tmp_path, version):
    table = writer(tmp_path, version)
    first = table.add_file(rows_of(range(5)))
    table.add_file(rows_of(range(5, 12), p=2))
    one = table.commit()
    table.add_file(rows_of(range(20, 30), p=None))
    table.remove_file(first)
    two = table.commit()
    for snapshot_id in (one, two):
        files = plan_of(table, version=snapshot_id).files
        expected = entries_of(table, snapshot_id, 0)
        assert files.column("raw_location").to_pylist() == [entry.file.path for entry in expected]
        assert files.column("record_count").to_pylist() == [entry.file.records for entry in expected]
        assert files.column("size").to_pylist() == [entry.file.size for entry in expected]
        assert files.column("data_sequence").to_pylist() == [entry.sequence for entry in expected]
        assert files.column("file_sequence").to_pylist() == [entry.file_sequence for entry in expected]
        assert files.column("first_row_id").to_pylist() == [entry.first_row_id for entry in expected]
        assert [row["p"] for row in files.column("partition").to_pylist()] == [
            entry.file.partition[0] for entry in expected
        ]
        assert set(files.column("file_format").to_pylist()) == {"parquet"}
        assert files.schema.remove(len(plans.FILES_SCHEMA)) == plans.FILES_SCHEMA


def test_row_ids_are_inherited_by_the_files_without_their_own(tmp_path):
    table = writer(tmp_path, 2)
    for start in (0, 10):
        table.append(rows_of(range(start, start + 4)))
    table.upgrade(3)
    table.append(rows_of(range(20, 27)) + rows_of(range(30, 33), p=2))
    newest = table.append(rows_of(range(40, 41)))
    files = plan_of(table).files
    expected = [entry.first_row_id for entry in entries_of(table, newest, 0)]
    assert files.column("first_row_id").to_pylist() == expected
    assert None not in expected
    assert files.column("row_version").to_pylist() == files.column("data_sequence").to_pylist()


def test_row_ids_are_null_where_the_manifest_has_none(tmp_path):
    table = writer(tmp_path)
    table.edit_manifest = lambda record: record | {"first_row_id": None}
    table.append(rows_of(range(3)))
    assert plan_of(table).files.column("first_row_id").to_pylist() == [None]


def test_row_ids_of_files_with_and_without_their_own(tmp_path):
    table = writer(tmp_path, partition_by=[])
    own = {1: 1000, 2: None, 3: 2000}

    def edit(record):
        number = record["data_file"]["record_count"]
        return record | {"data_file": record["data_file"] | {"first_row_id": own.get(number)}}

    table.edit_entry = edit
    table.edit_manifest = lambda record: record | {"first_row_id": 50}
    for size in (4, 1, 2, 3, 5):
        table.add_file(rows_of(range(size)))
    table.commit()
    assert plan_of(table).files.column("first_row_id").to_pylist() == [50, 1000, 54, 2000, 56]
    table.edit_manifest = lambda record: record | {"first_row_id": None}
    table.append(rows_of(range(3)))
    plan = plan_of(table)
    assert plan.files.column("first_row_id").to_pylist() == [None] * 6
    assert plan.files.column("row_version").null_count == 6


def test_manifests_listed_in_the_metadata_of_version_1(tmp_path):
    table = writer(tmp_path, 1, inline_manifests=True)
    table.append(rows_of(range(3)))
    table.replace_spec(["bucket[4](id)"])
    newest = table.append(rows_of(range(3, 8)))
    plan = plan_of(table)
    assert paths(plan) == [entry.file.path for entry in entries_of(table, newest, 0)]
    assert plan.files.column("spec_id").to_pylist()[0] == 0
    assert len(plan_of(table, "id = 4").files) == 1


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_codecs(tmp_path, codec):
    table = writer(tmp_path, codec=codec)
    newest = table.append(rows_of(range(3)))
    assert paths(plan_of(table)) == [entry.file.path for entry in entries_of(table, newest)]


def test_a_table_without_a_snapshot_has_no_files(tmp_path):
    table = writer(tmp_path)
    plan = plan_of(table, "id = 1")
    assert len(plan.files) == len(plan.deletes) == plan.skipped == 0


def test_file_ids_are_the_same_in_all_plans(tmp_path):
    table = writer(tmp_path)
    for p in range(4):
        table.append(rows_of(range(p * 10, p * 10 + 3), p=p) + rows_of(range(100, 102), p=p + 10))
    whole = plan_of(table)
    ids = dict(zip(paths(whole), whole.files.column("file_id").to_pylist(), strict=True))
    some = plan_of(table, "p = 2 or p = 13")
    assert [ids[path] for path in paths(some)] == some.files.column("file_id").to_pylist()
    snapshot = opened(table).snapshot()
    chosen = pa.array([ids[path] for path in reversed(paths(some))])
    assert snapshot.names(chosen).to_pylist() == paths(some)[::-1]
    assert snapshot.file_ids(pa.array([*paths(some), "other"])).to_pylist() == [
        *(ids[path] for path in paths(some)),
        None,
    ]
    assert paths(plan_of(table, among=chosen)) == paths(some)
    narrowed = plan_of(table, "p = 2", among=chosen)
    assert [paths(narrowed), narrowed.skipped] == [paths(plan_of(table, "p = 2")), 1]


def reads_of(table, act):
    before = table.storage.requests["read"]
    act()
    return table.storage.requests["read"] - before


def test_only_new_manifests_are_read(tmp_path):
    written = writer(tmp_path)
    for p in range(5):
        written.append(rows_of(range(p, p + 3), p=p))
    table = opened(written)
    first = table.snapshot()
    assert reads_of(table, first.plan) == 1 + 5
    assert reads_of(table, first.plan) == 0
    assert reads_of(table, lambda: first.plan(parse("p = 1", first.schema))) == 0
    written.append(rows_of(range(9), p=9))
    second = table.snapshot()
    assert reads_of(table, second.plan) == 1 + 1


def test_only_manifests_of_matching_partitions_are_read(tmp_path):
    written = writer(tmp_path)
    for p in (0, 1, 2, None):
        written.append(rows_of(range(3), p=p) + rows_of(range(3), p=None if p is None else p + 100))
    table = opened(written)
    for where, manifests, files, skipped in [
        ("p = 1", 2, 1, 6),
        ("p > 101", 1, 1, 6),
        ("p is null", 1, 1, 6),
        ("p = 50", 3, 0, 7),
        ("p = 500", 0, 0, 7),
        ("p is not null", 3, 6, 1),
    ]:
        MANIFESTS.clear()
        table = opened(written)
        snapshot = table.snapshot()
        condition = parse(where, snapshot.schema)
        plan = None

        def run():
            nonlocal plan
            plan = snapshot.plan(condition)  # noqa: B023 - run before the next one

        assert (where, reads_of(table, run)) == (where, 1 + manifests)
        assert (where, len(plan.files), plan.skipped) == (where, files, skipped)


def test_only_delete_manifests_of_the_partitions_left_are_read(tmp_path):
    written = writer(tmp_path, 2, partition_by=["p", "truncate[1](s)"])
    files = {}
    for p in (0, 1, None):
        files[p] = written.add_file([{"id": 1, "p": p, "s": f"{p}x"}, {"id": 2, "p": p, "s": f"{p}y"}])
    written.commit()
    for file in files.values():
        written.delete_positions({file: [0]})
        written.commit()
    of_zero = written.delete_keys([{"id": 2}], on=["id"], partition={"p": 0, "s": "0"})
    written.commit()
    written.replace_spec([])
    of_all = written.delete_keys([{"id": 3}], on=["id"])
    written.commit()
    table = opened(written)
    whole = groups_of(table.snapshot().plan())
    assert whole[files[0].path] >= {of_zero.path, of_all.path}
    for where, manifests in [
        ("p = 0", 1 + 2 + 1),
        ("p = 1", 1 + 1 + 1),
        ("p is null", 1 + 1 + 1),
        ("s = '1x'", 1 + 1 + 1),
        ("p = 7", 0 + 1),
        ("p = 0 or p is null", 1 + 3 + 1),
    ]:
        MANIFESTS.clear()
        table = opened(written)
        snapshot = table.snapshot()
        found = []
        condition = parse(where, snapshot.schema)
        reads = reads_of(table, lambda s=snapshot, c=condition, f=found: f.append(s.plan(c)))
        assert (where, reads) == (where, 1 + manifests)
        assert groups_of(found[0]) == {path: whole[path] for path in paths(found[0])}
        chosen = found[0].files.column("file_id").combine_chunks()
        assert groups_of(table.snapshot().plan(among=chosen)) == groups_of(found[0])


def test_a_manifest_without_counts_is_read(tmp_path):
    written = writer(tmp_path, 1)
    names = ("added_files_count", "existing_files_count")
    written.edit_manifest = lambda record: record | dict.fromkeys(names)
    for p in (0, 1):
        written.append(rows_of(range(3), p=p))
    plan = plan_of(written, "p = 1")
    assert (len(plan.files), plan.skipped) == (1, 1)


def test_vectors(tmp_path):
    table = writer(tmp_path)
    files = [table.add_file(rows_of(range(n * 10, n * 10 + 5), p=n % 2)) for n in range(4)]
    table.commit()
    vector = table.delete_rows(files[1], [0, 2])
    table.commit()
    plan = plan_of(table)
    assert plan.files.column("vector").to_pylist() == [None, 0, None, None]
    assert plan.files.column("delete_group").null_count == 4
    (row,) = plan.deletes.to_pylist()
    assert (row["kind"], row["encoding"], row["cardinality"]) == ("position-vector", "deletion-vector", 2)
    assert (row["location"], row["offset"], row["length"]) == (vector.path, vector.offset, vector.length)
    assert (row["referenced_file"], row["sequence"]) == (files[1].path, 2)
    assert plan.deleted_rows.to_pylist() == [0, 2, 0, 0]
    assert len(plan_of(table, "p = 0").deletes) == 0


def test_position_files_of_a_file_and_of_a_partition(tmp_path):
    table = writer(tmp_path, 2)
    files = [table.add_file(rows_of(range(n * 10, n * 10 + 5), p=n % 2)) for n in range(4)]
    table.commit()
    (of_partition,) = table.delete_positions({files[0]: [1], files[2]: [2]})
    (by_bounds,) = table.delete_positions({files[1]: [1]})
    (by_reference,) = table.delete_positions({files[1]: [2]}, referenced=True)
    table.commit()
    plan = plan_of(table)
    groups = groups_of(plan)
    assert groups[files[0].path] == groups[files[2].path] == {of_partition.path}
    assert groups[files[1].path] == {by_bounds.path, by_reference.path}
    assert groups[files[3].path] == set()
    assert plan.deleted_rows.to_pylist() == [None, None, None, 0]


def test_files_with_position_files_of_their_own_share_the_deletes_of_all(tmp_path):
    table = writer(tmp_path, 2, partition_by=[])
    files = [table.add_file(rows_of(range(n * 10, n * 10 + 5))) for n in range(20)]
    table.commit()
    keys = [table.delete_keys([{"id": n}], on=["id"]) for n in range(30)]
    positions = {file.path: table.delete_positions({file: [1]})[0] for file in files}
    table.commit()
    plan = plan_of(table)
    shared = {key.path for key in keys}
    assert groups_of(plan) == {path: {*shared, own.path} for path, own in positions.items()}
    assert sum(map(len, plan.delete_groups)) == len(keys) + len(files)


def test_equality_files_of_a_partition_and_of_all_files(tmp_path):
    table = writer(tmp_path, 2)
    files = [table.add_file(rows_of(range(n * 10, n * 10 + 5), p=p)) for n, p in enumerate((0, 1, None))]
    table.commit()
    of_zero = table.delete_keys([{"id": 1}], on=["id"], partition={"p": 0})
    of_null = table.delete_keys([{"id": 21}], on=["id"], partition={"p": None})
    table.replace_spec([])
    of_all = table.delete_keys([{"s": "s3"}], on=["s"])
    late = table.add_file(rows_of(range(50, 55)))
    table.commit()
    plan = plan_of(table)
    groups = groups_of(plan)
    assert groups[files[0].path] == {of_zero.path, of_all.path}
    assert groups[files[1].path] == {of_all.path}
    assert groups[files[2].path] == {of_null.path, of_all.path}
    assert groups[late.path] == {of_all.path}
    kinds = {row["location"]: (row["kind"], row["field_ids"]) for row in plan.deletes.to_pylist()}
    assert kinds == {
        of_zero.path: ("equality-file", [1]),
        of_null.path: ("equality-file", [1]),
        of_all.path: ("equality-file", [3]),
    }
    assert set(groups_of(plan_of(table, "p = 1"))) == {files[1].path, late.path}


def test_delete_files_of_another_spec_are_not_of_the_same_partition(tmp_path):
    table = writer(tmp_path, 2)
    old = table.add_file(rows_of(range(5), p=1))
    table.commit()
    table.replace_spec(["p", "bucket[1](id)"])
    table.delete_keys([{"id": 1}], on=["id"], partition={"p": 1, "id": 1})
    new = table.add_file(rows_of(range(5, 9), p=1))
    table.commit()
    groups = groups_of(plan_of(table))
    assert groups[old.path] == set()
    assert len(groups[new.path]) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda entry: entry["data_file"]["partition"].update(p=7), "another partition spec or partition"),
        (lambda entry: entry.update(sequence_number=0), "sequence number 0, expected at least 1"),
        (lambda entry: entry["data_file"].update(content_offset=None), "no valid content_offset"),
        (lambda entry: entry["data_file"].update(content_size_in_bytes=-1), "no valid content_size"),
        (lambda entry: entry["data_file"].update(referenced_data_file=None), "has no data file"),
    ],
)
def test_vectors_that_disagree_with_their_data_file(tmp_path, change, message):
    table = writer(tmp_path)
    file = table.add_file(rows_of(range(5)))
    table.commit()
    vector = table.delete_rows(file, [1])

    def edit(record):
        if record["data_file"]["content"] == 1:
            change(record)
        return record

    table.edit_entry = edit
    table.commit()
    with pytest.raises(FormatError, match=message) as caught:
        plan_of(table)
    assert vector.path in str(caught.value)


def test_two_vectors_of_one_file_are_refused(tmp_path):
    table = writer(tmp_path)
    files = [table.add_file(rows_of(range(n, n + 5))) for n in (0, 10)]
    table.commit()
    vectors = [table.delete_rows(file, [1]) for file in files]

    def edit(record):
        if record["data_file"]["content"] == 1:
            record["data_file"]["referenced_data_file"] = files[0].path
        return record

    table.edit_entry = edit
    table.commit()
    with pytest.raises(FormatError, match="two vectors") as caught:
        plan_of(table)
    for path in (files[0].path, *(vector.path for vector in vectors)):
        assert path in str(caught.value)


def test_partitions_of_all_specs(tmp_path):
    table = writer(tmp_path, partition_by=["p"])
    table.append(rows_of(range(3), p=1))
    table.replace_spec(["truncate[2](s)", "day(day)"])
    table.append(rows_of(range(1)))
    table.replace_spec(["void(p)"])
    table.append(rows_of(range(2)))
    plan = plan_of(table)
    partitions = plan.files.column("partition").to_pylist()
    assert partitions[0] == {"p": 1, "s_truncate": None, "day_day": None, "p_void": None}
    assert partitions[1] == {"p": None, "s_truncate": "s0", "day_day": dt.date(2024, 1, 1), "p_void": None}
    assert set(plan.specs) == {0, 1, 2}
    assert len(plan_of(table, "p is null").files) == 0  # by the bounds of the second and the third file


def test_an_int_as_day_and_an_unknown_transform(tmp_path):
    table = writer(tmp_path, partition_by=["day(day)", "weekday(id)"])
    table.append(rows_of(range(2)))
    plan = plan_of(table, "day = date'2024-01-02' and id = 1")
    assert [row["id_weekday"] for row in plan.files.column("partition").to_pylist()] == ["unknown"]
    assert plan.files.column("match").to_pylist() == ["all"]


def test_a_dropped_column_still_tells_partitions_apart(tmp_path):
    table = writer(tmp_path, 2)
    files = [table.add_file(rows_of(range(n * 10, n * 10 + 5), p=n)) for n in range(2)]
    table.commit()
    delete = table.delete_keys([{"id": 1}], on=["id"], partition={"p": 0})
    table.commit()
    table.replace_spec([])
    table.drop_column("p")
    groups = groups_of(plan_of(table))
    assert groups == {files[0].path: {delete.path}, files[1].path: set()}


def test_a_renamed_and_promoted_partition_column_prunes(tmp_path):
    table = writer(tmp_path, 2)
    for p in (1, 2):
        table.append(rows_of(range(3), p=p))
    table.rename_column("p", "q")
    table.promote_column("q", "long")
    plan = plan_of(table, "q = 2")
    assert plan.files.column("match").to_pylist() == ["all"]
    assert plan.skipped == 1


@pytest.mark.parametrize(
    ("name", "damage", "error", "message"),
    [
        ("-m*.avro", lambda data: data[: len(data) // 2], FormatError, "bytes, expected"),
        ("-m*.avro", lambda _: b"", FormatError, "bytes, expected"),
        ("snap-*.avro", lambda data: data[:-20], FormatError, "left|sync"),
        ("snap-*.avro", lambda data: b"PAR1" + data[4:], FormatError, "50415231"),
        ("snap-*.avro", lambda data: data[:300], FormatError, "left"),
        ("-m*.avro", lambda data: data.replace(b"deflate", b"deflat3"), UnsupportedFeatureError, "deflat3"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, damage, error, message):
    table = writer(tmp_path)
    table.append(rows_of(range(100)))
    (path,) = (tmp_path / "metadata").glob(f"*{name}".replace("**", "*"))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(error, match=message) as caught:
        plan_of(table)
    assert path.name in str(caught.value)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda entry: entry | {"status": 3}, "status 3"),
        (lambda entry: entry | {"data_file": entry["data_file"] | {"content": 1}}, "content 1"),
        (lambda entry: entry | {"data_file": entry["data_file"] | {"record_count": -1}}, "record_count -1"),
        (lambda entry: entry | {"status": 0, "sequence_number": None}, "no sequence_number"),
        (lambda entry: entry | {"data_file": entry["data_file"] | {"key_metadata": b"k"}}, "encrypted"),
    ],
)
def test_entries_that_cannot_be_are_refused(tmp_path, edit, message):
    table = writer(tmp_path)
    table.edit_entry = edit
    table.append(rows_of(range(3)))
    with pytest.raises(DelvecError, match=message) as caught:
        plan_of(table)
    assert ".avro" in str(caught.value)


def test_a_manifest_of_an_unknown_spec_is_refused(tmp_path):
    table = writer(tmp_path)
    table.edit_manifest = lambda record: record | {"partition_spec_id": 4}
    table.append(rows_of(range(3)))
    with pytest.raises(FormatError, match="spec of a manifest is 4, expected one of 0"):
        plan_of(table)
