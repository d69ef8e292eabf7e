"""Tables of catalogs: a SQLite catalog, and a small REST server that plays a catalog."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest

from delvec import detect, name_resolver
from delvec.errors import (
    FormatError,
    InvalidOperationError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from delvec.iceberg.catalog_options import storage_options
from delvec.name_resolver import InCatalog
from iceberg_tables.writer import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64())])


def opened(catalog, identifier="db.orders", options=None):
    reference = name_resolver.in_catalog(catalog, identifier)
    return name_resolver.open_table(reference, lambda _: options or {})


@pytest.fixture
def writer(tmp_path):
    table = IcebergWriter(tmp_path / "warehouse/db/orders", COLUMNS, numbered=True, format_version=3)
    table.append([{"id": 1}, {"id": 2}])
    return table


def newest_file(writer):
    return sorted((writer.root / "metadata").glob("*.metadata.json"))[-1]


class TestSqlCatalog:
    @pytest.fixture
    def catalog(self, tmp_path, writer):
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
        catalog.create_namespace("db")
        catalog.register_table("db.orders", str(newest_file(writer)))
        yield catalog
        catalog.engine.dispose()

    @pytest.fixture
    def configured(self, catalog, tmp_path, monkeypatch):
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/catalog.db")
        return catalog.name

    def point(self, catalog, writer):
        """What a commit does to the catalog."""
        from pyiceberg.catalog.sql import IcebergTables
        from sqlalchemy import update

        with catalog.engine.begin() as connection:
            connection.execute(update(IcebergTables).values(metadata_location=str(newest_file(writer))))

    def test_an_object(self, catalog, writer):
        table = opened(catalog)
        assert (table.format, table.location) == ("iceberg", str(writer.root))
        assert table.snapshot().version == writer.head.id
        assert table.snapshot().source == str(newest_file(writer))

    def test_a_configured_name(self, configured, writer):
        assert opened(configured).snapshot().version == writer.head.id
        assert opened(configured).location == str(writer.root)

    @pytest.mark.usefixtures("catalog")
    def test_a_configuration_file(self, writer, tmp_path, monkeypatch):
        (tmp_path / "home").mkdir()
        text = f"catalog:\n  files:\n    uri: sqlite:///{tmp_path}/catalog.db\n    type: sql\n"
        (tmp_path / "home/.pyiceberg.yaml").write_text(text)
        monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path / "home"))
        with pytest.raises(TableNotFoundError):  # the rows of a SQL catalog have the name of their catalog
            opened("files")
        text = text.replace("files:", "lake:")
        (tmp_path / "home/.pyiceberg.yaml").write_text(text)
        assert opened("lake").snapshot().version == writer.head.id

    def test_the_connector(self, configured, writer):
        """The table is opened again in other processes, without the catalog: by its metadata file."""
        from delvec.connector.source import load

        writer.append([{"id": 3}], branch="audit")
        relation = load({"path": "db.orders", "catalog": configured})
        assert relation.source.startswith(f"{writer.root}/metadata/00001-")
        assert relation.open()[1].version == relation.base.version == next(iter(writer.snapshots))
        with pytest.raises(InvalidOperationError, match="'audit' does not exist"):  # not in the catalog yet
            load({"path": "db.orders", "catalog": configured, "ref": "audit"})
        with pytest.raises(InvalidOperationError, match="option relocate is 'x', expected true or false"):
            load({"path": str(writer.root), "relocate": "x"})

    def test_names_in_statements(self, configured, writer):
        parts = [configured, "db", "orders"]
        reference = name_resolver.resolve(parts, [False] * 3)
        assert isinstance(reference, InCatalog)
        assert hash(reference) == hash(name_resolver.resolve(parts, [False] * 3))
        assert name_resolver.open_table(reference, lambda _: {}).snapshot().version == writer.head.id
        assert name_resolver.resolve(["spark_catalog", "db", "orders"], [False] * 3) is None
        assert name_resolver.resolve([configured, "orders"], [False] * 2) is None  # a database of Spark

    def test_the_catalog_decides_which_file_is_the_newest(self, catalog, writer):
        table = opened(catalog)
        first = table.snapshot().version
        writer.append([{"id": 3}])
        assert table.snapshot().version == first  # written, but the catalog does not have it
        self.point(catalog, writer)
        assert table.snapshot().version == writer.head.id

    def test_refs(self, catalog, writer):
        writer.append([{"id": 3}], branch="audit")
        self.point(catalog, writer)
        assert opened(catalog).on_ref("audit").snapshot().version == list(writer.snapshots)[-1]

    @pytest.mark.parametrize("identifier", ["db.absent", "absent.orders", "a.b.orders"])
    def test_a_name_that_is_not_there(self, catalog, identifier):
        with pytest.raises(TableNotFoundError, match=f"no table {identifier} in catalog 'lake'"):
            opened(catalog, identifier)

    @pytest.mark.parametrize("identifier", ["orders", "", "db."])
    def test_a_name_that_is_none(self, catalog, identifier):
        with pytest.raises(InvalidOperationError, match="expected a namespace and a table such as"):
            opened(catalog, identifier)

    def test_the_metadata_file_is_gone(self, catalog, writer):
        newest_file(writer).unlink()
        with pytest.raises(FormatError, match="metadata file is missing") as raised:
            opened(catalog)
        assert str(writer.root) in raised.value.path

    def test_the_database_is_gone(self, catalog):
        catalog.destroy_tables()
        with pytest.raises(StorageError, match="catalog 'lake' did not answer as expected: OperationalError"):
            opened(catalog)

    def test_relocate_is_for_paths(self, catalog):
        with pytest.raises(InvalidOperationError, match="relocate is for a copied table at a path"):
            name_resolver.reference_to("db.orders", catalog=catalog, relocate=True)


class _Answers(BaseHTTPRequestHandler):
    """Answers requests of the REST protocol from ``server.tables``: (metadata file, config) by name."""

    def do_GET(self):
        place = self.path.partition("?")[0]
        if place.endswith("/config"):
            return self.answer(200, {"defaults": {}, "overrides": {}})
        *_, namespace, _, table = place.split("/")
        if self.server.status != 200:
            return self.answer(self.server.status, error("no", "Failed", self.server.status))
        if (namespace, table) not in self.server.tables:
            return self.answer(404, error("Table does not exist", "NoSuchTableException", 404))
        return self.answer(200, self.server.tables[namespace, table])

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Nothing on stderr."""


