"""The connector without Spark: options, tasks, row groups, rows, and what is shipped."""

from __future__ import annotations

import datetime as dt
import decimal
import pickle
import random
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_log import LogWriter, add, column
from delvec.connector import arrow_columns, batches, row_groups, source, tasks
from delvec.connector.options import read_options, split_names
from delvec.connector.pushdown import condition_text, read_filter
from delvec.detect import open_table
from delvec.errors import (
    CorruptVectorError,
    FormatError,
    InvalidOperationError,
    ObjectNotFoundError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from delvec.schema import Array as ArrayOf
from delvec.schema import Field as Column
from delvec.schema import Primitive, Struct
from lake import BY_ID, BY_NAME, FLAT, Lake
from rows import multiset, read_rows

datasource = pytest.importorskip("pyspark.sql.datasource")
if not hasattr(datasource, "EqualTo"):
    pytest.skip("this PySpark has no filter push-down", allow_module_level=True)

IDS = pa.schema([("id", pa.int64()), ("s", pa.string())])


def rows_of(count, start=0):
    return [{"id": i, "s": f"s{i % 7}"} for i in range(start, start + count)]


def read(path, *filters, **options):
    """The rows that the connector's tasks give, after all was pickled as Spark does."""
    relation = pickle.loads(pickle.dumps(source.load({"path": str(path), **options})))
    reader = source.PushdownReader(relation)
    assert list(reader.pushFilters(list(filters))) == []
    found = []
    for task in reader.partitions():
        scan, parts = pickle.loads(pickle.dumps((reader.scan, task.parts)))
        for batch in batches.read_parts(scan, parts):
            batch.validate(full=True)
            assert batch.schema == reader.scan.output
            found += batch.to_pylist()
    return found


def expected(path, version=None):
    table = open_table(str(path))
    return read_rows(table.snapshot(version).plan(), table.storage)


# Options


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("id", ("id",)),
        (" id ,s ", ("id", "s")),
        ("`a,b`, `x``y`,c d", ("a,b", "x`y", "c d")),
        ("a.b", ("a.b",)),
    ],
)
def test_names_are_split(text, names):
    assert split_names(text) == names


@pytest.mark.parametrize("text", ["", "a,", ",a", "`a", "a`b", "``", "`a` b", "a,,b"])
def test_a_list_that_is_none_is_refused(text):
    with pytest.raises(InvalidOperationError, match="option columns is"):
        split_names(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no location, expected load"),
        (
            {"path": "/t", "version": "1", "timestamp": "2020-01-01"},
            "both version 1 and timestamp 2020-01-01",
        ),
        ({"path": "/t", "version": "one"}, "option version is 'one'"),
        ({"path": "/t", "version": "1", "versionAsOf": "1"}, "both version 1 and versionAsOf 1 are given"),
        ({"path": "/t", "verzion": "1"}, "option 'verzion' is not known"),
        ({"path": "t"}, "path 't' is relative, expected an absolute path or a URL"),
        ({"path": "/t", "timeZone": "Mars/Olympus"}, "option timezone is 'Mars/Olympus'"),
        ({"paths": '["/a", "/b"]'}, "expected the location of one table"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InvalidOperationError, match=message):
        read_options(options)


def test_options_of_the_storage_are_passed_through():
    given = read_options({"path": "s3://b/t", "fs.s3a.access.key": "k", "aws_region": "x", "VERSION": "3"})
    assert given.storage == {"fs.s3a.access.key": "k", "aws_region": "x"}
    assert given.version == 3


@pytest.mark.parametrize(
    ("columns", "message"),
    [("nope", "unknown column `nope`"), ("id, ID", "`id` twice"), ("", "option columns is ''")],
)
def test_columns_that_cannot_be_chosen_are_refused(columns, message, tmp_path):
    LogWriter(str(tmp_path)).create(column("id", "long"), column("b", "long"))
    assert source.load({"path": str(tmp_path), "columns": "B, id"}).columns == ("b", "id")
    with pytest.raises(InvalidOperationError, match=message):
        source.load({"path": str(tmp_path), "columns": columns})


def test_an_ambiguous_column_is_refused(tmp_path):
    LogWriter(str(tmp_path)).create(column("Ab", "long"), column("aB", "long"))
    assert source.load({"path": str(tmp_path), "columns": "aB"}).columns == ("aB",)
    with pytest.raises(InvalidOperationError, match="`Ab`, `aB`"):
        source.load({"path": str(tmp_path), "columns": "ab"})


def test_no_table(tmp_path):
    with pytest.raises(TableNotFoundError, match="no table at"):
        source.load({"path": str(tmp_path)})


# Rows

NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))])),
        ("l", pa.list_(pa.struct([("x", pa.int64())]))),
        ("m", pa.map_(pa.string(), pa.struct([("y", pa.float64())]))),
        ("p", pa.string()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("d", pa.decimal128(20, 3)),
        ("v", pa.null()),
    ]
)


