"""What every store must do: local disk, memory and a real S3 server. Then what is theirs alone."""

from __future__ import annotations

import os
import pickle
import signal
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.exceptions import GenericError

from delvec import location
from delvec.errors import InvalidOperationError, ObjectNotFoundError, StorageError, UnsupportedFeatureError
from delvec.storage import Storage, objects, open_storage
from s3server import BUCKET, s3_server_or_skip

_NUMBERS = count()
STRANGE_NAMES = [
    "a b",
    "p%",
    "x%20y",
    "%252F",
    "p=a%2Fb/f.parquet",
    "k=v/f",
    "c:d",
    "a+b",
    "h#i",
    "q?r",
    "br[ack]et",
    "cu{rl}y",
    "ünï/日本",
    "emoji😀",
    "back\\slash",
    "st*r",
    "pi|pe",
    "lt<gt>",
    "quo\"te'",
    "ca^ret`",
    "ti~lde",
    "a&b;c,d@e!f$(g)",
    "..dots",
    "a/.hidden",
    "_delta_log/0.json",
]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a test keeps its files: ``folder`` is where they are on disk, if they are."""

    root: str
    options: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None

    def open(self) -> Storage:
        return open_storage(self.root, self.options)


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory):
    with s3_server_or_skip(tmp_path_factory.mktemp("s3") / "server") as server:
        yield server


@pytest.fixture(params=["local", "memory", "s3"])
def place(request, tmp_path):
    if request.param == "local":
        return Place(f"{tmp_path}/t 1%20", folder=tmp_path / "t 1%20")
    if request.param == "memory":
        return Place(f"memory://test-{next(_NUMBERS)}/t 1%20")
    server = request.getfixturevalue("s3_server")
    name = f"{next(_NUMBERS)}/t 1%20"
    return Place(f"s3a://{BUCKET}/{name}", server.options, server.folder / name)


@pytest.fixture
def storage(place):
    return place.open()


def paths(entries):
    return [entry.path for entry in entries]


def names_in(folder):
    return [path.name for path in folder.iterdir()]


def test_what_is_put_is_read(storage):
    storage.put("a/b", b"first")
    assert storage.read("a/b") == b"first"
    storage.put("a/b", b"second")
    assert storage.read("a/b") == b"second"
    storage.put("empty", b"")
    assert storage.read("empty") == b""
    assert storage.open_input("empty").read() == b""


def test_large_files_are_put_whole(storage):
    data = bytes(range(256)) * 80_000  # 20 MB: more than one part of an upload
    storage.put("large", data)
    assert storage.read("large") == data
    assert storage.put_if_absent("large", b"x") is False
    assert storage.put_if_absent("large too", data) is True
    assert storage.put_if_absent("large too", bytes(len(data))) is False
    assert storage.put_if_absent("large too", bytes(12_000_000)) is False
    assert storage.read("large too") == data
    with storage.open_input("large") as file:
        file.seek(5)
        assert file.read(12_000_000) == data[5:12_000_005]


def test_put_if_absent_never_overwrites(storage):
    assert storage.put_if_absent("c", b"first") is True
    assert storage.put_if_absent("c", b"second") is False
    assert storage.read("c") == b"first"
    storage.delete(["c"])
    assert storage.put_if_absent("c", b"third") is True


@pytest.mark.parametrize("name", STRANGE_NAMES)
def test_a_name_is_the_same_in_the_store_and_on_disk(place, name):
    storage = place.open()
    data = name.encode()
    assert storage.put_if_absent(name, data) is True
    assert storage.put_if_absent(name, b"other") is False
    assert storage.read(name) == data
    assert storage.read_ranges(name, [(1, 1)]) == [data[1:2]]
    assert storage.open_input(name).read() == data
    assert storage.head(name).path == name
    assert paths(storage.list()) == [name]
    assert storage.read(location.resolve(storage.root, location.encode(name))) == data
    if place.folder is not None:
        assert (place.folder / name).read_bytes() == data
        parent, _, last = name.rpartition("/")
        assert last in names_in(place.folder / parent)
    storage.copy(name, name + "2")
    storage.delete([name])
    assert paths(storage.list()) == [name + "2"]


def test_reading_what_is_absent(storage):
    storage.put("folder/file", b"x")
    for absent in ("nothing", "folder", "folder/file/below", "folder/nothing"):
        for reading in (
            storage.read,
            storage.head,
            storage.open_input,
            lambda path: storage.read_ranges(path, [(0, 1)]),
            lambda path: storage.copy(path, "target"),
            lambda path: storage.move(path, "target"),
        ):
            with pytest.raises(ObjectNotFoundError, match=absent) as caught:
                reading(absent)
            assert caught.value.path == f"{storage.root}/{absent}"
        assert storage.exists(absent) is False
    assert storage.exists("folder/file") is True
    assert paths(storage.list()) == ["folder/file"]


def test_head(storage):
    before = datetime.now(UTC) - timedelta(seconds=5)
    storage.put("a/b", b"12345")
    entry = storage.head("a/b")
    assert (entry.path, entry.size) == ("a/b", 5)
    assert entry.modified.utcoffset() == timedelta(0)
    assert before < entry.modified < datetime.now(UTC) + timedelta(seconds=5)
    assert storage.list() == [entry]


def test_ranges_come_in_the_order_asked_for(storage):
    data = os.urandom(100_000)
    storage.put("f", data)
    ranges = [(99_990, 10), (0, 4), (50_000, 1), (2, 4), (7, 0), (0, 100_000), (50_000, 1), (100_000, 0)]
    assert storage.read_ranges("f", ranges) == [data[start : start + size] for start, size in ranges]
    assert storage.read_ranges("f", []) == []


@pytest.mark.parametrize("bad", [(95, 6), (100, 1), (200, 5), (0, 101)])
def test_a_range_beyond_the_end_is_refused(storage, bad):
    storage.put("f", bytes(100))
    with pytest.raises(
        StorageError, match=rf"{bad[1]} bytes at {bad[0]} ends beyond the file's 100 bytes"
    ) as caught:
        storage.read_ranges("f", [bad])
    assert caught.value.path == f"{storage.root}/f"
    with pytest.raises(StorageError, match="beyond the file's 100 bytes"):
        storage.read_ranges("f", [(0, 10), bad, (50, 10)])
    with pytest.raises(StorageError, match="invalid range"):
        storage.read_ranges("f", [(-1, 5)])


def test_near_ranges_share_a_request(storage):
    storage.put("f", bytes(30_000_000))
    storage.requests.clear()
    storage.read_ranges("f", [(size * 100, 50) for size in range(1000)])
    assert storage.requests == {"read": 1}
    storage.read_ranges("f", [(0, 10), (29_000_000, 10), (50, 10)])
    assert storage.requests == {"read": 3}
    storage.read_ranges("f", [(number * 5_000_000, 5_000_000) for number in range(6)])
    assert storage.requests == {"read": 5}  # large ones stay apart, to come in parallel


def test_list_is_recursive_sorted_and_by_folder(storage):
    assert storage.list() == []
    assert storage.list("nothing") == []
    assert storage.list_folder("nothing") == []
    names = ["b", "a/z", "a/b/c", "a.txt", "ab/x", "é", "B", "a/0"]
    for name in names:
        storage.put(name, b"")
    assert paths(storage.list()) == sorted(names)
    assert paths(storage.list("a")) == ["a/0", "a/b/c", "a/z"]
    assert paths(storage.list("a/")) == ["a/0", "a/b/c", "a/z"]
    assert paths(storage.list_folder("a")) == ["a/0", "a/z"]
    assert paths(storage.list_folder("")) == ["B", "a.txt", "b", "é"]
    assert storage.list("b") == []
    assert storage.list_folder("b") == []


def test_list_starts_strictly_after(storage):
    names = [f"log/{version:03}.json" for version in range(20)]
    for name in [*names, "zzz", "a"]:
        storage.put(name, b"")
    assert paths(storage.list("log", start_after="log/016.json")) == names[17:]
    assert paths(storage.list("log", start_after="log/016")) == names[16:]
    assert paths(storage.list("log", start_after="log/999")) == []
    assert paths(storage.list(start_after="log/018.json")) == ["log/019.json", "zzz"]
    absolute = f"{storage.root}/log/018.json"
    assert paths(storage.list(f"{storage.root}/log", start_after=absolute)) == ["log/019.json"]


def test_walk_enters_the_folders_that_it_should(storage):
    for name in ("a", "b/c", "b/d/e", "b/_x/y", "_h/i", "file:/z"):
        storage.put(f"{storage.root}/{name}", name.encode())
    asked = []

    def enter(folder):
        asked.append(folder)
        return not folder.rpartition("/")[2].startswith("_")

    rows = [row for part in storage.walk(enter) for row in part.to_pylist()]
    files = {row["path"]: row["size"] for row in rows if row["entries"] is None}
    assert files == {name: len(name) for name in ("a", "b/c", "b/d/e", "file:/z")}
    assert sorted(asked) == ["_h", "b", "b/_x", "b/d", "file:"]
    folders = {row["path"]: row["entries"] for row in rows if row["entries"] is not None}
    assert folders in ({}, {"b": 3, "b/d": 1, "file:": 1})
    assert all(abs(row["modified_ms"] / 1000 - time.time()) < 60 for row in rows)


def test_walk_of_a_store_streams(monkeypatch):
    """A listing by folders would bring all files at the top at once."""
    storage = Storage("memory://streamed/t")
    names = [f"{number:04}" for number in range(2500)]
    for name in names:
        storage.put(name, b"")
    monkeypatch.setattr(objects, "_LISTED_ALONE", 10)
    monkeypatch.setattr(objects.obstore, "list_with_delimiter", None)
    parts = list(storage.walk(lambda _: True))
    assert max(map(len, parts)) <= 1000
    assert sorted(path for part in parts for path in part.column("path").to_pylist()) == names


@pytest.mark.parametrize("alone", range(1, 40, 3))
def test_walk_of_a_store_lists_folders_at_the_same_time(monkeypatch, alone):
    storage = Storage(f"memory://folders{alone}/t")
    names = [f"p={p}/q={q}/{n}" for p in range(4) for q in range(2) for n in range(4)]
    names += ["a/x", "p=1-", "p=10/x", "p=1", "q", "zz", "A", "p=2/é😀"]
    for name in [*names, "_h/x", "p=3/_h/x", "z/_h/y"]:
        storage.put(f"{storage.root}/{name}", b"1")
    monkeypatch.setattr(objects, "_LISTED_ALONE", alone)
    monkeypatch.setattr(objects, "_WALKED_ROWS", 3)
    asked = []

    def enter(folder):
        asked.append(folder)
        return not folder.rpartition("/")[2].startswith("_")

    found = [path for part in storage.walk(enter) for path in part.column("path").to_pylist()]
    assert sorted(found) == sorted(names)
    assert {"_h", "p=3/_h", "z/_h"} <= set(asked)


def test_walk_of_nothing(storage):
    assert [row for part in storage.walk(lambda _: True) for row in part.to_pylist()] == []


def test_delete_ignores_what_is_absent(storage):
    for name in ("a", "b/c", "d"):
        storage.put(name, b"")
    storage.delete(["nothing", "b", "a", "b/c", "a/nothing"])
    assert paths(storage.list()) == ["d"]
    storage.delete([])
    storage.delete(f"n{number}" for number in range(3))
    assert paths(storage.list()) == ["d"]


def test_copy_and_move(storage):
    storage.put("a", b"1")
    storage.put("b", b"2")
    assert storage.copy("a", "c/d") is True
    assert storage.copy("a", "b", overwrite=False) is False
    assert storage.copy("a", "e", overwrite=False) is True
    assert storage.move("e", "b", overwrite=False) is False
    assert [storage.read(name) for name in ("a", "b", "c/d", "e")] == [b"1", b"2", b"1", b"1"]
    assert storage.move("e", "f", overwrite=False) is True
    assert storage.move("c/d", "b") is True
    assert paths(storage.list()) == ["a", "b", "f"]
    assert storage.read("b") == b"1"
    storage.put("a", b"changed")  # a copy is no second name of the same file
    assert storage.read("b") == b"1"


@pytest.mark.parametrize("path", ["..", "../x", "a/../../x", "a/../b", "", ".", "a\0b"])
def test_a_relative_path_stays_below_the_root(storage, path):
    for asked in (
        storage.read,
        storage.head,
        lambda path: storage.put(path, b""),
        lambda path: storage.delete([path]),
    ):
        with pytest.raises(StorageError, match="below the root"):
            asked(path)


def test_absolute_locations_below_the_root_and_elsewhere(storage, tmp_path):
    storage.put("a/b", b"1")
    assert storage.read(f"{storage.root}/a/b") == b"1"
    sibling = f"{storage.root}-sibling/x"
    storage.put(sibling, b"2")
    assert open_storage(f"{storage.root}-sibling", storage.options).read("x") == b"2"
    far = f"{tmp_path}/far/x y"
    assert storage.copy("a/b", far) is True
    assert Path(far).read_bytes() == b"1"
    assert storage.copy(sibling, far, overwrite=False) is False
    assert paths(storage.list(f"{tmp_path}/far")) == [far]
    assert storage.move(far, f"memory://far-{next(_NUMBERS)}/x") is True
    assert not Path(far).exists()
    storage.delete([sibling, far])
    assert storage.exists(sibling) is False
    assert paths(storage.list()) == ["a/b"]


def test_parquet_through_open_input(storage):
    table = pa.table({"id": range(200_000), "text": [f"row {row}" for row in range(200_000)]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=50_000)
    storage.put("t.parquet", sink.getvalue().to_pybytes())
    with storage.open_input("t.parquet") as file:
        assert pq.read_table(file).equals(table)
    with storage.open_input("t.parquet") as file:
        assert pq.ParquetFile(file).read_row_group(2, columns=["id"])["id"].to_pylist()[:2] == [
            100_000,
            100_001,
        ]


def test_open_input_asks_seldom(storage):
    storage.put("f", os.urandom(3_000_000))
    storage.requests.clear()
    with storage.open_input("f") as file:
        assert file.size() == 3_000_000
        for at in range(0, 3_000_000, 10_000):
            file.seek(at)
            file.read(100)
    assert storage.requests["read"] <= 2


def test_a_file_that_is_deleted_while_it_is_open(place):
    storage = place.open()
    if storage.root.startswith("/"):
        pytest.skip("an open file outlives its name on a local disk")
    storage.put("f", bytes(1_000_000))
    with storage.open_input("f") as file:
        storage.delete(["f"])
        with pytest.raises(ObjectNotFoundError, match="t 1%20/f"):
            file.read(10)


def test_requests_are_counted(storage):
    storage.put("a", b"")
    storage.read("a")
    storage.exists("a")
    storage.list()
    storage.delete(["a", "b"])
    assert storage.requests == {"put": 1, "read": 1, "head": 1, "list": 1, "delete": 2}


def test_a_pickled_storage_is_the_same_place(storage):
    storage.put("a", b"1")
    assert pickle.loads(pickle.dumps(storage)).read("a") == b"1"


def test_memory_is_one_store_by_name():
    name = f"memory://shared-{next(_NUMBERS)}"
    open_storage(f"{name}/t").put("a", b"1")
    assert open_storage(name).read("t/a") == b"1"
    assert open_storage(f"{name}-other").list() == []


def test_unsupported_stores_are_refused_by_name():
    with pytest.raises(UnsupportedFeatureError, match="hdfs:"):
        open_storage("hdfs://host/table")


# ---- stores that behave worse than those at hand


def test_a_store_that_lists_more_than_it_was_asked_for(monkeypatch):
    storage = open_storage(f"memory://lister-{next(_NUMBERS)}")
    for name in ("a/1", "a/2", "a/3"):
        storage.put(name, b"")
    listed = obstore.list
    monkeypatch.setattr(
        obstore, "list", lambda *args, **options: listed(*args, **{**options, "offset": None})
    )
    assert paths(storage.list("a", start_after="a/2")) == ["a/3"]


@pytest.mark.parametrize(
    ("there", "outcome"), [(None, StorageError), (b"ours", StorageError), (b"them", False)]
)
def test_a_put_that_breaks_off_is_lost_only_if_another_won(monkeypatch, there, outcome):
    storage = open_storage(f"memory://breaker-{next(_NUMBERS)}")
    if there is not None:
        storage.put("f", there)

    def break_off(*_, **__):
        raise GenericError("connection reset")

    monkeypatch.setattr(obstore, "put", break_off)
    if outcome is False:
        assert storage.put_if_absent("f", b"ours") is False
    else:
        with pytest.raises(outcome, match="cannot put: connection reset"):
            storage.put_if_absent("f", b"ours")


def test_a_store_that_minds_deleting_what_is_absent(monkeypatch):
    storage = open_storage(f"memory://minder-{next(_NUMBERS)}")
    storage.put("a", b"")
    delete = obstore.delete

    def mind(store, keys):
        if keys != "a":
            raise FileNotFoundError("absent")
        delete(store, keys)

    monkeypatch.setattr(obstore, "delete", mind)
    storage.delete(["nothing", "a"])
    assert storage.list() == []


# ---- the local disk


def test_opening_makes_no_folder(tmp_path):
    storage = open_storage(f"{tmp_path}/new/table")
    assert storage.list() == []
    assert not storage.exists("x")
    assert names_in(tmp_path) == []
    assert open_storage(f"file://{tmp_path}/a%20b").root == f"{tmp_path}/a b"


def test_names_that_no_object_store_takes(tmp_path):
    storage = open_storage(str(tmp_path))
    names = ["line\nbreak", "tab\tx", "x#1", "y" * 255]
    for name in names:
        assert storage.put_if_absent(name, name.encode()) is True
        assert storage.read(name) == name.encode()
    assert paths(storage.list()) == sorted(names_in(tmp_path)) == names


def test_nothing_is_left_behind_and_nothing_half_written_is_listed(tmp_path):
    storage = open_storage(str(tmp_path / "t"))
    storage.put_if_absent("a/b", b"1")
    storage.put_if_absent("a/b", b"2")
    storage.put("a/c", b"3")
    storage.copy("a/b", "a/c", overwrite=False)
    storage.move("a/b", "a/d")
    with pytest.raises(StorageError):
        storage.put("a/c/below", b"4")
    assert sorted(names_in(tmp_path / "t" / "a")) == ["c", "d"]
    (tmp_path / "t" / "a" / f".{'0' * 32}.staged").write_bytes(b"ha")
    assert paths(storage.list()) == paths(storage.list_folder("a")) == ["a/c", "a/d"]


def test_files_are_made_with_the_usual_permissions(tmp_path):
    storage = open_storage(str(tmp_path))
    storage.put("a", b"")
    storage.put_if_absent("b", b"")
    (tmp_path / "usual").touch()
    assert len({(tmp_path / name).stat().st_mode for name in ("a", "b", "usual")}) == 1


def test_a_forked_process_can_write(tmp_path):
    storage = open_storage(str(tmp_path))
    storage.put("parent", b"")
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # rather than wait for ever
        storage.put_if_absent("child", b"")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert paths(storage.list()) == ["child", "parent"]


def test_names_that_are_no_text_are_not_listed(tmp_path):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).write_bytes(b"")
    (tmp_path / "a").write_bytes(b"")
    assert paths(open_storage(str(tmp_path)).list()) == ["a"]
    assert paths(open_storage(str(tmp_path)).list_folder()) == ["a"]


def test_links_are_followed_but_not_in_circles(tmp_path):
    table, other = tmp_path / "table", tmp_path / "other"
    table.mkdir()
    (other / "deep").mkdir(parents=True)
    (other / "deep" / "f").write_bytes(b"1")
    (table / "to_other").symlink_to(other)
    (table / "to_itself").symlink_to(table)
    (other / "deep" / "up").symlink_to(other)
    (table / "to_nothing").symlink_to(tmp_path / "nothing")
    (table / "to_file").symlink_to(other / "deep" / "f")
    assert paths(open_storage(str(table)).list()) == ["to_file", "to_other/deep/f"]


def test_a_file_in_the_way_of_a_folder(tmp_path):
    storage = open_storage(str(tmp_path))
    storage.put("f", b"")
    for writing in (storage.put, storage.put_if_absent):
        with pytest.raises(StorageError, match=r"f/below"):
            writing("f/below", b"")
    storage.put("folder/x", b"")
    assert storage.put_if_absent("folder", b"") is False
    with pytest.raises(StorageError, match="directory"):
        storage.put("folder", b"")
    assert open_storage(f"{tmp_path}/f").list() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind the superuser")
def test_what_may_not_be_read_is_refused(tmp_path):
    (tmp_path / "f").write_bytes(b"")
    (tmp_path / "f").chmod(0)
    with pytest.raises(StorageError, match="Permission denied"):
        open_storage(str(tmp_path)).read("f")


def test_an_error_of_the_system_is_ours(tmp_path):
    storage = open_storage(str(tmp_path))
    with pytest.raises(StorageError, match="too long") as caught:
        storage.read("x" * 300)
    assert not isinstance(caught.value, ObjectNotFoundError)


# ---- S3


def test_a_forked_process_is_refused_rather_than_left_waiting(s3_server):
    storage = open_storage(f"s3://{BUCKET}/forked", s3_server.options)
    storage.put("parent", b"")
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # rather than wait for ever
        try:
            open_storage(storage.root, s3_server.options).read("parent")
        except StorageError as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert paths(storage.list()) == ["parent"]


def test_s3_checks_the_secret(s3_server):
    storage = open_storage(f"s3://{BUCKET}/x", {**s3_server.options, "aws_secret_access_key": "wrong"})
    for asked in (lambda: storage.read("a"), storage.list, lambda: storage.put_if_absent("a", b"")):
        with pytest.raises(StorageError, match="SignatureDoesNotMatch"):
            asked()


def test_s3_without_the_bucket(s3_server):
    storage = open_storage("s3://no-such-bucket/x", s3_server.options)
    for asked in (storage.list, lambda: storage.put("a", b""), lambda: storage.put_if_absent("a", b"")):
        with pytest.raises(StorageError, match="NoSuchBucket") as caught:
            asked()
        assert "s3://no-such-bucket/x" in str(caught.value)


def test_s3_a_name_below_a_file_is_refused_and_not_taken_for_a_lost_race(s3_server):
    storage = open_storage(f"s3://{BUCKET}/below", s3_server.options)
    storage.put("f", b"")
    with pytest.raises(StorageError, match="ObjectParentIsFile"):
        storage.put_if_absent("f/child", b"")


def test_s3_with_hadoop_options(s3_server):
    options = {
        "spark.hadoop.fs.s3a.access.key": s3_server.access_key,
        "fs.s3a.secret.key": s3_server.secret_key,
        "fs.s3a.endpoint": s3_server.endpoint.removeprefix("http://"),
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.committer.name": "magic",
    }
    storage = open_storage(f"s3a://{BUCKET}/hadoop", options)
    assert storage.put_if_absent("a", b"1") is True
    assert open_storage(f"s3://{BUCKET}/hadoop", s3_server.options).read("a") == b"1"


def test_s3_with_the_environment(s3_server, monkeypatch):
    for name, value in s3_server.options.items():
        monkeypatch.setenv(name.upper(), value)
    storage = open_storage(f"s3://{BUCKET}/environment")
    assert storage.put_if_absent("a", b"1") is True
    assert storage.put_if_absent("a", b"1") is False
    assert storage.copy("a", "b", overwrite=False) is True
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    assert open_storage(f"s3://{BUCKET}/environment", s3_server.options).read("a") == b"1"


def test_s3_that_nobody_answers():
    options = {"endpoint": "http://127.0.0.1:1", "access_key_id": "a", "secret_access_key": "b"}
    with pytest.raises(StorageError, match="s3://bucket/t/a"):
        open_storage("s3://bucket/t", options).read("a")


def test_options_that_make_no_store():
    with pytest.raises(InvalidOperationError, match="gs://bucket"):
        open_storage("gs://bucket/t", {"google_service_account": "/no/such/file.json"})


def test_times_of_local_files_are_cut_to_microseconds(tmp_path):
    """As Java cuts them: rounding would move a commit into the next millisecond."""
    place = tmp_path / "a"
    place.write_bytes(b"x")
    os.utime(place, ns=(0, 1_763_455_208_094_999_800))
    assert open_storage(str(tmp_path)).head("a").modified.microsecond == 94_999
