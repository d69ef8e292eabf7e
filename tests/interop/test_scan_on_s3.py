"""Tables on S3, read by Spark's own ``s3a`` and by delvec's storage.

The settings of a classic session, ``spark.hadoop.fs.s3a.*``, are all that the native scan needs. What others
need:

    Connect     gives its clients no setting that looks like a secret: ``storage_options``, or the environment
    connector   asks no session, as its workers have none: the storage's options with each ``load``, or the
                environment of driver and executors
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import scan_process
from delvec.storage import open_storage
from jars import JarsUnavailableError, s3a_jars
from lake import BY_ID, FLAT, Lake
from rows import multiset
from s3server import BUCKET, s3_server_or_skip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("p", pa.int32())])
NAMED = pa.schema([("id", pa.int64()), ("p q", pa.string())])
ODD_TEXTS = ["plain", "two words", "a/b", "100%", "%20", "a=b", "ünïcødé ☃", "a+b", None]
EQUAL_SIZE = 12_000
PUSHDOWN = {"spark.sql.python.filterPushdown.enabled": "true"}  # else the connector reads every file


def rows(p, first, count):
    return [{"id": first + i, "s": f"s{i}", "p": p} for i in range(count)]


def parted(root, files, *, size=None, **options):
    """Three partitions; every second file has a vector, all of one size or all of different ones."""
    lake = Lake(root, SCHEMA, partition_by=["p"], **options)
    for n in range(files):
        deleted = [0, n % 5] if n % 2 else ()
        lake.write(rows(n % 3, n * 1000, 8 + n * 5), deleted=deleted, size=size)
    lake.commit()
    return lake


def oddly_named(root):
    lake = Lake(root, NAMED, partition_by=["p q"])
    for n, text in enumerate(ODD_TEXTS):
        lake.write([{"id": n * 10 + i, "p q": text} for i in range(4)], deleted=[1], size=EQUAL_SIZE)
    lake.commit()
    return lake


class Bucket:
    """Tables made locally and put into the server's bucket, and the scans to make of them."""

    def __init__(self, server, scratch):
        self.server = server
        self.scratch = scratch
        self.scans = {}
        self.expected = {}
        self.broken = {}

    @property
    def settings(self):
        return {
            "fs.s3a.access.key": self.server.access_key,
            "fs.s3a.secret.key": self.server.secret_key,
            "fs.s3a.endpoint": self.server.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
        }

    def put(self, lake):
        place = f"s3://{BUCKET}/{lake.root.name}"
        storage = open_storage(place, self.server.options)
        for path in lake.root.rglob("*"):
            if path.is_file():
                storage.put(str(path.relative_to(lake.root)), path.read_bytes())
        return place, storage

    def ask(self, name, place, live, **scan):
        for asked in self._both_ways(name, place, scan):
            self.expected[asked] = multiset(live)

    def ask_in_vain(self, name, place, *texts, **scan):
        for asked in self._both_ways(name, place, scan):
            self.broken[asked] = texts

    def _both_ways(self, name, place, scan):
        """By native scan and connector."""
        connected = f"{name}, by the connector"
        self.scans[name] = {"table": place, **scan}
        self.scans[connected] = {"table": place, **scan, "connector": True, "options": self.settings}
        return name, connected


LAKES = {
    "few": lambda root: parted(root, 6),
    "few, of one size": lambda root: parted(root, 6, size=EQUAL_SIZE),
    "many": lambda root: parted(root, 45),
    "many, in one folder": lambda root: parted(root, 45, size=EQUAL_SIZE, layout=FLAT),
    "by id": lambda root: parted(root, 6, mapping=BY_ID),
    "inline": lambda root: parted(root, 4, inline=True),
    "odd names": oddly_named,
}


def filled(server, scratch):
    bucket = Bucket(server, scratch)
    for name, make in LAKES.items():
        lake = make(scratch / name)
        place, _ = bucket.put(lake)
        bucket.ask(name, place, lake.live)
    lake = parted(scratch / "chosen", 45, size=EQUAL_SIZE, layout=FLAT)
    place, _ = bucket.put(lake)
    bucket.scans["on the executors"] = {"table": place, "distributed": True}
    bucket.expected["on the executors"] = multiset(lake.live)
    chosen = [{"s": row["s"], "id": row["id"]} for row in lake.live if row["id"] < 20_000]
    as_hadoop_has_it = place.replace("s3://", "s3a://")
    bucket.ask("chosen", as_hadoop_has_it, chosen, where="id < 20000", columns=["s", "id"])
    for files in (6, 45):
        pruned(bucket, files)
        broken(bucket, files)
    return bucket


def pruned(bucket, files):
    """No file of a partition but one can be read: rows come only where the others are not opened."""
    lake = parted(bucket.scratch / f"one partition readable of {files} files", files)
    place, storage = bucket.put(lake)
    for file in lake.files:
        if file.rows[0]["p"] != 1:
            storage.put(file.path, b"x" * file.size)
    live = [row for row in lake.live if row["p"] == 1]
    bucket.scans[f"later filter, {files}"] = {"table": place, "later": "p = 1"}
    bucket.expected[f"later filter, {files}"] = multiset(live)
    bucket.ask(f"where, {files}", place, live, where="p = 1", conf=PUSHDOWN)
    bucket.ask_in_vain(f"no parquet, {files}", place, "p=2/part-", where="p = 2", conf=PUSHDOWN)


def broken(bucket, files):
    lake = parted(bucket.scratch / f"a data file missing of {files}", files)
    place, storage = bucket.put(lake)
    missing = lake.files[1].path
    storage.delete([missing])
    bucket.ask_in_vain(f"data file missing, {files}", place, missing.split("/")[-1])
    lake = parted(bucket.scratch / f"a vector file missing of {files}", files)
    place, storage = bucket.put(lake)
    (vector,) = lake.root.glob("*.bin")
    storage.delete([vector.name])
    bucket.ask_in_vain(
        f"vector missing, {files}", place, "CorruptVectorError: vector file is missing", vector.name
    )


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    try:
        s3a_jars()
    except JarsUnavailableError as error:
        pytest.skip(str(error))
    root = tmp_path_factory.mktemp("s3")
    with s3_server_or_skip(root / "server") as server:
        yield filled(server, root / "scratch")


@pytest.fixture(scope="module", params=[False, True], ids=["classic", "connect"])
def answers(request, bucket, tmp_path_factory):
    settings = {f"spark.hadoop.{name}": value for name, value in bucket.settings.items()}
    settings["spark.driver.extraClassPath"] = ":".join(map(str, s3a_jars()))
    scans = bucket.scans
    if request.param:
        scans = {name: {**scan, "options": bucket.settings} for name, scan in scans.items()}
    folder = tmp_path_factory.mktemp("process")
    return scan_process.answers(folder, scans, remote=request.param, settings=settings)


def test_the_same_rows(bucket, answers):
    for name, expected in bucket.expected.items():
        assert "error" not in answers[name], f"{name}: {answers[name]}"
        assert Counter(answers[name]["rows"]) == expected, name


def test_where_leaves_out_files_before_spark_sees_them(bucket, answers):
    for files in (6, 45):
        assert len(answers[f"where, {files}"]["files"]) == files // 3
    assert all(file.startswith(f"s3a://{BUCKET}/") for file in answers["where, 6"]["files"])


def test_what_is_missing_or_unreadable_is_named(bucket, answers):
    for name, expected in bucket.broken.items():
        for text in expected:
            assert text in answers[name].get("error", "no error"), name