def nested_rows(count, part):
    made = []
    for i in range(count):
        made.append(
            {
                "id": i,
                "n": None if i % 5 == 0 else {"a": i, "b": None if i % 3 == 0 else {"c": f"c{i}"}},
                "l": None if i % 4 == 0 else [{"x": i}] * (i % 3) + [None] * (i % 2),
                "m": None if i % 6 == 0 else [(f"k{j}", {"y": float(j)}) for j in range(i % 3)],
                "p": part,
                "t": dt.datetime(1969, 12, 31, 23, 59, 59, i, tzinfo=dt.UTC) if i % 7 else None,
                "d": decimal.Decimal(i) / 8 if i % 9 else None,
            }
        )
    return made


@pytest.mark.parametrize("mapping", [None, BY_NAME, BY_ID])
def test_nested_partitioned_and_mapped(mapping, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_BATCH_ROWS", 5)
    table = Lake(tmp_path, NESTED, partition_by=["p"], mapping=mapping, row_group_size=13)
    table.write(nested_rows(40, "x y"), deleted=[0, 12, 13, 39], named="other " if mapping == BY_ID else "")
    table.write(nested_rows(40, None), deleted=range(40))
    table.write(nested_rows(40, "%/=é"))
    table.commit()
    assert multiset(read(tmp_path)) == multiset(expected(tmp_path))
    assert sorted(row["id"] for row in read(tmp_path)) == sorted(row["id"] for row in table.live)
    assert multiset(read(tmp_path, columns="p")) == multiset({"p": row["p"]} for row in table.live)


def test_older_files_are_narrower_and_lack_columns(tmp_path):
    fields = [("id", pa.int64()), ("f", pa.float64()), ("d", pa.decimal128(12, 2)), ("z", pa.string())]
    old = pa.schema([("id", pa.int32()), ("f", pa.float32()), ("d", pa.int32())])
    table = Lake(tmp_path, pa.schema(fields), row_group_size=3, stats=False)
    table.write([{"id": i, "f": i / 2, "d": decimal.Decimal(i)} for i in range(10)], deleted=[4], stored=old)
    table.write([{"id": i, "f": None, "d": decimal.Decimal("1.25"), "z": "z"} for i in range(10, 15)])
    table.commit()
    assert multiset(read(tmp_path)) == multiset(expected(tmp_path))
    got = read(tmp_path, datasource.GreaterThan(("id",), 3), datasource.LessThan(("d",), decimal.Decimal(7)))
    assert sorted(row["id"] for row in got) == [5, 6, 10, 11, 12, 13, 14]
    assert read(tmp_path, datasource.IsNotNull(("z",)), datasource.LessThan(("id",), 10)) == []


def test_slices_of_nested_columns_are_read_right():
    held = pa.array([[{"a": 1}], None, [{"a": 2}, None]], pa.list_(pa.struct([("a", pa.int32())])))[1:]
    kind = ArrayOf(Struct((Column("b", Primitive("long"), physical_name="a"),)))
    found = arrow_columns.conform(held, kind)
    found.validate(full=True)
    assert found.to_pylist() == [None, [{"b": 2}, None]]


def test_timestamps_of_every_kind_of_file(tmp_path):
    moment = dt.datetime(2020, 6, 1, 12, 30, 15, 123456, tzinfo=dt.UTC)
    shapes = [pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.timestamp("ms", tz="Asia/Tokyo"), "int96"]
    log = LogWriter(str(tmp_path))
    log.create(column("t", "timestamp"))
    adds = []
    for number, shape in enumerate(shapes):
        old = shape == "int96"
        kind = pa.timestamp("us") if old else shape
        naive = moment.replace(tzinfo=None)
        value = pa.array([naive], pa.timestamp("us")).cast(pa.timestamp(kind.unit), safe=False).cast(kind)
        pq.write_table(
            pa.table({"t": value}), tmp_path / f"{number}.parquet", use_deprecated_int96_timestamps=old
        )
        adds.append(add(f"{number}.parquet"))
    log.commit(*adds)
    whole = moment.replace(microsecond=123000)
    assert [row["t"] for row in read(tmp_path)] == [moment, moment, whole, moment]


def test_inline_vectors_and_files_without(tmp_path):
    table = Lake(tmp_path, IDS, inline=True)
    table.write(rows_of(10), deleted=[0, 9])
    table.write(rows_of(10, 10))
    table.commit()
    assert multiset(read(tmp_path)) == multiset(table.live)


def test_an_empty_table(tmp_path):
    Lake(tmp_path, IDS).commit()
    assert source.Reader(source.load({"path": str(tmp_path)})).partitions() == []
    assert read(tmp_path) == []


def test_a_version_stays_and_a_new_load_sees_the_newest(tmp_path):
    table = Lake(tmp_path, IDS)
    file = table.write(rows_of(10))
    table.commit()
    loaded = source.load({"path": str(tmp_path)})
    table.delete(table.files[0], [3])
    table.commit()
    assert file.path == table.files[0].path
    reader = source.Reader(loaded)
    (task,) = reader.partitions()
    assert len([row for b in reader.read(task) for row in b.to_pylist()]) == 10
    assert len(read(tmp_path)) == 9
    assert len(read(tmp_path, version="0")) == 10


def test_another_table_in_its_place_is_refused(tmp_path):
    Lake(tmp_path, IDS).commit()
    loaded = source.load({"path": str(tmp_path)})
    Lake(tmp_path, pa.schema([("other", pa.int64())])).commit()
    with pytest.raises(InvalidOperationError, match="another table replaced the one that was loaded"):
        source.Reader(loaded).partitions()


# Tasks and row groups


def test_small_files_share_a_task_and_large_ones_are_cut(tmp_path, monkeypatch):
    table = Lake(tmp_path, IDS, row_group_size=10)
    for number in range(30):
        table.write(rows_of(100, number * 100), deleted=range(number, 100, 9))
    table.commit()
    assert len(source.Reader(source.load({"path": str(tmp_path)})).partitions()) == 1
    monkeypatch.setattr(tasks, "LARGEST_PIECE", table.files[0].size // 4)
    monkeypatch.setattr(tasks, "TOGETHER", 1)
    made = source.Reader(source.load({"path": str(tmp_path)})).partitions()
    assert len(made) >= 4 * 30
    assert {part.pieces for task in made for part in task.parts} <= {4, 5}
    assert multiset(read(tmp_path)) == multiset(table.live)


def test_a_task_carries_its_own_files_only(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "TOGETHER", 1)
    table = Lake(tmp_path, IDS, layout=FLAT)
    for number in range(200):
        table.write(rows_of(3, number * 3), deleted=[1], name=f"file-{number:03d}.parquet")
    table.commit()
    reader = source.Reader(source.load({"path": str(tmp_path)}))
    made = [pickle.dumps(task) for task in reader.partitions()]
    assert len(made) == 200
    assert all(data.count(b"file-") <= 3 for data in made)
    assert max(map(len, made)) < 1500 + 2 * len(str(tmp_path))
    assert len(pickle.dumps(reader.scan)) < 1500 + len(str(tmp_path))


def test_row_groups_are_skipped_and_positions_stay_right(tmp_path, monkeypatch):
    table = Lake(tmp_path, IDS, row_group_size=10, stats=False)
    table.write(rows_of(100), deleted=[3, 42, 45, 99])
    table.commit()
    looked_at = []
    real = row_groups.matching
    monkeypatch.setattr(
        row_groups, "matching", lambda *given: looked_at.append(real(*given)) or looked_at[-1]
    )
    got = read(tmp_path, datasource.GreaterThanOrEqual(("id",), 41), datasource.LessThan(("id",), 47))
    assert looked_at == [[4]]
    assert [row["id"] for row in got] == [41, 43, 44, 46]


def test_nan_is_above_all_numbers_in_row_groups_too(tmp_path):
    table = Lake(tmp_path, pa.schema([("x", pa.float64())]), row_group_size=2, stats=False)
    table.write([{"x": x} for x in (1.0, float("nan"), 2.0, 3.0, -0.0, None)])
    table.commit()
    assert len(read(tmp_path, datasource.GreaterThan(("x",), 5.0))) == 1
    assert len(read(tmp_path, datasource.Not(datasource.EqualTo(("x",), 1.0)))) == 4
    assert len(read(tmp_path, datasource.EqualTo(("x",), 0.0))) == 1
    assert len(read(tmp_path, datasource.EqualTo(("x",), float("nan")))) == 1


def test_files_are_pruned_by_pushed_filters(tmp_path):
    table = Lake(tmp_path, IDS, partition_by=["s"])
    for i in range(6):
        table.write([{"id": 10 * i + j, "s": f"p{i % 2}"} for j in range(5)], deleted=[0])
    table.commit()
    reader = source.PushdownReader(source.load({"path": str(tmp_path)}))
    assert reader.pushFilters([datasource.EqualTo(("s",), "p1"), datasource.GreaterThan(("id",), 25)]) == []
    chosen = {part.location.split("/s=")[1][:2] for task in reader.partitions() for part in task.parts}
    assert chosen == {"p1"}
    assert sum(len(task.parts) for task in reader.partitions()) == 2


# Filters

TYPES = pa.schema(
    [("s", pa.string()), ("i", pa.int32()), ("d", pa.decimal128(5, 2)), ("g", pa.list_(pa.int32()))]
)


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    root = tmp_path_factory.mktemp("types")
    Lake(root, TYPES).commit()
    return source.load({"path": str(root)}).schema


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("EqualTo", "i", "5"),
        ("EqualTo", "i", True),
        ("EqualTo", "i", 1 << 40),
        ("EqualTo", "d", decimal.Decimal("1.234")),
        ("EqualTo", "g", [1]),
        ("EqualTo", "nope", 1),
        ("EqualTo", "i", None),
        ("In", "i", (1, "x")),
        ("StringContains", "i", "x"),
    ],
)
def test_filters_that_are_not_sure_stay_with_spark(kind, name, value, schema):
    assert read_filter(getattr(datasource, kind)((name,), value), schema) is None