def error(message, kind, code):
    return {"error": {"message": message, "type": kind, "code": code}}


class TestRestCatalog:
    @pytest.fixture
    def server(self, writer):
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
        server.status = 200
        server.tables = {("db", "orders"): self.loaded(writer)}
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        server.server_close()

    @pytest.fixture
    def catalog(self, server):
        from pyiceberg.catalog.rest import RestCatalog

        return RestCatalog("rest", uri=f"http://127.0.0.1:{server.server_address[1]}")

    def loaded(self, writer, **more):
        file = newest_file(writer)
        return {"metadata-location": str(file), "metadata": json.loads(file.read_text()), **more}

    def test_a_table(self, catalog, server, writer):
        table = opened(catalog)
        assert table.snapshot().version == writer.head.id
        assert table.credentials == ()
        writer.append([{"id": 3}])
        server.tables["db", "orders"] = self.loaded(writer)
        assert table.snapshot().version == writer.head.id

    def test_credentials_are_renewed(self, catalog, server, writer, monkeypatch):
        """The storage of local files takes no options, so the options show what the storage gets."""
        from delvec.iceberg import catalogs, newest_metadata
        from delvec.iceberg.catalog_options import storage_options

        monkeypatch.setattr(
            catalogs, "storage_options", lambda properties, _: storage_options(properties, "s3://b/t")
        )
        server.tables["db", "orders"] = self.loaded(writer, config={**S3, "s3.session-token": "first"})
        orders = opened(catalog, options={"aws_region": "eu-1"})
        assert orders.storage.options["aws_session_token"] == "first"
        assert orders.credentials[0] == "fs.s3a.access.key"
        server.tables["db", "orders"] = self.loaded(writer, config={**S3, "s3.session-token": "second"})
        orders.snapshot()
        assert orders.storage.options["aws_session_token"] == "first"  # not at each request
        monkeypatch.setattr(newest_metadata, "_OPTIONS_SECONDS", -1)
        assert orders.snapshot().storage.options["aws_session_token"] == "second"
        assert orders.storage.options["aws_region"] == "eu-1"

    def test_metadata_that_pyiceberg_cannot_parse(self, catalog, server, writer):
        """A variant column, which pyiceberg does not know."""
        field = {"id": 2, "name": "v", "required": False, "type": "variant"}

        def with_variant(metadata):
            (schema,) = metadata["schemas"]
            return {**metadata, "schemas": [{**schema, "fields": [*schema["fields"], field]}]}

        writer.edit_metadata = with_variant
        writer.write_metadata()
        server.tables["db", "orders"] = self.loaded(writer, config={"a": "b"})
        assert [str(field.type) for field in opened(catalog).snapshot().schema] == ["long", "variant"]

    def test_a_name_that_is_not_there(self, catalog):
        with pytest.raises(TableNotFoundError, match=r"no table db.absent in catalog 'rest'"):
            opened(catalog, "db.absent")

    @pytest.mark.parametrize("status", [401, 403, 500, 503])
    def test_a_catalog_that_refuses(self, catalog, server, status):
        server.status = status
        with pytest.raises(StorageError, match="catalog 'rest' did not answer as expected"):
            opened(catalog)

    def test_a_catalog_that_is_down(self, monkeypatch):
        monkeypatch.setenv("PYICEBERG_CATALOG__DOWN__URI", f"http://127.0.0.1:{free_port()}")
        with pytest.raises(StorageError, match=r"catalog 'down' did not answer .*: down\.db\.orders"):
            opened("down")

    def test_a_table_without_a_metadata_file(self, catalog, server, writer):
        server.tables["db", "orders"] = {**self.loaded(writer), "metadata-location": None}
        with pytest.raises(TableNotFoundError, match=r"table db.orders .* has no metadata file"):
            opened(catalog)


