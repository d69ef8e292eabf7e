"""Iceberg tables on S3: every verb, optimize and vacuum, by path and in a REST catalog."""

from __future__ import annotations

import pytest

from iceberg_life import LEFT, live
from jars import JarsUnavailableError, s3a_jars
from rest_catalog import rest_catalog
from s3server import BUCKET, s3_server_or_skip
from writers import processes
from writers.server import connect_server

pytestmark = [pytest.mark.interop, pytest.mark.spark]


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    try:
        s3a_jars()
    except JarsUnavailableError as error:
        pytest.skip(str(error))
    with s3_server_or_skip(tmp_path_factory.mktemp("s3") / "server") as server:
        yield server


@pytest.fixture(scope="module")
def settings(s3):
    return {
        "fs.s3a.access.key": s3.access_key,
        "fs.s3a.secret.key": s3.secret_key,
        "fs.s3a.endpoint": s3.endpoint,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    }


@pytest.fixture(scope="module")
def server(settings, tmp_path_factory):
    spark = {f"spark.hadoop.{name}": value for name, value in settings.items()}
    spark["spark.driver.extraClassPath"] = ":".join(map(str, s3a_jars()))
    with connect_server(tmp_path_factory.mktemp("server"), spark) as address:
        yield address


@pytest.fixture(scope="module")
def catalog(settings, tmp_path_factory):
    """The address of Iceberg's reference REST catalog, whose warehouse is in the bucket."""
    from pyiceberg.catalog.rest import RestCatalog

    try:
        warehouse = {"warehouse": f"s3://{BUCKET}/rest"}
        with rest_catalog(tmp_path_factory.mktemp("rest"), settings | warehouse, s3a_jars()) as uri:
            RestCatalog("rest", uri=uri).create_namespace("db")
            yield uri
    except JarsUnavailableError as error:
        pytest.skip(str(error))


def read_by_pyiceberg(s3, result):
    from pyiceberg.table import StaticTable

    path = result["source"]
    place = path if "://" in path else f"{result['place']}/{path}"
    properties = {
        "s3.endpoint": s3.endpoint,
        "s3.access-key-id": s3.access_key,
        "s3.secret-access-key": s3.secret_key,
        "s3.region": "us-east-1",
    }
    rows = StaticTable.from_metadata(place, properties).scan().to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def check(s3, server, place, uri, version):
    with processes.conversation(live, server, s3.options, place, uri, version) as client:
        result = client.ask("live")
    assert isinstance(result, dict), result
    assert result["rows"] == LEFT
    assert result["deleted"] > 0
    assert read_by_pyiceberg(s3, result) == LEFT
    return result


@pytest.mark.parametrize("version", [3, pytest.param(2, marks=pytest.mark.slow)])
def test_by_path(s3, server, version):
    check(s3, server, f"s3://{BUCKET}/by path {version}", None, version)
    names = {path.name for path in (s3.folder / f"by path {version}/metadata").iterdir()}
    assert {"v1.metadata.json", "version-hint.text"} <= names


@pytest.mark.parametrize("version", [3, pytest.param(2, marks=pytest.mark.slow)])
def test_in_a_rest_catalog(s3, server, catalog, version):
    result = check(s3, server, f"db.orders_{version}", catalog, version)
    assert result["place"].startswith(f"s3://{BUCKET}/rest/")