@pytest.mark.parametrize("text", ["it's", 'a"b', "a\\b", "${x}", "a\rb"])
def test_texts_that_sql_may_read_otherwise_are_left_out_of_the_condition(text, schema):
    sure = read_filter(datasource.EqualTo(("i",), 5), schema)
    doubtful = read_filter(datasource.EqualTo(("s",), text), schema)
    assert condition_text([doubtful, sure]) == "(`i` = 5)"
    assert condition_text([doubtful]) is None


# Bad input


def damaged(tmp_path, **options):
    table = Lake(tmp_path, IDS, **options)
    table.write(rows_of(10), deleted=[0, 5], name="data file.parquet")
    table.commit()
    (vector,) = tmp_path.glob("*.bin")
    return tmp_path / "data file.parquet", vector


def test_a_missing_data_file_is_named(tmp_path):
    data, _ = damaged(tmp_path)
    data.unlink()
    with pytest.raises(ObjectNotFoundError, match=r"data file\.parquet"):
        read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no parquet at all", b"PAR1" + bytes(50) + b"PAR1"])
def test_a_data_file_that_is_none_is_named(content, tmp_path):
    data, _ = damaged(tmp_path)
    data.write_bytes(content)
    with pytest.raises(FormatError, match=r"cannot be read as Parquet.*data file\.parquet"):
        read(tmp_path)


