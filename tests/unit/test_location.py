"""Locations as text: what is normal, what is refused, and that a column resolves as its rows do."""

from __future__ import annotations

import os
import random
import time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delvec import location
from delvec.errors import DelvecError, FormatError, InvalidOperationError, UnsupportedFeatureError

ROOT = "/lake/orders"


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b"),
        ("//a//b", "/a/b"),
        ("/a/./b/../c", "/a/c"),
        ("/", "/"),
        ("/a%20b", "/a%20b"),
        ("file:/x%20y", "/x y"),
        ("file:///x%2520y/", "/x%20y"),
        ("FILE:///x", "/x"),
        ("file://localhost/x", "/x"),
        ("/with:colon", "/with:colon"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3a://bucket/a//b/./c/", "s3://bucket/a/b/c"),
        ("s3n://bucket/k", "s3://bucket/k"),
        ("s3://bucket/a%20b", "s3://bucket/a%20b"),
        ("gs://bucket/k", "gs://bucket/k"),
        ("az://container/k", "az://container/k"),
        ("adl://container/k", "az://container/k"),
        (
            "abfs://c@a.dfs.core.windows.net/k/",
            "abfss://c@a.dfs.core.windows.net/k",
        ),
        ("wasb://c@a.blob.core.windows.net/k", "wasbs://c@a.blob.core.windows.net/k"),
        ("memory://name/k", "memory://name/k"),
    ],
)
def test_normalize(given_text, expected):
    assert location.normalize(given_text) == expected
    assert location.normalize(expected) == expected


def test_a_relative_path_is_made_absolute():
    assert location.normalize("a/b") == os.path.join(os.getcwd(), "a/b")  # noqa: PTH109, PTH118
    assert location.normalize("a:b") == os.path.join(os.getcwd(), "a:b")  # noqa: PTH109, PTH118


@pytest.mark.parametrize("scheme", ["hdfs", "dbfs", "viewfs", "http", "https", "ftp", "oss", "c"])
def test_other_schemes_are_refused_by_name(scheme):
    with pytest.raises(
        UnsupportedFeatureError, match=rf"scheme {scheme}: .*expected one of .*s3://"
    ) as caught:
        location.normalize(f"{scheme}://host/path")
    assert caught.value.feature == f"{scheme}:"
    with pytest.raises(UnsupportedFeatureError):
        location.resolve(ROOT, f"{scheme}:/path")


@pytest.mark.parametrize(
    "text", ["", "a\0b", "s3://", "s3:/bucket/key", "s3:///key", "s3://b/../c", "abfss://c/k", "file:///a%zz"]
)
def test_normalize_refuses_what_names_no_place(text):
    with pytest.raises(InvalidOperationError):
        location.normalize(text)


def test_normalize_refuses_other_hosts_and_the_old_data_lake():
    with pytest.raises(UnsupportedFeatureError, match="host 'elsewhere'"):
        location.normalize("file://elsewhere/x")
    with pytest.raises(UnsupportedFeatureError, match="Gen1"):
        location.normalize("adl://account.azuredatalakestore.net/x")


@pytest.mark.parametrize("text", ["a%", "a%2", "a%zz", "%u0041", "a%ff", "%c3%28"])
def test_decode_refuses_broken_escapes(text):
    with pytest.raises(FormatError, match="percent-escape"):
        location.decode(text)


def test_decode_decodes_once():
    assert location.decode("p=a%252Fb/x%20y+%C3%A9é") == "p=a%2Fb/x y+éé"


# As Hadoop's Path.toUri writes them, character by character.
@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("a b", "a%20b"),
        ("p=a%2Fb/x", "p=a%252Fb/x"),
        ("é日😀", "é日😀"),
        ("-_.!~*'():@&=+$,;", "-_.!~*'():@&=+$,;"),
        ('"#<>?[\\]^`{|}', "%22%23%3C%3E%3F%5B%5C%5D%5E%60%7B%7C%7D"),
        ("\t\x7f", "%09%7F"),
        ("\x80\u00a0\u2028\u3000", "%C2%80%C2%A0%E2%80%A8%E3%80%80"),
        ("part:0", "part:0"),
        ("a:/b", "a%3A/b"),
        ("s3://bucket/a b", "s3://bucket/a%20b"),
    ],
)
def test_encode_writes_what_hadoop_writes(path, written):
    assert location.encode(path) == written
    assert location.decode(written) == path


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_decode_undoes_encode(path):
    assert location.decode(location.encode(path)) == path


SEGMENTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1)


@given(st.lists(SEGMENTS.filter(lambda segment: segment not in (".", "..")), min_size=1))
def test_an_encoded_relative_path_resolves_to_itself(segments):
    path = "/".join(["p=1", *segments])
    assert location.resolve(ROOT, location.encode(path)) == f"{ROOT}/{path}"