def free_port():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    port = server.server_address[1]
    server.server_close()
    return port


def test_unknown_catalogs(monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", "sqlite:////x")
    with pytest.raises(InvalidOperationError, match=r"catalog is 'other', expected a pyiceberg .*\(lake\)"):
        name_resolver.in_catalog("other", "db.orders")
    with pytest.raises(InvalidOperationError, match="expected a pyiceberg Catalog or the name"):
        name_resolver.in_catalog(7, "db.orders")
    monkeypatch.setenv("PYICEBERG_CATALOG__BROKEN__URI", "ftp://x")
    with pytest.raises(InvalidOperationError, match="catalog 'broken' cannot be opened: Could not infer"):
        opened("broken")


S3 = {"s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.session-token": "t", "uri": "http://c"}


class TestStorageOptions:
    def test_s3(self):
        vended = storage_options({**S3, "client.region": "eu-1", "s3.endpoint": "http://m"}, "s3://b/t")
        assert vended.options == {
            "aws_access_key_id": "k",
            "aws_secret_access_key": "s",
            "aws_session_token": "t",
            "aws_region": "eu-1",
            "aws_endpoint_url": "http://m",
        }
        assert vended.hadoop_names[0] == "fs.s3a.access.key"

    def test_others(self):
        google = storage_options({"gcs.oauth2.token": "t"}, "gs://b/t")
        assert google.options == {"google_bearer_token": "t"}
        azure = storage_options(
            {
                "adls.sas-token.one.dfs.core.windows.net": "s1",
                "adls.sas-token.two.blob.core.windows.net": "s2",
            },
            "abfss://c@two.dfs.core.windows.net/t",
        )
        assert azure.options == {"azure_storage_sas_token": "s2"}
        assert storage_options(S3, "/lake/t").options == {}
        assert storage_options({"s3.region": "eu-1"}, "s3://b/t").hadoop_names == ()

    def test_the_options_are_known_to_the_storage(self):
        from delvec.storage.options import store_config

        for properties, place in ((S3, "s3://b"), ({"gcs.oauth2.token": "t"}, "gs://b")):
            options = storage_options(properties, place).options
            assert len(store_config(place[:2], "b", "", options, {})) >= len(options)

    def test_credentials_of_two_sources_are_not_mixed(self):
        vended = storage_options({**S3, "s3.region": "eu-1"}, "s3://b/t")
        own = vended.combined({"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "m"})
        assert own == {"aws_region": "eu-1", "AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "m"}
        session = {
            "spark.hadoop.fs.s3a.session.token": "old",
            "spark.hadoop.fs.s3a.bucket.b.access.key": "old",
            "spark.hadoop.fs.s3a.endpoint": "http://m",
        }
        combined = vended.combined(session)
        assert combined["aws_session_token"] == "t"
        assert combined["spark.hadoop.fs.s3a.endpoint"] == "http://m"
        assert not [value for value in combined.values() if value == "old"]
        assert vended.combined({"aws_endpoint_url": "http://m"})["aws_access_key_id"] == "k"

    def test_remote_signing_is_refused_by_name(self):
        with pytest.raises(UnsupportedFeatureError) as raised:
            storage_options({"s3.remote-signing-enabled": "true"}, "s3://b/t")
        assert raised.value.feature == "remote signing"


_FRESH = """
import sys
from delvec import detect, name_resolver
assert detect.find_catalog("spark_catalog") is None
table = detect.open_table(sys.argv[1])
table.snapshot().plan()
assert name_resolver.resolve(["db", "orders"], [False, False]) is None
loaded = [name for name in sys.modules if name.partition(".")[0] == "pyiceberg"]
assert not loaded, loaded
"""


def test_pyiceberg_is_imported_only_for_catalogs(tmp_path):
    """Importing it takes more than a second."""
    table = IcebergWriter(tmp_path / "t", COLUMNS, format_version=3)
    file = table.add_file([{"id": 1}, {"id": 2}])
    table.commit()
    table.delete_rows(file, [0])
    table.commit()
    command = [sys.executable, "-c", _FRESH, str(table.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert detect.find_format(detect.open_storage(str(table.root))) == "iceberg"