def test_a_missing_vector_is_named(tmp_path):
    _, vector = damaged(tmp_path)
    vector.unlink()
    with pytest.raises(CorruptVectorError, match=f"vector file is missing.*{vector.name}"):
        read(tmp_path)


def test_a_corrupt_vector_is_named(tmp_path):
    _, vector = damaged(tmp_path)
    data = bytearray(vector.read_bytes())
    data[-1] ^= 1
    vector.write_bytes(data)
    with pytest.raises(CorruptVectorError, match=f"CRC.*{vector.name}"):
        read(tmp_path)


def test_a_vector_beyond_the_file_is_named(tmp_path):
    data, vector = damaged(tmp_path)
    pq.write_table(pa.Table.from_pylist(rows_of(5), schema=IDS), data)
    with pytest.raises(CorruptVectorError, match=f"deletes row 5, expected one of the 5 rows.*{vector.name}"):
        read(tmp_path)


def test_a_column_of_another_type_is_named(tmp_path):
    table = Lake(tmp_path, IDS)
    table.write([{"id": 1, "s": b"\xff"}], stored=pa.schema([("id", pa.int64()), ("s", pa.binary())]))
    table.stats = False
    table.commit()
    with pytest.raises(FormatError, match=r"column s is binary in the file, expected string.*parquet"):
        read(tmp_path)


