"""The native scan: the rows of a table, as Spark reads them with vectors applied inside its plan."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pytest

from contract.kinds import INLINE_VECTORS
from delvec.bitmap import Bitmap
from delvec.errors import DelvecError
from delvec.spark import vector_words
from delvec.spark.vector_chunks import chunk_batches
from lake import FLAT, PREFIX
from scanning import collected, opened, same

pytestmark = [pytest.mark.spark, pytest.mark.common]

NUMBERS = pa.schema([("id", pa.int64()), ("v", pa.float64())])
PARTED = pa.schema([("id", pa.int64()), ("p", pa.int32())])


def numbers(first, count):
    return [{"id": i, "v": i / 4} for i in range(first, first + count)]


def in_partition(p, ids):
    return [{"id": i, "p": p} for i in ids]


# Vectors


@pytest.mark.common(every=True)
@pytest.mark.usefixtures("applied")
def test_files_with_and_without_vectors(kind, spark, tmp_path):
    lake = kind.lake(tmp_path / "t", NUMBERS)
    lake.write(numbers(0, 100))
    lake.write(numbers(100, 57), deleted=[0, 1, 56])
    lake.write(numbers(200, 31), deleted=range(31))
    lake.write(numbers(300, 5000), deleted=[63, 64, 4095, 4096, 4097, 4999])
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.usefixtures("applied")
def test_files_of_equal_size_with_and_without_vectors(kind, spark, tmp_path):
    lake = kind.lake(tmp_path / "a t%20é", NUMBERS)
    files = [
        lake.write(
            numbers(n * 100, 50), deleted=[n] if n % 3 else (), name=f"part {n} %41 ü#?.parquet", size=4000
        )
        for n in range(9)
    ]
    lake.write(numbers(1000, 50), deleted=[49], size=4001)
    lake.commit()
    assert {file.size for file in files} == {4000}
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.rare
def test_rows_after_the_last_deleted_one(kind, spark, tmp_path):
    """They have no words, and are not looked up in the next file's."""
    lake = kind.lake(tmp_path / "t", NUMBERS)
    lake.write(numbers(0, 9000), deleted=[5])
    lake.write(numbers(10000, 9000), deleted=range(0, 9000, 2))
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.usefixtures("applied")
def test_several_row_groups_and_a_filter_on_them(kind, spark, tmp_path):
    lake = kind.lake(tmp_path / "t", NUMBERS, row_group_size=1000)
    lake.write(numbers(0, 9500), deleted=range(0, 9500, 7))
    lake.commit()
    frame = opened(spark, lake).to_df()
    same(frame.where("id between 4990 and 5010"), [r for r in lake.live if 4990 <= r["id"] <= 5010])
    assert frame.count() == len(lake.live)


@pytest.mark.needs(INLINE_VECTORS)
@pytest.mark.usefixtures("applied")
@pytest.mark.parametrize("inline", [False, True])
def test_vectors_in_the_log_and_in_files(kind, spark, tmp_path, inline):
    lake = kind.lake(tmp_path / "t", NUMBERS, inline=inline)
    lake.write(numbers(0, 30), deleted=[3, 29])
    lake.write(numbers(50, 35), deleted=[0])
    lake.commit()
    assert lake.files[0].vector["storageType"] == ("i" if inline else "u")
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.rare
@pytest.mark.usefixtures("applied")
def test_vectors_without_statistics(kind, spark, tmp_path):
    lake = kind.lake(tmp_path / "t", NUMBERS, stats=False)
    lake.write(numbers(0, 30), deleted=[3, 29])
    lake.write(numbers(50, 35), deleted=[0])
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.rare
@pytest.mark.usefixtures("applied")
def test_the_row_based_reader(kind, spark, tmp_path, conf):
    conf("spark.sql.parquet.enableVectorizedReader", "false")
    lake = kind.lake(tmp_path / "t", NUMBERS, row_group_size=500)
    lake.write(numbers(0, 3000), deleted=range(0, 3000, 5))
    lake.write(numbers(4000, 100), deleted=[7], size=9000)
    lake.write(numbers(5000, 100), deleted=[8], size=9000)
    lake.commit()
    same(opened(spark, lake).to_df().where("id % 2 = 0"), [r for r in lake.live if r["id"] % 2 == 0])