RESOLVED = [
    ("part-0.parquet", "/lake/orders/part-0.parquet"),
    ("p=1/part-0.parquet", "/lake/orders/p=1/part-0.parquet"),
    ("p=a%252Fb/x%20y.parquet", "/lake/orders/p=a%2Fb/x y.parquet"),
    ("p=a%252Fb/x.parquet", "/lake/orders/p=a%2Fb/x.parquet"),
    ("a%2Fb", "/lake/orders/a/b"),
    ("./a", "/lake/orders/a"),
    ("a//b/", "/lake/orders/a/b"),
    ("a..b/..c", "/lake/orders/a..b/..c"),
    ("back\\slash", "/lake/orders/back\\slash"),
    ("part:0", "/lake/orders/part:0"),
    ("t=12:00/x", "/lake/orders/t=12:00/x"),
    ("é", "/lake/orders/é"),
    ("/other/a%20b", "/other/a b"),
    ("file:/other/x", "/other/x"),
    ("file:/x", "/x"),
    ("/x", "/x"),
    ("file:///other/a%20b", "/other/a b"),
    ("s3a://bucket/a%20b", "s3://bucket/a b"),
    ("s3://bucket/k", "s3://bucket/k"),
    ("abfss://c@a.dfs.core.windows.net/a%20b", "abfss://c@a.dfs.core.windows.net/a b"),
]


@pytest.mark.parametrize(("raw", "expected"), RESOLVED)
def test_resolve(raw, expected):
    assert location.resolve(ROOT, raw) == expected
    assert location.resolve_many(ROOT, pa.array([raw])).to_pylist() == [expected]


def test_resolve_below_a_bucket():
    assert location.resolve("s3://bucket/t", "a%20b") == "s3://bucket/t/a b"
    assert location.resolve("/", "a") == "/a"


ESCAPES = [
    "..",
    "../x",
    "a/../b",
    "a/..",
    "%2e%2e/x",
    "a/%2E%2e/x",
    "..%2Fx",
    "",
    ".",
    "./",
    "%2Fetc/x",
    "a%00b",
]


@pytest.mark.parametrize("raw", ESCAPES)
def test_resolve_refuses_a_relative_path_that_is_not_inside(raw):
    for resolve in (location.resolve, lambda root, text: location.resolve_many(root, pa.array(["ok", text]))):
        with pytest.raises(FormatError) as caught:
            resolve(ROOT, raw)
        assert repr(raw) in str(caught.value)
        assert ROOT in str(caught.value)


def test_resolve_refuses_dots_out_of_another_bucket():
    with pytest.raises(FormatError, match="stays in 'bucket'"):
        location.resolve(ROOT, "s3://bucket/a/%2e%2e/b")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_column_resolves_as_its_rows_do(kind):
    rng = random.Random(7)
    rows = [rng.choice(RESOLVED)[0] if rng.random() < 0.5 else None for _ in range(500)]
    plain = [row for row in rows if row and "/" not in row and "%" not in row]
    slices = [pa.array(items, kind)[3:400] for items in (rows, plain, [], [None] * 5)]
    for column in (*slices, pa.chunked_array(slices)):
        found = location.resolve_many(ROOT, column)
        assert found.type == kind
        assert found.to_pylist() == [
            None if raw is None else location.resolve(ROOT, raw) for raw in column.to_pylist()
        ]


@given(st.lists(st.text("ab./%2eF:\\s3 ", max_size=8), min_size=1, max_size=5))
def test_a_column_of_strange_names_resolves_as_its_rows_do(rows):
    def outcome(call):
        try:
            return call()
        except DelvecError as error:
            return type(error)

    one_by_one = outcome(lambda: [location.resolve(ROOT, raw) for raw in rows])
    assert outcome(lambda: location.resolve_many(ROOT, pa.array(rows)).to_pylist()) == one_by_one


@pytest.mark.parametrize(
    "name", ["part-{0:07d}.c000.snappy.parquet", "t=12%253A{1}/part-{0:07d}.c000.parquet"]
)
def test_a_long_column_resolves_without_a_python_call_per_row(name, monkeypatch):
    column = pa.array([name.format(row, row % 50) for row in range(200_000)])
    calls = []
    resolve = location.resolve
    monkeypatch.setattr(location, "resolve", lambda root, raw: calls.append(raw) or resolve(root, raw))
    started = time.perf_counter()
    found = location.resolve_many(ROOT, column)
    assert time.perf_counter() - started < 5
    assert len(calls) <= 50
    assert found[123].as_py() == resolve(ROOT, column[123].as_py())


def test_relative():
    assert location.relative("/lake", "/lake/a/b") == "a/b"
    assert location.relative("/", "/a") == "a"
    assert location.relative("s3://b/t", "s3://b/t/a") == "a"
    assert location.relative("/lake", "/lakes/a") is None
    assert location.relative("/lake", "/lake") is None
    assert location.relative("/lake", "s3://lake/a") is None


def test_split_store():
    assert location.split_store("/a/b") == ("/", "a/b")
    assert location.split_store("s3://bucket") == ("s3://bucket", "")
    assert location.split_store("abfss://c@a.host/x/y") == ("abfss://c@a.host", "x/y")
