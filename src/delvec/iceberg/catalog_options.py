"""How to reach the store, as a catalog says it: in pyiceberg's configuration, or with a table.

A REST catalog can vend credentials with each table. They have Iceberg's names (``s3.access-key-id``). The
storage of delvec uses them; Spark's own file system does not know them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from delvec.errors import UnsupportedFeatureError

_S3 = {
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.region": "aws_region",
    "s3.endpoint": "aws_endpoint_url",
}
_S3_FALLBACKS = {
    "client.access-key-id": "s3.access-key-id",
    "client.secret-access-key": "s3.secret-access-key",
    "client.session-token": "s3.session-token",
    "client.region": "s3.region",
}
_GOOGLE = {"gcs.oauth2.token": "google_bearer_token", "gcs.service.host": "google_base_url"}
_AZURE = {
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_token",
    "adls.tenant-id": "azure_tenant_id",
    "adls.client-id": "azure_client_id",
    "adls.client-secret": "azure_client_secret",
    "adls.token": "azure_storage_bearer_token",
}
_SAS_OF_ACCOUNT = "adls.sas-token."
_CREDENTIALS = ("key", "secret", "token", "client_id", "tenant_id", "skip_signature")
_HADOOP_CREDENTIALS = (".access.key", ".secret.key", ".session.token", ".aws.credentials.provider")
_HADOOP_NAMES = {
    "s3": ("fs.s3a.access.key", "fs.s3a.aws.credentials.provider"),
    "gs": ("fs.gs.auth.type", "fs.gs.auth.service.account.json.keyfile"),
    "az": ("fs.azure.account.key", "fs.azure.account.auth.type", "fs.azure.sas"),
}


@dataclass(frozen=True, slots=True)
class VendedOptions:
    """Options of delvec's storage from a catalog.

    hadoop_names   settings of Hadoop of which one gives Spark's file system credentials too; empty if the
                   catalog gave none
    """

    options: Mapping[str, str]
    hadoop_names: tuple[str, ...] = ()

    def combined(self, given: Mapping[str, str]) -> dict[str, str]:
        """These options with those of the user or the session.

        The user's own words win, then the catalog's, then the session's. Credentials of two sources are never
        mixed: a key of one with a token of the other is always wrong.
        """
        options = dict(self.options)
        if any(_is_credential(name) for name in given if not _is_hadoop(name)):
            options = {name: value for name, value in options.items() if not _is_credential(name)}
        vends = any(map(_is_credential, options))
        kept = {
            name: value
            for name, value in given.items()
            if not (vends and _is_hadoop(name) and name.lower().endswith(_HADOOP_CREDENTIALS))
        }
        return {**options, **kept}


def storage_options(properties: Mapping[str, str], place: str) -> VendedOptions:
    """The options for the store of the location ``place``, from a catalog's properties."""
    scheme = place.partition("://")[0] if "://" in place else ""
    match scheme:
        case "s3":
            options, kind = _s3_options(properties), "s3"
        case "gs":
            options, kind = _renamed(properties, _GOOGLE), "gs"
        case "az" | "abfss" | "wasbs":
            options, kind = _azure_options(properties, place), "az"
        case _:
            return VendedOptions({})
    has_credentials = any(map(_is_credential, options))
    return VendedOptions(options, _HADOOP_NAMES[kind] if has_credentials else ())


def _s3_options(properties: Mapping[str, str]) -> dict[str, str]:
    merged = {_S3_FALLBACKS[name]: value for name, value in properties.items() if name in _S3_FALLBACKS}
    merged |= {name: str(value) for name, value in properties.items() if value}
    signed = _is_true(merged.get("s3.remote-signing-enabled")) or "s3.signer" in merged
    if signed and "s3.access-key-id" not in merged:
        raise UnsupportedFeatureError(
            "the catalog signs requests to the store itself (s3.remote-signing-enabled), expected one that "
            "gives credentials",
            feature="remote signing",
        )
    options = _renamed(merged, _S3)
    if _is_true(merged.get("s3.force-virtual-addressing")):
        options["aws_virtual_hosted_style_request"] = "true"
    if _is_true(merged.get("s3.anonymous")):
        options["aws_skip_signature"] = "true"
    return options


def _azure_options(properties: Mapping[str, str], place: str) -> dict[str, str]:
    """``adls.sas-token.<host>`` is the token of one account."""
    options = _renamed(properties, _AZURE)
    host = place.partition("://")[2].partition("/")[0].partition("@")[2]
    names = [name for name in properties if name.startswith(_SAS_OF_ACCOUNT)]
    for name in names:
        if host.split(".")[0] == name[len(_SAS_OF_ACCOUNT) :].split(".")[0]:
            options["azure_storage_sas_token"] = properties[name]
    return options


def _renamed(properties: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {names[name]: str(value) for name, value in properties.items() if name in names and value}


def _is_true(text: object) -> bool:
    return str(text).lower() == "true"


def _is_hadoop(name: str) -> bool:
    return name.lower().removeprefix("spark.hadoop.").startswith("fs.")


def _is_credential(name: str) -> bool:
    return any(part in name.lower() for part in _CREDENTIALS)
