"""Options of every vocabulary, as obstore is given them."""

from __future__ import annotations

import pytest
from obstore.exceptions import BaseError, UnknownConfigurationKeyError
from obstore.store import AzureStore, GCSStore, S3Store

from delvec.errors import InvalidOperationError
from delvec.storage.options import AZURE, CLIENT_NAMES, GOOGLE, S3, open_store, store_config

ACCOUNT = "acc.dfs.core.windows.net"
S3_DEFAULTS = {"conditional_put": "etag", "copy_if_not_exists": "multipart"}


def s3(options, environment=None, bucket="lake"):
    config = store_config("s3", bucket, "", options, environment or {})
    return {name: value for name, value in config.items() if name not in S3_DEFAULTS}


def azure(options, account=ACCOUNT):
    return store_config("abfss", "box", account, options, {})


@pytest.mark.parametrize(("store", "vocabulary"), [(S3Store, S3), (AzureStore, AZURE), (GCSStore, GOOGLE)])
def test_every_name_is_one_that_the_store_knows(store, vocabulary):
    ours = {"s3_allow_unsafe_rename", "endpoint_url_s3"}  # these are translated before
    unknown = []
    for name in sorted((vocabulary.names | CLIENT_NAMES) - ours):
        try:
            store("bucket", config={name: "1"})
        except UnknownConfigurationKeyError:
            unknown.append(name)
        except (BaseError, ValueError):  # the value is nonsense, but the name was known
            continue
    assert unknown == []


def test_names_in_any_case_with_and_without_prefix():
    assert s3({"AWS_ACCESS_KEY_ID": "a", "secret_access_key": "b", "Aws_Region": "eu"}) == {
        "access_key_id": "a",
        "secret_access_key": "b",
        "region": "eu",
    }
    assert azure({"AZURE_STORAGE_ACCOUNT_KEY": "k"}) == {"account_name": "acc", "account_key": "k"}
    assert azure({"azure_account_name": "other", "sas_token": "s"}) == {
        "account_name": "other",
        "sas_token": "s",
    }


def test_s3_commits_by_conditional_put():
    assert store_config("s3", "lake", "", {}, {}) == S3_DEFAULTS
    changed = store_config("s3", "lake", "", {"copy_if_not_exists": "header:a:b"}, {})
    assert changed["copy_if_not_exists"] == "header:a:b"
    environment = {"AWS_COPY_IF_NOT_EXISTS": "header:a:b"}
    assert "copy_if_not_exists" not in store_config("s3", "lake", "", {}, environment)


@pytest.mark.parametrize("name", ["endpoint", "AWS_ENDPOINT", "aws_endpoint_url", "AWS_ENDPOINT_URL_S3"])
def test_an_http_endpoint_is_allowed_and_asked_by_path(name):
    assert s3({name: "http://host:9000"}) == {
        "endpoint": "http://host:9000",
        "aws_endpoint_url_s3": "http://host:9000",
        "virtual_hosted_style_request": "false",
        "allow_http": "true",
    }
    assert "allow_http" not in s3({name: "https://host"})


def test_an_http_endpoint_of_the_environment():
    config = s3({}, {"AWS_ENDPOINT_URL": "http://host:9000"})
    assert config == {"virtual_hosted_style_request": "false", "allow_http": "true"}
    assert s3({}, {"AWS_ENDPOINT_URL": "http://host:9000", "AWS_ALLOW_HTTP": "false"}) == {
        "virtual_hosted_style_request": "false"
    }


HADOOP_S3 = {
    "spark.hadoop.fs.s3a.access.key": "a",
    "fs.s3a.secret.key": "b",
    "fs.s3a.session.token": "c",
    "fs.s3a.endpoint.region": "eu",
    "fs.s3a.endpoint": "host:9000",
    "fs.s3a.connection.ssl.enabled": "false",
    "fs.s3a.path.style.access": "true",
    "fs.s3a.threads.max": "10",
    "fs.defaultFS": "hdfs://host",
}


def test_hadoop_names_of_s3():
    assert s3(HADOOP_S3) == {
        "access_key_id": "a",
        "secret_access_key": "b",
        "session_token": "c",
        "region": "eu",
        "endpoint": "http://host:9000",
        "aws_endpoint_url_s3": "http://host:9000",
        "virtual_hosted_style_request": "false",
        "allow_http": "true",
    }