@pytest.mark.common(every=True)
def test_hundreds_of_small_vectors(kind, spark, tmp_path):
    lake = kind.lake(tmp_path / "t", NUMBERS)
    for n in range(300):
        lake.write(numbers(n * 10, 3 + n % 5), deleted=[n % 3])
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.rare
def test_vectors_loaded_on_the_executors(kind, spark, tmp_path, monkeypatch):
    from delvec.spark import scan

    lake = kind.lake(tmp_path / "t", NUMBERS)
    lake.write(numbers(0, 5000), deleted=range(0, 5000, 3))
    for n in range(3):
        lake.write(numbers(n * 100 + 6000, 40), deleted=[n], size=5000)
    lake.write(numbers(9000, 10))
    lake.commit()
    monkeypatch.setattr(scan, "DRIVER_CHUNK_BYTES", 0)
    frame = opened(spark, lake).to_df()
    same(frame, lake.live)
    assert "MapInArrow" in frame._jdf.queryExecution().toString()


@pytest.mark.rare
def test_executors_without_what_it_takes_are_told_of(kind, spark, tmp_path, monkeypatch):
    from delvec.errors import UnsupportedFeatureError
    from delvec.spark import scan

    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # no installed package
    bare.chmod(0o755)
    lake = kind.lake(tmp_path / "t", NUMBERS)
    lake.write(numbers(0, 50), deleted=[1])
    lake.commit()
    monkeypatch.setattr(scan, "DRIVER_CHUNK_BYTES", 0)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    with pytest.raises(UnsupportedFeatureError, match=r"delvec and pyarrow must be installed .*pyarrow"):
        opened(spark, lake).to_df()


@pytest.mark.rare
def test_chunks_too_large_to_broadcast(kind, spark, tmp_path, monkeypatch, conf):
    from delvec.spark import scan

    lake = kind.lake(tmp_path / "t", NUMBERS)
    lake.write(numbers(0, 9000), deleted=range(0, 9000, 3))
    lake.commit()
    monkeypatch.setattr(scan, "BROADCAST_CHUNK_BYTES", 0)
    conf("spark.sql.autoBroadcastJoinThreshold", "-1")
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.rare
@pytest.mark.usefixtures("applied")
def test_the_scan_joined_with_itself(kind, spark, tmp_path):
    lake = kind.lake(tmp_path / "t", NUMBERS)
    lake.write(numbers(0, 30), deleted=[3, 29])
    lake.write(numbers(50, 35))
    lake.commit()
    table = opened(spark, lake)
    frame = table.to_df()
    ids = {row["id"] for row in lake.live}
    joined = frame.alias("a").join(frame.alias("b"), "id").select("id")
    assert {row["id"] for row in collected(joined)} == ids
    assert collected(frame.join(table.to_df(), "id", "left_anti")) == []


@pytest.mark.parametrize("number", [0, 1, 2**31, 2**32 - 1])
def test_rows_beyond_what_an_integer_holds(spark, number):
    """As in a scan, with rows of files that are too large to be made."""
    from pyspark.sql import functions as f

    from delvec.spark.scan_part import deleted_rows

    most = 2 ** (31 + 12)
    edges = [
        0,
        63,
        4095,
        4096,
        2**31 - 1,
        2**31,
        2**31 + 4096,
        2**32,
        2**35 + 64,
        2**36 - 1,
        2**40,
        2**43 - 1,
    ]
    deleted = [row for row in edges if row < most]
    near = sorted({row + step for row in deleted for step in (-4096, -64, -1, 0, 1, 64, 4096)})
    rows = [row for row in near if 0 <= row < most]
    batches = chunk_batches([(number << 31, Bitmap.from_iterable(deleted))])
    chunks = spark.createDataFrame(pa.Table.from_batches(batches))
    frame = spark.createDataFrame(pa.table({"n": pa.repeat(number, len(rows)), "row": rows}))
    left = frame.join(chunks, f.expr(deleted_rows("n", "row", "key", "words")), "left_anti")
    assert sorted(row["row"] for row in collected(left)) == [row for row in rows if row not in deleted]


OWN = [0, 1, 2, 3, 2**32 - 1]  # the numbers of files; three of the slots are no file's
ROWS_DELETED = [[5, 64, 4095], [4096], [], [8190], [0, 8191]]