def not_null_table(path, values):
    log = LogWriter(str(path))
    inner = {"type": "struct", "fields": [column("k", "long", nullable=False)]}
    log.create(column("id", "long", nullable=False), column("n", inner))
    pq.write_table(pa.Table.from_pylist(values), path / "f.parquet")
    log.commit(add("f.parquet"))


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ([{"id": None, "n": {"k": 1}}, {"id": 1, "n": None}], "id"),
        ([{"id": 1, "n": {"k": None}}, {"id": 1, "n": {"k": 1}}], "n.k"),
    ],
)
def test_a_null_where_the_table_has_none_is_refused(values, name, tmp_path):
    not_null_table(tmp_path, values)
    with pytest.raises(
        FormatError, match=f"column {name} contains a null, but the column is NOT NULL.*f.parquet"
    ):
        read(tmp_path)


def test_nulls_above_what_is_not_null_are_fine(tmp_path):
    values = [{"id": 1, "n": None}, {"id": 2, "n": {"k": 1}}]
    not_null_table(tmp_path, values)
    assert read(tmp_path) == values


def test_a_shredded_variant_is_refused_by_name(tmp_path):
    log = LogWriter(str(tmp_path))
    log.create(column("v", "variant"), features=["deletionVectors", "variantType"])
    held = [{"v": {"metadata": b"\x01\x00\x00", "value": b"\x0c\x05", "typed_value": 5}}]
    pq.write_table(pa.Table.from_pylist(held), tmp_path / "f.parquet")
    log.commit(add("f.parquet"))
    with pytest.raises(UnsupportedFeatureError, match=r"column v: a variant is shredded.*f.parquet"):
        read(tmp_path)


# What is shipped

_ABSENT = """
import pickle, sys
from pyspark.serializers import CPickleSerializer
sys.modules["delvec"] = None
CPickleSerializer().loads(sys.stdin.buffer.read())
"""


def test_executors_without_delvec_are_told(tmp_path):
    from pyspark.serializers import CPickleSerializer

    Lake(tmp_path, IDS).commit()
    made = source.DelvecSource({"path": str(tmp_path)})
    made.schema()
    for shipped in (made, made.reader(None)):
        data = CPickleSerializer().dumps(shipped)
        assert type(CPickleSerializer().loads(data)) is type(shipped)
        run = subprocess.run([sys.executable, "-c", _ABSENT], input=data, capture_output=True, check=False)
        assert b"ImportError: delvec must be installed on the executors" in run.stderr


def test_looking_for_data_sources_stays_light():
    code = "import sys, pyspark_delvec; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"obstore", "sqlglot", "pyroaring", "delvec.detect", "delvec.spark"} & set(run.stdout.split())


def test_random_files_filters_and_columns(tmp_path):
    rng = random.Random(11)
    for number in range(8):
        table = Lake(
            tmp_path / str(number), IDS, row_group_size=rng.choice([1, 3, 1000]), stats=bool(number % 2)
        )
        for start in range(0, 200, 40):
            table.write(rows_of(40, start), deleted=rng.sample(range(40), rng.choice([0, 1, 20, 40])))
        table.commit()
        for _ in range(10):
            low, high, texts = (
                rng.randrange(200),
                rng.randrange(200),
                rng.sample([f"s{i}" for i in range(9)], 2),
            )
            tests = [datasource.GreaterThan(("id",), low), datasource.LessThanOrEqual(("id",), high)]
            tests.append(datasource.Not(datasource.In(("s",), tuple(texts))))
            want = [r for r in table.live if low < r["id"] <= high and r["s"] not in texts]
            assert multiset(read(tmp_path / str(number), *tests)) == multiset(want)