def test_a_name_of_the_store_wins_over_hadoops():
    assert s3({**HADOOP_S3, "AWS_REGION": "us"})["region"] == "us"


def test_hadoop_options_of_one_bucket():
    options = {"fs.s3a.access.key": "a", "fs.s3a.bucket.lake.access.key": "b"}
    assert s3(options) == {"access_key_id": "b"}
    assert s3(options, bucket="other") == {"access_key_id": "a"}


def test_hadoop_endpoints():
    assert s3({"fs.s3a.endpoint": "s3.amazonaws.com"}) == {}
    assert s3({"fs.s3a.endpoint": "host"})["endpoint"] == "https://host"
    by_host = s3({"fs.s3a.endpoint": "https://host", "fs.s3a.path.style.access": "false"})
    assert (by_host["endpoint"], by_host["virtual_hosted_style_request"]) == ("https://lake.host", "true")
    provider = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    assert s3({"fs.s3a.aws.credentials.provider": provider}) == {"skip_signature": "true"}


def test_hadoop_names_of_azure():
    assert azure(
        {f"fs.azure.account.key.{ACCOUNT}": "k", "fs.azure.account.key.b.dfs.core.windows.net": "x"}
    ) == {
        "account_name": "acc",
        "account_key": "k",
    }
    assert azure({"fs.azure.account.key.acc.blob.core.windows.net": "k"})["account_key"] == "k"
    login = "https://login.microsoftonline.com/tenant-1/oauth2/token"
    assert azure(
        {
            "fs.azure.account.oauth2.client.id": "i",
            f"fs.azure.account.oauth2.client.secret.{ACCOUNT}": "s",
            "fs.azure.account.oauth2.client.endpoint": login,
        }
    ) == {"account_name": "acc", "client_id": "i", "client_secret": "s", "tenant_id": "tenant-1"}
    assert azure({f"fs.azure.sas.fixed.token.{ACCOUNT}": "t"})["sas_token"] == "t"
    assert azure({}, "onelake.dfs.fabric.microsoft.com")["use_fabric_endpoint"] == "true"


@pytest.mark.parametrize(
    "name",
    [
        "fs.gs.auth.service.account.json.keyfile",
        "google.cloud.auth.service.account.json.keyfile",
    ],
)
def test_hadoop_names_of_google(name):
    assert store_config("gs", "lake", "", {name: "/k.json"}, {}) == {"service_account": "/k.json"}


def test_options_of_other_stores_are_left_alone():
    options = {"azure_storage_account_key": "k", "google_service_account": "g", "fs.s3a.access.key": "a"}
    assert s3(options) == {"access_key_id": "a"}
    assert store_config("memory", "m", "", options, {}) == {}
    assert store_config("gs", "lake", "", options, {}) == {"service_account": "g"}


def test_an_unsafe_rename_is_never_needed():
    assert s3({"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}) == {}


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("AWS_ACCES_KEY_ID", "aws_access_key_id"),
        ("aws_regionn", "aws_region"),
        ("google_servce_account", "goo"),
    ],
)
@pytest.mark.parametrize("location", ["s3://lake", "memory://lake"])
def test_an_unknown_name_is_refused_with_the_nearest(name, nearest, location):
    with pytest.raises(
        InvalidOperationError, match=f"unknown storage option '{name}'; did you mean '{nearest}"
    ):
        open_store(location, {name: "x"})


def test_an_unknown_name_like_no_other_is_refused():
    with pytest.raises(InvalidOperationError, match=r"unknown storage option 'zzzzzzz'$"):
        open_store("s3://lake", {"zzzzzzz": "x"})


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        ("s3://lake/x", S3Store),
        ("abfss://box@acc.dfs.core.windows.net/x", AzureStore),
        ("wasbs://box@acc.blob.core.windows.net/x", AzureStore),
    ],
)
def test_each_scheme_opens_its_store(location, kind):
    assert isinstance(open_store(location, {"fs.s3a.endpoint": "http://host"}), kind)


def test_az_without_an_account_is_refused(monkeypatch):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(InvalidOperationError, match="az://box"):
        open_store("az://box/x", {})
    assert isinstance(open_store("az://box/x", {"account_name": "acc"}), AzureStore)