def looked_up(spark, rows):
    """The rows, of a file's number and a position each, that words leave."""
    found = vector_words.words_of(
        [Bitmap.from_iterable(positions) for positions in ROWS_DELETED], np.array(OWN)
    )
    assert len(found.slots) > len(OWN)
    frame = spark.createDataFrame(rows, "number bigint, row bigint")
    live = vector_words.is_live(
        spark, found, number="number", row="row", lost="raise_error(concat('lost: ', number))"
    )
    return [tuple(row) for row in frame.where(live).collect()]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_rows_looked_up_in_words(spark, conf, ansi):
    conf("spark.sql.ansi.enabled", ansi)
    positions = [0, 4, 5, 6, 63, 64, 65, 4095, 4096, 4097, 8190, 8191, 8192, 2**31, 2**38, 2**43]
    rows = [(number, row) for number in OWN for row in positions]
    gone = {(number, row) for number, some in zip(OWN, ROWS_DELETED, strict=True) for row in some}
    assert looked_up(spark, rows) == [place for place in rows if place not in gone]


@pytest.mark.parametrize("row", [(4, 7), (0, None)])
def test_a_row_of_an_unknown_file_or_position_is_an_error(spark, row):
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=f"lost: {row[0]}"):
        looked_up(spark, [(1, 3), row])


# Files


@pytest.mark.common(every=True)
def test_many_files_by_folder_beside_dead_ones(kind, spark, tmp_path):
    lake = kind.lake(tmp_path / "t", PARTED, partition_by=["p"])
    for n in range(80):
        lake.write(in_partition(n % 4, [n * 10, n * 10 + 1, n * 10 + 2]), deleted=[n % 3] if n % 2 else ())
    dead = [lake.write(in_partition(n % 4, [-n])) for n in range(4)]
    lake.commit()
    for file in dead:
        lake.forget(file)
    table = opened(spark, lake)
    same(table.to_df(), lake.live)
    same(table.to_df().where("p = 3"), [row for row in lake.live if row["p"] == 3])


@pytest.mark.parametrize("deleted", [(), (1,)])
def test_many_files_whose_names_repeat_across_partitions(kind, spark, tmp_path, deleted):
    lake = kind.lake(tmp_path / "t", PARTED, partition_by=["p"])
    for p in range(40):
        lake.write(in_partition(p, [p * 10, p * 10 + 1]), name=f"p={p}/part-0.parquet", deleted=deleted)
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.rare
def test_many_files_with_a_dead_file_of_a_live_name(kind, spark, tmp_path):
    lake = kind.lake(tmp_path / "t", PARTED, partition_by=["p"])
    for p in range(40):
        lake.write(in_partition(p, [p]), name=f"p={p}/part-{p}.parquet")
    dead = lake.write(in_partition(1, [-1]), name="p=1/part-7.parquet")
    lake.commit()
    lake.forget(dead)
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.rare
@pytest.mark.parametrize("folder", ["stale", "p=text", "q=1", "p=1/q=2"])
def test_many_files_beside_folders_that_fit_no_partitioning(kind, spark, tmp_path, folder):
    lake = kind.lake(tmp_path / "t", PARTED, partition_by=["p"])
    for p in range(40):
        lake.write(in_partition(p, [p]))
    dead = lake.write(in_partition(1, [-1]), name=f"{folder}/dead.parquet")
    lake.commit()
    lake.forget(dead)
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.rare
@pytest.mark.parametrize("layout", [FLAT, PREFIX])
@pytest.mark.parametrize("partition_by", [(), ("p",)])
def test_many_files_without_folders_of_partitions(kind, spark, tmp_path, layout, partition_by):
    lake = kind.lake(tmp_path / "t", PARTED, partition_by=partition_by, layout=layout)
    for n in range(120):
        lake.write(in_partition(n % 3, [n * 10, n * 10 + 1]), deleted=[0] if n % 4 == 0 else ())
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)


def test_many_files_in_folders_that_look_like_partitions(kind, spark, tmp_path):
    lake = kind.lake(tmp_path / "t", PARTED)
    for n in range(40):
        lake.write(in_partition(n, [n * 10]), name=f"id={n}/part-{n}.parquet")
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.rare
@pytest.mark.parametrize("folder", ["_folder", ".folder", "_folder/{}", ".folder/{}"])
def test_folders_that_hadoop_takes_for_hidden(kind, spark, tmp_path, folder):
    lake = kind.lake(tmp_path / "t", NUMBERS)
    for n in range(40):
        name = f"{folder.format(n)}/part-{n}.parquet"
        lake.write(numbers(n * 10, 2), name=name, deleted=[0] if n == 1 else ())
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.parametrize("name", ["_part.parquet", ".part.parquet"])
def test_files_that_hadoop_takes_for_hidden_are_refused(kind, spark, tmp_path, name):
    from delvec.errors import UnsupportedFeatureError

    lake = kind.lake(tmp_path / "t", NUMBERS)
    lake.write(numbers(0, 2), name=name)
    lake.commit()
    with pytest.raises(UnsupportedFeatureError, match=rf"hidden.*{name}"):
        opened(spark, lake).to_df()


