"""Translates Hadoop's file system options (``fs.s3a.*``, ``fs.azure.*``, ``fs.gs.*``) to obstore's options.

Names are in lower case and without ``spark.hadoop.``. Options without an equivalent are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

_S3 = {
    "access.key": "access_key_id",
    "secret.key": "secret_access_key",
    "session.token": "session_token",
    "endpoint.region": "region",
}
_ANONYMOUS = "anonymousawscredentialsprovider"
_AWS_DEFAULT = "s3.amazonaws.com"  # this endpoint in Hadoop's options means AWS itself
_KEYFILES = ("fs.gs.auth.service.account.json.keyfile", "google.cloud.auth.service.account.json.keyfile")


def is_hadoop_option(name: str) -> bool:
    """Whether it is the name of a Hadoop option, even one without an equivalent."""
    return name.startswith(("fs.", "google.cloud.auth."))


def hadoop_config(scheme: str, bucket: str, account: str, options: Mapping[str, str]) -> dict[str, str]:
    """The obstore options for a bucket, or for a container in an Azure account (by its full host name)."""
    if scheme == "s3":
        return _s3_config(bucket, options)
    if scheme == "gs":
        return _google_config(options)
    if scheme in ("az", "abfss", "wasbs"):
        return _azure_config(bucket, account, options)
    return {}


def _s3_config(bucket: str, options: Mapping[str, str]) -> dict[str, str]:
    own = _under(options, "fs.s3a.") | _under(options, f"fs.s3a.bucket.{bucket.lower()}.")
    config = {
        obstore_name: own[hadoop_name] for hadoop_name, obstore_name in _S3.items() if own.get(hadoop_name)
    }
    if _ANONYMOUS in own.get("aws.credentials.provider", "").lower():
        config["skip_signature"] = "true"
    endpoint = own.get("endpoint", "")
    if endpoint and endpoint != _AWS_DEFAULT:
        if "://" not in endpoint:
            secure = own.get("connection.ssl.enabled", "true").lower() != "false"
            endpoint = f"{'https' if secure else 'http'}://{endpoint}"
        if own.get("path.style.access", "").lower() == "false":
            protocol, _, host = endpoint.partition("://")
            endpoint = f"{protocol}://{bucket}.{host}"
            config["virtual_hosted_style_request"] = "true"
        config["endpoint"] = endpoint
    return config


def _google_config(options: Mapping[str, str]) -> dict[str, str]:
    keyfile = next((options[name] for name in _KEYFILES if options.get(name)), None)
    return {"service_account": keyfile} if keyfile else {}


def _azure_config(container: str, account: str, options: Mapping[str, str]) -> dict[str, str]:
    own = _under(options, "fs.azure.")
    hosts = [
        account.lower(),
        account.lower().replace(".dfs.", ".blob."),
        account.lower().replace(".blob.", ".dfs."),
    ]

    def value(name: str) -> str | None:
        return next((own[key] for key in (*(f"{name}.{host}" for host in hosts), name) if own.get(key)), None)

    endpoint = value("account.oauth2.client.endpoint") or ""
    config = {
        "account_key": value("account.key"),
        "client_id": value("account.oauth2.client.id"),
        "client_secret": value("account.oauth2.client.secret"),
        "tenant_id": endpoint.split("/")[3] if endpoint.count("/") > 3 else None,
        "sas_token": value("sas.fixed.token") or value(f"sas.{container.lower()}"),
    }
    return {name: text for name, text in config.items() if text}


def _under(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