@pytest.mark.parametrize("count", [3, 40])
def test_names_of_odd_characters(kind, spark, tmp_path, count):
    odd = ["[a]", "{b,c}", "*", "?", "\\", "a b", "a%20b", "é", "a'b", 'a"b', "#", "a+b", "~", "a=b", "a,b"]
    lake = kind.lake(tmp_path / "t [x] {y} *", NUMBERS)
    for n in range(count):
        lake.write(numbers(n * 10, 4), name=f"{odd[n % len(odd)]}{n}.parquet", deleted=[n % 4], size=3500)
    for n, text in enumerate(odd):
        lake.write(numbers(n * 10 + 1000, 4), name=f"x{text}/{text}.parquet")
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.rare
@pytest.mark.parametrize("count", [3, 40])
def test_folders_with_colons(kind, spark, tmp_path, count):
    lake = kind.lake(tmp_path / "t:u", NUMBERS)
    for n in range(count):
        lake.write(numbers(n * 10, 4), name=f"a:b/12:00/{n}.parquet", deleted=[n % 4], size=3500)
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.rare
def test_names_without_an_ending(kind, spark, tmp_path):
    lake = kind.lake(tmp_path / "t", NUMBERS)
    for n in range(40):
        lake.write(numbers(n * 10, 2), name=f"data-{n}")
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.rare
@pytest.mark.parametrize("count", [3, 40])
@pytest.mark.parametrize("deleted", [(), (0,)])
def test_a_missing_data_file_is_an_error_that_names_it(kind, spark, tmp_path, conf, count, deleted):
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    conf("spark.sql.files.ignoreMissingFiles", "true")
    conf("spark.sql.files.ignoreCorruptFiles", "true")
    lake = kind.lake(tmp_path / "t", NUMBERS)
    for n in range(count):
        lake.write(numbers(n * 10, 2), name=f"part-{n}.parquet", deleted=deleted)
    lake.commit()
    table = opened(spark, lake)
    before = table.to_df()
    (lake.root / "part-1.parquet").unlink()
    for read in (before.collect, lambda: table.to_df().collect()):
        with pytest.raises((PySparkException, Py4JJavaError, DelvecError), match=r"part-1\.parquet"):
            read()


@pytest.mark.rare
def test_a_corrupt_data_file_is_an_error_that_names_it(kind, spark, tmp_path, conf):
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    conf("spark.sql.files.ignoreCorruptFiles", "true")
    lake = kind.lake(tmp_path / "t", NUMBERS)
    lake.write(numbers(0, 9))
    file = lake.write(numbers(10, 9), name="part-1.parquet")
    lake.commit()
    (lake.root / "part-1.parquet").write_bytes(b"x" * file.size)
    with pytest.raises((PySparkException, Py4JJavaError, DelvecError), match=r"part-1\.parquet"):
        opened(spark, lake).to_df().collect()


# The session


def test_the_session_is_as_it_was(kind, spark, tmp_path, conf):
    from pyspark.errors import PySparkException

    name = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    lake = kind.lake(tmp_path / "t", PARTED, partition_by=["p"])
    for p in range(40):  # names repeat: each file goes to Spark by its path
        lake.write(in_partition(p, [p, p]), name=f"p={p}/part-0.parquet", deleted=[0])
    lake.commit()
    before = session_settings(spark)
    same(opened(spark, lake).to_df(), lake.live)
    assert session_settings(spark) == before
    conf(name, "77")
    before = session_settings(spark)
    same(opened(spark, lake).to_df(), lake.live)
    assert session_settings(spark) == before
    (lake.root / "p=3/part-0.parquet").unlink()
    table = opened(spark, lake)
    with pytest.raises((PySparkException, DelvecError), match=r"p=3/part-0\.parquet"):
        table.to_df()
    assert session_settings(spark) == before


def session_settings(spark):
    found = spark.conf.getAll
    return dict(found() if callable(found) else found)
